"""What is known of the slope of the scores of many groups, from all releases together."""

from dataclasses import dataclass, field, replace

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow, at_least, cholesky
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior
from dpmcmc.fitting.strategies.grouped_scores.release import Radii, Release
from dpmcmc.fitting.strategies.grouped_scores.releases import LENGTH, Asked, Told
from dpmcmc.fitting.strategies.grouped_scores.seen import Seen
from dpmcmc.fitting.strategies.grouped_scores.weights import times_expected
from dpmcmc.fitting.strategies.weighted_scores.histograms import EVEN, Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import SPREAD
from dpmcmc.fitting.strategies.weighted_scores.newton import usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.start import information, mean_squares
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.model.bounded_scores.one_row import OneRow

NODES = 17
"""Predictors at which the slope of a record is computed; between them it is interpolated."""

UNLIKE, UNLIKE_SLOPES = 0.05, 0.3
"""How far the effective number of a group's rows is from their number, beside it: for intercepts, and for slopes."""

ELSEWHERE = 0.1
"""By how much the effective number of a group's rows changes from one release to the next, beside it."""

SEEN = 0.15
"""How well the part of the common slope must be known that groups explain for it to be believed."""

OFF_CENTRE = 0.05
"""What of the common slope the mean over groups may explain beside that of histograms: steps on noise oscillate."""

UNSEEN = 0.05
"""What of the common slope groups explain where that is not known."""

MOST_EXPLAINED = 0.98
"""What of the common slope groups may explain."""

LEAST_SHARE = 0.05
"""What of the differences of the sizes of groups is believed at least."""

