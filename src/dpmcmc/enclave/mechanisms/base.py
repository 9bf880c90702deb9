"""What every mechanism must say about itself.

A mechanism is a frozen dataclass. It states its event, and it computes its release from the records, with the noise
that the event describes. The auditor believes what a mechanism says, so it accepts only classes that were `certified`,
which means: somebody wrote the proof that stands beside the class.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import jax

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event
from dpmcmc.enclave.schema import Bounds

ENTRIES_IN_CACHE, FEWEST_AT_ONCE = 2**20, 64
"""How many entries of contributions a mechanism holds at once at most, unless the second so many records have more."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What the public knows about a data set. Compared by identity: it also tells the releases of two vaults apart."""

    adjacency: Adjacency
    size: int
    """Number of records under replace-one; under add-or-remove-one a size that the owner stated."""

    record: Any
    """One record: the pytree of the shapes and types of its leaves."""

    bounds: Bounds
    chunk_size: int
    """How many records a mechanism holds at once at most: a matter of speed and memory."""

    noise: str = "exact"
    """How privacy noise is drawn: one of `noise.MODES`."""

    def at_once(self, entries: int) -> int:
        """Return how many records to hold at once at most where each adds so many entries: large ones only a few."""
        return min(self.chunk_size, max(ENTRIES_IN_CACHE // max(entries, 1), FEWEST_AT_ONCE))


@dataclass(frozen=True)
class Term:
    """A public function of pytrees and one record, ``function(*trees, record)``; `structure` says how they nest."""

    function: Callable[..., Any]
    structure: Any

    @property
    def num_queries(self) -> int:
        """How many flat arrays the pytrees hold."""
        return self.structure.num_leaves

    def __call__(self, queries: Sequence[Any], record: Any) -> Any:
        """Evaluate the function at flat queries and one record."""
        return self.function(*jax.tree.unflatten(self.structure, queries), record)


Contribution = Callable[[Sequence[jax.Array], Any], jax.Array]
"""What one record adds before clipping, as a flat vector: a function of the flat queries of one chain and a record."""


class Mechanism(Protocol):
    """What the auditor and the vault need to know of a mechanism."""

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Return the shapes of the release for one chain, given the shapes of its queries."""
        ...

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:
        """Return what one release is in accounting terms, under the adjacency of the data."""
        ...

    def contribution(self, term: Term) -> Contribution:
        """Return what one record contributes: public code around the term, traced and audited before it is used."""
        ...

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the release: queries, keys and results have one leading axis, the chains, served in one pass."""
        ...


@runtime_checkable
class NoisySum(Mechanism, Protocol):
    """A mechanism that releases a sum with noise."""

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise on each coordinate, a public function of the queries."""
        ...


@runtime_checkable
class Decision(Mechanism, Protocol):
    """A mechanism that releases one bit."""

    @property
    def acceptance(self) -> str:
        """The name of the acceptance rule that the bit obeys."""
        ...


_certified: set[type] = set()

Certified = TypeVar("Certified", bound=type)


def certified(mechanism: Certified) -> Certified:
    """Accept a class of mechanisms, on the word of whoever wrote its proof. Subclasses are not accepted with it."""
    _certified.add(mechanism)
    return mechanism


def is_certified(mechanism: object) -> bool:
    """Say whether a mechanism is exactly of a certified class."""
    return type(mechanism) in _certified
