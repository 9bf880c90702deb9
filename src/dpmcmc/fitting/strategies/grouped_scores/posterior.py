"""What releases tell of the parameters of a regression with many groups, and draws: on the host, for nothing.

Given the standard deviations of the effects everything is normal, with an arrow-shaped precision: they are drawn first,
on a grid, with all else integrated out.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import special

from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow, Measured, Precision, Vectors, measured
from dpmcmc.fitting.strategies.grouped_scores.bent import bent
from dpmcmc.fitting.strategies.grouped_scores.grids import around, grid, wider
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.known import Known, with_border
from dpmcmc.fitting.strategies.grouped_scores.prior import Point, Prior, whole_means
from dpmcmc.fitting.strategies.grouped_scores.release import Release
from dpmcmc.fitting.strategies.grouped_scores.squares import Beside, beside_a_line, without
from dpmcmc.fitting.strategies.grouped_scores.weights import doubt_of_weights, weights_of
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SLOPES = 16
"""How many slopes are drawn around the released one: the draws carry its uncertainty."""

REFINEMENTS = 3
"""How often a grid is made finer, before slopes are drawn."""

CLIMBS = 3
"""How often the prior of what is common is taken around the mode."""

DOUBT = 0.4
"""How uncertain is what squares of errors add to scores, beside itself."""

LEAST_SCALE = 0.2
"""By how much all slopes together may be smaller than they were released."""

FLATTEST = 0.5
"""Directions in which noise of a slope hides it are taken to be as steep as the noise, and at most so much."""

LEAST_SHARE, MOST_SHARE = 0.02, 1.5
"""What of a slope the variance may be."""


class Drawn(NamedTuple):
    """Draws (draws, groups, size), (draws, common) and (draws, size)."""

    effects: Floats
    common: Floats
    spreads: Floats


class Believed(NamedTuple):
    """What weight releases have in their mean: by groups (releases, groups), and for what is common (releases)."""

    groups: Floats
    common: Floats

    @classmethod
    def of(cls, known: Known, releases: Sequence[Release]) -> "Believed":
        """Return weights by noise, and by what is not known of the slope on the way to the point of the last one."""
        away = np.array([moves_of(known, release, releases[-1]) for release in releases])
        groups, common = zip(
            *(doubts_of(known, release, moved) for release, moved in zip(releases, away, strict=True)), strict=True
        )
        ways = [seen_move(known.grouped, known.means, one.point, releases[-1].point).groups[..., 0] for one in releases]
        groups = [own + bent(known, one, way) for own, one, way in zip(groups, releases, ways, strict=True)]
        by_groups, by_common = 1 / np.array(groups), 1 / np.array(common)
        return cls(by_groups / by_groups.sum(axis=0), by_common / by_common.sum())


def moves_of(known: Known, first: Release, last: Release) -> Floats:
    """Return the squares of how far what records see of groups moves between two releases, in coordinates."""
    moved = seen_move(known.grouped, known.means, first.point, last.point)
    return np.sum(np.linalg.solve(last.roots, moved.groups)[..., 0] ** 2, axis=1)


def doubts_of(known: Known, release: Release, moved: Floats) -> tuple[Floats, float]:
    """Return variances of scores that are told after moves: of groups, and of what is common."""
    own, common = release.noise_levels
    sizes = np.trace(known.numbers, axis1=1, axis2=2) / known.grouped.size
    beside = float(np.mean(known.left(release.point) ** 2)) if len(known.grouped.told) else 0.0
    return own + moved / (known.precision * sizes**2), common + beside * float(moved.sum())


def spread_of(grouped: Grouped, release: Release, slope: Arrow, believed: Believed) -> Arrow:
    """Return the covariance of a mean of like releases: of the records, and of the noise."""
    weights = release.radii.weights
    traces = np.einsum("gij,gji->g", np.swapaxes(release.roots, 1, 2) @ slope.blocks, release.roots)
    shares = release.shares[0] * weights * traces.sum() / max(float(weights @ traces), 1e-12)
    own = np.sqrt(np.clip(shares, LEAST_SHARE, MOST_SHARE))
    inner = np.sqrt(np.clip(release.shares[1:], LEAST_SHARE, MOST_SHARE))
    turned = np.linalg.inv(release.factor).T @ (inner[:, None] * release.factor.T)
    of_records = Arrow(
        own[:, None, None] ** 2 * slope.blocks,
        own[:, None, None] * slope.border @ turned.T,
        turned @ slope.corner @ turned.T,
    )
    of_groups, of_common = np.sum(believed.groups**2, axis=0), float(np.sum(believed.common**2))
    noise = Arrow(
        of_groups[:, None, None] * release.noise.blocks, release.noise.border, of_common * release.noise.corner
    )
    return embedded(grouped, of_records.plus(noise), 1.0)


def embedded(grouped: Grouped, arrow: Arrow, rest: float) -> Arrow:
    """Return an arrow of what is told of as one of all common parameters, with a number on the rest of the diagonal."""
    size, told = grouped.num_common, grouped.told
    border = np.zeros((*arrow.border.shape[:2], size))
    border[:, :, told] = arrow.border
    corner = rest * np.eye(size)
    corner[np.ix_(told, told)] = arrow.corner
    return Arrow(arrow.blocks, border, corner)


def score_of(grouped: Grouped, release: Release) -> Vectors:
    """Return the scores of a release, zero for what they do not tell of."""
    common = np.zeros(grouped.num_common)
    common[grouped.told] = release.common_score
    return Vectors(release.score[..., None], common[:, None])


def seen_move(grouped: Grouped, means: Floats, first: Point, second: Point) -> Vectors:
    """Return how what records see moves from one point to another."""
    common = second.common - first.common
    return Vectors((second.effects - first.effects + whole_means(grouped, means) @ common)[..., None], common[:, None])


def told_by(grouped: Grouped, known: Known, releases: Sequence[Release], slope: Arrow) -> Measured:
    """Return what releases with the same bounds tell around the point of the last one, if this is their slope."""
    last = releases[-1]
    whole = embedded(grouped, slope, 0.0)
    scores: list[Vectors] = []
    for release in releases:
        predicted = whole.times(seen_move(grouped, known.means, release.point, last.point))
        found = score_of(grouped, release)
        scores.append(Vectors(found.groups - predicted.groups, found.common - predicted.common))
    believed = Believed.of(known, releases)
    mean = Vectors(
        np.einsum("rg,rgkv->gkv", believed.groups, np.array([one.groups for one in scores])),
        np.einsum("r,rcv->cv", believed.common, np.array([one.common for one in scores])),
    )
    return measured(whole, spread_of(grouped, last, slope, believed), mean)


def disagreement(grouped: Grouped, known: Known, first: Release, second: Release, slope: Arrow) -> tuple[float, float]:
    """Return by how much two releases differ, as a chi-square and as how rarely it is more."""
    moved = seen_move(grouped, known.means, first.point, second.point)
    predicted = embedded(grouped, slope, 0.0).times(moved)
    groups = (second.score - first.score)[..., None] + predicted.groups
    turned = np.swapaxes(second.roots, 1, 2) @ groups
    own, of_common = doubts_of(known, first, moves_of(known, first, second))
    noise, common_noise = second.noise_levels
    chi_square = float(np.sum(turned[..., 0] ** 2 / (own + noise)[:, None]))
    common = (second.common_score - first.common_score) + predicted.common[grouped.told, 0]
    chi_square += float(np.sum((second.factor.T @ common) ** 2)) / (of_common + common_noise)
    return chi_square, float(special.chdtrc(turned.size + len(common), max(chi_square, 0.0)))


def drawn_slope(known: Known, releases: Sequence[Release], scale: float, rng: np.random.Generator) -> Arrow:
    """Return a slope that the released ones may be noisy versions of, given how much larger all groups' are."""
    last = releases[-1]
    size, told = known.grouped.size, len(known.grouped.told)
    each = scale * weights_of(releases) * known.per_record(last.point, last.radii.bound)
    numbers = known.numbers + known.precision[:, None, None] ** -0.5 * _symmetric(rng, (len(each), size, size))
    values, vectors = np.linalg.eigh(numbers)
    least = np.maximum(0.02 * known.rows, 1.0)[:, None]
    blocks = each[:, None, None] * ((vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2))
    corner = sum((release.slope.corner for release in releases), start=np.zeros((told, told))) / len(releases)
    inverse = np.asarray(np.linalg.inv(last.factor), np.float64)
    noise = last.slope_sds[2] / np.sqrt(len(releases)) * _symmetric(rng, (told, told))
    corner = inverse.T @ _floored(last.factor.T @ corner @ last.factor + noise) @ inverse
    beside, left = known.shrunk(last.point)
    roots = np.linalg.cholesky(known.per_record(last.point, 1.0)[:, None, None] * known.numbers)
    more = np.linalg.solve(np.swapaxes(roots, 1, 2), rng.standard_normal((*beside.shape[:2], told)) @ left)
    return with_border(blocks, beside + more, corner)


