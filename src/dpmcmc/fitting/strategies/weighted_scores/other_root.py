"""Tests whether scores with other bounds have the same root, as they do for all bounds if the model holds.

At the result scores are queried once more, cut and weighted as in the pilot: such short scores have little noise. If a
term is missing, or if the spread or the skewness of the residuals changes with the predictors, the two roots differ,
and the likelihood's root differs from the result in the other direction.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from dpmcmc.enclave import Session
from dpmcmc.fitting.strategies.weighted_scores import rescaled
from dpmcmc.fitting.strategies.weighted_scores.bounds import Bounds
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND, Steps
from dpmcmc.fitting.strategies.weighted_scores.questions import Questions
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SEEN = 2.0
"""Directions are looked at in which the slope of the result is above so many noise levels."""

LEAST_LOST = 0.05
"""The least variance that other bounds are taken to add, beside that of a posterior without privacy."""


EARLIER = 0.2
"""The share of the false alarms that an earlier look has."""


def tighter(
    questions: Questions, paid: Session, moments: Moments, point: Floats, result: Release, last: Release
) -> Release:
    """Query scores at the result with the bounds of the pilot; return them rescaled to all rows.

    Args:
        questions: the queries of the fit.
        paid: the session that executes them.
        moments: the moments of the columns.
        point: the result.
        result: the last releases, in whose coordinates it is.
        last: the last release of the pilot, with the slope.
    """
    rows, shares = questions.schedule.refinement, questions.split.other
    few, program = rescaled.moments_of(moments, rows.share), rows.of(questions.other)
    steps = Steps(questions.regression, few, lambda asked: paid.run(program, asked), shares)
    whitening = rescaled.whitening_of(result.whitening, rows.share)
    release = steps.release(point, whitening, PILOT_BOUND, steps.radius, 2 * steps.unit**2)
    release = steps.pooled(release, rescaled.release_of(last, rows.share))
    return rescaled.release_of(release, 1 / rows.share)


class OtherRoot(NamedTuple):
    """The root of scores with other bounds beside that of the result."""

    p_value: float
    """p-value of their distance under the model."""
    apart: Floats
    """How far apart they are, in the parameters."""
    covariance: Floats
    """Of that, were the model to hold."""

    def at_most(self, jacobian: Floats) -> float:
        """Return an upper limit, by two standard deviations, of the difference in a number with this Jacobian.

        Unknown if no such scores were queried.
        """
        if not len(self.apart):
            return float("inf")
        sd = np.sqrt(max(float(np.sum(jacobian @ self.covariance * jacobian)), 0.0))
        return float(np.abs(np.sum(jacobian * self.apart)) + 2 * sd)

    def beside(self, earlier: "OtherRoot") -> "OtherRoot":
        """Return it with the less probable of two looks, the earlier of which has a fifth of the false alarms."""
        return self._replace(p_value=min(1.0, self.p_value / (1 - EARLIER), earlier.p_value / EARLIER))


NO_OTHER = OtherRoot(1.0, np.zeros(0), np.zeros((0, 0)))
"""Where none was asked for."""


def other_root(
    joined: Joined, others: Sequence[Release], bounds: Bounds, size: float, unasked: float = 0.0, times: float = 1.0
) -> OtherRoot:
    """Return the distance of the root of other scores from that of the result.

    Args:
        joined: the last releases.
        others: releases with other bounds: some of the pilot, and the last one, at the result.
        bounds: the bounds of the last releases.
        size: the number of records.
        unasked: the number of records not queried with other bounds, per record that was.
        times: the number of records per record that was queried at all.
    """
    last = joined.release
    values, vectors = np.linalg.eigh(last.slope)
    seen = vectors[:, values > SEEN * last.noise_levels(vectors)]
    if not seen.shape[1]:
        return OtherRoot(1.0, np.zeros(len(values)), np.zeros((len(values), len(values))))
    gain = np.linalg.inv(seen.T @ last.slope @ seen) @ seen.T
    root = last.point + last.whitening.factor @ seen @ gain @ last.score
    each = [_apart(seen.T @ last.whitening.inverse, one.floored(), root, size) for one in others]
    weights = 1 / np.array([np.trace(noise) for _, noise, _ in each])
    weights = weights / weights.sum()
    apart = np.sum([weight * one[0] for weight, one in zip(weights, each, strict=True)], axis=0)
    noise = np.sum([weight**2 * one[1] for weight, one in zip(weights, each, strict=True)], axis=0)
    exact = np.asarray(np.linalg.inv(seen.T @ last.full_information(bounds.inefficiency) @ seen), np.float64)
    lost = _at_least((1 + unasked) * each[-1][2] - (2 - bounds.inefficiency) * exact, LEAST_LOST * exact)
    covariance = times * lost + noise + last.score_variance * gain @ gain.T
    together = special.chdtrc(len(apart), max(float(apart @ np.linalg.solve(covariance, apart)), 0.0))
    factor = last.whitening.factor @ seen
    of_each, variances = factor @ apart, factor @ covariance @ factor.T
    one_by_one = (
        2 * len(apart) * special.ndtr(-np.max(np.abs(of_each) / np.sqrt(np.maximum(np.diag(variances), 1e-30))))
    )
    return OtherRoot(float(min(1.0, 2 * min(together, one_by_one))), of_each, variances)


def _apart(inverse: Floats, one: Release, root: Floats, size: float) -> tuple[Floats, Floats, Floats]:
    """Return how far the root of one release is from another, the variance of its noise, and that of its records.

    Answers are linear up to about the square of a move.
    """
    steep = np.linalg.pinv(one.slope, rcond=1e-9, hermitian=True)  # it is zero where no data can see
    turn, move = inverse @ one.whitening.factor @ steep, one.whitening.inverse @ (root - one.point)
    squared = float(move @ move)
    noise = (one.score_variance + one.slope_sd**2 * squared) * turn @ turn.T + squared**2 / size * np.eye(len(turn))
    return turn @ (one.score - one.slope @ move), noise, turn @ one.data_variance(one.slope) @ turn.T


def _at_least(matrix: Floats, least: Floats) -> Floats:
    """Return a matrix that is not smaller than another in any direction."""
    values, vectors = np.linalg.eigh((matrix - least + (matrix - least).T) / 2)
    return np.asarray(least + (vectors * np.maximum(values, 0.0)) @ vectors.T, np.float64)
