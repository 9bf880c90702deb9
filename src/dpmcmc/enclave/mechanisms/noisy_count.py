"""How many records exceed a clip, as a noisy count: the charged clip fraction. The proof is in noisy_count.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Gaussian
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.core.gate import Interval
from dpmcmc.enclave.core.mechanism import Contribution, OfSum, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import add_noise, per_chain
from dpmcmc.enclave.core.sums import noise_variance, reference_sum
from dpmcmc.enclave.noise.discrete_gaussian import approximation


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """How many records have a statistic of l2 norm above `clip`, with noise of `noise_multiplier` records.

    The statistic is the quantity to be clipped: a gradient, a log-ratio, or a log-ratio over the distance of the
    positions. A record whose statistic is not finite is counted, since a clipped sum changes it as well, to zero.
    Divided by a public number of records the result is the clip fraction.
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

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return one where the statistic of a record exceeds the clip or is not finite, zero elsewhere."""

        def exceeds(queries: Sequence[jax.Array], record: Any) -> jax.Array:
            ratios = jnp.ravel(term(queries, record)).astype(jnp.float32) / jnp.float32(self.clip)
            within = jnp.sum(jnp.square(ratios)) <= 1  # false for NaN, and for what overflows
            return jnp.where(within, 0.0, 1.0).reshape(1)

        return exceeds

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one number, which one record moves by one under either adjacency."""
        lattice = self.lattice(facts)
        gate = Interval(0, lattice.bound)

        def total(slots: Any, queries: Sequence[jax.Array], num_chains: int) -> Wide:
            lattices = per_chain(lattice, num_chains)
            return reference_sum(facts.chunk_size, 1, contribution, slots, queries, lattices, gate, quantise.count)

        def finish(_: Any, total: Wide, __: Any, keys: jax.Array) -> Sequence[jax.Array]:
            return [add_noise(facts, total, per_chain(lattice, len(keys)), keys)]

        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((1,), jnp.float32),),
            event=Gaussian(self.noise_multiplier) + approximation(1, lattice.scale),
            draw=OfSum(total, finish),
            variance=lambda _: noise_variance(lattice),
        )
