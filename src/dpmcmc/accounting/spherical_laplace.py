"""Sums with spherical Laplace noise: density proportional to exp(-|x| / scale), |x| the l2 norm.

This is the K-norm mechanism of Hardt and Talwar (2010) for the l2 ball. In few dimensions it hides as much as Gaussian
noise with a much smaller standard deviation, and its privacy loss is bounded. That loss has a closed law: in the
confocal coordinates of the two centres, which are a sensitivity apart, with a = 1 / (2 noise_multiplier), the loss is
2 a cos(theta), where theta between 0 and pi has a density proportional to

    sin(theta)^(d-2) (sin(theta)^2 + C) e^(a cos theta),      C = (d - 1) / a  K_(d/2)(a) / K_(d/2-1)(a).

docs/accounting.md has the derivation. K and I are Bessel functions.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc import validation
from dpmcmc.accounting import fields
from dpmcmc.accounting.event import Event

Values = NDArray[np.float64]

_NODES = 24
"""Of the quadrature between two grid points; the integrand is smooth, so few would do."""

_PIECES = 64
"""Into which angles are cut at least: no piece is so long that the integrand varies much."""

ROUNDING = 1e-12
"""Relative; added to profiles and divergences, whose quadratures and series are right to about 1e-14."""

RHO_ORDERS = 1 + np.geomspace(1e-3, 1e6, 2000)
"""At which the rho of zCDP is looked for."""

_SMALLEST, _TERMS = 1e-280, 400
"""Bessel functions below the first are taken from so many terms of their series: of orders up to 500 many too many."""


@dataclass(frozen=True)
class SphericalLaplace(Event):
    """A sum of vectors with spherical Laplace noise; `noise_multiplier` is the noise's scale over the l2 sensitivity.

    The standard deviation of a coordinate is sqrt(num_coordinates + 1) scales. Whatever delta is, epsilon is at most
    1 / noise_multiplier.
    """

    num_coordinates: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        self._set(
            num_coordinates=fields.times("num_coordinates", self.num_coordinates, at_least=1),
            noise_multiplier=fields.noise("noise_multiplier", self.noise_multiplier),
        )
        if self.num_coordinates > 1000:
            validation.refuse(
                "num_coordinates", self.num_coordinates, "must be <= 1000; Gaussian noise is better there"
            )

    @property
    def largest_loss(self) -> float:
        """The largest privacy loss that there can be."""
        return 1 / self.noise_multiplier


def profile(epsilon: Values, event: SphericalLaplace) -> Values:
    """Return delta at every epsilon >= 0 of an increasing grid: P(loss > epsilon) - e^epsilon P(loss < -epsilon).

    The second is the expectation of e^(epsilon - loss) above epsilon, at most one: its logarithm is what is added up,
    so that neither overflows where epsilon is large.
    """
    largest = event.largest_loss
    share = np.clip(epsilon / largest, 0.0, 1.0)
    if event.num_coordinates == 1:
        return np.maximum(-np.expm1((epsilon - largest) / 2), 0.0)
    angles = np.arccos(share)
    upper, log_lower = _tails(angles, event)
    delta = upper - np.minimum(np.exp(np.minimum(np.minimum(epsilon, largest) + log_lower, 0.0)), upper)
    rounding = ROUNDING + 8 * np.finfo(np.float64).eps * (1 + largest)
    return np.where(epsilon < largest, np.clip(delta + rounding * upper, 0.0, 1.0), 0.0)


def _tails(angles: Values, event: SphericalLaplace) -> tuple[Values, Values]:
    """Return the probability that the loss is above 2 a cos(angle), and the logarithm of that below its negative."""
    narrow = np.geomspace(1e-4 / math.sqrt(1 + event.largest_loss), math.pi / 2, 4 * _PIECES)
    cuts = np.unique(np.concatenate([angles, np.linspace(0.0, math.pi / 2, _PIECES + 1), narrow]))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    widths = np.diff(cuts)
    at = cuts[:-1, None] + widths[:, None] * (nodes + 1) / 2

    def accumulated(sign: int) -> Values:
        logs = _log_density(at, event, sign)
        most = np.max(logs, axis=1)
        pieces = most + np.log(np.exp(logs - most[:, None]) @ weights * widths / 2)
        return np.concatenate([[-np.inf], np.logaddexp.accumulate(pieces)])

    above, below = accumulated(1), accumulated(-1)
    whole, places = np.logaddexp(above[-1], below[-1]), np.searchsorted(cuts, angles)
    return np.exp(above[places] - whole), below[places] - whole


def _log_density(angles: Values, event: SphericalLaplace, sign: int) -> Values:
    """Return the log-density of theta at an angle from the nearer pole, less what it is at most: no overflow."""
    half, size = event.largest_loss / 2, event.num_coordinates
    sines = np.sin(angles)
    with np.errstate(divide="ignore"):
        return (size - 2) * np.log(sines) + np.log(sines**2 + _constant(event)) + half * (sign * np.cos(angles) - 1)


def _constant(event: SphericalLaplace) -> float:
    """Return C of the density."""
    half, size = event.largest_loss / 2, event.num_coordinates
    return (size - 1) / half * _bessel_ratio(size / 2 - 1, half)


def _bessel_ratio(order: float, at: float) -> float:
    """Return K_(order+1)(at) / K_order(at), for order > -1: by the upward recursion, which is stable."""
    below = order % 1.0
    ratio = float(special.kve(below + 1, at) / special.kve(below, at)) if at > 1e-8 else _small_ratio(below, at)
    if order < 0:  # K_(1/2) / K_(-1/2)
        return 1.0
    for step in range(round(order - below)):
        ratio = 1 / ratio + 2 * (below + step + 1) / at
    return ratio


def _small_ratio(order: float, at: float) -> float:
    """Return K_(order+1)(at) / K_order(at) at a small argument, for orders zero and one half."""
    return 1 + 1 / at if order else 1 / (at * (math.log(2 / at) - np.euler_gamma))


def divergences(orders: Values, event: SphericalLaplace) -> Values:
    """Return the Renyi divergences: (ln M((2 alpha - 1) a) - ln M(a)) / (alpha - 1).

    M(b) is the integral of sin^(d-2) (sin^2 + C) e^(b cos); by Poisson's integral that is a sum of two Bessel functions
    I. Orders so large that nothing is left to gain have the largest loss.
    """
    half = event.largest_loss / 2
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = (_log_moment((2 * orders - 1) * half, event) - _log_moment(np.array([half]), event)) / (orders - 1)
    rounded = found + ROUNDING * orders / (orders - 1)
    quadratic = orders * event.largest_loss**2 / 2  # of anything whose loss is bounded so
    return np.fmin(np.fmin(np.maximum(rounded, 0.0), quadratic), event.largest_loss)


@lru_cache(maxsize=1024)
def rho(event: SphericalLaplace) -> float:
    """Return the rho of zCDP: the largest divergence over its order, between orders by that of the next larger one."""
    found = divergences(RHO_ORDERS, event)
    return float(max(found[0], np.max(found[1:] / RHO_ORDERS[:-1]), event.largest_loss / RHO_ORDERS[-1]))


def _log_moment(at: Values, event: SphericalLaplace) -> Values:
    """Return ln of sqrt(pi) [G(d/2 + 1/2) (2/b)^(d/2) I_(d/2)(b) + C G(d/2 - 1/2) (2/b)^(d/2-1) I_(d/2-1)(b)]."""
    if event.num_coordinates == 1:
        return _log_moment_of_laplace(at, event.largest_loss)
    first, second = (_log_poisson(event.num_coordinates / 2 - step, at) for step in (0.0, 1.0))
    return np.logaddexp(first, math.log(_constant(event)) + second)


def _log_poisson(order: float, at: Values) -> Values:
    """Return ln of the integral of sin^(2 order) e^(b cos): sqrt(pi) G(order + 1/2) (2/b)^order I_order(b)."""
    constant = special.gammaln(order + 0.5) + math.log(math.pi) / 2
    bessel = special.ive(order, at)
    with np.errstate(divide="ignore", invalid="ignore"):
        large = constant + order * np.log(2 / at) + np.log(bessel) + at
    is_small = (at < 1e-3) | (bessel < _SMALLEST)
    large[is_small] = constant + _log_series(order, at[is_small])
    return large


def _log_series(order: float, at: Values) -> Values:
    """Return ln of (2/b)^order I_order(b) by its power series, where Bessel functions have run out of digits."""
    counts = np.arange(_TERMS)[:, None]
    with np.errstate(divide="ignore"):
        logs = 2 * special.xlogy(counts, at / 2) - special.gammaln(counts + 1) - special.gammaln(order + counts + 1)
    return special.logsumexp(logs, axis=0)


def _log_moment_of_laplace(at: Values, largest: float) -> Values:
    """Return ln E[e^(b loss / largest)] of a Laplace sum, up to a constant, at b = (2 alpha - 1) largest / 2."""
    moment = at / largest - 0.5  # alpha - 1
    alpha = moment + 1
    with np.errstate(over="ignore", invalid="ignore"):
        grows = np.log(alpha / (2 * alpha - 1)) + moment * largest
        return np.logaddexp(grows, np.log(moment / (2 * alpha - 1)) - alpha * largest)
