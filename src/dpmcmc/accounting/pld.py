"""Privacy loss distributions: the profile of every step, discretised from above and composed by FFT.

dp-accounting represents and queries the distributions. The profiles are ours, for three reasons: it has
none for batches drawn without replacement; under replace-one it reads a noise multiplier in units of one record's clip,
a trap of a factor of two; and a fixed grid is 20 % loose on a thousand small steps, so the grid follows the event.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import NDArray
from scipy import special

from dpmcmc.accounting import barker, decisions, gaussian, loss, schedule, spherical_laplace
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import (
    AcceptBit,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    counts,
)
from dpmcmc.accounting.loss import Masses
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.errors import InvalidArgument

Values: TypeAlias = NDArray[np.float64]

SUPPORTED = {Gaussian, AcceptBit, PoissonGaussian, FixedBatchGaussian, LogisticBit, BarkerTest, SphericalLaplace}
_CELLS_PER_DEVIATION = 20  # discretisation adds at most 1/1600 to the variance of the loss
_COARSEST = 1e-3
LARGEST_GRID = 2**20
_LARGEST_LOSS = 1e3  # of one step; beyond it nothing is private and a grid would have to be absurd
_LARGEST_INTERVAL = 100.0  # where a grid ends above 1e7; e to a few times as much is still a float
_LOG_NEGLIGIBLE = -50.0


@dataclass(frozen=True)
class LossCurve:
    """The curve of a composed privacy loss distribution."""

    distribution: PrivacyLossDistribution

    def log_delta(self, epsilon: float) -> float:
        """Return log delta(epsilon)."""
        value: Any = self.distribution.get_delta_for_epsilon(epsilon)
        return math.log(value) if value > 0 else -math.inf

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with delta(epsilon) <= `delta`."""
        return max(float(self.distribution.get_epsilon_for_delta(delta)), 0.0)


@lru_cache(maxsize=32)
def curve(event: Event) -> LossCurve | None:
    """Return the curve of the composition; None if an event in it has no privacy loss distribution."""
    if not event.held <= SUPPORTED:
        return None
    parts = schedule.shortened(schedule.hidden_as_gaussian(counts(event)))
    if is_hopeless(parts):
        return LossCurve(PrivacyLossDistribution(Masses(1.0, 0, np.zeros(1), infinity=1.0)))
    interval = interval_of(parts)
    steps = [(_step(part, interval), times) for part, times in parts.items()]
    remove = loss.compose([(step.remove, times) for step, times in steps])
    if all(step.remove is step.add for step, _ in steps):
        return LossCurve(PrivacyLossDistribution(remove))
    return LossCurve(PrivacyLossDistribution(remove, loss.compose([(step.add, times) for step, times in steps])))


def is_hopeless(parts: dict[Event, int]) -> bool:
    """Say whether a distribution of these losses says nothing: a step, or a cell of their grid, is larger than any."""
    return max(_full_loss(part) for part in parts) > _LARGEST_LOSS or interval_of(parts) > _LARGEST_INTERVAL


def interval_of(parts: dict[Event, int]) -> float:
    """Return the grid spacing: a fixed fraction of the smallest step's loss deviation, coarser if the grid is huge."""
    deviations = {part: deviation_of(part) for part in parts}
    finest = min(min(deviations.values()) / _CELLS_PER_DEVIATION, _COARSEST)
    spread = math.sqrt(sum(times * deviations[part] ** 2 for part, times in parts.items()))
    longest = max(reach_of(part) for part in parts)
    return max(finest, (spread**2 + 20 * spread) / LARGEST_GRID, longest / (LARGEST_GRID / 8))


def deviation_of(part: Event) -> float:
    """Return about the standard deviation of one step's privacy loss: rate * sqrt(chi-square), kept within reason."""
    full = _full_loss(part)
    if isinstance(part, LogisticBit):
        return full / 2
    if isinstance(part, SphericalLaplace):
        return full / math.sqrt(part.num_coordinates)
    return min(rate_of(part) * math.sqrt(math.expm1(min(full**2, 1.0))), full)


def _full_loss(part: Event) -> float:
    """Return sensitivity over noise sd of one step on a full sample."""
    match part:
        case Gaussian(noise_multiplier=z) | FixedBatchGaussian(noise_multiplier=z):
            return 1 / z
        case PoissonGaussian(noise_over_clip=noise, adjacency=adjacency):
            return (2 if adjacency is Adjacency.REPLACE_ONE else 1) / noise
        case LogisticBit(sensitivity=sensitivity):
            return sensitivity
        case SphericalLaplace():
            return part.largest_loss
        case BarkerTest(batch_size=b, variance=variance, clip_fraction=kappa):
            return math.sqrt(4 * kappa / (b * (variance - kappa)))
        case _:
            raise TypeError(type(part).__name__)


def rate_of(part: Event) -> float:
    """Return the share of the records that one step reads."""
    match part:
        case PoissonGaussian(rate=rate):
            return rate
        case FixedBatchGaussian(batch_size=b, population=n) | BarkerTest(batch_size=b, population=n):
            return b / n
        case _:
            return 1.0


