"""The subsampled Barker test (Heikkilä et al. 2019): what its statistic N(mean, C - variance) costs.

Write the clipped log-ratios of a batch of b as r_i = x_i sqrt(kappa b) / N with abs(x_i) <= 1. If the other b - 1
entries have mean m and variance w, a record x gives the statistic the mean sqrt(kappa / b) x + const and the variance

    v(x) = C - kappa ((b - 1)/b w + (b - 1)/b^2 (x - m)^2).

The Renyi divergence grows as the variances fall, so w = 1 - m^2 is worst, and x = +-1 is (docs/accounting.md; the step
to +-1 and the search over m are numerical). What remains is one-dimensional. It replaces the paper's Theorem 2,
whose term ln(2b/(b - 5 alpha)) / (2 (alpha - 1)) never vanishes.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc.accounting.event import BarkerTest

Profile: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]

SLACK = 1e-6  # relative; covers the grid over m
_MEANS = np.linspace(-1, 1, 801)
PROFILE_NODES = 2000
NEGLIGIBLE = 1e-22
_LARGEST_EXPONENT = 700.0


def closed_form(orders: NDArray[np.float64], event: BarkerTest) -> NDArray[np.float64]:
    """Return the proved Renyi bound for orders >= 2 (docs/accounting.md); infinite where (alpha - 1) d >= C - kappa.

    With d = 4 kappa (b - 1) / b^2 and v = C - kappa:
    -ln(1 + d/v)/2 - ln(1 - (alpha - 1) d/v) / (2 (alpha - 1)) + (2 alpha kappa / b) / (v - (alpha - 1) d).
    """
    b, kappa = event.batch_size, event.clip_fraction
    lowest = event.variance - kappa
    change = 4 * kappa * (b - 1) / b**2
    left = 1 - (orders - 1) * change / lowest
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = (
            -0.5 * math.log1p(change / lowest)
            - np.log(left) / (2 * (orders - 1))
            + 2 * orders * kappa / b / (lowest * left)
        )
    return np.where((left > 0) & (orders >= 2), bound, np.inf)


def divergence(orders: NDArray[np.float64], event: BarkerTest) -> NDArray[np.float64]:
    """Return the Renyi divergence of the worst pair of batches that differ in one record, for orders >= 2."""
    alpha = orders[:, None]
    gap, first, second = worst_pairs(event)
    blend = alpha * second + (1 - alpha) * first
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 0.5 * np.log(second / first) + np.log(second / blend) / (2 * (alpha - 1)) + alpha * gap**2 / (2 * blend)
    worst = np.where(blend > 0, value, np.inf).max(axis=1) * (1 + SLACK)
    return np.where(orders >= 2, np.minimum(worst, closed_form(orders, event)), np.inf)


def theorem_2(orders: NDArray[np.float64], batch_size: int) -> NDArray[np.float64]:
    """Return the published bound (Heikkilä et al. 2019, equation 21), for comparison; infinite where alpha >= b/5."""
    room = batch_size - 5 * orders
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 2.5 / batch_size + np.log(2 * batch_size / room) / (2 * (orders - 1)) + 2 * orders / room
    return np.where(room > 0, value, np.inf)


@lru_cache(maxsize=64)
def profile(event: BarkerTest) -> Profile:
    """Return delta(epsilon), epsilon >= 0, of the worst pair of batches, as an interpolation from above.

    A hockey-stick divergence is convex in e^epsilon, and so is a supremum of them: chords between nodes lie above it.
    """
    nodes, values, _ = profile_nodes(event)
    reach = float(nodes[-1])

    def interpolate(epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(np.expm1(np.minimum(epsilon, reach)), np.expm1(nodes), values)

    return interpolate


def profile_nodes(event: BarkerTest) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Return the epsilons at which a profile is computed, its values there, and the number of each one's worst mean."""
    gap, first, second = (values[:, None] for values in worst_pairs(event))

    def worst(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return hockey_stick(epsilons, gap, first, second) * (1 + SLACK)

    reach = 10 * float(np.max(gap)) / math.sqrt(event.variance - event.clip_fraction)
    while reach < _LARGEST_EXPONENT and worst(np.array([reach])).max() > NEGLIGIBLE:
        reach *= 1.5
    reach = min(reach, _LARGEST_EXPONENT)  # beyond it the last value stands: a profile falls
    nodes = np.linspace(0, reach, PROFILE_NODES)
    values = worst(nodes)
    return nodes, np.minimum.accumulate(values.max(axis=0)), np.argmax(values, axis=0)


def worst_pairs(event: BarkerTest) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the distance of the means and the two variances of the pairs x = +1 and x = -1, one for each mean m."""
    b, kappa = event.batch_size, event.clip_fraction

    def variance(x: float) -> NDArray[np.float64]:
        return event.variance - kappa * ((b - 1) / b * (1 - _MEANS**2) + (b - 1) / b**2 * (x - _MEANS) ** 2)

    return np.full_like(_MEANS, 2 * math.sqrt(kappa / b)), variance(1.0), variance(-1.0)


def hockey_stick(
    epsilon: NDArray[np.float64], gap: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return H_(e^epsilon)(N(gap, first) || N(0, second)) for epsilon >= 0.

    The privacy loss at u is A u^2 + B u + c; it exceeds epsilon beyond its near root and, where the first variance is
    the larger one, also beyond the far root, else only up to the far root.
    """
    square = (first - second) / (2 * first * second)
    slope = gap / first
    constant = 0.5 * np.log(second / first) - gap**2 / (2 * first) - epsilon
    discriminant = slope**2 - 4 * square * constant
    root = np.sqrt(np.maximum(discriminant, 0.0))
    near = -2 * constant / (slope + root)
    with np.errstate(divide="ignore"):
        far = np.where(square == 0, np.inf, (-slope - root) / (2 * np.where(square == 0, 1.0, square)))

    def tail(point: NDArray[np.float64], sign: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """P - e^epsilon Q of the half line above (sign 1) or below (sign -1) `point`."""
        above_first = special.log_ndtr(-sign * (point - gap) / np.sqrt(first))
        above_second = special.log_ndtr(-sign * point / np.sqrt(second))
        with np.errstate(over="ignore", under="ignore"):
            return np.exp(above_first) - np.exp(epsilon + above_second)

    beyond = np.where(square > 0, -1.0, 1.0)
    both = tail(near, 1.0) - beyond * tail(far, beyond)
    return np.clip(np.where(discriminant > 0, both, 0.0), 0.0, 1.0)
