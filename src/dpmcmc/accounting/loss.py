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
    falling = -interval * np.arange(forward.size - 1, 0, -1)
    deltas = np.concatenate([-np.expm1(falling) + np.exp(falling) * backward[:0:-1], forward])
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    drops = -np.diff(deltas)
    masses = np.zeros_like(deltas)
    masses[0] = 1 - deltas[0]
    masses[1:] += drops / -math.expm1(-interval)
    masses[:-1] -= drops / math.expm1(interval)
    return Masses(interval, 1 - forward.size, np.maximum(masses, 0.0), float(deltas[-1]))


def compose(steps: list[tuple[Masses, int]]) -> Masses:
    """Return the distribution of the sum of independent losses, each taken so many times."""
    interval = steps[0][0].interval
    low, high = _window(steps)
    size = fft.next_fast_len(high - low + 1, real=True)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    finite = 0.0
    for step, times in steps:
        wrapped = np.bincount(step.cells % size, weights=step.masses, minlength=size)
        product *= fft.rfft(wrapped) ** times
        finite += times * math.log1p(-step.infinity)
    masses = np.maximum(fft.irfft(product, size), 0.0)
    # a transform is wrong by up to log2(size) units in the last place, and its power by so many times as much
    rounding = sum(times for _, times in steps) * float(np.finfo(np.float64).eps) * math.log2(size + 1)
    infinity = min(-math.expm1(finite) + 2 * _TAIL + rounding, 1.0)
    return Masses(interval, low, np.roll(masses, -(low % size)), infinity)


def _window(steps: list[tuple[Masses, int]]) -> tuple[int, int]:
    """Return the grid points between which all but a negligible part of the composed loss lies (Chernoff bounds)."""
    interval = steps[0][0].interval
    longest = max(max(-step.first, step.first + step.masses.size) for step, _ in steps)
    losses = interval * np.arange(-longest, longest + 1, dtype=np.float64)
    starts = [longest + step.first for step, _ in steps]

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each step's expectation of a function given on the long grid."""
        return np.array(
            [
                np.sum(step.masses * values[at : at + step.masses.size])
                for (step, _), at in zip(steps, starts, strict=True)
            ]
        )

    times = np.array([times for _, times in steps], dtype=np.float64)
    deviation = math.sqrt(float(times @ np.maximum(total(losses**2) - total(losses) ** 2, 0.0))) + interval
    rate = math.sqrt(-2 * math.log(_TAIL)) / deviation
    bounds = {-1: -math.inf, 1: math.inf}
    for tilt in rate * np.geomspace(0.1, 2, 8):
        for side in bounds:
            with np.errstate(over="ignore"):
                moments = total(np.exp(np.minimum(side * tilt * losses, 700.0)))
            bound = side * (float(times @ np.log(moments)) - math.log(_TAIL)) / tilt
            bounds[side] = side * min(side * bound, side * bounds[side])
    reach_down = sum(step.first * n for step, n in steps)
    reach_up = sum((step.first + step.masses.size - 1) * n for step, n in steps)
    return max(math.floor(bounds[-1] / interval), reach_down), min(math.ceil(bounds[1] / interval), reach_up)