LEAST = 0.5
"""Groups have rows for so many standard deviations of the noise of their number, at least."""


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the slope, at whatever point: numbers of rows, and products of columns."""

    grouped: Grouped
    moments: Moments
    rows: Floats
    """How many rows each group has."""
    numbers: Floats
    """The same times the mean products of what effects are multiplied with (groups, size, size)."""
    precision: Floats
    """How well they are known: one over the variance (groups,)."""
    corner: Floats
    """Of what is told of in common, with all means taken off, for one unit of information of a row."""
    beside: Floats | None = None
    """By how much the means of columns differ in groups, beside what is expected (groups, size, told)."""
    beside_precision: float = 0.0
    """How well that is known, in coordinates."""
    corner_weight: float = 0.0
    seen: Seen = field(default_factory=Seen)
    """The same numbers, nothing else taken for granted."""

    @classmethod
    def begin(cls, grouped: Grouped, moments: Moments, counts: Floats, sd: float, start: Floats) -> "Known":
        """Return what histograms tell.

        Args:
            grouped: the model.
            moments: of the common columns.
            counts: of the groups.
            sd: of their noise.
            start: the common parameters at which a fit starts.
        """
        mean, variance = float(counts.mean()), max(float(counts.var()), 1e-9)
        share = max(1 - sd**2 / variance, LEAST_SHARE)  # sizes are not further from their mean than they seem to be
        rows = np.maximum(mean + share * (counts - mean), LEAST * np.sqrt(share) * sd)
        rows = np.maximum(rows, 1.0)
        rows = rows * moments.size / rows.sum()
        values = _values(grouped, moments)
        numbers = rows[:, None, None] * values
        unlike = UNLIKE if grouped.size == 1 and grouped.terms[0].number is None else UNLIKE_SLOPES
        precision = 1 / (share * sd**2 + (unlike * rows) ** 2)
        common, told = grouped.common, grouped.told
        linear = told[told < common.num_linear]
        corner = information(common, start, moments)[np.ix_(told, told)]
        squares = mean_squares(common, moments) - np.outer(moments.means, moments.means)
        corner[: len(linear), : len(linear)] = moments.worth * squares[np.ix_(linear, linear)]
        corner = corner + 1e-6 * np.diag(np.diag(corner) + 1e-9 * moments.worth)
        return cls(grouped, moments, rows, numbers, precision, corner, seen=Seen().beside(counts, 1 / sd**2))

    @property
    def means(self) -> Floats:
        """How the common columns that are told of move with what effects are multiplied with (size, told)."""
        found = np.zeros((self.grouped.size, len(self.grouped.told)))
        linear = self.grouped.told[self.grouped.told < self.grouped.common.num_linear]
        for place, term in enumerate(self.grouped.terms):
            if term.number is None:
                found[place, : len(linear)] = self.moments.means[linear]
        return found

    def per_record(self, point: Point, bound: float) -> Floats:
        """Return the slope of a usual record of each group, were it not weighted."""
        return self._mean(point, bound)[0]

    def _mean(self, point: Point, bound: float) -> tuple[Floats, Floats]:
        """Return the slope of a usual record of each group, a mean over predictors, and how it grows with these."""
        middle, spread = self.predictors(point), self.spread(point)
        steps, weights = np.array(SPREAD).T
        each = _per_record(self.grouped, middle[:, None] + steps * spread, point.common, bound)
        mean = each @ weights
        return mean, each @ (weights * steps) / mean / max(spread, 1e-9)

    def spread(self, point: Point) -> float:
        """Return by how much the predictors of records of one group differ."""
        linear = point.common[: self.grouped.common.num_linear]
        return float(np.sqrt(self.moments.sds**2 @ linear**2 + self.moments.offset_sd**2))

    def predictors(self, point: Point) -> Floats:
        """Return the predictor of a usual record of each group."""
        values = np.array([1.0 if term.number is None else 0.0 for term in self.grouped.terms])
        return float(usual_predictors(self.grouped.common, point.common, self.moments)[0]) + point.effects @ values

    def along(self, point: Point) -> Floats:
        """Return the covariance of the columns that are told of with the predictors."""
        told = self.grouped.told
        linear = np.flatnonzero(told < self.grouped.common.num_linear)
        return self.corner[np.ix_(linear, linear)] @ point.common[told[linear]] / float(self.rows.sum())

    def expected(self, point: Point) -> Floats:
        """Return by how much the means of columns differ in groups for rows count more where they know more.

        Of an outcome that is likely in a group the rows know most in which it is less likely than in the others.
        """
        told = self.grouped.told
        linear, along = np.flatnonzero(told < self.grouped.common.num_linear), self.along(point)
        found = np.zeros((*self.numbers.shape[:2], len(told)))
        for place, term in enumerate(self.grouped.terms):
            if term.number is None:
                found[:, place, linear] = self._mean(point, 1.0)[1][:, None] * along
        return found

    def slope(self, point: Point, bound: float, weights: Floats | float = 1.0) -> Arrow:
        """Return the slope at a point: that of rows with weights."""
        blocks, corner = self._parts(point, bound, weights)
        return with_border(blocks, self.shrunk(point)[0], corner)

    def _parts(self, point: Point, bound: float, weights: Floats | float = 1.0) -> tuple[Floats, Floats]:
        own = weights * self.per_record(point, bound)
        corner = self._scaled(float(own @ self.rows / self.rows.sum())) * self.corner
        return own[:, None, None] * self.numbers, corner

    def _scaled(self, mean: float) -> Floats:
        """Return what the corner is multiplied with: shapes are told of alike whatever rows know of predictors."""
        linear = self.grouped.told < self.grouped.common.num_linear
        root = np.where(linear, np.sqrt(mean), 1.0)
        return np.outer(root, root)

    def shrunk(self, point: Point) -> tuple[Floats, Floats]:
        """Return by how much means differ in groups, as far as noise lets it be seen, and a root of what is left.

        The latter is a matrix with which a standard normal vector is multiplied from the right, for each effect, and
        the root of a group's slope from the left: what is left of the variance.
        """
        mean, turned, roots, inverse = self._turned(point)
        believed, left = self._believed(turned)
        shrunk = np.linalg.solve(np.swapaxes(roots, 1, 2), believed * turned) @ inverse
        return self.expected(point) + mean + shrunk, left[:, None] * inverse

    def _turned(self, point: Point) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the mean difference, which all groups together tell, the rest in coordinates, and the way back.

        The mean is believed as far as it exceeds its noise, which would take the common slope away, and as far as means
        that histograms tell can be off: of some directions noise makes one look like most of the slope now and then.
        """
        blocks, corner = self._parts(point, 1.0)
        factor, inverse = coordinates_of(corner)
        before = np.zeros((*self.numbers.shape[:2], len(corner))) if self.beside is None else self.beside
        shares = np.diagonal(blocks, axis1=1, axis2=2) / np.sum(np.diagonal(blocks, axis1=1, axis2=2), axis=0)
        mean, roots = np.einsum("gk,gkc->kc", shares, before), cholesky(blocks)
        turned = np.swapaxes(roots, 1, 2) @ (before - mean) @ factor
        noise = len(mean) / max(self.beside_precision, 1e-30)
        squares = np.sum((np.swapaxes(roots, 1, 2) @ mean @ factor) ** 2, axis=(0, 1))
        signal = np.clip(squares - noise, 0.0, OFF_CENTRE)
        seen = signal / (signal + noise) if np.sqrt(2) * noise <= SEEN else 0.0
        return (mean @ factor * seen) @ inverse, turned, roots, inverse

    def _believed(self, turned: Floats) -> tuple[Floats, Floats]:
        """Return what is believed of differences between groups, in coordinates, and what is left of their sds."""
        number, told = turned.shape[0] * turned.shape[1], turned.shape[2]
        noise = 1 / max(self.beside_precision, 1e-30)
        if np.sqrt(2 * number) * noise > SEEN:
            return np.zeros(told), np.full(told, np.sqrt(UNSEEN / number))
        signal = np.maximum(np.mean(turned**2, axis=(0, 1)) - noise, 0.0)
        return signal / (signal + noise), np.sqrt(signal * noise / (signal + noise))

    def left(self, point: Point) -> Floats:
        """Return what is not known of how means differ in groups: standard deviations, in coordinates."""
        return self._believed(self._turned(point)[1])[1]

    def ask(self, point: Point, radii: Radii, prior: Prior, table: Floats, shares: tuple[float, float]) -> Asked:
        """Return the question at a point, in coordinates that what is known makes round."""
        roots, factor = self.coordinates(point, prior)
        parts = np.concatenate([point.effects, roots.reshape(len(roots), -1)], axis=1)
        given = point.common, parts, self.means, factor, radii.scores, radii.slopes, np.array(shares) / sum(shares)
        return Asked(*(np.asarray(each, np.float32) for each in (*given, table)))

    def coordinates(self, point: Point, prior: Prior) -> tuple[Floats, Floats]:
        """Return roots of the covariance of each group, and of what is common: effects = root z."""
        (blocks, corner), told = self._parts(point, 1.0), self.grouped.told
        roots = np.asarray(np.linalg.inv(np.swapaxes(np.linalg.cholesky(blocks + prior.block), 1, 2)), np.float64)
        return roots, coordinates_of(corner + np.diag(np.diag(prior.precision)[told]))[0]

    def read(self, answer: Told, asked: Asked, point: Point, radii: Radii) -> Release:
        """Return an answer in the parameters."""
        size = self.grouped.size
        roots = np.asarray(asked.groups, float)[:, size:].reshape(-1, size, size)
        factor, shares = np.asarray(asked.factor, float), np.asarray(asked.shares, float)
        sd = float(answer.sd)
        of_score = [radius / np.sqrt(shares[0]) for radius in radii.scores]
        units = [radius * LENGTH / np.sqrt(shares[1]) for radius in radii.slopes]
        between = np.sqrt(units[0] * units[1])
        back, common_back = np.linalg.inv(roots), np.linalg.inv(factor)
        up = np.swapaxes(back, 1, 2)
        blocks, border, corner = (np.asarray(part, float) for part in answer.slope)
        whitened = units[0] * blocks, units[1] * corner
        slope = Arrow(
            up @ whitened[0] @ back,
            between * up @ border @ common_back,
            common_back.T @ whitened[1] @ common_back,
        )
        noise = Arrow(
            (sd * of_score[0]) ** 2 * up @ back,
            np.zeros_like(border),
            (sd * of_score[1]) ** 2 * common_back.T @ common_back,
        )
        trace = max(float(np.trace(whitened[0].sum(axis=0))), 1e-9)
        known, _ = self._parts(point, radii.bound, radii.weights)
        expected = max(float(np.einsum("gji,gjk,gki->", roots, known, roots)), 1e-9)
        doubt = sd * units[0] * np.sqrt(size * len(roots)) / expected
        weights = radii.weights * times_expected(trace / expected, doubt)
        of_groups = units[0] * float(answer.variance) / trace
        of_common = units[1] * np.asarray(answer.common_variance, float) / np.maximum(np.diag(whitened[1]), 1e-9)
        return Release(
            point,
            radii._replace(weights=weights),
            of_score[0] * np.einsum("gkj,gk->gj", back, np.asarray(answer.score, float)),
            of_score[1] * common_back.T @ np.asarray(answer.common_score, float),
            noise,
            slope,
            (sd * units[0], sd * between / np.sqrt(2.0), sd * units[1]),
            np.append(of_groups, of_common),
            ((sd * of_score[0]) ** 2, (sd * of_score[1]) ** 2),
            roots,
            factor,
        )

    def pooled(self, release: Release, prior: Prior) -> "Known":
        """Return what is known with one more release."""
        each = release.radii.weights * self.per_record(release.point, release.radii.bound)
        precision, _ = self._parts(release.point, 1.0)
        precision = precision + prior.block
        sd = release.slope_sds[0] * np.trace(precision, axis1=1, axis2=2) / self.grouped.size / each
        # told elsewhere, of records weighted otherwise
        before = 1 / (1 / self.precision + (ELSEWHERE * self.rows) ** 2)
        share = (sd**-2.0 / (sd**-2.0 + before))[:, None, None]
        numbers = (1 - share) * self.numbers + share * release.slope.blocks / each[:, None, None]
        usual = np.trace(_values(self.grouped, self.moments))
        alone = np.trace(release.slope.blocks, axis1=1, axis2=2) / each / usual
        own = release.slope.corner / self._scaled(float(each @ self.rows / self.rows.sum()))
        weight = release.slope_sds[2] ** -2.0
        of_corner = weight / (weight + self.corner_weight)
        own_blocks = each[:, None, None] * self.numbers
        border = release.slope.border - own_blocks @ self.expected(release.point)
        beside = np.linalg.solve(own_blocks + prior.block, border)
        sizes = [
            np.trace(one, axis1=1, axis2=2) for one in (precision, precision - prior.block, own_blocks + prior.block)
        ]
        noise = release.slope_sds[1] ** 2 * float(np.mean(sizes[0] * sizes[1] / sizes[2] ** 2))
        of_beside = 1 / (1 + self.beside_precision * noise)
        last = np.zeros_like(beside) if self.beside is None else self.beside
        return replace(
            self,
            numbers=at_least(numbers, self.rows),
            precision=before + sd**-2.0,
            corner=_positive((1 - of_corner) * self.corner + of_corner * own, self.corner),
            corner_weight=self.corner_weight + weight,
            beside=(1 - of_beside) * last + of_beside * beside,
            beside_precision=self.beside_precision + 1 / noise,
            seen=self.seen.beside(alone, (usual / self.grouped.size / sd) ** 2),
        )


