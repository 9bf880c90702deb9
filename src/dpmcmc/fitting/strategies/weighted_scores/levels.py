"""Change of the records' information with the point: for usual records, and separately for each level of a category.

If an outcome is rare in one level, the information of that level's records falls by a factor of e when its predictor
falls by one, while that of usual records hardly changes. A common factor would overstate the information on the level.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SPREAD = ((-(3.0**0.5), 1 / 6), (0.0, 2 / 3), (3.0**0.5, 1 / 6))
"""Nodes of a Gauss-Hermite quadrature over predictors, in standard deviations, with their weights."""

EVEN = np.linspace(-3.0, 3.0, 49)
MANY = tuple(zip(EVEN.tolist(), (np.exp(-(EVEN**2) / 2) / np.exp(-(EVEN**2) / 2).sum()).tolist(), strict=True))
"""Many even ones, for what jumps with the predictor."""

HARDLY = 0.5
"""Relative uncertainty of its count above which a group is assumed to have no rows."""

THERE = 4.5
"""How many standard deviations of their noise the count and the slope of a level come to, together, if it has rows."""

RARE, WIDE = 0.2, 1.5
"""A level is treated separately if its information is below this fraction of a usual record's; none is if the outcome
is rare everywhere, or if other columns move predictors by more than this, as with separated classes."""

SKEWED = 0.2
"""Change of the log-information over one standard deviation above which a normal approximation is inadequate."""

LEVEL_CHANGE = 16.0
"""Largest factor by which the information on a level may change relative to that of a usual record."""


Nodes = Sequence[tuple[float, float]]


def some_predictors(
    regression: Regression, point: Floats, moments: Moments, nodes: Nodes = SPREAD
) -> list[tuple[Floats, float]]:
    """Return quadrature nodes of the records' predictors, with their weights."""
    linear = point[: regression.num_linear].reshape(regression.num_columns, -1)
    return around(moments.means @ linear, moments.sds**2 @ linear**2, moments, nodes)


def around(middle: Floats, variance: Floats, moments: Moments, nodes: Nodes = SPREAD) -> list[tuple[Floats, float]]:
    """Return predictors with their weights, given mean and variance of the columns' contribution to the offset."""
    spread = np.sqrt(variance + moments.offset_sd**2)
    return [(middle + moments.offset_mean + step * spread, weight) for step, weight in nodes]


def changes(regression: Regression, before: Floats, point: Floats, moments: Moments, usual: float) -> Floats:
    """Return the ratio of the information at a point to that at an earlier one, for each parameter.

    Args:
        regression: the model.
        before: the earlier point.
        point: the point.
        moments: the moments of the columns.
        usual: the ratio for a usual record.
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
    """Return the levels whose information differs much between the two ends of their interval.

    A normal approximation is then inadequate, for instance for an outcome that is rare in a level and may be rarer
    still.
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
    """Return the levels whose records have far less information than usual ones; none if other columns dominate."""
    usual, found = known_of(regression, point, some_predictors(regression, point, moments)), list[int]()
    for column in levels(regression, moments):
        middle, variance = _of_level(regression, point, moments, column)
        is_narrow = float(np.max(variance)) <= WIDE**2
        if is_narrow and known_of(regression, point, around(middle, variance, moments)) < RARE * usual:
            found.append(column)
    return found


def levels(regression: Regression, moments: Moments) -> list[int]:
    """Return the columns of categories and booleans: not numbers, and not the intercept."""
    always = {place for place in range(regression.num_columns) if moments.sds[place] == 0}
    return [place for place, spread in enumerate(moments.numbers) if spread is None and place not in always]


def without_rows(regression: Regression, moments: Moments) -> list[int]:
    """Return the parameters of groups whose count is within its noise, so that they may have no rows."""
    first, outputs = len(regression.model.coordinates.names), regression.num_outputs
    columns = [column for column in range(first, regression.num_columns) if moments.doubts[column] > HARDLY]
    return [column * outputs + output for column in columns for output in range(outputs)]


def without_hardly_seen(
    regression: Regression, moments: Moments, asked: Sequence[Release], release: Release
) -> Release:
    """Return a release without information on levels that neither their count nor their slope shows to have rows.

    Slopes are those that were released, before averaging with earlier estimates: in a direction without information
    the average may pick up a little of neighbouring directions that have fifty times as much.

    Args:
        regression: the model.
        moments: the moments of the columns.
        asked: the last releases, unchanged.
        release: the release combined from them.
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
    """Return the information of a record on its predictors."""
    shapes, size = regression.shapes(np, point), regression.num_outputs
    each = [weight * np.trace(regression.scores.information(one, shapes)[:size, :size]) for one, weight in predictors]
    return max(float(np.sum(each)), 1e-30)
