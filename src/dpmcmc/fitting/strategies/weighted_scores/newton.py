"""Private scoring steps on the host: from the start to the root of the estimating equation.

Near the root G, the released sum of scores at a public point, is about N(M (theta - point), V + N): M the slope, V the
variance of the sum given the predictors, N the noise. So every release gives a likelihood of theta that is normal, with
the precision M (V + N)^-1 M, and the next question is asked where it points, in coordinates whitened by what is known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS, SIDE, Answer, Asked
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, TabledScores
from dpmcmc.fitting.strategies.weighted_scores.spreads import Spreads
from dpmcmc.fitting.strategies.weighted_scores.whitening import Likelihood, Whitening, whiten

PILOT_BOUND = 1.0
"""Where scores are cut off in the pilot, in their standard deviations: noise counts there, and efficiency does not."""

LONGEST_MOVE, LONGEST_SHAPE_MOVE = 2.0, 1.0
"""How far a step may move the predictors, root mean square over the records, and the shape parameters."""

CARRIED = 0.5
"""How much of what earlier steps told is believed by the last one; by the first one nothing is."""

EARLY = 0.4
"""The share of the steps that are early ones."""

POOLED = 3
"""Of so many steps the score histograms are joined."""

SEEN = 3.0
"""Bins of less than so many standard deviations of their noise are not believed."""

LEAST_WEIGHT = 0.02
"""Mean weights below this are taken to be noise."""

UNEVEN, LEAST_UNEVEN = 0.3, 0.05
"""How much mean weights usually differ between coordinates, and how small they may be beside the mean."""

MOST_SCALE = 4.0
"""By how much the whole information may differ from what was known of it."""

DOUBT = 2.0
"""How large eigenvalues of what is not known of the information are in whitened coordinates, before any release."""

DRIFT, LEAST_DRIFT = 0.7, 0.1
"""By how much the information changes, so measured, where a step moves the predictors by one, and at least."""


Ask = Callable[[Asked], Answer]


@dataclass(frozen=True)
class Release:
    """One answer, in the coordinates in which it was asked."""

    point: Floats
    whitening: Whitening
    radius: float
    score: Floats
    score_variance: float
    slope: Floats
    slope_sd: float
    variance: float
    lengths: Floats
    lengths_sd: float
    roots: Floats
    """A root T of variance over slope, in the parameters: cut scores vary less than their slope says, T M T^T."""
    differences: Floats | None = None
    """The variance in each coordinate, less the mean over them, if it was asked for; its noise is that of lengths."""

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return len(self.point)

    @property
    def mean_weight(self) -> float:
        """The mean weight of a record, weighted by its information: about V over M."""
        least = self.slope_sd * self.dimension
        return float(np.clip(self.variance / max(np.trace(self.slope), least), LEAST_WEIGHT, 1.0))

    @property
    def noise_level(self) -> float:
        """How large an eigenvalue of the slope noise alone makes, about."""
        return self.slope_sd * float(np.sqrt(self.dimension))

    def likelihood(self, slope: Floats | None = None) -> Likelihood:
        """Return what it tells of the parameters; eigenvalues within their noise tell nothing."""
        seen = self.seen(self.slope if slope is None else slope)
        spread = self.data_variance(seen) + self.score_variance * np.eye(self.dimension)
        gain = np.linalg.solve(spread, seen).T
        return Likelihood((gain @ seen + (gain @ seen).T) / 2, gain @ self.score)

    def seen(self, slope: Floats) -> Floats:
        """Return a slope without directions that are within their noise."""
        values, vectors = np.linalg.eigh(slope)
        return (vectors * np.where(values > self.noise_level, values, 0.0)) @ vectors.T

    def data_variance(self, slope: Floats) -> Floats:
        """Return the variance of the sum of scores given the predictors, for a slope: its shape, and its trace."""
        shape, released = self._cut(slope), self._cut(self.slope)
        least = self.slope_sd * self.dimension
        share = np.clip(self.variance / max(float(np.trace(released)), least), LEAST_WEIGHT, 1.0)
        unevenness = np.sqrt(self.unevenness)
        return float(share) * unevenness[:, None] * shape * unevenness

    def _cut(self, slope: Floats) -> Floats:
        """Return the variance of scores that are cut as these are, but have no weights, for a slope."""
        turned = self.whitening.factor.T @ self.roots @ self.whitening.inverse.T
        return turned @ slope @ turned.T

    @property
    def unevenness(self) -> Floats:
        """The mean weight in each coordinate over that of all: less than one where predictors are skewed, say."""
        mean, slopes = self.variance / self.dimension, np.diag(self._cut(self.slope))
        is_seen = mean > self.lengths_sd and slopes.sum() > self.slope_sd * self.dimension
        if self.differences is None or not is_seen:
            return np.ones(self.dimension)
        believed = UNEVEN**2 / (UNEVEN**2 + (self.lengths_sd / mean) ** 2)
        expected = slopes / slopes.mean()
        found = 1.0 + self.differences / mean
        return np.clip(1.0 + believed * (found / np.maximum(expected, 0.1) - 1.0), LEAST_UNEVEN, 2.0)

    @property
    def weights(self) -> Floats:
        """The mean weight of a record in each coordinate: small where few records tell, each of them much."""
        return np.clip(self.mean_weight * self.unevenness, LEAST_WEIGHT, 1.0)

    def full_information(self, inefficiency: float) -> Floats:
        """Return what the records would tell without weights, cuts and noise, in whitened coordinates.

        Where a slope is not seen, it is taken to be as large as it may be without being seen, by half.
        """
        values, vectors = np.linalg.eigh(self.slope)
        slope = (vectors * np.maximum(values, self.noise_level / 2)) @ vectors.T
        return slope * inefficiency / self.mean_weight

    def at_information(self, ratio: float) -> "Release":
        """Return the release as if its slope had been asked where records know so many times as much."""
        return replace(
            self,
            slope=ratio * self.slope,
            slope_sd=ratio * self.slope_sd,
            variance=ratio * self.variance,
            differences=None if self.differences is None else ratio * self.differences,
        )

    def pooled(self, information: Floats, doubt: float) -> tuple["Release", float]:
        """Return the release with its slope averaged with what is known of it, and what doubt is left.

        Args:
            information: of all records without weights, as it is known, in the original coordinates.
            doubt: the standard deviation of its entries in whitened coordinates.
        """
        weights = np.sqrt(np.outer(self.weights, self.weights))
        expected = weights * (self.whitening.factor.T @ information @ self.whitening.factor)
        scale = np.trace(self.slope) / np.trace(expected)  # that of all of it is seen best
        expected = expected * np.clip(scale, 1 / MOST_SCALE, MOST_SCALE)
        gain = (weights * doubt) ** 2 / ((weights * doubt) ** 2 + self.slope_sd**2)
        slope_sd = self.slope_sd * float(np.sqrt(np.mean(gain)))
        pooled = replace(self, slope=expected + gain * (self.slope - expected), slope_sd=slope_sd)
        return pooled, slope_sd / float(np.mean(weights))

    def information(self) -> Floats:
        """Return what all records know without weights; not less than the noise in any direction: for coordinates."""
        values, vectors = np.linalg.eigh(self.slope)
        inner = (
            (vectors * np.maximum(values, self.noise_level)) @ vectors.T / np.sqrt(np.outer(self.weights, self.weights))
        )
        return self.whitening.inverse.T @ inner @ self.whitening.inverse


def usual_predictors(regression: Regression, point: Floats, moments: Moments) -> Floats:
    """Return the predictors of a usual record."""
    linear = point[: regression.num_linear].reshape(regression.num_columns, -1)
    return np.asarray(moments.means @ linear)


def with_known_shapes(regression: Regression, information: Floats, point: Floats, moments: Moments) -> Floats:
    """Return an information with that of the shape parameters as the model has it, where it has it."""
    found, place = information.copy(), regression.num_linear
    if isinstance(regression.scores, TabledScores) and regression.free and not regression.num_of_scale:
        each = regression.scores.information(usual_predictors(regression, point, moments), regression.shapes(np, point))
        kept = 1 + np.array(regression.free)
        found[place:, :], found[:, place:] = 0.0, 0.0  # location and shape know nothing of each other, or little
        found[place:, place:] = moments.size * each[np.ix_(kept, kept)]
    return found


@dataclass(frozen=True, eq=False)
class Steps:
    """Asks and moves."""

    regression: Regression
    moments: Moments
    ask: Ask
    shares: tuple[float, float]
    """What of the budget goes to scores and to slopes."""

    @property
    def unit(self) -> float:
        """The usual length of a record's score in whitened coordinates."""
        return float(np.sqrt(self.regression.dimension / self.moments.size))

    @property
    def radius(self) -> float:
        """The radius of the pilot: below it weights would only make the slope smaller."""
        return self.unit * self.regression.scores.usual_length / np.sqrt(2.0)

    def release(self, point: Floats, whitening: Whitening, bound: float, radius: float, slope_radius: float) -> Release:
        """Ask at a point."""
        table = self.regression.scores.table(self.regression.shapes(np, point), bound)
        asked = Asked(
            centre=_single(point),
            factor=_single(whitening.factor),
            radius=_single(radius),
            slope_radius=_single(slope_radius),
            shares=_single(np.array(self.shares) / sum(self.shares)),
            edges=_single(LENGTHS * self.unit),
            table=_single(table),
        )
        answer = [np.asarray(each, float) for each in self.ask(asked)]
        score, score_sd, slope, slope_sd, variance, differences, lengths = answer
        return Release(
            point,
            whitening,
            radius,
            score,
            float(score_sd) ** 2,
            slope,
            float(slope_sd),
            float(variance),
            lengths,
            float(slope_sd) / SIDE,
            self._roots(point, bound),
            differences,
        )

    def _roots(self, point: Floats, bound: float) -> Floats:
        """Return the root of variance over slope of the scores by the parameters."""
        regression = self.regression
        predictors = usual_predictors(regression, point, self.moments)
        linear, shapes = regression.scores.cut_roots(predictors, regression.shapes(np, point), bound)
        free = list(regression.free)
        if not regression.num_of_scale:
            return linalg.block_diag(linear * np.eye(regression.num_linear), shapes[np.ix_(free, free)])
        of_scale = np.diag(shapes)[0] * np.eye(regression.num_of_scale)
        return linalg.block_diag(linear * np.eye(regression.num_linear), of_scale, shapes[np.ix_(free[1:], free[1:])])

    def trusted(self, move: Floats, share: float = 1.0) -> Floats:
        """Return a move, shortened where it would go further than a linear answer holds."""
        linear, shapes = self._lengths(move)
        return move * min(1.0, share / max(linear / LONGEST_MOVE, shapes / LONGEST_SHAPE_MOVE, 1e-12))

    def length(self, move: Floats) -> float:
        """Return how far a step moves the predictors, root mean square over the records, or the shapes if further."""
        return max(self._lengths(move))

    def _lengths(self, move: Floats) -> tuple[float, float]:
        linear = move[: self.regression.num_linear].reshape(self.regression.num_columns, -1)
        squares = (self.moments.means @ linear) ** 2 + self.moments.sds**2 @ linear**2
        shapes = np.abs(move[self.regression.num_linear :]).max(initial=0.0)
        return float(np.sqrt(squares.max(initial=0.0))), float(shapes)

    def pilot(
        self, start: Floats, information: Floats, spreads: Spreads, num_steps: int
    ) -> tuple[Floats, Release, Sequence[Release]]:
        """Return where the steps lead, the last release with the score histogram of the last few, and these.

        The first steps move as far as they are told, shape parameters beyond a scale not at all; the later ones
        average with those before.
        """
        point, known, doubt = start, np.zeros_like(information), self._entry(DOUBT)
        releases: list[Release] = []
        for number in range(num_steps):
            gradient, bend = spreads.prior_at(self.regression, point)
            whitening = whiten(information + bend)
            release = self.release(point, whitening, PILOT_BOUND, self.radius, 2 * self.unit**2)
            release, doubt = release.pooled(information, doubt)
            told, factor = release.likelihood(), whitening.factor
            carried = CARRIED * number / num_steps * known
            precision = told.precision + factor.T @ (bend + carried) @ factor
            move = factor @ linalg.solve(precision, told.tilt + factor.T @ gradient, assume_a="pos")
            is_early = number < EARLY * num_steps
            move = self._shaped(release, self.trusted(move), is_early)
            point, doubt = point + move, float(np.hypot(doubt, self._entry(LEAST_DRIFT + DRIFT * self.length(move))))
            known = whitening.inverse.T @ told.precision @ whitening.inverse + 0.5 * known
            information = self.information(release, point)
            spreads.update(self.regression, point, known)
            releases.append(release)
        last = releases[-POOLED:]
        pooled = replace(
            last[-1],
            lengths=np.mean([release.lengths for release in last], axis=0),
            lengths_sd=last[-1].lengths_sd / np.sqrt(len(last)),
        )
        return point, pooled, last

    def _entry(self, size: float) -> float:
        """Return how large independent entries of a symmetric matrix are whose eigenvalues are at most about this."""
        return float(size / np.sqrt(2.0 * self.regression.dimension))

    def doubt(self, last: Release) -> float:
        """Return how uncertain the entries of the information are after a pilot, for a release with other bounds."""
        return float(np.hypot(last.slope_sd / last.mean_weight, self._entry(2 * LEAST_DRIFT)))

    def bounded_step(self, point: Floats, last: Release, spreads: Spreads, bound: float, radius: float) -> Floats:
        """Return where one more step leads that has other bounds: where the model does not hold, elsewhere."""
        gradient, bend = spreads.prior_at(self.regression, point)
        information = self.information(last, point)
        whitening = whiten(information + bend)
        release = self.release(point, whitening, bound, radius, 2 * self.unit**2)
        release, _ = release.pooled(information, self.doubt(last))
        told, factor = release.likelihood(), whitening.factor
        precision = told.precision + factor.T @ bend @ factor
        move = factor @ linalg.solve(precision, told.tilt + factor.T @ gradient, assume_a="pos")
        return point + self.trusted(move, 0.5)

    def information(self, release: Release, point: Floats) -> Floats:
        """Return what all records know without weights, for coordinates; of shapes as the model has it."""
        return with_known_shapes(self.regression, release.information(), point, self.moments)

    def _shaped(self, release: Release, move: Floats, is_early: bool) -> Floats:
        """Return the move; at first a scale goes where its score's mean says beyond where it is linear, alone."""
        if not is_early or not isinstance(self.regression.scores, TabledScores) or 0 not in self.regression.free:
            return move
        place, inverse = self.regression.num_linear, release.whitening.inverse
        slope = float((inverse.T @ release.slope @ inverse)[place, place])
        if not slope > 0:
            return move
        newton = float((inverse.T @ release.score)[place]) / slope
        shapes = self.regression.shapes(np, release.point)
        step = self.regression.scores.step_of_scale(shapes, PILOT_BOUND, newton)
        return move if step is None else np.concatenate([move[:place], [step], np.zeros(len(move) - place - 1)])


def _single(value: Any) -> Any:
    return np.asarray(value, np.float32)
