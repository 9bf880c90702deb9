"""The noisy sum of a statistic without negative entries, such as the bins of histograms. The proof is in counts.md."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.lattice import Lattice, noise_over_clip
from dpmcmc.enclave.core.gate import MovableBall
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.sums import ReferenceSum, SumNoise, gaussian_noise, plain_sum
from dpmcmc.enclave.mechanisms.sum import Flat
from dpmcmc.enclave.traces import traced_at

ROOT_OF_TWO = 1.4142136
"""More than the root of two, by more than rounding takes away: so many clips apart are two records at most."""

LEAST = np.int32(-(2**31))
"""In size beyond every bound."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Sum over the records of clip(statistic), no entry negative, with noise of `noise_multiplier` sensitivities.

    Made for histograms: one in the bin of a record and zero elsewhere, for one or more columns at once. `clip` bounds
    the l2 norm of one record's statistic: the root of how many histograms there are. A statistic with an entry that is
    negative or not finite counts as zero. Two vectors without negative entries are at most sqrt(2) clips apart, where
    those of a `Sum` may be two: under replace-one the noise is smaller by as much, at the same price.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return Flat(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the statistic; a Gaussian, under either adjacency."""
        (result,) = traced_at(contribution, queries, facts.record).out_avals
        moved = min(facts.clips_moved, ROOT_OF_TWO)
        of_a_sum = noise_over_clip(self.noise_multiplier, moved) / facts.clips_moved  # one or two: an exact quotient

        def noise_of(_: float, num_coordinates: int, lattice: Lattice) -> SumNoise:
            return gaussian_noise(self.noise_multiplier, num_coordinates, lattice)

        return plain_sum(facts, self.clip, of_a_sum, contribution, result.shape[0], noise_of, SumOfCounts)


class PositiveBall(MovableBall):
    """Vectors of a ball without negative entries; others count as zero."""

    def passes(self, integers: jax.Array) -> jax.Array:
        """Say which vectors pass; the last axis is kept, with length one."""
        return MovableBall.passes(self, jnp.where(integers < 0, LEAST, integers))


@dataclass(frozen=True)
class SumOfCounts(ReferenceSum):
    """A noisy sum of vectors without negative entries, by the reference path."""

    def total(self, slots: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        """Return the exact sum."""
        ball = slots.numbers.gate
        gate = PositiveBall(**{field.name: getattr(ball, field.name) for field in fields(ball)})
        numbers = slots.numbers._replace(gate=gate)
        return ReferenceSum.total(self, replace(slots, numbers=numbers), queries, num_chains)
