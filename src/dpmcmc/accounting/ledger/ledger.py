"""The ledger of privacy budgets: the budget of each dataset, the reservations of runs, and what they have spent.

A run reserves its event before it reads a record, and settles when it is done. After a crash the reservation stays,
which errs toward more loss. A run that would exceed a dataset's budget is refused: check and charge are one
transaction of the database, so that no number of processes can overspend together, and the check composes all events
of the dataset tightly, since epsilons do not add up. Only the holder of a run's secret can refund its unused part.
"""

import getpass
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, cast
from uuid import uuid4

from sqlalchemy import Connection

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.ledger import entries
from dpmcmc.accounting.ledger.account import DatasetAccount, Entry
from dpmcmc.accounting.ledger.connection import Book, memory_book, open_book
from dpmcmc.accounting.ledger.entries import RESERVE, SETTLE, Terms
from dpmcmc.accounting.ledger.names import find_alike, is_disguised
from dpmcmc.accounting.ledger.refusals import (
    check_adjacency,
    check_event,
    check_type,
    look_alike,
    other_terms,
    part_of_a_part,
    terms_of_a_part,
    too_much,
)
from dpmcmc.accounting.ledger.schema import lock_whole_book
from dpmcmc.accounting.ledger.secret import Secret
from dpmcmc.accounting.parallel import contains
from dpmcmc.errors import InvalidArgument, SettlementRefused, UnknownRun


class Ledger:
    """A persistent, append-only ledger of privacy budgets.

    Threads may share a ledger; another process opens its own, with the same URL.

    Args:
        url: a file, which is the same as ``sqlite:///FILE``, or ``postgresql://USER:PASSWORD@HOST/DATABASE`` for a
            team. The ledger must already exist: `Ledger.create` and ``dpmcmc ledger init`` create one.
        timeout: the longest wait for other users of the ledger and for the server, in seconds.
    """

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        self._book = open_book(url, timeout)

    @classmethod
    def create(cls, url: str, timeout: float = 30.0) -> Self:
        """Create the ledger at `url` unless it exists, and open it.

        Args:
            url: the URL of a database, or the path of a file.
            timeout: the longest wait for other users of the ledger and for the server, in seconds.
        """
        return cls._of(open_book(url, timeout, create=True))

    @classmethod
    def in_memory(cls) -> Self:
        """Create a ledger that only this process can use and that ends with it."""
        return cls._of(memory_book())

    @classmethod
    def _of(cls, book: Book) -> Self:
        ledger = cls.__new__(cls)
        ledger._book = book
        return ledger

    def __repr__(self) -> str:
        return f"Ledger({self._book.name!r})"

    def __deepcopy__(self, _: object) -> Self:
        """Return the book itself: a copy would grant every budget once more."""
        return self

    def __copy__(self) -> Self:
        return self

    def register(
        self,
        dataset: str,
        budget: Budget | None = None,
        adjacency: Adjacency | str | None = None,
        who: str | None = None,
        *,
        adaptive: bool = False,
        part_of: str | None = None,
    ) -> DatasetAccount:
        """Grant a dataset its budget. Repeating the same terms changes nothing; other terms raise `DatasetExists`.

        A name that looks like that of another registered dataset is refused. Only the owner can know whether the same
        people are in datasets with different names: each budget is a guarantee for its own dataset only.

        Args:
            dataset: the name of the dataset.
            budget: the total budget of all runs, for all time. It is required, as is the adjacency, unless the dataset
                is a part.
            adjacency: which data sets count as neighbours: ``replace_one`` or ``add_or_remove_one``.
            who: the user (default: the login name).
            adaptive: use a privacy filter: the budget then holds even if the kinds of runs are chosen after seeing
                earlier results, and about a tenth of it is lost. docs/accounting.md says when this is needed.
            part_of: the owner's statement that the dataset is a part of this registered one: nobody is in two parts,
                and a person's part does not depend on other persons. A part has the terms of the whole and shares its
                budget: charges of the whole and of a part add up, charges of two parts do not. docs/accounting.md
                says what this guarantees.
        """
        dataset, who = _label("dataset", dataset), _user(who)
        check_type("adaptive", adaptive, bool)
        part_of = None if part_of is None else _label("part_of", part_of)
        with self._book.writing() as connection:
            lock_whole_book(connection)
            asked, known = _asked(connection, budget, adjacency, adaptive, part_of), entries.datasets(connection)
            if dataset not in known:
                if (alike := find_alike(dataset, known)) is not None:
                    raise look_alike(dataset, alike)
                if is_disguised(dataset):
                    validation.refuse("dataset", dataset, "must be of one alphabet, without signs: it could be misread")
                entries.register(connection, dataset, asked, who)
            granted = entries.terms(connection, dataset)
            account = entries.account(connection, dataset)
        if granted != asked:
            raise other_terms(dataset, granted, asked)
        return account

    def reserve(
        self,
        dataset: str,
        event: Event,
        *,
        description: str,
        who: str | None = None,
        adjacency: Adjacency | str | None = None,
        run: str | None = None,
        secret: bytes | None = None,
    ) -> "Reservation":
        """Charge a run before it starts. A run that does not fit the budget is refused and not charged.

        Args:
            dataset: the registered name of the dataset.
            event: the event of everything that the run may release.
            description: the run in a few words, for the history; public, so never a value from the data.
            who: the user (default: the login name).
            adjacency: the adjacency under which the event holds, to be compared with the dataset's.
            run: a new name for the run, if the caller has to know it before the charge (default: random).
            secret: 32 random bytes, if the caller has to store them before the charge: they are needed to settle the
                run below its price from another process. By default the reservation draws its own.
        """
        dataset, description, who = _label("dataset", dataset), _label("description", description), _user(who)
        check_event("event", event)
        stated = None if adjacency is None else Adjacency.parse("adjacency", adjacency)
        run = uuid4().hex if run is None else _label("run", run)
        key = Secret(secret)
        with self._book.writing() as connection:
            account = entries.account(connection, dataset, lock=True)
            check_adjacency(dataset, account.adjacency, (stated, event.required_adjacency))
            when = None
            if account.admits(event):
                when = entries.append(
                    connection,
                    RESERVE,
                    dataset,
                    account.adjacency,
                    who=who,
                    description=description,
                    run=run,
                    event=event,
                    secret_hash=key.hash,
                )
        if when is None:  # explained once the lock is given back, for it takes the accountants some time
            raise too_much(account, event)
        return Reservation(run, dataset, event, account.adjacency, description, when, self._book, key)

    def reservation(self, run: str, secret: bytes | None = None) -> "Reservation":
        """Return the open reservation of a run, to resume the run or to settle it.

        Anyone may settle a run at its full price. To settle it for less one needs the secret of the reservation;
        runs reserved by version 0.1 have none.
        """
        run = _label("run", run)
        key = None if secret is None else Secret(secret)
        with self._book.reading() as connection:
            entry, event = entries.standing_reservation(connection, run)
            kept = entries.secret_hash(connection, run)
        if key is not None and kept is not None and not key.opens(kept):
            raise SettlementRefused(f"secret is not that of run={run!r}: somebody else reserved it; its charge stands")
        return Reservation(run, entry.dataset, event, entry.adjacency, entry.description, entry.when, self._book, key)

    def account(self, dataset: str) -> DatasetAccount:
        """Return what a dataset was granted and how much of it is spent."""
        dataset = _label("dataset", dataset)
        with self._book.reading() as connection:
            return entries.account(connection, dataset)

    def datasets(self) -> list[str]:
        """Return the names of the datasets, the oldest first."""
        with self._book.reading() as connection:
            return entries.datasets(connection)

    def history(self, dataset: str | None = None) -> list[Entry]:
        """Return all entries, or those of one dataset, the oldest first."""
        dataset = None if dataset is None else _label("dataset", dataset)
        with self._book.reading() as connection:
            return entries.history(connection, dataset)