def usual_slope(known: Known, releases: Sequence[Release]) -> Arrow:
    """Return the slope of releases with the same bounds, as it is known best."""
    last = releases[-1]
    found = known.slope(last.point, last.radii.bound, weights_of(releases))
    corner = sum((release.slope.corner for release in releases), start=np.zeros_like(found.corner)) / len(releases)
    inverse = np.linalg.inv(last.factor)
    noise = last.slope_sds[2] * np.sqrt(corner.shape[0] / len(releases))
    corner = inverse.T @ _floored(last.factor.T @ corner @ last.factor, min(noise, FLATTEST)) @ inverse
    return with_border(found.blocks, known.shrunk(last.point)[0], corner)


def draw(
    grouped: Grouped, known: Known, releases: Sequence[Release], spreads: Floats, size: int, rng: np.random.Generator
) -> Drawn:
    """Return draws from the posterior of releases and the prior.

    Args:
        grouped: the model.
        known: of the slope.
        releases: the last ones, with the same bounds.
        spreads: standard deviations of effects, to start from.
        size: how many draws.
        rng: for slopes, standard deviations and draws.
    """
    sizes = np.bincount(np.arange(size) % SLOPES, minlength=SLOPES)
    parts: list[Drawn] = []
    slope = usual_slope(known, releases)
    beside = _Posterior.of(grouped, known, releases, slope, spreads).beside_lines(known, releases)
    usual = _Posterior.of(grouped, known, _straight(releases, beside), slope, spreads)
    grids = [grid(grouped, place) for place in range(grouped.size)]
    for _ in range(REFINEMENTS):
        grids = around(grids, *usual.law(grids))
    wide = [wider(own, grid(grouped, place)) for place, own in enumerate(grids)]
    ranks = (rng.permutation(SLOPES) + 0.5) / SLOPES
    scales = np.maximum(1 + doubt_of_weights(releases) * special.ndtri(ranks), LEAST_SCALE)
    for number, scale in zip(sizes[sizes > 0], scales, strict=False):
        straight = _straight(releases, beside, 1 + DOUBT * rng.standard_normal())
        posterior = _Posterior.of(grouped, known, straight, drawn_slope(known, releases, float(scale), rng), spreads)
        own = around(wide, *posterior.law(wide))  # another slope tells of other standard deviations
        parts.append(posterior.draw(own, int(number), rng))
    order = rng.permutation(size)
    effects, common, found = (np.concatenate(each)[order] for each in zip(*parts, strict=True))
    return Drawn(effects, common, found)


