"""What cuts and weights lose: how much more the records would tell without them.

It is known without asking: synthetic rows with the columns' histograms, and the family's own law at the result, give
the slope M and the variance V of bounded scores and the Fisher information I. What a fit tells is M V^-1 M, what the
likelihood would have told is I: the estimates differ by a variance of M^-1 V M^-1 - I^-1 even without noise.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.model.bounded_scores.law import Law

ROWS, ROWS_EACH = 1000, 10
"""How many synthetic rows there are, and for each parameter at least."""

LAWS = 25
"""For so many predictors the law of the responses is found, where a record has one predictor."""

RIDGE = 1e-6
"""What is added to an information, beside one: of directions that no row tells of."""


class Bounded(NamedTuple):
    """How scores are bounded."""

    cut: float
    radius: float
    slope_radius: float


class Sums(NamedTuple):
    """What rows tell in all, of the parameters."""

    slope: Floats
    variance: Floats
    information: Floats


def full_information(regression: Regression, release: Release, bounded: Bounded, moments: Moments) -> Floats:
    """Return what the records would tell without cuts, weights and noise, in whitened coordinates.

    It is what they tell without the noise, and as much more as synthetic rows would tell.

    Args:
        regression: the model.
        release: the last.
        bounded: how its scores are bounded.
        moments: of the columns.
    """
    with np.errstate(all="ignore"):
        sums = sums_of_rows(regression, release.point, bounded, moments)
    told = _told(release)
    if not all(np.isfinite(part).all() for part in sums):
        return told
    scales = np.sqrt(np.maximum(np.diag(sums.information), RIDGE * np.diag(sums.information).max()))
    slope, variance, information = (part / np.outer(scales, scales) + RIDGE * np.eye(len(scales)) for part in sums)
    back = np.linalg.inv(_root(slope @ np.linalg.solve(variance, slope)))
    inverse, factor = release.whitening.inverse / scales, release.whitening.factor * scales[:, None]
    root = factor.T @ _root(inverse.T @ told @ inverse)
    return root @ back @ information @ back @ root.T


def _told(release: Release) -> Floats:
    """Return what a release tells but for its noise, M V^-1 M.

    Where a slope is not seen, it is taken to be as large as it may be without being seen, by half.
    """
    values, vectors = np.linalg.eigh(release.slope)
    slope = (vectors * np.maximum(values, release.noise_levels(vectors) / 2)) @ vectors.T
    return slope @ np.linalg.solve(release.data_variance(slope), slope)


def _root(matrix: Floats) -> Floats:
    """Return the symmetric root; what rounding made negative is next to nothing."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T


def synthetic_rows(regression: Regression, moments: Moments) -> Floats:
    """Return rows whose columns have the histograms that were released, and nothing to do with each other."""
    number = max(ROWS, ROWS_EACH * regression.dimension)
    rng = np.random.default_rng(0)  # nothing that is private depends on it
    rows = np.zeros((number, regression.num_columns))
    for block in np.unique(regression.blocks):
        own = np.flatnonzero(regression.blocks == block)
        levels = [column for column in own if moments.numbers[column] is None]
        upper = np.cumsum(moments.means[levels])
        ranks = (rng.permutation(number)[:, None] + 0.5) / number
        rows[:, levels] = (ranks <= upper) & (ranks > upper - moments.means[levels])
    for column, spread in enumerate(moments.numbers):
        if spread is not None:
            rows[:, column] = spread.quantiles((rng.permutation(number) + 0.5) / number)
    return rows


def sums_of_rows(regression: Regression, point: Floats, bounded: Bounded, moments: Moments) -> Sums:
    """Return slope and variance of bounded scores at a point, and the information, as synthetic rows have them."""
    rows, shapes = synthetic_rows(regression, moments), regression.shapes(np, point)
    predictors = rows @ point[: regression.num_linear].reshape(regression.num_columns, -1)
    parts = _alike(predictors)
    laws = [_law(regression, predictors[part].mean(axis=0), shapes, bounded.cut) for part in parts]
    which = np.empty(len(rows), int)
    for place, part in enumerate(parts):
        which[part] = place
    slopes, variances, informations = (
        np.stack([getattr(law, name) for law in laws])[which] for name in ("slope", "variance", "information")
    )
    designs, times = _designs(regression, rows), moments.size / len(rows)
    information = times * _summed(designs, informations)
    moves = designs @ whiten(information + RIDGE * np.diag(information).max() * np.eye(len(point))).factor
    grams = moves @ moves.transpose(0, 2, 1)
    longest = np.empty(len(rows))
    for part, law in zip(parts, laws, strict=True):
        longest[part] = law.longest(grams[part])
    traces = np.sum(slopes * grams, axis=(1, 2))
    by_score, by_slope = bounded.radius / np.maximum(longest, 1e-30), bounded.slope_radius / np.maximum(traces, 1e-30)
    weights = np.minimum(1.0, np.minimum(by_score, by_slope))[:, None, None]
    slope, variance = _summed(designs, weights * slopes), _summed(designs, weights**2 * variances)
    return Sums(times * slope, times * variance, information)


def _law(regression: Regression, predictors: Floats, shapes: Floats, cut: float) -> Law:
    """Return the law of scores by the predictors and the free shapes."""
    law, outputs = regression.scores.under_model(predictors, shapes, cut), regression.num_outputs
    kept = [*range(outputs), *(outputs + place for place in regression.free)]
    bounds = None if law.bounds is None else law.bounds[kept]
    return Law(law.probabilities, law.scores[:, kept], law.bounded[:, kept], bounds)


def _alike(predictors: Floats) -> list[NDArray[np.int_]]:
    """Return rows in parts with about the same predictor; each alone where a row has several."""
    if predictors.shape[1] > 1:
        return [np.array([place]) for place in range(len(predictors))]
    return [np.asarray(part) for part in np.array_split(np.argsort(predictors[:, 0]), LAWS)]


def _summed(designs: Floats, parts: Floats) -> Floats:
    """Return the sum over rows of what they tell of their arguments, as one of the parameters."""
    wide = designs.reshape(-1, designs.shape[2])
    return wide.T @ (parts @ designs).reshape(wide.shape)


def _designs(regression: Regression, rows: Floats) -> Floats:
    """Return how the arguments of each row move with the parameters: (rows, arguments, parameters)."""
    outputs, first, own = regression.num_outputs, regression.num_linear, regression.num_of_scale
    designs = np.zeros((len(rows), outputs + len(regression.free), regression.dimension))
    for output in range(outputs):
        designs[:, output, output:first:outputs] = rows
    designs[:, outputs : outputs + (own > 0), first : first + own] = rows[
        :, None, list(regression.model.coordinates.scale_places)
    ]
    others = np.arange(first + own, regression.dimension)
    designs[:, outputs + (own > 0) + np.arange(len(others)), others] = 1.0
    return designs
