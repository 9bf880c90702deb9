"""The noisy gradient of the log-likelihood on a secret batch (Li et al. 2019). Proof: subsampled_gradient.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.accounting.event import Event, NonPrivate
from dpmcmc.accounting.samplers import sghmc_noise_over_clip, sgld_noise_over_clip
from dpmcmc.enclave.lattice import Lattice, Wide, add, gradient_lattice, noise_over_clip, quantise_vector, to_float
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.exact import exact_sum
from dpmcmc.enclave.mechanisms.gradient import flat_gradient, num_coordinates
from dpmcmc.enclave.mechanisms.lattice_sum import noise_variance
from dpmcmc.enclave.noise import approximation, draw_noise
from dpmcmc.enclave.sampling import Poisson, Sampling, WithoutReplacement, as_sampling, draw_batches
from dpmcmc.enclave.shards import sum_parts
from dpmcmc.enclave.subsample import Batch, sum_batch


@certified
@dataclass(frozen=True)
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
        as_sampling("sampling", self.sampling)
        self.lattice(1)

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

    def lattice(self, num_coordinates: int, num_rows: int = 1) -> Lattice:
        """Return the lattice of a batch sum."""
        return gradient_lattice(self.clip, self.noise_over_clip, num_rows, num_coordinates)

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one vector with as many coordinates as the position."""
        self.sampling.check(facts)
        return (jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:
        """Return the subsampled Gaussian, and the distance of noise and batch from their ideal laws."""
        self.sampling.check(facts)
        coordinates = outputs[0].shape[0]
        scale = self.lattice(coordinates).scale
        distance = approximation(coordinates, scale, self.sampling.distance(facts))
        return self.sampling.gaussian(facts, self.noise_over_clip) + distance

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise on each coordinate of the estimate."""
        return noise_variance(self.lattice(num_coordinates(queries))) * self.sampling.weight(facts) ** 2

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def batch_sum(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], batch: Batch
    ) -> tuple[Wide, Lattice]:
        """Return the exact sum over each chain's batch in steps of the lattice: private, without its noise."""
        lattice = self.lattice(num_coordinates([query[0] for query in queries]), batch.indices.shape[1])

        def steps(queries: Sequence[jax.Array], rows: Any) -> jax.Array:
            return quantise_vector(jax.vmap(contribution, in_axes=(None, 0))(queries, rows), lattice)

        at_once = facts.at_once(sum(query.size for query in queries))
        return sum_batch(steps, list(queries), records, batch, at_once, lattice.bound), lattice

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy estimate of each chain, from a batch of its own."""
        of_batch, of_noise = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        batch = draw_batches(self.sampling, of_batch, records)
        total, lattice = self.batch_sum(facts, contribution, records, queries, batch)
        granularity = jnp.asarray(lattice.granularity, jnp.float32) * self.sampling.weight(facts)

        def release(total: Wide, key: jax.Array) -> jax.Array:
            return to_float(add(total, draw_noise(facts.noise, key, lattice.scale, total.high.shape)), granularity)

        return [jax.vmap(release)(total, of_noise)]


@certified
@dataclass(frozen=True)
class ExactSubsampledGradientSum:
    """What `SubsampledGradientSum` would be without clipping and noise: `NonPrivate`, for baselines."""

    sampling: Sampling

    def __post_init__(self) -> None:
        as_sampling("sampling", self.sampling)

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one vector with as many coordinates as the position."""
        self.sampling.check(facts)
        return (jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the event that no budget pays for."""
        return NonPrivate()

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return zero: there is no noise but the choice of the batch."""
        return jnp.zeros(())

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the estimate of each chain, from a batch of its own."""
        batch = draw_batches(self.sampling, keys, records)

        def masked(queries: Sequence[jax.Array], row: tuple[Any, jax.Array]) -> jax.Array:
            record, counts = row
            return jnp.where(counts, contribution(queries, record), 0)

        def of_part(part: Any, first: ArrayLike) -> jax.Array:
            def of_chain(queries: Sequence[jax.Array], batch: Batch) -> jax.Array:
                rows = jax.tree.map(lambda leaf: jnp.take(leaf, batch.indices, axis=0, mode="clip"), part)
                return exact_sum(facts, masked, (rows, batch.mask), [query[None] for query in queries], 1)[0]

            return jax.vmap(of_chain)(list(queries), batch.within(first, part))

        return [sum_parts(of_part, records) * self.sampling.weight(facts)]
