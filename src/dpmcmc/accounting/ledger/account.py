"""The account of a dataset and the entries of its history: public facts alone."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from dpmcmc.accounting.accountants import Bound, delta, epsilon
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.filters import RenyiFilter
from dpmcmc.accounting.parallel import apart
from dpmcmc.html import card


def together(whole: Event, parts: Iterable[Event]) -> Event:
    """Return what was released about anybody: what was charged to the whole, and to the most expensive of the parts."""
    return whole + apart(parts)


@dataclass(frozen=True, repr=False)
class DatasetAccount:
    """The state of one dataset's budget at the time of the query."""

    dataset: str
    budget: Budget
    adjacency: Adjacency
    spent: Event
    """Everything settled, and everything reserved by a run that has not settled: what may concern one person. Of a part
    it has what was charged to the whole as well; of a whole, its parts side by side."""

    standing: tuple[str, ...]
    """The runs that have reserved and not settled: at work, or stopped half-way."""

    adaptive: bool = False
    """Whether the total is kept by a filter, which holds however runs are chosen, not by the tightest composition."""

    part_of: str | None = None
    """The dataset that it is a part of, whose budget it shares."""

    parts: tuple[str, ...] = ()
    """Its own parts: datasets of different persons."""

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {words}" for name, words in self._rows())

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return card("Account", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        kept = ", kept by a filter" if self.adaptive else ""
        standing = f"{len(self.standing)} not settled" if self.standing else "all settled"
        of = "" if self.part_of is None else f", part of {self.part_of}"
        parts = f", in {len(self.parts)} parts of different persons" if self.parts else ""
        return [
            ("Dataset", f"{self.dataset}{of}{parts}, {self.adjacency.words} adjacency"),
            ("Budget", f"epsilon {self.budget.epsilon:g} at delta {self.budget.delta:g}{kept}"),
            ("Spent", f"epsilon {float(self.epsilon_spent):.4g}, {self.epsilon_left:.4g} left; epsilons do not add up"),
            ("Runs", standing),
        ]

    @cached_property
    def epsilon_spent(self) -> Bound:
        """Epsilon of everything that was spent, at the budget's delta."""
        return epsilon(self.spent, self.budget.delta)

    @cached_property
    def delta_spent(self) -> Bound:
        """The delta of all that was spent, at the budget's epsilon; the ledger keeps it within the budget's delta."""
        return delta(self.spent, self.budget.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the total of a dataset with parts rests on, in words for certificates: the owner's statement."""
        whole = self.part_of or (self.dataset if self.parts else None)
        if whole is None:
            return ()
        is_public = "; which part that is counts as public" if self.adjacency is Adjacency.REPLACE_ONE else ""
        return (
            f"the total of {whole!r} is counted on its owner's statement that nobody is in two of its parts, and that "
            f"a rule says in which part anybody is, whoever the others are{is_public}",
        )

    @property
    def epsilon_left(self) -> float:
        """How much `epsilon_spent` may still rise. A further run may cost more, since epsilons do not add up."""
        return max(self.budget.epsilon - self.epsilon_spent, 0.0)

    def admits(self, event: Event) -> bool:
        """Say whether `event`, composed with everything spent so far, stays within the budget.

        Which theorem this is: docs/accounting.md, "Runs that are chosen after looking at results".
        """
        if self.adaptive:
            return RenyiFilter(self.budget).admits(self.spent + event)
        # Written so that a bound that is not a number admits nothing.
        return delta(self.spent + event, self.budget.epsilon) <= self.budget.delta

    def to_dict(self) -> dict[str, Any]:
        """Return the account as plain values, ready for JSON."""
        return {
            "dataset": self.dataset,
            "adjacency": self.adjacency.value,
            "budget": asdict(self.budget),
            "adaptive": self.adaptive,
            "epsilon_spent": float(self.epsilon_spent),
            "epsilon_left": self.epsilon_left,
            "delta_spent": float(self.delta_spent),
            "accountant": self.epsilon_spent.accountant,
            "spent": self.spent.to_dict(),
            "standing": list(self.standing),
            "part_of": self.part_of,
            "parts": list(self.parts),
        }


@dataclass(frozen=True)
class Entry:
    """One line of a ledger's history."""

    number: int
    kind: str
    """``register``, ``reserve`` or ``settle``."""

    dataset: str
    adjacency: Adjacency
    who: str
    when: str
    """UTC, ISO 8601."""

    description: str
    library_version: str
    budget: Budget | None
    """What was granted, where the entry registers a dataset."""

    run: str | None
    event: Event | None
    """What was reserved, or what was spent of it."""

    part_of: str | None = None
    """The dataset of which the entry registers a part."""

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain values, ready for JSON."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **plain,
            "adjacency": self.adjacency.value,
            "budget": asdict(self.budget) if self.budget else None,
            "event": self.event.to_dict() if self.event else None,
        }
