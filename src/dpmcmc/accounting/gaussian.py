"""The exact privacy curve of composed Gaussian mechanisms.

Gaussian releases with noise multipliers z_i have a privacy loss distributed as N(m, 2m) with mean
m = sum_i 1 / (2 z_i^2), whatever was chosen adaptively on the way (Sommer et al. 2019). With
a = (epsilon - m) / (2 sqrt(m)) and b = a + sqrt(m),

    delta(epsilon) = (erfc(a) - e^epsilon erfc(b)) / 2 = e^(-a^2) (erfcx(a) - erfcx(b)) / 2.

The first form is the printed one; it overflows for epsilon > 709 and loses every digit as m goes to zero. The second,
with the difference taken as an integral of -erfcx' where a and b are close, is accurate from m = 1e-24 to m = 1e3.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dpmcmc.accounting import zcdp
from dpmcmc.accounting.event import AcceptBit, Event, Gaussian, counts

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_CLOSE = 0.5  # below this distance of a and b, sixteen nodes integrate erfcx' to full precision
_FAR = 1e6  # above this argument 1 / (sqrt(pi) x) is erfcx(x) to full precision
_ASYMPTOTIC = 50.0  # above this argument the series of erfcx' beats its closed form


@dataclass(frozen=True)
class GaussianCurve:
    """The curve of Gaussian releases whose privacy losses have the mean `mean` together."""

    mean: float

    def log_delta(self, epsilon: float) -> float:
        """Return log delta(epsilon)."""
        return float(log_delta(self.mean, epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon with delta(epsilon) <= `delta`."""
        target = math.log(delta)
        if self.log_delta(0.0) <= target:
            return 0.0
        above = self.mean + 2 * math.sqrt(self.mean * -target)  # the concentrated bound (zcdp) is never below
        return float(
            optimize.brentq(
                lambda value: self.log_delta(value) - target, 0.0, above * (1 + 1e-9), xtol=1e-300, rtol=1e-14
            )
        )


def curve(event: Event) -> GaussianCurve | None:
    """Return the exact curve of a composition of Gaussians; None if another event is in it.

    An accept bit is post-processing of the Gaussian release that it hides, so it counts as one.
    """
    if not event.held <= {Gaussian, AcceptBit}:
        return None
    parts = counts(event).items() if AcceptBit in event.held else ()
    hidden = [n / 2 / part.noise_multiplier**2 for part, n in parts if isinstance(part, AcceptBit)]
    return GaussianCurve(event.gaussian_rho + math.fsum(hidden))


def log_delta(mean: float, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Return log delta(epsilon) for the mean privacy loss `mean`; `epsilon` >= 0 may be an array."""
    epsilons = np.asarray(epsilon, dtype=np.float64)
    if mean == 0:
        return np.full(epsilons.shape, -np.inf)
    distance = math.sqrt(mean)
    start = (epsilons - mean) / (2 * distance)
    if distance < _CLOSE:
        return -(start**2) + np.log(0.5 * _erfcx_drop(start, distance))
    # delta close to one is written as 1 - x, delta close to zero as a product; both parts are finite everywhere
    beyond, inside = np.maximum(start, 0.0), np.minimum(start, 0.0)
    drop = special.erfcx(beyond) - special.erfcx(beyond + distance)
    far = np.maximum(beyond, _ASYMPTOTIC)  # where the difference above has lost its digits, its series has them
    series = distance / (far * (far + distance)) / math.sqrt(math.pi)
    small = -(start**2) + np.log(0.5 * np.where(beyond > _FAR, series, drop))
    remainder = special.erfc(-inside) + np.exp(-(inside**2)) * special.erfcx(inside + distance)
    return np.where(start > 0, small, np.log1p(-0.5 * remainder))


def _erfcx_drop(start: NDArray[np.float64], distance: float) -> NDArray[np.float64]:
    """Return erfcx(start) - erfcx(start + distance) as the integral of -erfcx' = 2/sqrt(pi) - 2 x erfcx(x)."""
    x = start[..., None] + distance * (_NODES + 1) / 2
    square = np.where(x > _ASYMPTOTIC, x, 1.0) ** -2.0
    far = square * (1 - square * (1.5 - square * (3.75 - square * 13.125))) / math.sqrt(math.pi)
    near = 2 / math.sqrt(math.pi) - 2 * x * special.erfcx(x)
    return distance / 2 * np.where(x > _ASYMPTOTIC, far, near) @ _WEIGHTS


@lru_cache(maxsize=1024)
def mean_for(epsilon: float, delta: float) -> float:
    """Return the largest mean privacy loss whose curve passes below (epsilon, delta), rounded down; 0 if none does.

    The search starts below: at the concentrated bound, and at delta(0) = erf(sqrt(m) / 2), above every delta(epsilon).
    """
    target = math.log(delta)

    def excess(mean: float) -> float:
        return float(log_delta(mean, epsilon)) - target

    low = max(zcdp.rho_for(epsilon, delta), 4 * float(special.erfinv(delta)) ** 2) * (1 - 1e-9)
    if low == 0:
        return 0.0
    high = 2 * low
    while excess(high) <= 0:
        high *= 2
    root = float(optimize.brentq(excess, low, high, xtol=low * 1e-14, rtol=1e-14))
    step = 1e-15
    while excess(root) > 0:
        root, step = root * (1 - step), 2 * step
    return root
