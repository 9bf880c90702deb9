"""What a ledger refuses, in words."""

from collections.abc import Iterable

from dpmcmc import validation
from dpmcmc.accounting.accountants import epsilon
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event, NonPrivate, counts
from dpmcmc.accounting.filters import RenyiFilter
from dpmcmc.accounting.ledger.account import DatasetAccount
from dpmcmc.accounting.ledger.entries import Terms
from dpmcmc.errors import AdjacencyMismatch, BudgetExceeded, DatasetExists, InvalidArgument


def check_type(name: str, value: object, kind: type) -> None:
    """Refuse what is of another type."""
    if not isinstance(value, kind):
        validation.refuse(name, value, f"must be of type {kind.__name__}")


def check_event(name: str, event: Event) -> None:
    """Refuse what is no event, or one that costs infinitely much."""
    check_type(name, event, Event)
    if any(isinstance(part, NonPrivate) for case in event.cases for part in counts(case)):
        raise BudgetExceeded(
            f"{name} holds NonPrivate: an exact function of the data costs an infinite epsilon and fits no budget; "
            "nothing was charged; use mechanisms that add noise"
        )


def check_adjacency(dataset: str, own: Adjacency, asked: Iterable[Adjacency | None]) -> None:
    """Refuse what holds under another adjacency than the dataset's."""
    for adjacency in asked:
        if adjacency is not None and adjacency is not own:
            raise AdjacencyMismatch(
                f"dataset={dataset!r} is protected under {own.words} and the event is meant "
                f"under {adjacency.words}; nothing was charged; build the event under the adjacency of the dataset"
            )


def part_of_a_part(whole: str, of: str) -> InvalidArgument:
    """Say that parts have no parts."""
    return InvalidArgument(
        f"part_of={whole!r} is a part of {of!r} itself, and parts have no parts; register a part of {of!r} instead"
    )


def terms_of_a_part(whole: str, of: Terms) -> InvalidArgument:
    """Say that parts share what the whole was granted."""
    return InvalidArgument(
        f"a part of {whole!r} shares its budget, {' '.join(of.words)}; leave out budget, adjacency and adaptive"
    )


def look_alike(dataset: str, alike: str) -> DatasetExists:
    """Say which name another one could be taken for."""
    return DatasetExists(
        f"dataset={dataset!r} looks like {alike!r}, which is registered already: if it is the same, use that name; "
        "if not, give it a name that cannot be taken for the other. Nothing was registered"
    )


def other_terms(dataset: str, granted: Terms, asked: Terms) -> DatasetExists:
    """Say that a budget is granted once."""
    (grant, kept), (stated, how) = granted.words, asked.words
    return DatasetExists(
        f"dataset={dataset!r} has {grant} already{kept}, not {stated}{how}; "
        "a budget is granted once and for all: register it with the terms that it has"
    )


def too_much(account: DatasetAccount, event: Event) -> BudgetExceeded:
    """Say what is left of a budget, and what to do."""
    budget = account.budget
    kept = ""
    if account.adaptive:
        used, then = (RenyiFilter(budget).used(total) for total in (account.spent, account.spent + event))
        kept = f" Its total is kept by a filter, of which {used:.4g} is used, and the charge would make it {then:.4g}."
    stopped = (
        "; a stopped run gives back what it did not use when it is resumed, or finished with `dpmcmc resume --stop`"
        if account.standing
        else ""
    )
    whole = f" together with {account.part_of!r}, of which it is a part," if account.part_of else ""
    parts = " together with the most expensive of its parts" if account.parts else ""
    alone, together = epsilon(event, budget.delta), epsilon(account.spent + event, budget.delta)
    return BudgetExceeded(
        f"dataset={account.dataset!r}{whole} has spent epsilon={account.epsilon_spent:.6g} of {budget.epsilon:g} at "
        f"delta={budget.delta:g}{parts}, {account.epsilon_left:.6g} is left ({account.adjacency.words}; runs not "
        f"settled: {len(account.standing)}); the charge costs epsilon={alone:.6g} alone and would make it "
        f"epsilon={together:.6g}.{kept} Nothing was charged. Ask for a smaller epsilon, take fewer steps or more noise "
        f"(`dpmcmc plan` finds what fits){stopped}"
    )
