"""Probability masses of privacy losses on a grid: from profiles, and composed.

dp-accounting composes two distributions at a time, or one with itself. A schedule has hundreds of different steps; here
they are multiplied in the frequency domain at once, with what may lie outside the window counted as infinite loss.
"""

import math

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from numpy.typing import NDArray
from scipy import fft

_TAIL = 1e-15  # probability that the composed loss may leave the window on either side


class Masses(DensePLDPmf):
    """Probability masses at whole multiples of an interval, with what is needed to compose them."""

    def __init__(self, interval: float, first: int, masses: NDArray[np.float64], infinity: float) -> None:
        super().__init__(interval, first, masses, infinity, pessimistic_estimate=True)
        self.interval, self.first, self.masses, self.infinity = interval, first, masses, infinity

    @property
    def cells(self) -> NDArray[np.int64]:
        """The grid points, as multiples of the interval."""
        return np.arange(self.first, self.first + self.masses.size)


def connect_the_dots(interval: float, forward: NDArray[np.float64], backward: NDArray[np.float64]) -> Masses:
    """Return the least masses on the grid whose profile lies above the given one (Doroshenko et al. 2022).

    `forward` holds H(P || Q) at 0, 1, 2 ... intervals and `backward` H(Q || P); the negative half of the profile is
    1 - e^x + e^x backward(-x). Between its nodes a profile is replaced by a chord in e^epsilon, above it by convexity.
    """
    above, below = _masses_above(interval, forward), _masses_above(interval, backward)
    # a loss of -x is a loss of x with the pair exchanged, e^-x times as likely: no difference of numbers near one
    falling = -interval * np.arange(forward.size - 1, 0, -1)
    masses = np.concatenate([np.exp(falling) * below[:0:-1], above])
    masses[forward.size - 1] = max(1 - float(forward[-1]) - float(masses.sum()), 0.0)
    return Masses(interval, 1 - forward.size, masses, float(forward[-1]))


def _masses_above(interval: float, profile: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the masses at 1, 2 ... intervals of the chords between the profile's values; zero stands for that at 0."""
    drops = -np.diff(np.minimum.accumulate(np.clip(profile, 0.0, 1.0)))
    masses = np.zeros_like(profile)
    masses[1:] += drops / -math.expm1(-interval)
    masses[1:-1] -= drops[1:] / math.expm1(interval)
    return np.maximum(masses, 0.0)


def compose(steps: list[tuple[Masses, int]]) -> Masses:
    """Return the distribution of the sum of independent losses, each taken the given number of times."""
    total = sum(times for _, times in steps)
    steps = [(_trimmed(step, _TAIL / total), times) for step, times in steps]
    low, high = _window(steps)
    if high < low:  # the bounds are beyond what floats can tell: nothing is promised
        return Masses(steps[0][0].interval, 0, np.zeros(1), infinity=1.0)
    size = fft.next_fast_len(high - low + 1, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    finite = 0.0
    for step, times in steps:
        wrapped = np.bincount(step.cells % size, weights=step.masses, minlength=size)
        product *= fft.rfft(wrapped) ** times
        finite += times * math.log1p(-min(step.infinity, 1 - 1e-16))
    masses = np.maximum(fft.irfft(product, size), 0.0)
    # a transform is wrong by up to log2(size) units in the last place, and its power by so many times as much
    rounding = total * float(np.finfo(np.float64).eps) * math.log2(size + 1)
    infinity = min(-math.expm1(finite) + 2 * _TAIL + rounding, 1.0)
    return Masses(steps[0][0].interval, low, np.roll(masses, -(low % size)), infinity)


def _trimmed(step: Masses, negligible: float) -> Masses:
    """Cut off tails of negligible mass: the upper one becomes infinite, the lower one moves up to the rest."""
    down, up = np.cumsum(step.masses), np.cumsum(step.masses[::-1])
    start = int(np.searchsorted(down, negligible, side="right"))
    stop = step.masses.size - int(np.searchsorted(up, negligible, side="right"))
    if start >= stop:
        return step
    masses = step.masses[start:stop].copy()
    masses[0] += float(step.masses[:start].sum())
    return Masses(step.interval, step.first + start, masses, step.infinity + float(step.masses[stop:].sum()))


def _window(steps: list[tuple[Masses, int]]) -> tuple[int, int]:
    """Return the grid points between which all but a negligible part of the composed loss lies (Chernoff bounds)."""
    interval = steps[0][0].interval
    spread = sum(times * _variance(step) for step, times in steps)
    rate = math.sqrt(-2 * math.log(_TAIL)) / (math.sqrt(spread) + interval)
    bounds = {-1: -math.inf, 1: math.inf}
    for tilt in rate * np.geomspace(1e-3, 2, 12):
        for side in bounds:
            log_moment = math.fsum(times * _log_moment(step, side * tilt) for step, times in steps)
            bound = (log_moment - math.log(_TAIL)) / tilt
            bounds[side] = side * min(bound, side * bounds[side])
    reach_down = sum(step.first * times for step, times in steps)
    reach_up = sum((step.first + step.masses.size - 1) * times for step, times in steps)
    return max(math.floor(bounds[-1] / interval), reach_down), min(math.ceil(bounds[1] / interval), reach_up)


def _variance(step: Masses) -> float:
    losses = step.interval * step.cells
    mean = float(np.sum(step.masses * losses))
    return float(np.sum(step.masses * (losses - mean) ** 2))


def _log_moment(step: Masses, tilt: float) -> float:
    """Return ln E[e^(tilt * loss)] of the finite losses, shifted by its largest term so that nothing overflows."""
    with np.errstate(divide="ignore", under="ignore"):
        exponents = tilt * step.interval * step.cells + np.log(step.masses)
        largest = float(exponents.max())
        return largest + math.log(float(np.sum(np.exp(exponents - largest))))
