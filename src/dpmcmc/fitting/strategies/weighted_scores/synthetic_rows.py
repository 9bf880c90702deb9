"""Synthetic rows with the released histograms of columns, and their information: on the host, without records."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.synthetic_records import is_shared, joint_rows
from dpmcmc.model.bounded_scores.law import Law

ROWS, ROWS_EACH = 1000, 10
"""How many synthetic rows there are, and for each parameter at least."""

LAWS = 25
"""For so many predictors the distribution of the responses is found, where a record has one predictor."""

RIDGE = 1e-6
"""Ridge added to an information matrix, relative to its largest entry, for directions without information."""


class Bounded(NamedTuple):
    """How scores are bounded."""

    cut: float
    radius: float
    slope_radius: float


class Sums(NamedTuple):
    """Total information of rows on the parameters."""

    slope: Floats
    variance: Floats
    information: Floats


def synthetic_rows(regression: Regression, moments: Moments) -> Floats:
    """Return rows whose columns have the histograms that were released.

    They have nothing to do with each other unless they are made of the same column of the table.
    """
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
    if is_shared(regression):
        made = joint_rows(regression, moments, number, rng)
        rows[:, : made.shape[1]] = made
    return rows


def synthetic_offsets(moments: Moments, number: int) -> Floats:
    """Return so many offsets, which have nothing to do with the columns."""
    ranks = (np.random.default_rng(1).permutation(number) + 0.5) / number
    return np.zeros(number) if moments.offsets is None else moments.offsets.quantiles(ranks)


class Rows:
    """Rows at a point, and the information of each on the parameters."""

    def __init__(self, regression: Regression, point: Floats, cut: float, rows: Floats, offsets: Floats) -> None:
        predictors = rows @ point[: regression.num_linear].reshape(regression.num_columns, -1) + offsets[:, None]
        shapes = regression.shapes(np, point)
        self._parts = _alike(predictors)
        self._laws = [_law(regression, predictors[part].mean(axis=0), shapes, cut) for part in self._parts]
        self._which = np.empty(len(rows), int)
        for place, part in enumerate(self._parts):
            self._which[part] = place
        self._designs = _designs(regression, rows)

    def information(self, numbers: Floats) -> Floats:
        """Return the information of the rows, each with a multiplicity."""
        return self._sum(numbers, "information")

    def sums(self, numbers: Floats, factor: Floats, bounded: Bounded) -> Sums:
        """Return the sums over rows with multiplicities, with scores bounded in coordinates with a factor."""
        weights = self._weights(factor, bounded)
        slope, variance = self._sum(numbers * weights, "slope"), self._sum(numbers * weights**2, "variance")
        return Sums(slope, variance, self.information(numbers))

    def _weights(self, factor: Floats, bounded: Bounded) -> Floats:
        moves = self._designs @ factor
        grams = moves @ moves.transpose(0, 2, 1)
        longest = np.empty(len(grams))
        for part, law in zip(self._parts, self._laws, strict=True):
            longest[part] = law.longest(grams[part])
        traces = np.sum(self._each("slope") * grams, axis=(1, 2))
        by_slope = bounded.slope_radius / np.maximum(traces, 1e-30)
        return np.minimum(1.0, np.minimum(bounded.radius / np.maximum(longest, 1e-30), by_slope))

    def _sum(self, numbers: Floats, name: str) -> Floats:
        wide = self._designs.reshape(-1, self._designs.shape[2])
        told = (numbers[:, None, None] * self._each(name)) @ self._designs
        return wide.T @ told.reshape(wide.shape)

    def _each(self, name: str) -> Floats:
        return np.stack([getattr(law, name) for law in self._laws])[self._which]


def _law(regression: Regression, predictors: Floats, shapes: Floats, cut: float) -> Law:
    """Return the distribution of scores by the predictors and the free shapes."""
    law, outputs = regression.scores.under_model(predictors, shapes, cut), regression.num_outputs
    kept = [*range(outputs), *(outputs + place for place in regression.free)]
    bounds = None if law.bounds is None else law.bounds[kept]
    return Law(law.probabilities, law.scores[:, kept], law.bounded[:, kept], bounds)


def _alike(predictors: Floats) -> list[NDArray[np.int_]]:
    """Return rows in parts with about the same predictor; each alone where a row has several."""
    if predictors.shape[1] > 1:
        return [np.array([place]) for place in range(len(predictors))]
    return [np.asarray(part) for part in np.array_split(np.argsort(predictors[:, 0]), min(LAWS, len(predictors)))]


def _designs(regression: Regression, rows: Floats) -> Floats:
    """Return how the arguments of each row move with the parameters: (rows, arguments, parameters)."""
    outputs, first, own = regression.num_outputs, regression.num_linear, regression.num_of_scale
    designs = np.zeros((len(rows), outputs + len(regression.free), regression.dimension))
    for output in range(outputs):
        designs[:, output, output:first:outputs] = rows
    places = list(regression.model.coordinates.scale_places)
    designs[:, outputs : outputs + (own > 0), first : first + own] = rows[:, None, places]
    others = np.arange(first + own, regression.dimension)
    designs[:, outputs + (own > 0) + np.arange(len(others)), others] = 1.0
    return designs
