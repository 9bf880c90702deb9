"""How far groups are off where their scores are far from linear: of a rate that is far too low, say, or beyond a cut.

At a point that is off by d the mean of bounded scores is their mean under the law of the responses there, which is that
at the point times exp(d l'), with l' the score of the likelihood, but for a constant: exactly so with canonical links.
"""

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, whole_means
from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.levels import SPREAD
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.law import Law
from dpmcmc.model.bounded_scores.one_row import OneRow

NODES, PLACES = 17, 61
"""Predictors at which the mean is computed, and how many distances from each; between them it is interpolated."""

LONGEST, LONGEST_IN_SDS = 1.5, 3.0
"""How far predictors of a group may be off for that to be read off scores, and the same in what a record tells."""

ALL_CUT, UNCUT = 0.85, 20.0
"""The share of the largest mean that scores can have from which on they are all cut, as far as is known; and a cut that
cuts nothing."""


def reach(known: Known, point: Point) -> Floats:
    """Return how far the predictors of each group may be off for its scores to tell how far."""
    return np.minimum(LONGEST, LONGEST_IN_SDS / np.sqrt(np.maximum(known.per_record(point, UNCUT), 1e-12)))


def tilted(law: Law, away: Floats) -> Floats:
    """Return mean bounded scores (distances, arguments) where predictors are so far from those of a law."""
    with np.errstate(divide="ignore"):  # responses that a law leaves no probability have none anywhere
        logs = np.log(law.probabilities) + away[:, None] * law.scores[:, 0]
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights @ law.bounded / weights.sum(axis=1, keepdims=True)


def straightened(known: Known, point: Point, bound: float, moves: Floats) -> Floats:
    """Return how far predictors of groups are off, given how far they would be were scores linear.

    Args:
        known: of the groups.
        point: where scores were asked.
        bound: at which they are cut.
        moves: where they lead, by groups.
    """
    spread = known.spread(point)
    steps, shares = np.array(SPREAD).T
    predictors = known.predictors(point)[:, None] + steps * spread
    nodes = np.linspace(predictors.min() - 1e-3, predictors.max() + 1e-3, NODES)
    if isinstance(known.grouped.scores, OneRow):  # it is the same for every predictor
        nodes = nodes[:1]
    shapes, away = known.grouped.common.shapes(np, point.common), np.linspace(-LONGEST, LONGEST, PLACES)
    means, slopes = np.zeros((len(nodes), PLACES)), np.zeros(len(nodes))
    for place, node in enumerate(nodes):
        law = known.grouped.scores.under_model(np.array([node]), shapes, bound)
        means[place] = tilted(law, away)[:, 0]
        slopes[place] = law.slope[0, 0]
    slope = np.interp(predictors, nodes, slopes) @ shares
    rows = np.stack([np.interp(predictors, nodes, column) @ shares for column in means.T], axis=1)
    rows = np.maximum.accumulate(rows / np.maximum(slope, 1e-30)[:, None], axis=1)
    found = np.array([np.interp(move, row, away) for move, row in zip(moves, rows, strict=True)])
    found = np.where((moves > ALL_CUT * rows[:, -1]) | (moves < ALL_CUT * rows[:, 0]), np.sign(moves) * LONGEST, found)
    most = reach(known, point)
    return np.clip(found, -most, most)


def bent(known: Known, release: Release, moved: Floats) -> Floats:
    """Return squares of how far scores of groups are from linear after a move, in the coordinates of a release.

    Args:
        known: of the groups.
        release: from whose point.
        moved: what records see of each group (groups, size).
    """
    if not known.grouped.of_intercept:
        return np.zeros(len(moved))
    place = known.grouped.of_intercept[0]
    off = straightened(known, release.point, release.radii.bound, moved[:, place]) - moved[:, place]
    return (off / np.maximum(np.abs(release.roots[:, place, place]), 1e-30)) ** 2


def still_off(known: Known, last: Release, effects: Floats, common: Floats) -> Floats:
    """Return by how many standard deviations of its own each group may be further off than the last scores tell.

    Args:
        known: of the groups.
        last: the last release.
        effects: draws of the effects.
        common: draws of what is common.
    """
    if not known.grouped.of_intercept:
        return np.zeros(known.grouped.num_groups)
    mean = Point(effects.mean(axis=0), common.mean(axis=0))
    moves = known.predictors(mean) - known.predictors(last.point)
    place = known.grouped.of_intercept[0]
    own = effects[:, :, place] + (common @ whole_means(known.grouped, known.means).T)[:, [place]]
    more = straightened(known, last.point, last.radii.bound, moves) - moves
    return np.abs(more) / np.maximum(own.std(axis=0), 1e-30)
