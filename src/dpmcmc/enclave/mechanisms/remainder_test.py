"""The penalty test on remainders, whose clip falls with the cube of the distance from the centre.

The proof is in remainder_test.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.enclave.arithmetic.lattice import Lattice, noise_over_clip
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.mechanisms.log_ratio import distance, log_ratio, penalty_decision, penalty_lattice


def largest_radius(queries: Sequence[jax.Array]) -> jax.Array:
    """Return the larger of the distances of two positions from the origin, over all their arrays."""
    origin = [jnp.zeros_like(query) for query in queries[: len(queries) // 2]]
    halves = queries[: len(origin)], queries[len(origin) :]
    return jnp.maximum(*(distance([*half, *origin]) for half in halves))


@dataclass(frozen=True, slots=True)
class RemainderTest:
    """The decision of a penalty test on the remainders of log-likelihoods beyond a quadratic around the origin.

    One record's ratio is clipped to third_derivative / 2 * max(r, r')^2 * distance, where r and r' are the distances of
    the positions from the origin. If no record's log-likelihood has a third derivative above `third_derivative` along a
    line, no remainder is that large, and nothing is clipped: it is the model's bound, or a clip that you state. Clip
    and noise follow the positions, which are public; their ratio, `noise_multiplier`, and so the price do not.
    """

    third_derivative: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "third_derivative", validation.positive("third_derivative", self.third_derivative))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "penalty"

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one bit; the accept bit of the noise multiplier, under either adjacency."""
        noise = noise_over_clip(self.noise_multiplier, facts.clips_moved)

        def lattice(positions: Sequence[jax.Array]) -> Lattice:
            clip = self.third_derivative / 2 * jnp.square(largest_radius(positions)) * distance(positions)
            return penalty_lattice(clip, noise, facts.size)

        return penalty_decision(facts, contribution, self.noise_multiplier, lattice)
