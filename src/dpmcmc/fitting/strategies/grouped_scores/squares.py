"""What scores tell beside a straight line: the effects of groups are so far off where they are asked that it counts.

At a point that is off by d in a group's predictors the mean score is not linear in d. The scale of the residuals seems
larger by what the effects are off, say, and bounded scores of groups that are far off say less than in proportion. How
far d is off is known from the posterior; the mean score is that under the law of the responses there, which is that at
the point times exp(d l'), with l' the score of the likelihood, but for a constant. A series in d would do where d is
small, and be anything where noise has thrown a group far off; this curve is level there, as bounded scores are.
"""

from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.bent import LONGEST_IN_SDS, tilted
from dpmcmc.fitting.strategies.grouped_scores.known import NODES, Known
from dpmcmc.fitting.strategies.grouped_scores.prior import Point
from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.levels import SPREAD
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.one_row import OneRow

PLACES = 41
"""How many distances the curve is computed at; between them it is interpolated."""

Beside = tuple[Floats, Floats]
"""What is beside a straight line in the scores of groups (groups, size), and in common ones (told)."""


def beside_a_line(known: Known, release: Release, means: Floats, sds: Floats) -> Beside:
    """Return what scores of a release have beside what is linear in how far groups are off.

    Args:
        known: of the columns.
        release: scores at a point.
        means: how far the predictors of each group are off there, and
        sds: how uncertain that is, together with how much it differs between its records.
    """
    grouped, told = known.grouped, known.grouped.told
    more, grows = _curves(known, release.point, release.radii.bound, means, sds)
    numbers = np.trace(known.numbers, axis1=1, axis2=2) / grouped.size
    times = numbers * release.radii.weights
    score, common = np.zeros_like(release.score), np.zeros_like(release.common_score)
    for place in grouped.of_intercept:
        score[:, place] = times * more[:, 0]
    linear = np.flatnonzero(told < grouped.common.num_linear)
    common[linear] = float(times @ grows) * known.along(release.point)
    for place, shape in enumerate(grouped.common.free):
        common[len(linear) + place] = float(times @ more[:, 1 + shape])
    return score, common


def without(release: Release, beside: Beside, times: float = 1.0) -> Release:
    """Return a release without so many times what its scores have beside a line."""
    score, common = beside
    return replace(release, score=release.score - times * score, common_score=release.common_score - times * common)


def _curves(known: Known, point: Point, bound: float, means: Floats, sds: Floats) -> tuple[Floats, Floats]:
    """Return what mean scores are beside a line, by groups and arguments, and how the first grows with predictors."""
    scores, shapes = known.grouped.scores, known.grouped.common.shapes(np, point.common)
    predictors = known.predictors(point)
    nodes = np.linspace(predictors.min() - 0.1, predictors.max() + 0.1, 2 if isinstance(scores, OneRow) else NODES)
    steps, shares = np.array(SPREAD).T
    off = means[:, None] + sds[:, None] * steps
    found: list[Floats] = []
    for node in nodes:
        law = scores.under_model(np.array([node]), shapes, bound)
        own = law.scores[:, 0]
        most = LONGEST_IN_SDS / np.sqrt(max(float(law.probabilities @ own**2), 1e-12))
        away = np.linspace(-most, most, PLACES)
        line = (law.probabilities * own) @ law.bounded
        beside = tilted(law, away) - law.probabilities @ law.bounded - away[:, None] * line
        clipped = np.clip(off, -most, most)
        found.append(np.stack([np.interp(clipped, away, column) @ shares for column in beside.T], axis=1))
    each = np.array(found)
    places = np.clip((predictors - nodes[0]) / (nodes[1] - nodes[0]), 0.0, len(nodes) - 1.0)
    grows = np.gradient(each[:, :, 0], nodes, axis=0)
    return _between(each, places), _between(grows[:, :, None], places)[:, 0]


def _between(each: Floats, places: Floats) -> Floats:
    """Return values (nodes, groups, arguments) between the nodes, at the place of each group."""
    first = np.minimum(places.astype(int), len(each) - 2)
    share = (places - first)[:, None]
    groups = np.arange(len(places))
    return (1 - share) * each[first, groups] + share * each[first + 1, groups]
