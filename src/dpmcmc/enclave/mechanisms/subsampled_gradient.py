"""The noisy gradient of the log-likelihood on a secret batch (Li et al. 2019). Proof: subsampled_gradient.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.samplers import sghmc_noise_over_clip, sgld_noise_over_clip
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.batches.sampling import Poisson, Sampling, WithoutReplacement, as_sampling, draw_batches
from dpmcmc.enclave.batches.subsample import Batch, sum_batch
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts, at_once
from dpmcmc.enclave.core.paths import add_noise, one_chain, per_chain
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.sums import noise_variance
from dpmcmc.enclave.mechanisms.gradient import flat_gradient, num_coordinates
from dpmcmc.enclave.noise.discrete_gaussian import approximation


@dataclass(frozen=True, slots=True)
class SubsampledGradientSum:
    """An estimate of the gradient sum from a batch: weight * (sum over the batch of clip(gradient) + noise).

    The noise on the batch sum has the standard deviation `noise_over_clip` * clip on each coordinate, whatever the way
    of sampling. The weight is 1 / rate for Poisson batches and records / batch_size for fixed ones, never one over the
    size of the batch that was drawn, which is secret. `variance` is that of the noise alone, times the weight squared;
    the choice of the batch adds its own.
    """

    clip: float
    noise_over_clip: float
    sampling: Sampling

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_over_clip", validation.positive("noise_over_clip", self.noise_over_clip))
        object.__setattr__(self, "sampling", as_sampling("sampling", self.sampling))
        self.lattice()

    @classmethod
    def poisson(cls, clip: float, noise_over_clip: float, rate: float, max_batch_size: int | None = None) -> Self:
        """Return the mechanism on Poisson batches; the noise is in units of the clip, as `PoissonGaussian` has it."""
        return cls(clip, noise_over_clip, Poisson(rate, max_batch_size))

    @classmethod
    def without_replacement(cls, clip: float, noise_multiplier: float, batch_size: int) -> Self:
        """Return the mechanism on fixed batches; the noise is in units of the sensitivity, which is two clips."""
        return cls(clip, noise_over_clip(noise_multiplier, 2), WithoutReplacement(batch_size))

    @classmethod
    def for_sgld(cls, clip: float, rate: float, step_size: float, max_batch_size: int | None = None) -> Self:
        """Return the mechanism on Poisson batches whose noise is all the noise that `dp_sgld` needs at that step."""
        step_size = validation.positive("step_size", step_size)
        return cls.poisson(clip, sgld_noise_over_clip(rate, clip, step_size), rate, max_batch_size)

    @classmethod
    def for_sghmc(
        cls, clip: float, rate: float, step_size: float, friction: float, max_batch_size: int | None = None
    ) -> Self:
        """Return the mechanism on Poisson batches whose noise is all that `dp_sghmc` needs, or `dp_sgnht`.

        `friction` is the net one: C - B for `dp_sghmc`, the diffusion A for `dp_sgnht`.
        """
        step_size, friction = validation.positive("step_size", step_size), validation.positive("friction", friction)
        return cls.poisson(clip, sghmc_noise_over_clip(rate, clip, step_size, friction), rate, max_batch_size)

    def lattice(self, num_records: int = 1) -> Lattice:
        """Return the lattice of a batch sum."""
        return gradient_lattice(self.clip, self.noise_over_clip, num_records)

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def batch_sum(
        self, facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], batch: Batch
    ) -> Wide:
        """Return the exact sum over each chain's batch in steps of the lattice: private, without its noise."""
        lattice, length = self.lattice(facts.size), num_coordinates(one_chain(queries))

        def to_integers(queries: Sequence[jax.Array], rows: Any) -> jax.Array:
            return quantise.vector(jax.vmap(contribution, in_axes=(None, 0))(queries, rows), lattice)

        most = at_once(facts.chunk_size, sum(query.size for query in queries))
        return sum_batch(Ball(lattice.bound, length), to_integers, list(queries), slots, batch, most)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: the subsampled Gaussian, and the distance of noise and batch from their ideal laws."""
        self.sampling.check(facts)
        lattice, length, weight = self.lattice(facts.size), num_coordinates(queries), self.sampling.weight(facts)
        Ball(lattice.bound, length)  # which refuses too many coordinates

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            of_batch, of_noise = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
            batch = draw_batches(self.sampling, of_batch, facts)
            total = self.batch_sum(facts, contribution, slots, queries, batch)
            granularity = jnp.asarray(lattice.granularity, jnp.float32) * weight
            return [
                add_noise(
                    facts, total, per_chain(Lattice(granularity, lattice.bound, lattice.scale), len(keys)), of_noise
                )
            ]

        distance = approximation(length, lattice.scale, self.sampling.distance(facts))
        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((length,), jnp.float32),),
            event=self.sampling.gaussian(facts, self.noise_over_clip) + distance,
            draw=draw,
            variance=lambda _: noise_variance(lattice) * weight**2,
        )
