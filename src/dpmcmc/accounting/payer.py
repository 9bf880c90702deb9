"""Where a run is charged: to a ledger, to a budget that lives as long as the vault, or nowhere, without a guarantee."""

import warnings
from collections.abc import Mapping
from typing import Protocol

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.parallel import contains
from dpmcmc.errors import InvalidArgument, LedgerError, LedgerUnavailable, RunSettled, SettlementRefused


class Reservation(Protocol):
    """A charge that stands until it is settled."""

    @property
    def entry(self) -> Mapping[str, str]:
        """Identifies the charge in the ledger, publicly; empty without a ledger."""
        ...

    def check_standing(self) -> None:
        """Raise a `LedgerError` unless the charge is in the ledger and not settled."""
        ...

    def settle(self, spent: Event | None = None) -> None:
        """Close the reservation at `spent`, or at the whole of it."""
        ...


def check_standing(reservation: Reservation) -> None:
    """Check, before anything is executed, that the charge is in the ledger and not settled."""
    try:
        reservation.check_standing()
    except RunSettled as error:
        raise RunSettled(
            f"nothing was executed, because the reservation is no longer open: {error}", error.settled_at
        ) from error
    except LedgerUnavailable as error:
        raise LedgerUnavailable(
            f"nothing was executed, for whether the run's charge stands cannot be read: {error}"
        ) from error


def settle(reservation: Reservation, spent: Event) -> bool:
    """Close the charge; return whether it is closed.

    A book that cannot be written leaves it standing, which errs toward more loss. So does one that does not let us
    settle below the price: then it is settled at the price. A run that somebody else has settled is over.
    """
    try:
        try:
            reservation.settle(spent)
        except SettlementRefused as error:
            reservation.settle()
            _warn(f"the run is settled at its full price, and nothing was given back: {error}")
    except RunSettled as error:
        _warn(f"the run was settled by somebody else, {_compared(error.settled_at, spent)}: {error}")
    except LedgerError as error:
        _warn(f"the run is paid but not settled, its charge stands: {error}")
        return False
    return True


def _compared(settled_at: object, spent: Event) -> str:
    if not isinstance(settled_at, Event):
        return "at what the history of the ledger says"
    if contains(settled_at, spent):
        return "at no less than it released"
    return (
        f"at LESS than it released, so that the ledger shows too little; tell its owner that the run released {spent!r}"
    )


def _warn(words: str) -> None:
    warnings.warn(words, RuntimeWarning, stacklevel=4)


class Payer(Protocol):
    """What the vault needs of a ledger."""

    def reserve(self, dataset: str, event: Event, *, description: str, adjacency: Adjacency) -> Reservation:
        """Set the price aside, or raise `BudgetExceeded` and charge nothing."""
        ...


def statements(payer: Payer, dataset: str) -> tuple[str, ...]:
    """Return what a ledger's total of a dataset rests on, in words; after a run, whether it can be read or not."""
    read = getattr(payer, "account", None)
    if read is None:
        return ()
    try:
        return read(dataset).assumptions
    except LedgerError:
        return (
            "the ledger could not be read again: if the dataset is in parts, its owner stated that they are disjoint",
        )


class _Settled:
    """The reservation of a run that nobody paid for."""

    entry: Mapping[str, str] = {}

    def check_standing(self) -> None:
        """Do nothing: there is no book."""

    def settle(self, spent: Event | None = None) -> None:
        """Do nothing: there is no book."""


class NobodyPays:
    """Lets every event pass, `NonPrivate` too, and promises nothing."""

    def reserve(self, dataset: str, event: Event, *, description: str, adjacency: Adjacency) -> Reservation:  # noqa: ARG002
        """Reserve nothing."""
        return _Settled()


def choose_payer(
    ledger: Payer | None, dataset: str | None, budget: Budget | None, adjacency: Adjacency
) -> tuple[Payer, str]:
    """Return the one payer that the owner named, with the name of the data set in its book."""
    if budget is None and ledger is not None and dataset is not None:
        return ledger, dataset
    if isinstance(budget, Budget) and ledger is None and dataset is None:
        from dpmcmc.accounting.ledger import Ledger

        book = Ledger.in_memory()
        book.register("records", budget, adjacency)
        return book, "records"
    raise InvalidArgument(
        "state the budget: ledger= with the dataset= name in it, or budget= alone (a Budget); "
        "for simulated data use PrivateData.without_guarantee"
    )
