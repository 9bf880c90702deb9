"""What every mechanism must say about itself.

A mechanism is a frozen dataclass with a proof beside it. It says what a record contributes, and from that it makes a
`ReleasePlan`: one object that prices a release *and* draws it, so that the noise is that of the lattice that was paid
for. The auditor believes what a plan says, so it makes plans of the classes that are written out in `CERTIFIED` alone.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import jax

from dpmcmc.accounting.event import Event
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.refusals import no_plain_field

CERTIFIED = frozenset(
    {
        "barker_bit.BarkerBit",
        "barker_test.BarkerTest",
        "block_sum.BlockSum",
        "counts.Counts",
        "curvature.CurvatureSum",
        "exact.ExactBarkerBit",
        "exact.ExactGradientSum",
        "exact.ExactLogRatio",
        "exact.ExactSubsampledGradientSum",
        "exact.ExactSum",
        "gradient.GradientSum",
        "log_ratio.LogRatio",
        "log_ratio.PenaltyTest",
        "minibatch_log_ratio.MinibatchLogRatio",
        "noisy_count.NoisyCount",
        "remainder_test.RemainderTest",
        "spaced_sum.SpacedSum",
        "spherical_laplace_sum.SphericalLaplaceSum",
        "subsampled_gradient.SubsampledGradientSum",
        "sum.Sum",
    }
)
"""The mechanisms whose proof stands beside them in `dpmcmc.enclave.mechanisms`; subclasses are not among them."""

_HOME = "dpmcmc.enclave.mechanisms."


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


@dataclass(frozen=True)
class OfSum:
    """A draw that first adds up over the records, exactly, and then needs them no more: sums of parts add up."""

    total: Callable[[Any, Sequence[jax.Array], int], Any]
    """The sum, `Wide`, from what was prepared, queries and how many chains there are."""
    finish: Callable[[Any, Any, Sequence[jax.Array], jax.Array], Sequence[jax.Array]]
    """The release from what has `once`, that sum, queries and keys."""

    def __call__(self, prepared: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
        """Draw the release."""
        return self.finish(prepared, self.total(prepared, queries, len(keys)), queries, keys)


@dataclass(frozen=True)
class ReleasePlan:
    """One release: its shapes, its price, and how it is drawn."""

    outputs: tuple[jax.ShapeDtypeStruct, ...]
    """The shapes of the release for one chain."""
    event: Event
    """What one release is in accounting terms, under the adjacency of the data."""
    draw: Callable[[Any, Sequence[jax.Array], jax.Array], Sequence[jax.Array]]
    """The release from what was prepared, queries and keys; these and results have one leading axis, the chains. One
    that is `OfSum`, or has its two methods, can be made of records that are never in one place."""
    prepare: Callable[[Any], Any] = lambda slots: slots
    """Makes what `draw` reads of the records alone: once a run, before the loops."""
    variance: Callable[[Sequence[jax.Array]], jax.Array] | None = None
    """The variance of the noise on each coordinate, a public function of the queries of one chain."""
    path: Callable[[], str] = lambda: "reference"
    """The name of the way in which records are added up, for certificates."""
    is_gated: bool = True
    """Whether records pass the gate: all that has a price does."""
    with_arguments: Callable[[Any], tuple[Any, Any]] | None = None
    """The same release with its numbers as arguments of the program: given ``flatten(contribution)``, which evaluates
    that so and has its constants, a draw, hashable and a function of its fields and its arguments alone, and the plan's
    own numbers, which the draw reads from the slots."""


class Mechanism(Protocol):
    """What the auditor needs of a mechanism."""

    def contribution(self, term: Term) -> Contribution:
        """Return what one record contributes: public code around the term, traced and audited before it is used."""
        ...

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan of a release, given the shapes of the queries of one chain."""
        ...


def is_certified(mechanism: object, extra: Iterable[type] = ()) -> bool:
    """Say whether a mechanism is exactly of a class that is written out above, or of one of `extra`."""
    kind = type(mechanism)
    if any(kind is one for one in extra):
        return True
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix(_HOME)
    return name in CERTIFIED and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind


Rebuilt = TypeVar("Rebuilt", bound=Any)

_PLAIN = (bool, float, int, str, type(None))


def rebuilt(mechanism: Rebuilt) -> Rebuilt:
    """Return a mechanism made anew from its fields, which are validated again; nothing else of it is believed.

    A field of one of this library's is a plain number, or an object of this library that its class makes anew.
    """
    kind = type(mechanism)
    values = {one.name: getattr(mechanism, one.name) for one in fields(mechanism)}  # each is read once
    for name, value in values.items():
        is_plain = type(value) in _PLAIN or type(value).__module__.startswith("dpmcmc.enclave.")
        if kind.__module__.startswith(_HOME) and not is_plain:
            raise no_plain_field(kind.__name__, name, type(value).__name__)
    return kind(**values)


def plan_of(mechanism: Any, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
    """Return the plan that the class of a mechanism makes of its fields, whatever the object itself says."""
    return type(mechanism).plan(rebuilt(mechanism), facts, contribution, queries)


def contribution_of(mechanism: Any, term: Term) -> Contribution:
    """Return what one record contributes, by the class of a mechanism."""
    return type(mechanism).contribution(rebuilt(mechanism), term)
