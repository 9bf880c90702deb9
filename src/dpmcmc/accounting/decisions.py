"""Tests that release one bit: what a decision costs when its noisy statistic stays hidden.

A penalty test is a threshold on N(R, sigma^2), a full-data Barker test a coin of probability S(lambda). Both cost less
than the value they hide. docs/accounting.md has the derivations; the closed form of the Barker bit's Renyi divergence
is proved at `logistic_bit`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

SLACK = 1e-6  # relative; covers the search for the worst threshold, which finds it to 1e-8
NARROW = 1e-3  # alpha * shift below which the limit 2/pi is used with a quadratic margin
WIDE = 50.0  # alpha * shift above which hiding the value gains next to nothing


def accept_bit(orders: NDArray[np.float64], noise_multiplier: float) -> NDArray[np.float64]:
    """Return the Renyi divergences of a penalty test's decision.

    For a fixed uniform u the decision is a threshold on a Gaussian, and averaging over the hidden u is a mixture whose
    weights do not depend on the data, so with d = 1 / noise_multiplier (joint quasi-convexity)

        epsilon(alpha) <= sup_z D_alpha(Bernoulli(Phi(z + d)) || Bernoulli(Phi(z))),

    which tends to 2/pi of the Gaussian's alpha d^2 / 2 as d goes to zero.
    """
    shift = 1 / noise_multiplier
    gaussian = orders * shift**2 / 2
    spread = orders * shift
    with np.errstate(over="ignore"):
        result = 2 / math.pi * gaussian * (1 + SLACK + spread**2)
    searched = (spread >= NARROW) & (spread <= WIDE)
    if np.any(searched):
        result[searched] = worst_threshold(orders[searched], shift)[1] * (1 + SLACK)
    return np.minimum(np.where(spread > WIDE, gaussian, result), gaussian)


def worst_threshold(orders: NDArray[np.float64], shift: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return where sup_z D_alpha(Bernoulli(Phi(z + shift)) || Bernoulli(Phi(z))) is, and what, by nested grids.

    Wherever it was looked at, the divergence rises to one maximum and falls: so a grid is searched around the best
    point of the one before. A test holds it against brute force.
    """
    alpha = orders[:, None]
    half_width = 12 + 2 * alpha * shift
    centre = np.full_like(alpha, -shift / 2)
    values = np.zeros_like(alpha)
    for points in (61, 41, 41, 41):
        z = centre + half_width * np.linspace(-1, 1, points)
        heads, tails = special.log_ndtr(z), special.log_ndtr(-z)
        values = _bernoulli_divergence(
            alpha, (heads, special.log_ndtr(z + shift) - heads), (tails, special.log_ndtr(-z - shift) - tails)
        )
        best = np.argmax(values, axis=1)[:, None]
        centre = np.take_along_axis(z, best, axis=1)
        half_width = half_width * 2 / (points - 1)
    return centre[:, 0], values.max(axis=1)


def _bernoulli_divergence(
    alpha: NDArray[np.float64], *sides: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return D_alpha of two coins; `sides` has log Q and log P/Q of heads, and of tails.

    E_Q[(P/Q)^alpha] - 1 is summed as q (r^alpha - 1 - alpha (r - 1)), whose terms are positive: no cancellation.
    """
    total = np.zeros_like(sides[0][0])
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for log_probability, ratio in sides:
            convex = np.expm1(alpha * ratio) - alpha * np.expm1(ratio)
            term = np.exp(log_probability) * convex
            huge = np.exp(log_probability + alpha * ratio)  # where r^alpha alone overflows its product does not
            total = total + np.where(np.isfinite(term), term, huge)
    return np.log1p(total) / (alpha - 1)


def logistic_bit(orders: NDArray[np.float64], sensitivity: float) -> NDArray[np.float64]:
    """Return the Renyi divergences of a coin of log-odds lambda when lambda moves by D = `sensitivity`.

    With E = e^D and x = e^lambda the moment is (1 + x)^(alpha-1) (1 + x E^alpha) / (1 + x E)^alpha. Its logarithmic
    derivative vanishes where a polynomial in x whose square term cancels does, hence at the single point

        x* = (E^alpha - alpha E + alpha - 1) / ((alpha - 1) E^(alpha+1) - alpha E^alpha + E),

    the maximum. The value is at most alpha D^2 / 8 (the loss lies in an interval of length D) and at most D.
    """
    bound = np.minimum(orders * sensitivity**2 / 8, sensitivity)
    growth = orders * sensitivity
    # log x*, every power divided by E^(alpha + 1) so that nothing overflows
    shrink = np.exp(-sensitivity)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        numerator = shrink * (1 - np.exp(-growth) * (orders * np.exp(sensitivity) - orders + 1))
        denominator = (orders - 1) - orders * shrink + np.exp(-growth)
        log_x = np.log(numerator) - np.log(denominator)
        moment = (
            (orders - 1) * np.logaddexp(0, log_x)
            + np.logaddexp(0, log_x + growth)
            - orders * np.logaddexp(0, log_x + sensitivity)
        )
        # terms of size alpha were subtracted: their rounding error is counted against us
        exact = moment / (orders - 1) + 1e-14 * orders / (orders - 1)
    return np.fmin(bound, exact)


def logistic_profile(epsilon: NDArray[np.float64], sensitivity: float) -> NDArray[np.float64]:
    """Return the hockey-stick divergence of Logistic(D) and Logistic(0), which dominate a Barker bit.

    Thresholds attain it. It simplifies to delta = (1 - e^((epsilon-D)/2))^2 / (1 - e^-D) for abs(epsilon) <= D, in
    which no difference of nearly equal numbers is left.
    """
    inside = np.clip(epsilon, -sensitivity, sensitivity)
    delta = np.expm1((inside - sensitivity) / 2) ** 2 / -np.expm1(-sensitivity)
    return np.where(epsilon < -sensitivity, -np.expm1(np.minimum(epsilon, 0.0)), delta)
