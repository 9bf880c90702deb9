"""Renyi differential privacy: curves that add up, and their conversion to (epsilon, delta).

Every curve is an upper bound at every real order > 1. Where a formula holds at whole orders only, orders in between
use that (alpha - 1) epsilon(alpha) is convex and zero at one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc.accounting import barker, decisions, schedule, selection, spherical_laplace
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import (
    AcceptBit,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    RatioApproximation,
    counts,
)
from dpmcmc.accounting.selection import Selected
from dpmcmc.accounting.spherical_laplace import SphericalLaplace

Orders: TypeAlias = NDArray[np.float64]
Curve: TypeAlias = Callable[[Orders, Any], NDArray[np.float64]]

ORDERS: Orders = 1 + np.geomspace(1e-3, 1e7, 800)
WHOLE = np.unique(np.round(np.geomspace(2, 1024, 160)))


@dataclass(frozen=True)
class RenyiCurve:
    """The curve of a composition with the given Renyi divergences, converted as Canonne et al. (2020) do."""

    orders: Orders
    divergences: NDArray[np.float64]

    def log_delta(self, epsilon: float) -> float:
        """Return min over alpha of (alpha - 1)(r - epsilon + ln(1 - 1/alpha)) - ln(alpha), at most 0."""
        alpha = self.orders
        return min(
            float(np.min((alpha - 1) * (self.divergences - epsilon + np.log1p(-1 / alpha)) - np.log(alpha))), 0.0
        )

    def epsilon(self, delta: float) -> float:
        """Return min over alpha of r + ln(1 - 1/alpha) - (ln delta + ln alpha) / (alpha - 1), at least 0."""
        alpha = self.orders
        bounds = self.divergences + np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
        return max(float(np.min(bounds)), 0.0)


def curve(event: Event) -> RenyiCurve | None:
    """Return the curve of the composition at `ORDERS`; None if an event in it has no Renyi bound."""
    total = _composed(event)
    return None if total is None else RenyiCurve(ORDERS, total)


def _composed(event: Event) -> NDArray[np.float64] | None:
    total = np.zeros_like(ORDERS)
    for part, times in schedule.shortened(counts(event)).items():
        if type(part) not in _CURVES:
            return None
        total += times * _elementary(part)
    return total


@lru_cache(maxsize=1024)
def _elementary(part: Event) -> NDArray[np.float64]:
    return _CURVES[type(part)](ORDERS, part)


def _gaussian(orders: Orders, event: Gaussian) -> NDArray[np.float64]:
    return orders / (2 * event.noise_multiplier**2)


def _accept_bit(orders: Orders, event: AcceptBit) -> NDArray[np.float64]:
    return decisions.accept_bit(orders, event.noise_multiplier)


def _logistic_bit(orders: Orders, event: LogisticBit) -> NDArray[np.float64]:
    return decisions.logistic_bit(orders, event.sensitivity)


def _poisson(orders: Orders, event: PoissonGaussian) -> NDArray[np.float64]:
    """Return the curve under add-or-remove; under replace-one that of a full sample, a bound by quasi-convexity."""
    if event.adjacency is Adjacency.REPLACE_ONE:
        return orders * 2 / event.noise_over_clip**2
    sampled = between_whole_orders(orders, WHOLE, poisson_at_whole_orders(WHOLE, event))
    return np.minimum(sampled, orders / (2 * event.noise_over_clip**2))


def poisson_at_whole_orders(orders: Orders, event: PoissonGaussian) -> NDArray[np.float64]:
    """Return ln sum_k C(alpha, k) (1-q)^(alpha-k) q^k e^((k^2-k)/(2 s^2)) / (alpha - 1) (Mironov et al. 2019).

    Holds under add-or-remove.
    """
    q, variance = event.rate, event.noise_over_clip**2
    if q == 1:
        return orders / (2 * variance)
    k = np.arange(int(orders.max()) + 1, dtype=np.float64)
    alpha = orders[:, None]
    terms = _log_binomial(alpha, k) + (alpha - k) * math.log1p(-q) + k * math.log(q) + (k * k - k) / (2 * variance)
    return np.logaddexp.reduce(terms, axis=1) / (orders - 1)


def _fixed_batch(orders: Orders, event: FixedBatchGaussian) -> NDArray[np.float64]:
    rate = event.batch_size / event.population
    whole = subsampled_at_whole_orders(WHOLE, rate, lambda j: j / (2 * event.noise_multiplier**2))
    full = orders / (2 * event.noise_multiplier**2)
    return np.minimum(between_whole_orders(orders, WHOLE, whole), full)


def _barker(orders: Orders, event: BarkerTest) -> NDArray[np.float64]:
    rate = event.batch_size / event.population
    whole = subsampled_at_whole_orders(WHOLE, rate, lambda j: barker.divergence(j, event))
    return between_whole_orders(orders, WHOLE, whole)


def subsampled_at_whole_orders(orders: Orders, rate: float, base: Callable[[Orders], Orders]) -> NDArray[np.float64]:
    """Amplify a curve by sampling without replacement, replace-one (Wang, Balle and Kasiviswanathan 2019, Theorem 9).

    ln(1 + g^2 C(a,2) min(4 (e^r(2) - 1), 2 e^r(2)) + 2 sum_(j=3..a) g^j C(a,j) e^((j-1) r(j))) / (a - 1).
    """
    j = np.arange(2, int(orders.max()) + 1, dtype=np.float64)
    divergences = base(j)
    log_terms = math.log(2) + j * math.log(rate) + (j - 1) * divergences
    pair = float(divergences[0])
    log_growth = pair + math.log(-math.expm1(-pair))  # ln(e^pair - 1)
    log_terms[0] = 2 * math.log(rate) + min(math.log(4) + log_growth, math.log(2) + pair)
    alpha = orders[:, None]
    chosen = _log_binomial(alpha, j)
    terms = np.logaddexp.reduce(np.where(j <= alpha, log_terms, 0.0) + chosen, axis=1)
    return np.logaddexp(0, terms) / (orders - 1)


def between_whole_orders(orders: Orders, whole: Orders, divergences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Extend a bound at whole orders to real ones by the convexity of (alpha - 1) epsilon(alpha)."""
    known = np.isfinite(divergences)
    if not known.any():
        return np.full_like(orders, np.inf)
    moments = np.concatenate([[0.0], (whole[known] - 1) * divergences[known]])
    value = np.interp(orders, np.concatenate([[1.0], whole[known]]), moments) / (orders - 1)
    return np.where(orders <= whole[known].max(), value, np.inf)