class _Posterior(NamedTuple):
    """What releases tell with one slope, and the prior."""

    grouped: Grouped
    point: Point
    means: Floats
    told: Measured
    prior: Prior

    @classmethod
    def of(
        cls, grouped: Grouped, known: Known, releases: Sequence[Release], slope: Arrow, spreads: Floats
    ) -> "_Posterior":
        """Return it with the prior of what is common as it is around the mode."""
        told, point = told_by(grouped, known, releases, slope), releases[-1].point
        means, centre = whole_means(grouped, known.means), point.common
        for _ in range(CLIMBS):
            at = _prior(grouped, spreads, centre, point)
            move = told.beside(at.arrow(grouped.num_groups, means)).solve(told.tilt.plus(at.tilt(point, means)))
            centre = point.common + move.common[:, 0]
        return cls(grouped, point, means, told, _prior(grouped, spreads, centre, point))

    def beside_lines(self, known: Known, releases: Sequence[Release]) -> list[Beside]:
        """Return what scores have beside a line, at each release: of how far the predictors of each group are off."""
        precision, tilt = self._at(self.prior.spreads)
        move, left = precision.solve(tilt), np.linalg.inv(self.told.told.blocks + self.prior.block)
        found: list[Beside] = []
        for release in releases:
            before = seen_move(self.grouped, known.means, release.point, self.point)
            away = (before.groups + move.groups)[..., 0]
            both = away[:, :, None] * away[:, None, :] + left
            sizes = np.maximum(np.trace(known.numbers, axis1=1, axis2=2), 1e-9)
            squares = np.einsum("gij,gji->g", both, known.numbers) / sizes
            means = away[:, self.grouped.of_intercept].sum(axis=1)
            found.append(beside_a_line(known, release, means, np.sqrt(np.maximum(squares - means**2, 0.0))))
        return found

    def _at(self, spreads: Floats) -> tuple[Precision, Vectors]:
        own = self.prior._replace(spreads=spreads)
        precision = self.told.beside(own.arrow(self.grouped.num_groups, self.means))
        return precision, self.told.tilt.plus(own.tilt(self.point, self.means))

    def evidence(self, spreads: Floats) -> float:
        """Return the logarithm of how probable standard deviations are, up to a constant."""
        precision, tilt = self._at(spreads)
        solved = precision.solve(tilt)
        square = float(np.sum(tilt.groups * solved.groups) + np.sum(tilt.common * solved.common))
        densities = (
            float(group.prior.density(value) + np.log(value)) if group.prior.fixed is None else 0.0
            for group, value in zip(self.grouped.spreads, spreads, strict=True)
        )
        of_effects = self.prior._replace(spreads=spreads).log_density(self.point)
        return 0.5 * square - 0.5 * precision.log_determinant() + of_effects + sum(densities)

    def law(self, grids: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return the cells of a grid, and how probable they are."""
        cells = np.array(list(product(*grids)))
        logs = np.array([self.evidence(cell) for cell in cells])
        shares = np.exp(logs - logs.max())
        return cells, shares / shares.sum()

    def draw(self, grids: Sequence[Floats], size: int, rng: np.random.Generator) -> Drawn:
        """Return draws."""
        cells, shares = self.law(grids)
        widths = np.array([np.log(each[1] / each[0]) if len(each) > 1 else 0.0 for each in grids])
        parts: list[Drawn] = []
        for cell, count in zip(cells, rng.multinomial(size, shares).tolist(), strict=True):
            if count:
                precision, tilt = self._at(cell)
                move = precision.draw(tilt, count, rng)
                moved = np.moveaxis(move.groups, 2, 0) - (move.common.T @ self.means.T)[:, None, :]
                within = cell * np.exp(widths * (rng.random((count, len(cell))) - 0.5))
                parts.append(Drawn(self.point.effects + moved, self.point.common + move.common.T, within))
        effects, common, spreads = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Drawn(effects, common, spreads)


def _straight(releases: Sequence[Release], beside: Sequence[Beside], times: float = 1.0) -> list[Release]:
    """Return releases without what is beside a line in their scores."""
    return [without(release, own, times) for release, own in zip(releases, beside, strict=True)]


def _prior(grouped: Grouped, spreads: Floats, centre: Floats, point: Point) -> Prior:
    """Return the prior around a centre, with its gradient at a point."""
    found = Prior.at(grouped, spreads, centre)
    return found._replace(gradient=found.gradient + found.precision @ (centre - point.common))


def _symmetric(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return symmetric noise, of variance one on the diagonal and a half off it."""
    noise = np.tril(rng.standard_normal(shape))
    both = noise + np.swapaxes(np.tril(noise, -1), -1, -2)
    return both * np.where(np.eye(shape[-1]) > 0, 1.0, np.sqrt(0.5))


def _floored(matrix: Floats, least: float = 0.0) -> Floats:
    """Return a matrix that is not flatter in any direction than a hundredth of the steepest, and than this."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, max(0.01 * float(np.max(values, initial=1e-4)), least))) @ vectors.T
