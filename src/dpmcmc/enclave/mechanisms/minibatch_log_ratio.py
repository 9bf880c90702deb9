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
from dpmcmc.accounting.event import FixedBatchGaussian
from dpmcmc.enclave.arithmetic.int64 import Wide, add, magnitude, negate, to_float, zero
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.limbs import limbs, shifted_right, times
from dpmcmc.enclave.batches.sampling import WithoutReplacement, draw_batches
from dpmcmc.enclave.batches.subsample import Batch, Moments, batch_moments
from dpmcmc.enclave.core.gate import SCOPE, seal
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.mechanisms.log_ratio import distance, log_ratio
from dpmcmc.enclave.noise.discrete_gaussian import approximation
from dpmcmc.enclave.noise.modes import draw_noise

_SENSITIVITY_BITS = 30  # of one record in steps of the lattice: what fits into an int32
_SCALE_BITS = 44  # of the largest noise
_FINEST = 2.0**-100  # granularity of two positions that are the same


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


@dataclass(frozen=True, slots=True)
class MinibatchLogRatio:
    """(n / b) sum over a batch of clip(log-ratio) - (its variance) / 2, with noise of `noise_multiplier` sensitivities.

    One record's ratio is clipped to abs(r) <= clip * distance of the positions, as in `LogRatio`. The variance is that
    of the estimate (n / b) sum r of a batch without replacement, (n / b)^2 (1 - b / n) sum (r - mean)^2. The value is
    for a penalty test, which subtracts half of the noise's `variance`; it includes the penalty of the batch already.
    That penalty is itself estimated, so the test is approximate, while one with all records is exact.
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

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def coefficients(self, facts: Facts, queries: Sequence[jax.Array]) -> Coefficients:
        """Return how the exact moments of one chain's batch are combined, from public values, in floating point."""
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

    def value(self, moments: Moments, linear: jax.Array, square: jax.Array) -> Wide:
        """Return P K - floor(R W / 2^e) of one chain: exact, private, without its noise."""
        shift = constants(self.batch_size, self.noise_multiplier).shift
        size = shifted_right(times(limbs(linear), limbs(magnitude(moments.total))), 0)
        opposite, negative = negate(size), moments.total.high < 0
        first = Wide(jnp.where(negative, opposite.high, size.high), jnp.where(negative, opposite.low, size.low))
        return add(first, negate(shifted_right(times(limbs(square), moments.spread), shift)))

    def gated(self, linear: jax.Array, square: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return P and R as they may be, whatever they were: 2 P B + R + 1 <= D holds of them, in integers."""
        fixed = constants(self.batch_size, self.noise_multiplier)
        linear = jnp.clip(linear, 1, (fixed.sensitivity - 1) // (2 * fixed.bound))
        return linear, jnp.clip(square, 0, fixed.sensitivity - 1 - 2 * fixed.bound * linear)

    def batch_value(
        self, facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], batch: Batch
    ) -> tuple[Wide, Coefficients]:
        """Return the value of each chain on its batch in steps of the release's lattice: private, without its noise.

        P and R come from public values by floating point, so they are sealed like what records add: the P by which R is
        held is the P that is multiplied with.
        """
        bound = constants(self.batch_size, self.noise_multiplier).bound
        coefficients = jax.vmap(lambda one: self.coefficients(facts, one))(list(queries))
        moments = batch_moments(Lattice(coefficients.record, bound), facts, contribution, slots, queries, batch)
        made = (coefficients.linear, coefficients.square)
        sealed = seal(slots.once, lambda _: made, jax.tree.map(jnp.zeros_like, made))

        def of_integers(_: jax.Array) -> Wide:
            with jax.named_scope(SCOPE):
                return jax.vmap(self.value)(moments, *self.gated(*sealed))

        return seal(slots.once, of_integers, zero(made[0].shape)), coefficients

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one number; the Gaussian of the multiplier on a batch without replacement; replace-one."""
        self.sampling.check(facts)
        scale = constants(self.batch_size, self.noise_multiplier).scale

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            of_batch, of_noise = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
            batch = draw_batches(self.sampling, of_batch, facts)
            value, coefficients = self.batch_value(facts, contribution, slots, queries, batch)

            def release(value: Wide, key: jax.Array, granularity: jax.Array) -> jax.Array:
                return to_float(add(value, draw_noise(facts.noise, key, scale)), granularity).reshape(1)

            return [jax.vmap(release)(value, of_noise, coefficients.release)]

        batch = FixedBatchGaussian(self.batch_size, facts.size, self.noise_multiplier)
        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((1,), jnp.float32),),
            event=batch + approximation(1, scale, self.sampling.distance(facts)),
            draw=draw,
            variance=lambda queries: jnp.square(scale * self.coefficients(facts, queries).release),
        )
