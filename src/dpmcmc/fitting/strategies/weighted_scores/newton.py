"""Private scoring steps on the host: from the start to the root of the estimating equation.

Near the root the released sum of scores G at a public point is about N(M (theta - point), V + N), where M is the slope,
V the variance of the sum given the predictors and N the noise. So every release gives a normal likelihood of theta with
precision M (V + N)^-1 M. The next query is made at its mode, in coordinates whitened by the current estimate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import changes, some_predictors, without_rows
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS, SIDE, Answer, Asked
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, TabledScores
from dpmcmc.fitting.strategies.weighted_scores.spreads import Spreads
from dpmcmc.fitting.strategies.weighted_scores.start import information, mean_squares
from dpmcmc.fitting.strategies.weighted_scores.told import information_of_records, with_known_shapes
from dpmcmc.fitting.strategies.weighted_scores.whitening import Whitening, whiten
from dpmcmc.model.bounded_scores.one_row import LocationScale
from dpmcmc.model.bounded_scores.pieces import Pieces

PILOT_BOUND = 1.0
"""Cut of scores in the pilot, in their standard deviations: low noise matters more there than efficiency."""

LONGEST_MOVE, LONGEST_SHAPE_MOVE = 2.0, 1.0
"""Trust region of a step: for the predictors, root mean square over the records, and for the shape parameters."""

CARRIED = 0.5
"""Weight of earlier releases in the last step; the first step uses none."""

EARLY = 0.4
"""The share of the steps that are early ones."""

LINEAR = 0.3
"""Error of a log-scale up to which its score is approximately linear."""

POOLED = 3
"""Number of steps whose score histograms are pooled."""

SEEN = 3.0
"""Bins below this number of noise standard deviations are ignored."""

DOUBT = 2.0
"""Eigenvalues of the uncertainty of the information in whitened coordinates, before any release."""

MOST_CHANGE = 64.0
"""Largest change of the information on predictors in a step: by a squared scale, otherwise its fourth root."""

DRIFT, LEAST_DRIFT = 0.7, 0.1
"""By how much the information changes, so measured, where a step moves the predictors by one, and at least."""

REACHED = 0.2
"""Smallest information on an interval of time, relative to that of complete observation under the model: for whitening
alone."""

Ask = Callable[[Asked], Answer]


def usual_predictors(regression: Regression, point: Floats, moments: Moments) -> Floats:
    """Return the predictors of a usual record."""
    linear = point[: regression.num_linear].reshape(regression.num_columns, -1)
    return np.asarray(moments.means @ linear + moments.offset_mean)


@dataclass(frozen=True, eq=False)
class Steps:
    """Queries and steps."""

    regression: Regression
    moments: Moments
    ask: Ask
    shares: tuple[float, float]
    """What of the budget goes to scores and to slopes."""

    @property
    def unit(self) -> float:
        """The usual length of a record's score in whitened coordinates."""
        return float(np.sqrt(self.regression.dimension / self.moments.worth))

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
            weight=_single(self.moments.stated.unit * self.regression.model.coordinates.response.most_weight),
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
            *self._weights(point, whitening, bound, radius, slope_radius),
            self._blind(whitening),
        )

    def _weights(
        self, point: Floats, whitening: Whitening, bound: float, radius: float, slope_radius: float
    ) -> tuple[float, Floats]:
        """Return the weight of a usual record, and relative weights of the records that inform each parameter.

        Few records inform a rare level, each of them strongly: their scores are long.
        """
        regression, moments = self.regression, self.moments
        shapes, usual = regression.shapes(np, point), usual_predictors(regression, point, moments)
        longest = [
            regression.scores.moments(usual, shapes, cut).longest(regression.num_linear) for cut in (bound, PILOT_BOUND)
        ]
        linear = whitening.factor[: regression.num_linear].reshape(regression.num_columns, -1)
        gram = linear @ linear.T
        squares = np.sum(moments.rows @ gram * moments.rows, axis=1) / max(
            float(np.sum(gram * mean_squares(regression, moments))), 1e-30
        )
        lengths = np.append(np.sqrt(np.maximum(squares, 1.0)), 1.0)
        length = self.unit * regression.scores.usual_length * longest[0] / longest[1]
        weights = np.minimum(1.0, np.minimum(radius / (length * lengths), slope_radius / (self.unit * lengths) ** 2))
        found = np.repeat(weights[:-1] / weights[-1], regression.num_outputs)
        found[without_rows(regression, moments)] = 1.0  # other ones would turn the directions that no data can see
        return float(weights[-1]), np.append(found, np.ones(regression.dimension - len(found)))

    def _blind(self, whitening: Whitening) -> Floats | None:
        """Return directions that no data can identify, and those of groups with hardly any rows."""
        free = np.eye(self.regression.dimension)[without_rows(self.regression, self.moments)]
        rows = np.concatenate([self.regression.unseen, free]) if len(self.regression.unseen) else free[:0]
        return linalg.orth(whitening.inverse @ rows.T) if len(rows) else None

    def _roots(self, point: Floats, bound: float) -> Floats:
        """Return the root of variance over slope of the scores by the parameters, a mean over predictors."""
        regression, shapes = self.regression, self.regression.shapes(np, point)
        each = some_predictors(regression, point, self.moments)
        cut = [(weight, regression.scores.moments(predictors, shapes, bound)) for predictors, weight in each]
        variance, slope = (sum(weight * getattr(one, part) for weight, one in cut) for part in ("variance", "slope"))
        _, of_shapes = regression.scores.cut_roots(usual_predictors(regression, point, self.moments), shapes, bound)
        free = list(regression.free)
        linear = np.sqrt(variance / slope) * np.eye(regression.num_linear)
        if not regression.num_of_scale:
            return linalg.block_diag(linear, of_shapes[np.ix_(free, free)])
        of_scale = np.diag(of_shapes)[0] * np.eye(regression.num_of_scale)
        return linalg.block_diag(linear, of_scale, of_shapes[np.ix_(free[1:], free[1:])])

    def trusted(self, move: Floats, share: float = 1.0) -> Floats:
        """Return a move, shortened to the region in which scores are approximately linear."""
        linear, shapes = self._lengths(move)
        return move * min(1.0, share / max(linear / LONGEST_MOVE, shapes / LONGEST_SHAPE_MOVE, 1e-12))

    def length(self, move: Floats) -> float:
        """Return how far a step moves the predictors, root mean square over the records, or the shapes if further."""
        return max(self._lengths(move))

    def _lengths(self, move: Floats) -> tuple[float, float]:
        linear = move[: self.regression.num_linear].reshape(self.regression.num_columns, -1)
        first, threshold = self.regression.num_linear + self.regression.num_of_scale, 0.0
        if self.regression.scores.has_threshold:
            first, threshold = first + 1, move[first]
        squares = (self.moments.means @ linear - threshold) ** 2 + self.moments.sds**2 @ linear**2
        shapes = max(np.abs(move[first:]).max(initial=0.0), self._length_of_scale(move))
        return float(np.sqrt(squares.max(initial=0.0))), float(shapes)

    def _length_of_scale(self, move: Floats) -> float:
        """Return how far a step moves the logarithm of a scale with a formula, root mean square over the records."""
        columns = list(self.regression.model.coordinates.scale_places)
        own = move[self.regression.num_linear : self.regression.num_linear + len(columns)]
        means, sds = self.moments.means[columns], self.moments.sds[columns]
        return float(np.sqrt((means @ own) ** 2 + sds**2 @ own**2))

    def pilot(
        self, start: Floats, information: Floats, spreads: Spreads, num_steps: int
    ) -> tuple[Floats, Release, Sequence[Release]]:
        """Return the pilot's estimate, its last release with the pooled score histogram, and the last few releases.

        Early steps use their own release alone, and do not move shape parameters beyond a scale. Later steps average
        with earlier releases.
        """
        point, known, expected = start, np.zeros_like(information), information
        releases: list[Release] = []
        moved = 0.0
        for number in range(num_steps):
            gradient, bend = spreads.prior_at(self.regression, point)
            whitening = whiten(information + bend)
            release = self.release(point, whitening, PILOT_BOUND, self.radius, 2 * self.unit**2)
            before = releases[-1] if releases else None
            doubt = self._doubt(before, point, whitening, self._drift(moved)) if before else self._first_doubt
            release = release.pooled(expected, doubt)
            clear, factor = self.near(release), whitening.factor
            told = clear.step()
            carried = CARRIED * number / num_steps * known
            precision = told.precision + factor.T @ (bend + carried) @ factor
            move = factor @ linalg.solve(precision, told.tilt + factor.T @ gradient, assume_a="pos")
            is_early = number < EARLY * num_steps
            move = self._shaped(release, self.trusted(move), is_early)
            point, moved = point + move, self.length(move)
            known = whitening.inverse.T @ clear.likelihood().precision @ whitening.inverse + 0.5 * known
            information, expected = self.known(release, point), self.information(release, point)
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

    def _drift(self, moved: float) -> float:
        """Return the relative change of the information in a step that moves the predictors by a given amount."""
        return self._entry(LEAST_DRIFT + DRIFT * moved)

    @property
    def _first_doubt(self) -> Floats:
        """Uncertainty of the information before any release: a level with a count near its noise may have no rows."""
        outputs, size = self.regression.num_outputs, self.regression.dimension
        linear = np.repeat(self.moments.doubts, outputs)
        counted = np.append(linear, np.zeros(size - len(linear)))
        return np.diag(np.hypot(self._entry(DOUBT), counted))

    def _doubt(self, before: Release, point: Floats, whitening: Whitening, drift: float) -> Floats:
        """Return the uncertainty of the information at a point after a release, in whitened coordinates."""
        return before.doubt(whitening, self._changes(before.point, point), drift)

    def known(self, last: Release, point: Floats) -> Floats:
        """Return the information of all records at a point after a release, for whitening: at least its noise level.

        There is no information on an interval of time that nobody reaches. In coordinates of that scale an event in it
        would have a score longer than any other, which would lower the weights of all records.
        """
        found = self.information(self.near(last).floored(), point)
        if isinstance(self.regression.scores, Pieces):
            least = REACHED * np.diag(information(self.regression, point, self.moments))[self.regression.num_linear :]
            own = np.arange(self.regression.num_linear, len(found))
            found[own, own] += np.maximum(least - found[own, own], 0.0)
        return found

    def pooled(self, release: Release, last: Release, times: int = 1) -> Release:
        """Return a release with its slope averaged with that of the pilot's last release.

        Args:
            release: a release with other bounds.
            last: the last release of the pilot.
            times: the number of releases averaged with it, which share its weight.
        """
        doubt = self._doubt(last, release.point, release.whitening, self._entry(2 * LEAST_DRIFT))
        return release.pooled(self.information(last, release.point), np.sqrt(times) * doubt, self._numbers)

    def near(self, release: Release, *, is_result: bool = False) -> Release:
        """Return a release with a slope that is lost in noise moved to that of columns without correlation."""
        return release.near(information(self.regression, release.point, self.moments), is_result=is_result)

    @property
    def _numbers(self) -> list[int]:
        """The parameters of columns that are numbers."""
        outputs = self.regression.num_outputs
        columns = [place for place, spread in enumerate(self.moments.numbers) if spread is not None]
        return [column * outputs + output for column in columns for output in range(outputs)]

    def bounded_step(
        self, point: Floats, last: Release, spreads: Spreads, bound: float, radius: float, carried: Floats | float = 0.0
    ) -> tuple[Floats, Release]:
        """Return the result of one more step with other bounds, which differs under misspecification.

        `carried`, a precision of the parameters at the point, keeps noise alone from causing a long step.
        """
        gradient, bend = spreads.prior_at(self.regression, point)
        whitening = whiten(self.known(last, point) + bend)
        predictors = usual_predictors(self.regression, point, self.moments)
        steepness = self.regression.scores.steepness(predictors, self.regression.shapes(np, point), bound)
        release = self.pooled(self.release(point, whitening, bound, radius, 2 * steepness * self.unit**2), last)
        told, factor = self.near(release).likelihood(), whitening.factor
        precision = told.precision + factor.T @ (bend + carried) @ factor
        move = factor @ linalg.solve(precision, told.tilt + factor.T @ gradient, assume_a="pos")
        return point + self.trusted(move, 0.5), self.near(release, is_result=True)

    def information(self, release: Release, point: Floats) -> Floats:
        """Return the information of all records without weights, at a point near that of a release.

        For shapes it is the model's; for the other parameters it is rescaled by the model.
        """
        regression, place = self.regression, self.regression.num_linear
        found = with_known_shapes(regression, release.information(), point, self.moments)
        root = np.append(np.sqrt(self._changes(release.point, point)[:place]), np.ones(len(found) - place))
        return root[:, None] * found * root  # scaled by blocks alone it could become indefinite

    def _changes(self, before: Floats, point: Floats) -> Floats:
        """Return the ratio of the information on each parameter at a point to that at an earlier one."""
        ratio = self._known_by_model(point) / self._known_by_model(before)
        most = MOST_CHANGE if isinstance(self.regression.scores, LocationScale) else MOST_CHANGE**0.25
        usual = float(np.clip(ratio, 1 / most, most)) if np.isfinite(ratio) else 1.0
        return changes(self.regression, before, point, self.moments, usual)

    def _known_by_model(self, point: Floats) -> float:
        """Return the information of a usual record on its predictors."""
        each, size = information_of_records(self.regression, point, self.moments), self.regression.num_outputs
        return max(float(np.trace(each[:size, :size])), 1e-30)

    def straightened(self, point: Floats, move: Floats, bound: float) -> Floats:
        """Return a move of a step with its scale where the mean of its score says: it is not linear."""
        regression, place = self.regression, self.regression.num_linear
        if 0 not in regression.free or regression.num_of_scale:
            return move
        step = regression.scores.step_of_scale(regression.shapes(np, point), bound, float(move[place]))
        return move if step is None else np.concatenate([move[:place], [step], move[place + 1 :]])

    def _shaped(self, release: Release, move: Floats, is_early: bool) -> Floats:
        """Return the move; a scale that is far off, and any at first, goes where its score's mean says, alone."""
        if not isinstance(self.regression.scores, TabledScores) or 0 not in self.regression.free:
            return move
        place, inverse = self.regression.num_linear, release.whitening.inverse
        slope = float((inverse.T @ release.slope @ inverse)[place, place])
        if not slope > 0:
            return move
        newton = float((inverse.T @ release.score)[place]) / slope
        shapes = self.regression.shapes(np, release.point)
        step = self.regression.scores.step_of_scale(shapes, PILOT_BOUND, newton)
        is_far = step is not None and abs(step) > LINEAR and not self.regression.num_of_scale
        if step is None or not (is_early or is_far):
            return move
        return np.concatenate([move[:place], [step], np.zeros(len(move) - place - 1)])


def _single(value: Any) -> Any:
    return np.asarray(value, np.float32)
