"""Private scoring steps of a regression with many groups, on the host."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.arrow import Vectors
from dpmcmc.fitting.strategies.grouped_scores.bent import straightened
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.posterior import told_by, usual_slope
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior, whole_means
from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.newton import (
    EARLY,
    LINEAR,
    LONGEST_MOVE,
    LONGEST_SHAPE_MOVE,
)
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, TabledScores
from dpmcmc.model.bounded_scores.one_row import OneRow


class Step(NamedTuple):
    """Where a step leads."""

    point: Point
    is_whole: bool
    """Whether it was as long as it wanted to be."""
    told: Floats
    """What the release told of each group's effects (groups, size, size)."""


def moved(known: Known, releases: Sequence[Release], prior: Prior, number: int, num_steps: int) -> Step:
    """Return where the last of some releases leads.

    Args:
        known: of the slope.
        releases: of which the last is at the point.
        prior: at the point.
        number: of the step.
        num_steps: how many there are; later ones average with those before.
    """
    grouped, last = known.grouped, releases[-1]
    means = whole_means(grouped, known.means)
    kept = releases[-max(1, (number + 1) // 2) :]
    told = told_by(grouped, known, kept, usual_slope(known, kept))
    precision = told.beside(prior.arrow(grouped.num_groups, means))
    move = precision.solve(told.tilt.plus(prior.tilt(last.point, means)))
    shortened = _trusted(known, move)
    is_whole = bool(np.allclose(move.common, shortened.common))
    shortened = _straight(known, last, shortened)
    shaped = _shaped(known, last, shortened, number < EARLY * num_steps) if num_steps > 1 else shortened
    return Step(last.point.moved(shaped, means), is_whole, told.told.blocks)


def next_spreads(grouped: Grouped, step: Step, spreads: Floats) -> Floats:
    """Return standard deviations that explain the effects, with what is not known of them."""
    left = np.linalg.inv(step.told + np.diag(spreads**-2.0))
    squares = np.mean(step.point.effects**2 + np.diagonal(left, axis1=1, axis2=2), axis=0)
    found = spreads.copy()
    for place, group in enumerate(grouped.spreads):
        if group.prior.fixed is None:
            low, high = (group.prior.quantile(probability) for probability in (0.01, 0.99))
            found[place] = float(np.clip(np.sqrt(squares[place]), low, high))
    return found


def _trusted(known: Known, move: Vectors) -> Vectors:
    """Return a move, shortened where it would go further than a linear answer holds."""
    common, moments = known.grouped.common, known.moments
    linear, told = move.common[: common.num_linear, 0], known.grouped.told
    own = np.zeros_like(linear)
    places = told[told < common.num_linear]
    own[places] = linear[places]
    shares = known.rows / known.rows.sum()
    square = float(moments.sds**2 @ own**2) + float(shares @ np.sum(move.groups[..., 0] ** 2, axis=1))
    first = common.num_linear + common.scores.has_threshold
    shapes = np.abs(move.common[first:, 0]).max(initial=0.0)
    times = min(1.0, 1 / max(np.sqrt(square) / LONGEST_MOVE, shapes / LONGEST_SHAPE_MOVE, 1e-12))
    return Vectors(times * move.groups, times * move.common)


def _straight(known: Known, last: Release, move: Vectors) -> Vectors:
    """Return a move with each group where its scores lead, which are not linear if it is far off."""
    if isinstance(known.grouped.scores, OneRow) or not known.grouped.of_intercept:
        return move
    place = known.grouped.of_intercept[0]
    groups, asked = move.groups.copy(), move.groups[:, place, 0]
    groups[:, place, 0] = straightened(known, last.point, last.radii.bound, asked)
    return Vectors(groups, move.common)


def _shaped(known: Known, release: Release, move: Vectors, is_early: bool) -> Vectors:
    """Return the move; a scale that is far off, and any at first, goes where its score's mean says, alone."""
    common, told = known.grouped.common, known.grouped.told
    if not isinstance(common.scores, TabledScores) or 0 not in common.free:
        return move
    place = int(np.flatnonzero(told == common.num_linear)[0])
    slope = float(release.slope.corner[place, place])
    if not slope > 0:
        return move
    shapes = common.shapes(np, release.point.common)
    step = common.scores.step_of_scale(shapes, release.radii.bound, float(release.common_score[place]) / slope)
    if step is None or not (is_early or abs(step) > LINEAR):
        return move
    changed = move.common.copy()
    changed[common.num_linear :, 0] = 0.0
    changed[common.num_linear, 0] = step
    return Vectors(move.groups, changed)
