"""The log-likelihood ratio on a batch, with its penalty (Räisä 2021, Section 3.3). Proof: minibatch_log_ratio.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Event, FixedBatchGaussian
from dpmcmc.enclave.lattice import Lattice, Wide, add, magnitude, negate, to_float
from dpmcmc.enclave.limbs import limbs, shifted_right, times
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.log_ratio import distance, log_ratio
from dpmcmc.enclave.noise import approximation, draw_noise
from dpmcmc.enclave.sampling import WithoutReplacement, draw_batches
from dpmcmc.enclave.subsample import Batch, Moments, batch_moments

_SENSITIVITY_BITS = 30  # of one record in steps of the lattice: what fits into an int32
_SCALE_BITS = 44  # of the largest noise
_FINEST = 2.0**-100  # granularity of two positions that are the same


def minibatch_sensitivity(clip: float, weight: float, batch_size: int, unsampled: float = 1.0) -> float:
    """Return by how much replacing one record moves ``weight * sum r - variance / 2``, where abs(r) <= clip.

    It is 2 a L + 2 a^2 f (1 - 1/b) L^2 with a = weight, L = clip, f = unsampled, attained at r = L, r' = -L and all
    other entries equal to L. Räisä (2021), Lemma 1, has 3 in place of the second 2, and f = 1.
    """
    linear = 2 * weight * clip
    return linear + 2 * weight**2 * unsampled * (1 - 1 / batch_size) * clip**2


class Constants(NamedTuple):
    """What does not depend on the positions: the bound B of one record, the shift e, the scale s and D <= s / z."""

    bound: int
    shift: int
    scale: float
    sensitivity: int


@lru_cache(maxsize=64)
def constants(batch_size: int, noise_multiplier: float) -> Constants:
    """Return the constants: 4 (b - 1) B^2 <= 2^e with B just below 2^12, and D = floor(s / z) just below 2^30."""
    multiplier = Fraction(noise_multiplier)
    scale = 2 ** min(math.floor(math.log2(multiplier) + _SENSITIVITY_BITS), _SCALE_BITS)
    sensitivity = math.floor(scale / multiplier)
    if scale < 2**16 or sensitivity < 2**20:
        validation.refuse("noise_multiplier", noise_multiplier, "must be between 2^-14 and 2^24")
    shift = 26 + (batch_size - 1).bit_length() - 1
    return Constants(math.isqrt(2**shift // (4 * (batch_size - 1))), shift, float(scale), sensitivity)


class Coefficients(NamedTuple):
    """What does: the granularity of a record and of the release, and the integers P and R of P K - R W / 2^e."""

    record: jax.Array
    release: jax.Array
    linear: jax.Array
    square: jax.Array


@certified
@dataclass(frozen=True)
class MinibatchLogRatio:
    """(n / b) sum over a batch of clip(log-ratio) - (its variance) / 2, with noise of `noise_multiplier` sensitivities.

    One record's ratio is held to abs(r) <= clip * distance of the positions, as in `LogRatio`. The variance is that of
    the estimate (n / b) sum r of a batch without replacement, (n / b)^2 (1 - b / n) sum (r - mean)^2. The value is what
    a penalty test reads: it subtracts half of the noise's `variance`, and has the penalty of the batch in it already.
    That penalty is itself estimated, so the test is approximate where one with all records is exact.
    """

    batch_size: int
    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", validation.integer("batch_size", self.batch_size, at_least=2))
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))
        constants(self.batch_size, self.noise_multiplier)

    @property
    def sampling(self) -> WithoutReplacement:
        """How the batch is drawn."""
        return WithoutReplacement(self.batch_size)

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one number."""
        self.sampling.check(facts)
        return (jax.ShapeDtypeStruct((1,), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the Gaussian of the noise multiplier on a batch without replacement; replace-one only."""
        self.sampling.check(facts)
        scale = constants(self.batch_size, self.noise_multiplier).scale
        batch = FixedBatchGaussian(self.batch_size, facts.size, self.noise_multiplier)
        return batch + approximation(1, scale, self.sampling.distance(facts))

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise: what a penalty test subtracts half of."""
        scale = constants(self.batch_size, self.noise_multiplier).scale
        return jnp.square(scale * self.coefficients(facts, queries).release)

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def coefficients(self, facts: Facts, queries: Sequence[jax.Array]) -> Coefficients:
        """Return how the exact moments of one chain's batch are combined. 2 P B + R + 1 <= D holds in integers."""
        fixed = constants(self.batch_size, self.noise_multiplier)
        weight, unsampled = facts.size / self.batch_size, 1 - self.batch_size / facts.size
        record = jnp.maximum(jnp.nan_to_num(self.clip * distance(queries) / fixed.bound), _FINEST)
        excess = weight * unsampled * (1 - 1 / self.batch_size) * fixed.bound * record
        most = (fixed.sensitivity - 1) // (2 * fixed.bound)
        linear = jnp.clip(jnp.floor(most / (1 + excess)), 1, most).astype(jnp.int32)
        square = weight * unsampled / (2 * self.batch_size) * 2.0**fixed.shift * record * linear
        room = fixed.sensitivity - 1 - 2 * fixed.bound * linear
        square = jnp.clip(jnp.rint(jnp.minimum(square, 2.0**30)).astype(jnp.int32), 0, room)
        return Coefficients(record, weight * record / linear, linear, square)

    def value(self, moments: Moments, coefficients: Coefficients) -> Wide:
        """Return P K - floor(R W / 2^e) of one chain: exact, private, without its noise."""
        shift = constants(self.batch_size, self.noise_multiplier).shift
        size = shifted_right(times(limbs(coefficients.linear), limbs(magnitude(moments.total))), 0)
        opposite, negative = negate(size), moments.total.high < 0
        linear = Wide(jnp.where(negative, opposite.high, size.high), jnp.where(negative, opposite.low, size.low))
        return add(linear, negate(shifted_right(times(limbs(coefficients.square), moments.spread), shift)))

    def batch_value(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], batch: Batch
    ) -> tuple[Wide, Coefficients]:
        """Return the value of each chain on its batch in steps of the release's lattice: private, without its noise."""
        bound = constants(self.batch_size, self.noise_multiplier).bound
        coefficients = jax.vmap(lambda one: self.coefficients(facts, one))(list(queries))
        moments = batch_moments(Lattice(coefficients.record, bound), facts, contribution, records, queries, batch)
        return jax.vmap(self.value)(moments, coefficients), coefficients

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy value of each chain, from a batch of its own."""
        of_batch, of_noise = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        batch = draw_batches(self.sampling, of_batch, records)
        value, coefficients = self.batch_value(facts, contribution, records, queries, batch)
        scale = constants(self.batch_size, self.noise_multiplier).scale

        def release(value: Wide, key: jax.Array, granularity: jax.Array) -> jax.Array:
            return to_float(add(value, draw_noise(facts.noise, key, scale)), granularity).reshape(1)

        return [jax.vmap(release)(value, of_noise, coefficients.release)]
