"""The papers' own accountants, kept for comparison: valid, but loose.

The moments accountant is a Renyi bound at whole orders up to 33 with the conversion of Mironov (2017). `barker_2019` is
Heikkilä et al. (2019): Theorem 1 for the full-data test (Gaussian noise of variance 2 in place of the bit) and
Theorem 2 with Corollary 2 for the subsampled one.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpmcmc.accounting import barker, rdp
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import (
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    counts,
)

_MOMENTS = np.arange(2.0, 34.0)
_BARKER_VARIANCE = 2.0


@dataclass(frozen=True)
class MomentsCurve:
    """The curve of a composition with the given Renyi divergences, by the conversion of Mironov (2017)."""

    orders: NDArray[np.float64]
    divergences: NDArray[np.float64]

    def log_delta(self, epsilon: float) -> float:
        """Return min over alpha of (alpha - 1)(r - epsilon), at most 0."""
        return min(float(np.min((self.orders - 1) * (self.divergences - epsilon))), 0.0)

    def epsilon(self, delta: float) -> float:
        """Return min over alpha of r - ln(delta) / (alpha - 1)."""
        return float(np.min(self.divergences - math.log(delta) / (self.orders - 1)))


def moments(event: Event) -> MomentsCurve | None:
    """Return the curve at whole orders up to 33; None for events that the moments accountant does not treat."""
    total = np.zeros_like(_MOMENTS)
    for part, times in counts(event).items():
        match part:
            case Gaussian(noise_multiplier=z):
                total += times * _MOMENTS / (2 * z * z)
            case PoissonGaussian(adjacency=Adjacency.ADD_OR_REMOVE_ONE):
                total += times * rdp.poisson_at_whole_orders(_MOMENTS, part)
            case FixedBatchGaussian(batch_size=b, population=n, noise_multiplier=z):
                total += times * rdp.subsampled_at_whole_orders(_MOMENTS, b / n, lambda j, z=z: j / (2 * z * z))
            case _:
                return None
    return MomentsCurve(_MOMENTS, total)


def barker_2019(event: Event) -> MomentsCurve | None:
    """Return the curve by the theorems of Heikkilä et al. (2019); None for events that it does not treat."""
    parts = counts(event)
    if not set(map(type, parts)) <= {LogisticBit, BarkerTest}:
        return None
    batches = [part.batch_size for part in parts if isinstance(part, BarkerTest)]
    # real orders for the full-data test; whole ones below b/5, its condition (20), where batches are drawn
    orders = np.arange(2.0, math.ceil(min(batches) / 5 - 1e-9)) if batches else rdp.ORDERS
    total = np.zeros_like(orders)
    for part, times in parts.items():
        match part:
            case LogisticBit(sensitivity=sensitivity):
                total += times * orders * sensitivity**2 / (2 * _BARKER_VARIANCE)
            case BarkerTest(batch_size=b, population=n, variance=2.0, clip_fraction=1.0) if orders.size:
                total += times * rdp.subsampled_at_whole_orders(orders, b / n, lambda j, b=b: barker.theorem_2(j, b))
            case _:
                return None
    return MomentsCurve(orders, total)
