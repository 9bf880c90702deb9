"""The penalty test on remainders, whose clip falls with the cube of the distance from the centre.

The proof is in remainder_test.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import AcceptBit, Event
from dpmcmc.enclave.lattice import Lattice, noise_over_clip, penalty_lattice, quantise_scalar
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.lattice_sum import CLIPS_MOVED, lattice_approximation, noise_variance, noisy_lattice_sum
from dpmcmc.enclave.mechanisms.log_ratio import distance, log_ratio


def largest_radius(queries: Sequence[jax.Array]) -> jax.Array:
    """Return the larger of the distances of two positions from the origin, over all their arrays."""
    origin = [jnp.zeros_like(query) for query in queries[: len(queries) // 2]]
    halves = queries[: len(origin)], queries[len(origin) :]
    return jnp.maximum(*(distance([*half, *origin]) for half in halves))


@certified
@dataclass(frozen=True)
class RemainderTest:
    """The decision of a penalty test on what a quadratic around the origin leaves of each record's log-likelihood.

    One record's ratio is held to third_derivative / 2 * max(r, r')^2 * distance, r and r' being how far the positions
    are from the origin. If no record's log-likelihood has a third derivative above `third_derivative` along a line, no
    remainder is that large, and nothing is clipped: it is the model's bound, or a clip that you state. Clip and noise
    follow the positions, which are public; their ratio, `noise_multiplier`, and so the price do not.
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

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one bit."""
        return (jax.ShapeDtypeStruct((), jnp.bool_),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the accept bit of the noise multiplier, under either adjacency."""
        return AcceptBit(self.noise_multiplier) + lattice_approximation(self.noise_multiplier, facts, 1)

    def lattice(self, facts: Facts, positions: Sequence[jax.Array]) -> Lattice:
        """Return the lattice of one chain: its granularity follows the positions, bound and scale are constants."""
        noise = noise_over_clip(self.noise_multiplier, CLIPS_MOVED[facts.adjacency])
        clip = self.third_derivative / 2 * jnp.square(largest_radius(positions)) * distance(positions)
        return penalty_lattice(clip, noise, facts.size)

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record, under a model whose likelihood is the remainder."""
        return log_ratio(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the decision of each chain."""
        *positions, public = queries
        of_noise, of_test = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        lattices = jax.vmap(lambda one: self.lattice(facts, one))(positions)
        noisy = noisy_lattice_sum(quantise_scalar, lattices, facts, contribution, records, queries, of_noise)[:, 0]
        minus_log_uniform = jax.vmap(jax.random.exponential)(of_test)
        return [-minus_log_uniform < noisy - noise_variance(lattices) / 2 + public]
