"""Are the residuals skewed, or flatter or more peaked than the family's? Neyman's smooth test, in the noise of privacy.

A single bin tells little of records whose spreads differ, or of a family that is nearly the right one: all of them are
off a little, in a pattern. So the excess of the bins is added up with the weights that see the third and the fourth
orthogonal polynomial best, given the noise of privacy and chance; the first two are those of a place and a scale, which
are fitted, and are left out.
"""

import numpy as np
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats

ORDERS = (3, 4)
"""The polynomials whose patterns are looked for: skewness, and how peaked the residuals are."""

ALIKE = 3.0
"""Two looks whose patterns differ by more standard deviations of their noise were asked at other places."""

LEAST_BINS = 6
"""How many bins must have a probability to speak of, for patterns of four polynomials to be told from noise."""


def p_value_of_patterns(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats) -> float:
    """Return how probable a stronger pattern is in two looks at the residuals, were their distribution the family's.

    Args:
        excess: of the last look by bins, the number of residuals that are far out in front.
        noise: its standard deviation.
        size: the number of records.
        probabilities: of the same.
        before: the excess of the look before.
    """
    expected = size * probabilities[1:] / max(probabilities[1:].sum(), 1e-300)
    if not np.isfinite(noise) or (expected > 1.5).sum() < LEAST_BINS:
        return 1.0
    last, first = excess[1:], before[1:]
    weights = _weights(expected, noise)
    differ = (last - first) @ weights / (np.sqrt(2) * noise * np.linalg.norm(weights, axis=0))
    is_alike = bool(np.all(np.abs(differ) <= ALIKE))
    seen, variance = ((last + first) / 2, noise**2 / 2) if is_alike else (last, noise**2)
    sds = np.sqrt(np.sum(weights**2 * (variance + expected)[:, None], axis=0))
    return float(min(1.0, len(ORDERS) * 2 * special.ndtr(-np.max(np.abs(seen @ weights) / sds))))


def _weights(expected: Floats, noise: float) -> Floats:
    """Return the weights of the bins, (bins, orders), that see each pattern best and no change of place or scale."""
    patterns = expected[:, None] * _polynomials(expected / expected.sum())
    variance = (noise**2 + expected)[:, None]
    fitted, looked_for = patterns[:, :2], patterns[:, 2:]
    gram = fitted.T @ (fitted / variance)
    rest = looked_for - fitted @ np.linalg.lstsq(gram, fitted.T @ (looked_for / variance), rcond=None)[0]
    return np.asarray(rest / variance)


def _polynomials(probabilities: Floats) -> Floats:
    """Return polynomials of the residuals of the orders 1 to 4 that are orthogonal under the family, by bins."""
    powers = np.clip(MIDDLES, -6.0, 6.0)[:, None] ** np.arange(max(ORDERS) + 1)
    root = np.sqrt(probabilities)[:, None]
    orthogonal, _ = np.linalg.qr(root * powers)
    return np.asarray(np.where(root > 0, orthogonal / np.maximum(root, 1e-150), 0.0)[:, 1:])
