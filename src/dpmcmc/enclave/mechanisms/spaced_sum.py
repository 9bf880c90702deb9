"""The noisy sum of a statistic over records at public places, one of every few. The proof is in spaced_sum.md."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc import validation
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import AXIS, Slots
from dpmcmc.enclave.core.sums import ReferenceSum, plain_sum
from dpmcmc.enclave.mechanisms.sum import Flat
from dpmcmc.enclave.refusals import rows_may_move
from dpmcmc.enclave.traces import traced_at
from dpmcmc.errors import InvalidArgument

STEPS = (2, 4, 8, 16, 32)
"""Out of how many places one may be read: all of them divide the number of slots of a chunk."""

PERIOD = 2**14
"""After so many places the pattern of those that are read begins again."""


@dataclass(frozen=True, slots=True)
class SpacedSum:
    """Sum of clip(statistic) over one record of every `step`, at public places, with the noise and price of a `Sum`.

    The records are those at `pattern(step)`: one at each `step` consecutive places, chosen before any data are read.
    What is released is the sum of these; times `step` it estimates that of all. No price is saved, but time.
    """

    clip: float
    noise_multiplier: float
    step: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))
        object.__setattr__(self, "step", validation.integer("step", self.step, at_least=2))
        if self.step not in STEPS:
            raise InvalidArgument(f"step={self.step} must be one of {', '.join(map(str, STEPS))}")

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return Flat(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: that of a `Sum` over the records of some places; refused where records may move."""
        if facts.places is None:
            raise rows_may_move()
        (result,) = traced_at(contribution, queries, facts.record).out_avals
        sums = partial(SumOfSome, step=self.step)
        return plain_sum(facts, self.clip, self.noise_multiplier, contribution, result.shape[0], sums=sums)


@dataclass(frozen=True)
class SumOfSome(ReferenceSum):
    """A noisy sum over the slots of a pattern, by the reference path."""

    step: int = 1

    def total(self, slots: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        """Return the exact sum over these slots."""
        first = lax.axis_index(AXIS) * slots.length if slots.is_spread else 0
        first = first + (slots.once - np.int32(1))  # zero, but no compiler knows, which would write out all places
        read = places_read(self.step, slots.length, first)

        def of_these(leaf: jax.Array) -> jax.Array:
            return leaf.at[read].get(mode="promise_in_bounds")

        some = replace(slots, rows=jax.tree.map(of_these, slots.rows), occupied=of_these(slots.occupied))
        return ReferenceSum.total(self, some, queries, num_chains)


def places_read(step: int, length: int, first: Any = 0) -> jax.Array:
    """Return which of so many slots are read, one of every `step`; `first` is the place of the first of them."""
    groups, offsets = lax.iota(jnp.int32, length // step), pattern(step)
    return groups * np.int32(step) + jnp.asarray(offsets)[(groups + first // step) % len(offsets)]


@cache
def pattern(step: int) -> np.ndarray:
    """Return which of `step` consecutive places is read, for each group of them until the pattern begins again.

    Orders that repeat themselves do not mislead it. Numbers come in rows, of which the first is pseudo-random and each
    is the one before plus one: so where kinds of records follow each other with a period of 2^k times an odd number,
    the first at most `PERIOD` / `step`, each is read as often as its share says.
    """
    size = PERIOD // step**2
    first = np.frombuffer(hashlib.shake_256(f"one place of every {step}".encode()).digest(size), np.uint8)
    return ((first + np.arange(step)[:, None]) % step).ravel().astype(np.int32)