@dataclass(frozen=True)
class Reservation:
    """The charge of a run. It stays until it is settled, whatever happens to the process that made it."""

    run: str
    dataset: str
    event: Event
    adjacency: Adjacency
    description: str
    when: str
    """UTC, ISO 8601."""

    _book: Book = field(repr=False, compare=False)
    _secret: Secret | None = field(repr=False, compare=False)

    @property
    def entry(self) -> Mapping[str, str]:
        """Identifies the charge in the history: the name of the run, and the time."""
        return {"run": self.run, "charged_at": self.when}

    @cached_property
    def _written(self) -> str:
        return self.event.to_json()

    def check_standing(self) -> None:
        """Raise `RunSettled` if the run is settled, by whomever; one read of the book."""
        with self._book.reading() as connection:
            is_the_same = entries.stands(connection, self.run, self.event, self._written)
        if not is_the_same:
            raise UnknownRun(
                f"run={self.run!r} has another reservation than the one that was made; nothing is released"
            )

    def settle(self, spent: Event | None = None, who: str | None = None) -> None:
        """Close the run.

        Args:
            spent: the event of what was released, if it is less than what was reserved; ``compose([])`` if nothing was.
                This needs the secret of the reservation. (Default: everything that was reserved.)
            who: the user (default: the login name).
        """
        spent, who = self.event if spent is None else spent, _user(who)
        check_event("spent", spent)
        with self._book.writing() as connection:
            entries.terms(connection, self.dataset, lock=True)
            _, reserved = entries.standing_reservation(connection, self.run)
            if not contains(reserved, spent):
                raise InvalidArgument(
                    f"spent={spent!r} must be contained in what the run reserved, {reserved!r}; "
                    "a run that releases more must reserve more before it does"
                )
            if spent != reserved and not self._may_take_back(entries.secret_hash(connection, self.run)):
                raise SettlementRefused(
                    f"run={self.run!r} can be settled below its price only by the process that reserved it, or with "
                    "its secret: anybody else may settle it at its full price, settle(); its charge stands"
                )
            entries.append(
                connection,
                SETTLE,
                self.dataset,
                self.adjacency,
                who=who,
                description=self.description,
                run=self.run,
                event=spent,
            )

    def _may_take_back(self, kept: str | None) -> bool:
        return self._secret is not None and self._secret.opens(kept)


def _asked(
    connection: Connection, budget: Budget | None, adjacency: Adjacency | str | None, adaptive: bool, whole: str | None
) -> Terms:
    """Return the terms that were asked for: of a part, those of the whole."""
    of = None if whole is None else entries.terms(connection, whole)
    if of is None:
        check_type("budget", budget, Budget)
        return Terms(cast(Budget, budget), Adjacency.parse("adjacency", adjacency), adaptive)
    if of.part_of is not None:
        raise part_of_a_part(str(whole), of.part_of)
    stated = of.adjacency if adjacency is None else Adjacency.parse("adjacency", adjacency)
    asked = Terms(of.budget if budget is None else budget, stated, adaptive or of.adaptive, whole)
    if asked[:3] != of[:3]:
        raise terms_of_a_part(str(whole), of)
    return asked


def _label(name: str, value: object) -> str:
    """Return a text for the history: not blank, on one line, without characters that a database cannot hold."""
    label = validation.text(name, value)
    if not label.isprintable():
        validation.refuse(name, value, "must be printable text on one line")
    return label


def _user(who: str | None) -> str:
    if who is not None:
        return _label("who", who)
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # a user id without a name, as in some containers
        return "unknown"