def _log_binomial(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln C(n, k), minus infinity where k > n."""
    log_factorial = special.gammaln(np.arange(1, int(max(n.max(), k.max())) + 3, dtype=np.float64))
    down, across = n.astype(np.intp), k.astype(np.intp)
    value = log_factorial[down] - log_factorial[across] - log_factorial[np.maximum(down - across, 0)]
    return np.where(k <= n, value, -np.inf)


def _ratio_approximation(orders: Orders, event: RatioApproximation) -> NDArray[np.float64]:
    """Return what factors of e^-r and e^r on all probabilities add: r (2 alpha - 1) / (alpha - 1)."""
    return event.log_ratio * (2 * orders - 1) / (orders - 1)


def _selected(orders: Orders, event: Selected) -> NDArray[np.float64]:
    """Return the curve of the best of many runs; of one run that of the most expensive candidate at each order.

    The candidate is drawn whatever the records are, so the moment of one run is a mean of those of the candidates.
    """
    curves = [_composed(candidate) for candidate in event.candidates]
    dearest = np.max([np.full_like(orders, np.inf) if one is None else one for one in curves], axis=0)
    return selection.divergences(orders, dearest, event.halting, event.shape)


_CURVES: dict[type[Event], Curve] = {
    Gaussian: _gaussian,
    AcceptBit: _accept_bit,
    LogisticBit: _logistic_bit,
    PoissonGaussian: _poisson,
    FixedBatchGaussian: _fixed_batch,
    BarkerTest: _barker,
    RatioApproximation: _ratio_approximation,
    Selected: _selected,
    SphericalLaplace: spherical_laplace.divergences,
}