def with_border(blocks: Floats, beside: Floats, corner: Floats) -> Arrow:
    """Return a slope whose groups explain no more of what is common than there is."""
    border = blocks @ beside
    explained = np.einsum("gkc,gkd->cd", beside, border)
    factor, _ = coordinates_of(corner)
    if not len(corner):
        return Arrow(blocks, border, corner)
    most = float(np.linalg.eigvalsh(factor.T @ explained @ factor).max(initial=0.0))
    return Arrow(blocks, border * min(1.0, np.sqrt(MOST_EXPLAINED / max(most, 1e-12))), corner)


def _values(grouped: Grouped, moments: Moments) -> Floats:
    """Return the mean products of what effects are multiplied with."""
    means, squares = np.ones(grouped.size), np.ones(grouped.size)
    for place, (term, fixed) in enumerate(zip(grouped.terms, grouped.fixed, strict=True)):
        if term.number is not None:
            means[place] = 0.0 if fixed is None else moments.means[fixed]
            squares[place] = means[place] ** 2 + (EVEN if fixed is None else moments.sds[fixed]) ** 2
    found = np.outer(means, means)
    found[np.diag_indices(grouped.size)] = squares
    return found


def _per_record(grouped: Grouped, predictors: Floats, common: Floats, bound: float) -> Floats:
    """Return the slope of records with these predictors, whose scores are cut there."""
    scores, shapes = grouped.scores, grouped.common.shapes(np, common)
    nodes = np.linspace(predictors.min() - 1e-3, predictors.max() + 1e-3, NODES)
    if isinstance(scores, OneRow):  # it is the same for every predictor
        nodes = nodes[:1]
    each = [scores.under_model(np.array([node]), shapes, bound).slope[0, 0] for node in nodes]
    return np.exp(np.interp(predictors, nodes, np.log(np.maximum(each, 1e-12))))


def coordinates_of(corner: Floats) -> tuple[Floats, Floats]:
    """Return coordinates in which a corner is round, and the way back."""
    if not len(corner):
        return corner, corner
    found = whiten(corner)
    return found.factor, found.inverse


def _positive(corner: Floats, before: Floats) -> Floats:
    """Return a corner that is not below a hundredth of what it was taken to be, in any direction."""
    if not len(before):
        return before
    factor, inverse = coordinates_of(before)
    values, vectors = np.linalg.eigh(factor.T @ (corner + corner.T) @ factor / 2)
    inner = (vectors * np.maximum(values, 0.01)) @ vectors.T
    return inverse.T @ inner @ inverse