def reach_of(part: Event) -> float:
    """Return an epsilon beyond which one step's delta is negligible (about e^-50); what is left counts as infinity."""
    full = _full_loss(part)
    if isinstance(part, LogisticBit | SphericalLaplace):
        return full
    tail = 1.1 * (full**2 / 2 + full * math.sqrt(-2 * _LOG_NEGLIGIBLE))
    return _sampled(np.array([tail]), 1 / rate_of(part)).item()


@dataclass(frozen=True)
class _Step:
    """One step's privacy losses when the record is there and when it is not; the same object where they agree."""

    remove: Masses
    add: Masses


@lru_cache(maxsize=1024)
def _step(part: Event, interval: float) -> _Step:
    """Return the discretised privacy losses of one step."""
    last = math.ceil(reach_of(part) / interval)
    grid = np.arange(last + 1, dtype=np.float64) * interval
    rate = rate_of(part)
    match part:
        case LogisticBit(sensitivity=sensitivity):
            forward = backward = decisions.logistic_profile(grid, sensitivity)
        case Gaussian(noise_multiplier=z):
            forward = backward = _gaussian_profile(grid, z)
        case SphericalLaplace():
            forward = backward = spherical_laplace.profile(grid, part)
        case FixedBatchGaussian(noise_multiplier=z):
            forward = backward = rate * _gaussian_profile(_sampled(grid, rate), z)
        case BarkerTest():
            forward = backward = rate * barker.profile(part)(_sampled(grid, rate))
        case PoissonGaussian(noise_over_clip=noise, adjacency=Adjacency.REPLACE_ONE):
            forward = backward = _poisson_replace_profile(grid, rate, noise)
        case PoissonGaussian(noise_over_clip=noise):
            forward = rate * _gaussian_profile(_sampled(grid, rate), noise)
            backward = _poisson_add_profile(grid, rate, noise)
        case _:
            raise TypeError(type(part).__name__)
    if not (np.all(np.isfinite(forward)) and np.all(np.isfinite(backward))):
        raise InvalidArgument(f"{part!r} has no finite profile at every epsilon, and is not priced so; use more noise")
    remove = loss.connect_the_dots(interval, forward, backward)
    return _Step(remove, remove if forward is backward else loss.connect_the_dots(interval, backward, forward))


def _sampled(epsilon: Values, rate: float) -> Values:
    """Return ln(1 + (e^epsilon - 1) / rate): the epsilon of a full sample that sampling brings down to `epsilon`.

    A mechanism on a batch drawn without replacement has the profile rate * full(_sampled(epsilon)) for epsilon >= 0
    under replace-one *in both directions* (Zhu, Dong and Wang 2022): a replaced record may leave or enter at each step,
    so composing the profile of one direction alone is no bound (Lebeda et al. 2024). For the Poisson-sampled Gaussian
    it is the exact profile of removing a record.
    """
    large = epsilon > 500
    return np.where(large, epsilon - math.log(rate), np.log1p(np.expm1(np.where(large, 0.0, epsilon)) / rate))


def _gaussian_profile(epsilon: Values, noise_multiplier: float) -> Values:
    return np.exp(gaussian.log_delta(1 / (2 * noise_multiplier**2), epsilon))


def _poisson_add_profile(epsilon: Values, rate: float, noise: float) -> Values:
    """Return H(N(0, s^2) || (1-q) N(0, s^2) + q N(1, s^2)) at epsilon >= 0: nothing at or above -ln(1 - q).

    With r = 1 - (1-q) e^epsilon it is r * full(epsilon + ln(q / r)).
    """
    if rate == 1:
        return _gaussian_profile(epsilon, noise)
    room = -np.expm1(np.minimum(epsilon + math.log1p(-rate), 0.0))
    some = room > 0
    shifted = epsilon + math.log(rate) - np.log(np.where(some, room, 1.0))
    return np.where(some, room * _gaussian_profile(np.maximum(shifted, 0.0), noise), 0.0)


def _poisson_replace_profile(epsilon: Values, rate: float, noise: float) -> Values:
    """Return H of (1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2) at epsilon >= 0.

    Opposite records at the clip are the worst pair (checked numerically). The likelihood ratio is monotone; with
    w = e^(x/s^2), h = (1-q)(e^epsilon - 1)/2 and c = e^(-1/(2 s^2)) it equals e^epsilon where
    q c w = h + sqrt(h^2 + q^2 c^2 e^epsilon). All of it in logarithms, since noise far below the clip overflows.
    """
    with np.errstate(divide="ignore"):
        log_half = np.log((1 - rate) / 2) + epsilon + np.log(-np.expm1(-epsilon))
    log_root = np.logaddexp(log_half, np.logaddexp(2 * log_half, 2 * math.log(rate) - noise**-2 + epsilon) / 2)
    threshold = noise**2 * (log_root - math.log(rate)) + 0.5
    near = math.log(rate) + special.log_ndtr(-(threshold - 1) / noise)
    far = math.log(rate) + epsilon + special.log_ndtr(-(threshold + 1) / noise)
    middle = math.log(2) + log_half + special.log_ndtr(-threshold / noise)
    return np.maximum(np.exp(near) - np.exp(far) - np.exp(middle), 0.0)
