"""Neyman's smooth test for skewness and kurtosis of the residuals, under privacy noise.

A single bin shows little if the spread varies between records, or if the family is nearly right: all bins deviate a
little, in a pattern. So the excess of the bins is added up with the weights that see the third and the fourth
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
"""Two releases whose patterns differ by more noise standard deviations than this had different points."""

HEAVIER, LIGHTER = 2.33, -3.0
"""Standard deviations at which residuals count as heavier-tailed, or lighter-tailed, for the bias of a scale (one in a
hundred by chance). An effect too small to report for the model can move a scale far, since its scores are cut."""

LEAST_BINS, SEEN = 6, 1.5
"""Smallest number of bins with an expected count of at least so many residuals for a test of four polynomials."""


def p_value_of_patterns(
    excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats | None
) -> float:
    """Return the p-value of the patterns in two releases of residuals, under the family's distribution.

    Args:
        excess: the excess in the last release by bins; the first entry is the number of far residuals.
        noise: the standard deviation of its noise.
        size: the number of records.
        probabilities: their probabilities under the model.
        before: the excess in the release before; None if it was asked too far away.
    """
    found = _found(excess, noise, size, probabilities, before)
    return 1.0 if found is None else float(min(1.0, len(ORDERS) * 2 * special.ndtr(-np.max(np.abs(found.strengths)))))


def scale_moved(
    excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats | None, bound: float
) -> float:
    """Return the bias of a scale from a cut, relative to the likelihood's estimate, in posterior standard deviations.

    It is computed for the estimated kurtosis of the residuals, and is zero if that may be noise. The score of a scale
    is assumed to be that of a normal distribution.
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


def _found(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats | None) -> _Found | None:
    """Return the patterns; None where too few bins have a probability to speak of."""
    expected = size * probabilities[1:] / max(probabilities[1:].sum(), 1e-300)
    if not np.isfinite(noise) or (expected > SEEN).sum() < LEAST_BINS:
        return None
    weights, seen, variance = _weights(expected, noise), excess[1:], noise**2
    if before is not None:
        differ = (seen - before[1:]) @ weights / (np.sqrt(2) * noise * np.linalg.norm(weights, axis=0))
        if np.all(np.abs(differ) <= ALIKE):
            seen, variance = (seen + before[1:]) / 2, noise**2 / 2
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
