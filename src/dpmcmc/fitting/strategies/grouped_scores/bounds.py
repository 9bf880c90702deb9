"""How long scores and slopes may be, of groups and in common, and where they are cut."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior
from dpmcmc.fitting.strategies.grouped_scores.release import Radii
from dpmcmc.fitting.strategies.weighted_scores.bounds import BOUNDS, MISFIT
from dpmcmc.fitting.strategies.weighted_scores.histograms import EVEN
from dpmcmc.fitting.strategies.weighted_scores.levels import MANY, around
from dpmcmc.fitting.strategies.weighted_scores.newton import usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.law import Law

PILOT_BOUND, UNCUT = 1.0, 20.0
"""Where scores are cut off in the pilot, in their standard deviations, and a cut that cuts nothing."""

SLOPES = 4.0
"""The radius of slopes in those of usual records."""

TIMES = 1.12 ** np.arange(-8.0, 9.0)
"""Radii of scores to choose from, in lengths of those of usual records."""

NODES = 12
"""Sizes of groups at which the lengths of scores are computed; between them they are interpolated."""

OF_GROUPS = 0.7
"""The share of a slope's length that groups have."""


class Usual(NamedTuple):
    """How much of a usual record's information is its group's, and how much the common parameters have."""

    groups: float
    """Groups that are not known from others, over the number of records."""
    common: float
    linear: float
    """Of which the coefficients have this."""
    one: float
    """What one common parameter has."""
    each: Floats
    """A record's in each group, beside the mean over records."""


def usual(known: Known, point: Point, prior: Prior) -> Usual:
    """Return how informative records are in coordinates that what is known makes round."""
    own = known.per_record(point, PILOT_BOUND)[:, None, None] * known.numbers
    of_groups = np.trace(np.linalg.solve(own + prior.block, own), axis1=1, axis2=2)
    number, told = float(known.rows.sum()), known.grouped.told
    linear = int(np.sum(told < known.grouped.common.num_linear))
    mean = max(float(of_groups.sum()) / number, 1e-12)
    return Usual(mean, len(told) / number, linear / number, 1 / number, of_groups / known.rows / mean)


def law_at(known: Known, point: Point, bound: float) -> Law:
    """Return the law of the scores of a usual record, cut there."""
    shapes = known.grouped.common.shapes(np, point.common)
    return known.grouped.scores.under_model(np.array([middle_of(known, point)]), shapes, bound)


class Lengths(NamedTuple):
    """How long scores are at radii of one, and what these are of the information of groups and of common parameters."""

    usual: float
    each: Floats
    """Of records of each group."""
    units: tuple[float, float]


def lengths_of(grouped: Grouped, found: Usual, pilot: Law, law: Law) -> Lengths:
    """Return how long scores are.

    Args:
        grouped: the model.
        found: how informative records are.
        pilot: the law of their scores, cut as in the pilot, which coordinates go by.
        law: the same as they are to be cut.
    """
    common = max(found.common, 1e-12)
    share = np.sqrt(found.groups) / (np.sqrt(found.groups) + np.sqrt(common))
    of_groups, of_common = found.groups / share, common / (1 - share)
    steep = np.maximum(np.diag(pilot.slope), 1e-30)
    nodes = np.geomspace(max(float(found.each.min()), 1e-6), max(float(found.each.max()), 1.0) + 1e-6, NODES)
    nodes = np.append(nodes, 1.0)
    grams = np.zeros((len(nodes), len(steep), len(steep)))
    grams[:, 0, 0] = (found.groups * nodes / of_groups + found.linear / of_common) / steep[0]
    for place in grouped.common.free:
        grams[:, 1 + place, 1 + place] = found.one / of_common / steep[1 + place]
    longest = law.longest(grams)
    each = np.interp(np.log(np.maximum(found.each, nodes[0])), np.log(nodes[:-1]), longest[:-1])
    return Lengths(float(longest[-1]), each, (float(np.sqrt(of_groups)), float(np.sqrt(of_common))))


def radii(found: Usual, lengths: Lengths, bound: float, times: float, slopes: float) -> Radii:
    """Return radii that are so many times as long as the scores of usual records, of slopes too."""
    unit = times * lengths.usual
    traces = OF_GROUPS * found.each + (1 - OF_GROUPS)
    weights = np.minimum(1.0, np.minimum(unit / lengths.each, slopes / traces))
    of_slopes = slopes * found.groups / OF_GROUPS, slopes * max(found.common, 1e-12) / (1 - OF_GROUPS)
    return Radii(bound, (unit * lengths.units[0], unit * lengths.units[1]), of_slopes, weights)


def middle_of(known: Known, point: Point) -> float:
    """Return the predictor of a usual record."""
    return float(usual_predictors(known.grouped.common, point.common, known.moments)[0])


def expected_bins(known: Known, point: Point, table: Floats) -> Floats:
    """Return how probable the bins of residuals are, on average over the records: their columns, and their groups."""
    common, moments, share = known.grouped.common, known.moments, known.rows / known.rows.sum()
    linear = point.common[: common.num_linear].reshape(common.num_columns, -1)
    mean = share @ point.effects
    of_groups = share @ (point.effects - mean) ** 2
    of_groups[1:] *= EVEN**2  # slopes, by as much as numbers vary
    variance = moments.sds**2 @ linear**2 + of_groups.sum()
    shapes = common.shapes(np, point.common)
    each = around(moments.means @ linear + mean[0], variance, moments, MANY)
    return np.sum([weight * known.grouped.scores.bins_at(one, shapes, table) for one, weight in each], axis=0)


def best_radii(known: Known, point: Point, prior: Prior, noise: float, cuts: Sequence[float] = BOUNDS) -> Radii:
    """Return the radii and the cut with which effects and common parameters have the least variance together.

    Args:
        known: of the slope.
        point: where the pilot ended.
        prior: there.
        noise: the standard deviation of the noise of scores at radius one.
        cuts: to choose from.
    """
    grouped, found = known.grouped, usual(known, point, prior)
    pilot, uncut = (law_at(known, point, bound) for bound in (PILOT_BOUND, UNCUT))
    own = known.per_record(point, PILOT_BOUND) * np.trace(known.numbers, axis1=1, axis2=2) / grouped.size
    spread = float(np.mean(prior.spreads**-2.0))
    choices: list[tuple[float, Radii]] = []
    for bound in cuts:
        law = law_at(known, point, bound)
        steep, varied = (float(part[0, 0] / pilot.slope[0, 0]) for part in (law.slope, law.variance))
        lost = 1 - float(law.slope[0, 0] / uncut.slope[0, 0])
        lengths = lengths_of(grouped, found, pilot, law)
        for times in TIMES:
            one = radii(found, lengths, bound, times, max(SLOPES, 1.5 * times))
            told = (one.weights * steep * own) ** 2
            of_noise = (noise * one.scores[0]) ** 2 * (own + spread)
            variances = 1 / (told / (one.weights**2 * varied * own + of_noise) + spread)
            mean = float(one.weights @ own / own.sum())
            common = (mean**2 * varied + (noise * one.scores[1]) ** 2) / (mean * steep) ** 2
            misfit = MISFIT**2 * (lost + 1 - mean) ** 2 / (found.groups * len(own) * grouped.size)
            score = float(np.mean(np.log(variances * (1 + misfit)))) + float(np.log(common + misfit))
            choices.append((score, one))
    return min(choices, key=lambda each: each[0])[1]
