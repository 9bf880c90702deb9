"""How many records exceed a clip, as a noisy count: the charged clip fraction. The proof is in noisy_count.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Event, Gaussian
from dpmcmc.enclave.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.lattice_sum import noise_variance, noisy_lattice_sum
from dpmcmc.enclave.noise import approximation


@certified
@dataclass(frozen=True)
class NoisyCount:
    """How many records have a statistic of l2 norm above `clip`, with noise of `noise_multiplier` records.

    The statistic is what a clip is to be chosen for: a gradient, a log-ratio, a log-ratio over the distance of the
    positions. A record whose statistic is not finite is counted: a clipped sum changes it too, to zero. Divided by a
    public number of records this is the clip fraction.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def lattice(self, facts: Facts) -> Lattice:
        """Return the lattice: a record that counts adds `bound` steps, which are one."""
        lattice = gradient_lattice(1.0, noise_over_clip(self.noise_multiplier, 1), facts.size)
        return Lattice(1 / lattice.bound, lattice.bound, lattice.scale)

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one number."""
        return (jax.ShapeDtypeStruct((1,), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the Gaussian of the noise multiplier: under either adjacency one record moves the count by one."""
        return Gaussian(self.noise_multiplier) + approximation(1, self.lattice(facts).scale)

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return the variance of the noise."""
        return noise_variance(self.lattice(facts))

    def contribution(self, term: Term) -> Contribution:
        """Return one where the statistic of a record exceeds the clip or is not finite, zero elsewhere."""

        def exceeds(queries: Sequence[jax.Array], record: Any) -> jax.Array:
            ratios = jnp.ravel(term(queries, record)).astype(jnp.float32) / jnp.float32(self.clip)
            within = jnp.sum(jnp.square(ratios)) <= 1  # false for NaN, and for what overflows
            return jnp.where(within, 0.0, 1.0).reshape(1)

        return exceeds

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy count of each chain."""
        lattice = self.lattice(facts)
        lattices = Lattice(jnp.full(keys.shape, lattice.granularity, jnp.float32), lattice.bound, lattice.scale)
        return [noisy_lattice_sum(whole_steps, lattices, facts, contribution, records, queries, keys)]


def whole_steps(contribution: jax.Array, lattice: Lattice) -> jax.Array:
    """Return `bound` steps for each record that counts, and none for the others: nothing is rounded."""
    return jnp.where(contribution > 0, jnp.int32(lattice.bound), jnp.int32(0))
