"""How what records know changes with the point: usual records, and those of each level of a category by themselves.

Where an outcome is rare in one level, the records of that level know e times less of it when its predictor falls by
one, and a usual record as much as before. One number for all would take the level to be known far better than it is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SPREAD = ((-(3.0**0.5), 1 / 6), (0.0, 2 / 3), (3.0**0.5, 1 / 6))
"""Predictors for which a mean over them stands, in standard deviations, with their weights: Gauss and Hermite's."""

HARDLY = 0.5
"""From so large a doubt of its count on, beside itself, a group is taken to have no rows."""

THERE = 4.5
"""How many standard deviations of their noise the count and the slope of a level come to, together, if it has rows."""

RARE, WIDE = 0.2, 1.5
"""Below so many times what a usual record knows a level is one by itself: none is where an outcome is rare everywhere,
or where other columns move predictors by more standard deviations than that, as those of separated classes do."""

SKEWED = 0.2
"""By which power of e more or less is known one standard deviation away from which on a normal law does not do."""

LEVEL_CHANGE = 16.0
"""By how much more or less a level may come to be known than a usual record does."""


def some_predictors(regression: Regression, point: Floats, moments: Moments) -> list[tuple[Floats, float]]:
    """Return predictors of records for which a mean stands, with their weights."""
    linear = point[: regression.num_linear].reshape(regression.num_columns, -1)
    return around(moments.means @ linear, moments.sds**2 @ linear**2, moments)


def around(middle: Floats, variance: Floats, moments: Moments) -> list[tuple[Floats, float]]:
    """Return predictors with their weights, given mean and variance of what columns add to the offset."""
    spread = np.sqrt(variance + moments.offset_sd**2)
    return [(middle + moments.offset_mean + step * spread, weight) for step, weight in SPREAD]


def changes(regression: Regression, before: Floats, point: Floats, moments: Moments, usual: float) -> Floats:
    """Return by how much more is known at a point than at one before, for each parameter.

    Args:
        regression: the model.
        before: the one point.
        point: the other.
        moments: of the columns.
        usual: by how much more a usual record knows.
    """
    found, outputs = np.full(regression.dimension, usual), regression.num_outputs
    for column in rare_levels(regression, point, moments):
        there, here = (
            known_of(regression, each, around(*_of_level(regression, each, moments, column), moments))
            for each in (before, point)
        )
        own = here / there if np.isfinite(here / there) else usual
        of_level = np.clip(own, usual / LEVEL_CHANGE, usual * LEVEL_CHANGE)
        found[column * outputs : (column + 1) * outputs] = of_level
    return found


def skewed(regression: Regression, moments: Moments, vectors: Floats) -> tuple[str, ...]:
    """Return the levels whose records know much more at one end of their interval than at the other.

    A normal law is then not what their scores tell: of an outcome that is rare in a level, say, which may be rarer yet.
    """
    if regression.num_outputs > 1:
        return ()
    coordinates, mean = regression.model.coordinates, vectors.mean(axis=0)
    labels = [label for name in coordinates.names for label in coordinates.labels(name)]
    labels += [f"{name}[{level}]" for name, (groups, _) in coordinates.groups.items() for level in groups.levels]
    linear, found = vectors[:, : regression.num_linear], []
    for column in rare_levels(regression, mean, moments):
        predictors = linear @ moments.rows[column]
        ends = predictors.mean() - predictors.std(), predictors.mean() + predictors.std()
        low, high = (known_of(regression, mean, around(np.array([end]), np.zeros(1), moments)) for end in ends)
        if abs(np.log(high / low)) / 2 > SKEWED:
            found.append(labels[column])
    return tuple(found)


def rare_levels(regression: Regression, point: Floats, moments: Moments) -> list[int]:
    """Return the levels whose records know far less than usual ones do; none where others move predictors far."""
    usual, found = known_of(regression, point, some_predictors(regression, point, moments)), list[int]()
    for column in levels(regression, moments):
        middle, variance = _of_level(regression, point, moments, column)
        is_narrow = float(np.max(variance)) <= WIDE**2
        if is_narrow and known_of(regression, point, around(middle, variance, moments)) < RARE * usual:
            found.append(column)
    return found


def levels(regression: Regression, moments: Moments) -> list[int]:
    """Return the columns that are levels of a category, or yes and no: not numbers, and not the intercept."""
    always = {place for place in range(regression.num_columns) if moments.sds[place] == 0}
    return [place for place, spread in enumerate(moments.numbers) if spread is None and place not in always]


def without_rows(regression: Regression, moments: Moments) -> list[int]:
    """Return the parameters of groups whose count is within its noise: there may be no row of them."""
    first, outputs = len(regression.model.coordinates.names), regression.num_outputs
    columns = [column for column in range(first, regression.num_columns) if moments.doubts[column] > HARDLY]
    return [column * outputs + output for column in columns for output in range(outputs)]


def without_hardly_seen(
    regression: Regression, moments: Moments, asked: Sequence[Release], release: Release
) -> Release:
    """Return a release that says nothing of levels which neither their count nor their slope shows to have rows.

    Slopes are those that were released, before anything else that is known is averaged in: of a direction in which
    nothing is known that may tell a little of those beside it, in which records know fifty times as much.

    Args:
        regression: the model.
        moments: what is known of the columns.
        asked: the last releases as they came.
        release: what is made of them.
    """
    ways: list[Floats] = []
    for place in _fixed_places(regression, moments):
        slopes: list[float] = []
        for each in asked:
            way = each.whitening.inverse[:, place]
            slopes.append(float(way @ each.slope @ way) / max(each.slope_sd * float(way @ way), 1e-30))
        counted = 1 / max(float(moments.doubts[place // regression.num_outputs]), 1e-30)
        if float(np.sum(slopes)) / np.sqrt(len(slopes)) + counted < THERE:
            ways.append(release.whitening.inverse[:, place])
    return release.blind_to(np.stack(ways, axis=1)) if ways else release


def _fixed_places(regression: Regression, moments: Moments) -> NDArray[np.int_]:
    """Return the parameters of levels but for those of groups."""
    columns, outputs = levels(regression, moments), regression.num_outputs
    places = np.array([column * outputs + output for column in columns for output in range(outputs)], int)
    return places[places < len(regression.model.coordinates.names) * outputs]


def _of_level(regression: Regression, point: Floats, moments: Moments, column: int) -> tuple[Floats, Floats]:
    """Return mean and variance of what columns add to the offset of records of a level."""
    linear = point[: regression.num_linear].reshape(regression.num_columns, -1)
    others = np.where(regression.blocks == regression.blocks[column], 0.0, moments.sds)
    return moments.rows[column] @ linear, others**2 @ linear**2


def known_of(regression: Regression, point: Floats, predictors: list[tuple[Floats, float]]) -> float:
    """Return how much records know of their predictors."""
    shapes, size = regression.shapes(np, point), regression.num_outputs
    each = [weight * np.trace(regression.scores.information(one, shapes)[:size, :size]) for one, weight in predictors]
    return max(float(np.sum(each)), 1e-30)
