"""The decision of a Barker test on a batch (Heikkilä et al. 2019, Section 3.2). The proof is in barker_test.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Approximation
from dpmcmc.accounting.event import BarkerTest as BarkerEvent
from dpmcmc.enclave.arithmetic.int64 import Wide, add, magnitude, shift_left, to_float
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.limbs import Limbs, less, limbs, minus, times
from dpmcmc.enclave.batches.sampling import WithoutReplacement, draw_batches
from dpmcmc.enclave.batches.subsample import Batch, Moments, batch_moments, draw_index
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import per_chain
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.mechanisms.barker_bit import sealed_steps
from dpmcmc.enclave.mechanisms.correction import LOGISTIC_VARIANCE, Correction, linear_program
from dpmcmc.enclave.mechanisms.log_ratio import log_ratio
from dpmcmc.enclave.noise.discrete_gaussian import discrete_gaussian, total_variation_bound
from dpmcmc.enclave.noise.modes import draw_noise

BOUND = 2**12
"""The steps B of the lattice that a clipped ratio of one record may take."""

_NORMAL_BITS = 44
_FRACTION_BITS = 16
_NORMAL = 2.0**_NORMAL_BITS


def gaussian_curve_gap(num_coordinates: int, scale: float) -> float:
    """Return a bound on the distance of N_Z(0, scale^2) from a rounded Gaussian, 1 / (24 scale^2) a coordinate.

    It is a total variation: for decisions that no lattice sum is made for (`approximation` has the better bound).
    """
    return validation.integer("num_coordinates", num_coordinates, at_least=1) / (24 * scale * scale)


def decision_error() -> float:
    """Return a bound on how far the chance of any decision is from that with an ideal normal draw (barker_test.md)."""
    return total_variation_bound(1, _NORMAL) + gaussian_curve_gap(1, _NORMAL) + 0.2 / _NORMAL


@lru_cache(maxsize=64)
def _components(correction: Correction) -> tuple[Fraction, ...]:
    """Return the chances of a component of V_cor with a number up to 0, 1, ...; the last one is left out."""
    weights = [Fraction(weight) for weight in correction.weights]
    total = sum(weights)
    return tuple(sum(weights[: count + 1], start=Fraction(0)) / total for count in range(len(weights) - 1))


def draw_correction(key: jax.Array, correction: Correction) -> jax.Array:
    """Return a draw of V_cor, which depends on no record."""
    of_component, of_normal = jax.random.split(key)
    component = draw_index(of_component, _components(correction))
    normal = to_float(discrete_gaussian(of_normal, 2.0**30), 2.0**-30) if any(correction.spreads) else 0.0
    return (
        jnp.asarray(correction.atoms, jnp.float32)[component]
        + normal * (jnp.asarray(correction.spreads, jnp.float32)[component])
    )


@dataclass(frozen=True, slots=True)
class BarkerTest:
    """Accept if lambda* + N(0, C - s^2) + V_cor + public rest > 0, on a batch without replacement; replace-one only.

    With b = `batch_size` of n records, C = `variance`, kappa = `clip_fraction`: the tempered log-ratio of one record is
    clipped to abs(r) <= sqrt(kappa b) / n; lambda* is n times the mean over the batch; s^2 <= kappa is the variance of
    lambda* as the batch shows it, n^2 / b (1 - b / n) times the variance of the r (divided by b). The normal draw tops
    it up to C, and V_cor makes a logistic draw of it, nearly (`correction`). Heikkilä et al. have C = 2, kappa = 1; a
    smaller C has a better V_cor, a smaller kappa / (C - kappa) a lower price. Only the bit is released.
    """

    batch_size: int
    variance: float
    clip_fraction: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", validation.integer("batch_size", self.batch_size, at_least=1))
        object.__setattr__(self, "variance", validation.positive("variance", self.variance))
        object.__setattr__(self, "clip_fraction", validation.positive("clip_fraction", self.clip_fraction))
        if self.variance >= LOGISTIC_VARIANCE:
            validation.refuse("variance", self.variance, "must be < pi^2 / 3, the variance of a logistic draw")
        if self.clip_fraction >= self.variance:
            validation.refuse("clip_fraction", self.clip_fraction, f"must be < variance={self.variance!r}")

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "barker"

    @property
    def sampling(self) -> WithoutReplacement:
        """How the batch is drawn."""
        return WithoutReplacement(self.batch_size)

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def granularity(self, facts: Facts) -> float:
        """Return the step of one record's ratio: `BOUND` of them are the clip."""
        return math.sqrt(self.clip_fraction * self.batch_size) / (facts.size * BOUND)

    def noise_variance(self, facts: Facts, spread: Limbs) -> Limbs:
        """Return 2^16 b^2 B^2 / kappa times the variance C - s^2 of the noise, exactly: a positive integer."""
        unsampled = (facts.size - self.batch_size) * 2**_FRACTION_BITS // facts.size
        ceiling = Fraction(self.variance) / Fraction(self.clip_fraction) * (self.batch_size * BOUND) ** 2
        return minus(limbs(math.ceil(ceiling * 2**_FRACTION_BITS)), times(limbs(unsampled), spread))

    def decide(self, facts: Facts, moments: Moments, threshold: Wide, normal: Wide) -> jax.Array:
        """Say whether lambda* + sqrt(C - s^2) Z > -threshold, in integers and without rounding.

        `threshold` is the public rest plus V_cor, in 2^-16 of a step of lambda*; Z is 2^-44 `normal`. Where the two
        sides have different signs their squares are compared.
        """
        ratio = add(shift_left(moments.total, _FRACTION_BITS), threshold)
        size, deviation = limbs(magnitude(ratio)), limbs(magnitude(normal))
        left = times(times(size, size), limbs(self.batch_size << (2 * _NORMAL_BITS - _FRACTION_BITS)))
        right = times(times(deviation, deviation), self.noise_variance(facts, moments.spread))
        positive, upward = ratio.high >= 0, normal.high >= 0
        return jnp.where(positive == upward, positive, jnp.where(positive, less(right, left), less(left, right)))

    def batch_moments(
        self, facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], batch: Batch
    ) -> Moments:
        """Return the exact moments of each chain's batch: private."""
        lattice = per_chain(Lattice(self.granularity(facts), BOUND), len(batch.indices))
        return batch_moments(lattice, facts, contribution, slots, queries, batch)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one bit, from a batch of its own for each chain; replace-one only."""
        self.sampling.check(facts)

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            of_batch, of_noise, of_correction = jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, 3))(keys), 1, 0)
            batch = draw_batches(self.sampling, of_batch, facts)
            moments = self.batch_moments(facts, contribution, slots, queries, batch)
            step = self.granularity(facts) * facts.size / self.batch_size  # of lambda*
            correction = jax.vmap(lambda key: draw_correction(key, linear_program(self.variance)))(of_correction)
            threshold = sealed_steps(queries[-1] + correction, step * 2.0**-_FRACTION_BITS, slots.once)
            normal = jax.vmap(lambda key: draw_noise(facts.noise, key, _NORMAL))(of_noise)
            return [jax.vmap(lambda *chain: self.decide(facts, *chain))(moments, threshold, normal)]

        test = BarkerEvent(self.batch_size, facts.size, self.variance, self.clip_fraction)
        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((), jnp.bool_),),
            event=test + Approximation(decision_error() + self.sampling.distance(facts)),
            draw=draw,
        )
