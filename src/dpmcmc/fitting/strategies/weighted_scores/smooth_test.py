"""Are the residuals skewed, or flatter or more peaked than the family's? Neyman's smooth test, in the noise of privacy.

A single bin tells little of records whose spreads differ, or of a family that is nearly the right one: all of them are
off a little, in a pattern. So the excess of the bins is added up with the weights that see the third and the fourth
orthogonal polynomial best, given the noise of privacy and chance; the first two are those of a place and a scale, which
are fitted, and are left out.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats

ORDERS = (3, 4)
"""The polynomials whose patterns are looked for: skewness, and how peaked the residuals are."""

ALIKE = 3.0
"""Two looks whose patterns differ by more standard deviations of their noise were asked at other places."""

HEAVIER, LIGHTER = 2.33, -3.0
"""Standard deviations from which on residuals are taken to be more peaked than the family's, or flatter, for a scale:
one in a hundred is so by chance. What is not sure enough to be told of the whole model may move a scale far, whose
scores are cut."""

LEAST_BINS, SEEN = 6, 1.5
"""How many bins must have a probability to speak of, of so many residuals, for patterns of four polynomials to be told
from noise."""


def p_value_of_patterns(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats) -> float:
    """Return how probable a stronger pattern is in two looks at the residuals, were their distribution the family's.

    Args:
        excess: of the last look by bins, the number of residuals that are far out in front.
        noise: its standard deviation.
        size: the number of records.
        probabilities: of the same.
        before: the excess of the look before.
    """
    found = _found(excess, noise, size, probabilities, before)
    return 1.0 if found is None else float(min(1.0, len(ORDERS) * 2 * special.ndtr(-np.max(np.abs(found.strengths)))))


def scale_moved(
    excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats, bound: float
) -> float:
    """Return how far a cut moves a scale from the estimate of the likelihood, in standard deviations of the posterior.

    It is that of residuals as much more peaked than the family's, or flatter, as they seem to be; none where that may
    well be noise. The score of a scale is taken to be that of a normal law.
    """
    found = _found(excess, noise, size, probabilities, before)
    if found is None or LIGHTER < found.strengths[-1] < HEAVIER:
        return 0.0
    score = (MIDDLES**2 - 1) / np.sqrt(2.0)
    beyond = np.sign(score) * np.maximum(np.abs(score) - bound, 0.0)
    return abs(float(found.pattern @ beyond)) / float(np.sqrt(size))


class _Found(NamedTuple):
    """The patterns in two looks."""

    strengths: Floats
    """Of each, in standard deviations."""
    pattern: Floats
    """How many more residuals there are in each bin if the last one is as strong as it seems."""


def _found(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats) -> _Found | None:
    """Return the patterns; None where too few bins have a probability to speak of."""
    expected = size * probabilities[1:] / max(probabilities[1:].sum(), 1e-300)
    if not np.isfinite(noise) or (expected > SEEN).sum() < LEAST_BINS:
        return None
    last, first = excess[1:], before[1:]
    weights = _weights(expected, noise)
    differ = (last - first) @ weights / (np.sqrt(2) * noise * np.linalg.norm(weights, axis=0))
    is_alike = bool(np.all(np.abs(differ) <= ALIKE))
    seen, variance = ((last + first) / 2, noise**2 / 2) if is_alike else (last, noise**2)
    sds = np.sqrt(np.sum(weights**2 * (variance + expected)[:, None], axis=0))
    pattern = np.where(expected > SEEN, expected * _polynomials(expected / expected.sum())[:, -1], 0.0)
    size_of_it = float(seen @ weights[:, -1]) / float(pattern @ weights[:, -1])
    return _Found(seen @ weights / sds, size_of_it * pattern)


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
    orthogonal, highest = np.linalg.qr(root * powers)
    orthogonal = orthogonal * np.where(np.diag(highest) < 0, -1.0, 1.0)  # each grows to the right
    return np.asarray(np.where(root > 0, orthogonal / np.maximum(root, 1e-150), 0.0)[:, 1:])
