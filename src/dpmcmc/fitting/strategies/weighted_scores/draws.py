"""Draws from the posterior given the last two releases and the prior: post-processing on the host.

The last two releases are queried at two points with the same weights, and their likelihoods are combined. Their
difference tests whether scores are linear between the points, as everything else assumes: it contains only the noise
of the two, since the records are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.monotone_draws import Normal, with_effects
from dpmcmc.fitting.strategies.weighted_scores.regression import Group, Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.spread_evidence import around, log_evidence, wide_grid
from dpmcmc.fitting.strategies.weighted_scores.whitening import Likelihood

SLOPES = 32
"""Number of slopes drawn around the released one, so that the draws include its uncertainty."""

PROPOSALS = 4
"""Number of proposals per draw."""

AGREE = 0.05
"""Significance level at which earlier releases are dropped for disagreeing with later ones."""

RARE = 1e-3
"""False-alarm rate of the test that two releases agree."""

LEAST_SEEN = 0.4
"""Identified directions have at least this slope, in noise levels, in the slopes drawn around the released one."""

FLAT = 1e-13
"""Relative eigenvalue below which a direction is not moved along."""

CLIMBS, NEAR, FARTHEST = 30, 1e-4, 1.0
"""Steps to the mode, how short the last one is, and how far any moves shapes: it bends where they are large."""

REUSED = 4
"""Proposals that have the same spreads, where there are several and each is drawn given the others."""


@dataclass(frozen=True)
class Joined:
    """Two releases combined into one, at the point of the second."""

    release: Release
    disagreement: float
    """The squared difference of the two in variances of its noise: chi-square with as many degrees as parameters."""
    is_alone: bool = False
    """Whether it is the second alone: the answers are not linear between the two points."""

    @property
    def p_value(self) -> float:
        """p-value of the disagreement, if scores are linear between the points."""
        return float(special.chdtrc(self.release.dimension, max(self.disagreement, 0.0)))


def join(first: Release, second: Release, moved: Floats | None = None) -> Joined:
    """Combine two releases with the same coordinates and weights.

    Args:
        first: the earlier release.
        second: the last release.
        moved: the whitened displacement between their points, if it is not the difference of the two.
    """
    of_both = None if second.doubts is None or first.doubts is None else (first.doubts + second.doubts) / 2
    weights = np.array([first.slope_sd, second.slope_sd]) ** -2.0
    weights = weights / weights.sum()
    slope = weights[0] * first.slope + weights[1] * second.slope
    slope_sd = float((first.slope_sd**-2.0 + second.slope_sd**-2.0) ** -0.5)
    variance = weights[0] * first.variance + weights[1] * second.variance
    differences = None
    if first.differences is not None and second.differences is not None:
        differences = weights[0] * first.differences + weights[1] * second.differences
    moved = first.whitening.inverse @ (second.point - first.point) if moved is None else moved
    predicted = first.score - slope @ moved
    predicted_variance = first.score_variance + slope_sd**2 * float(moved @ moved)
    total = predicted_variance + second.score_variance
    share = second.score_variance / total
    joined = replace(
        second,
        score=share * predicted + (1 - share) * second.score,
        score_variance=predicted_variance * second.score_variance / total,
        slope=slope,
        slope_sd=slope_sd,
        variance=variance,
        differences=differences,
        doubts=of_both,
        lengths_sd=float(np.sqrt(np.sum((weights * [first.lengths_sd, second.lengths_sd]) ** 2))),
    )
    return Joined(joined, float(np.sum((second.score - predicted) ** 2)) / total)


def join_all(releases: Sequence[Release], moved: Callable[[Release, Release], Floats | None] | None = None) -> Joined:
    """Combine releases with the same coordinates and weights: the last two, and earlier ones that agree with them.

    Args:
        releases: the releases in order.
        moved: the displacement between the points of two of them, if it is not the difference of the two.
    """
    if len(releases) == 1:
        return Joined(releases[0], 0.0)
    *before, one, last = releases

    def joined(first: Release, second: Release) -> Joined:
        return join(first, second, None if moved is None else moved(first, second))

    for earlier in before:
        together = joined(earlier, one)
        one = together.release if together.p_value > AGREE else one
    return joined(one, last)


def join_or_last(releases: Sequence[Release]) -> Joined:
    """Combine releases, or return the last one if it disagrees with earlier ones, which determined its point."""
    joined = join_all(releases)
    if joined.p_value >= RARE:
        return joined
    return Joined(releases[-1], joined.disagreement, is_alone=True)


class Drawn(NamedTuple):
    """Draws, with the effective share left by importance weights that correct the normal proposals."""

    vectors: Floats
    spreads: Mapping[str, Floats]
    share_kept: float
    """The effective share of the draws, one where the posterior is normal."""
    root: Floats
    """Their mean, were the priors of monotonic effects normal: where the releases lead."""


def draw(regression: Regression, release: Release, spreads: Mapping[str, Floats], size: int, rng: Generator) -> Drawn:
    """Return draws from the posterior of a release and the prior.

    Args:
        regression: the model.
        release: the combined release.
        spreads: initial standard deviations of random intercepts.
        size: the number of draws.
        rng: the generator for slopes, spreads and draws.
    """
    sizes = np.bincount(np.arange(size) % SLOPES, minlength=SLOPES)
    vectors, kept, roots = [], [], []
    found: dict[str, list[Floats]] = {group.name: [] for group in regression.groups}
    for number in sizes[sizes > 0]:
        told = release.told(_drawn_slope(release, rng))
        posterior = _Posterior(regression, release, told)
        drawn, own, share, root = posterior.draw({name: value.copy() for name, value in spreads.items()}, number, rng)
        roots.append(root)
        vectors.append(drawn)
        kept.append(share)
        for name, values in own.items():
            found[name].append(values)
    order = rng.permutation(size)
    spreads = {name: np.concatenate(values)[order] for name, values in found.items()}
    found_all = np.concatenate(vectors)[order]
    root = np.mean(roots, axis=0) if regression.model.coordinates.monotone else found_all.mean(axis=0)
    return Drawn(found_all, spreads, float(np.mean(kept)), root)


def _drawn_slope(release: Release, rng: Generator) -> Floats:
    """Return a draw of the true slope given the released one, positive in the directions that it identifies."""
    size = release.dimension
    noise = np.tril(rng.standard_normal((size, size)))
    both = (noise + np.tril(noise, -1).T) * np.where(np.eye(size) > 0, 1.0, np.sqrt(0.5))
    values, vectors = np.linalg.eigh(release.slope_doubt)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = release.slope + root @ both @ root.T
    unseen = release.unseen(release.slope)
    kept = np.eye(size) - unseen @ unseen.T
    values, vectors = np.linalg.eigh(kept @ drawn @ kept)
    is_seen = np.sum(vectors * (kept @ vectors), axis=0) > 0.5
    least = LEAST_SEEN * release.noise_levels(vectors)
    return (vectors * np.where(is_seen, np.maximum(values, least), 0.0)) @ vectors.T


class _Quadratic(NamedTuple):
    """Second-order expansion of the log-prior around a point, without random intercepts; it is concave."""

    point: Floats
    gradient: Floats
    bend: Floats

    def __call__(self, points: Floats) -> Floats:
        moves = points - self.point
        return moves @ self.gradient - 0.5 * np.sum((moves @ self.bend) * moves, axis=1)


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The normal likelihood of a release, times the prior."""

    regression: Regression
    release: Release
    told: Likelihood

    def draw(
        self, spreads: Mapping[str, Floats], size: int, rng: Generator
    ) -> tuple[Floats, Mapping[str, Floats], float, Floats]:
        """Return draws, the spreads that they were drawn with, the effective share of the proposals, and their mean.

        Given the spreads, likelihood and random intercepts are normal, and the rest of the prior approximately so.
        Proposals assume that it is; importance weights correct them.
        """
        number = PROPOSALS * size + 16
        prior = self._prior_at_mode(spreads)
        drawn = self._spreads(prior, spreads, number, rng)
        points = np.concatenate([self._normal(prior, each, count, rng) for each, count in drawn])
        root, logs = points.mean(axis=0), np.zeros(number)
        if self.regression.model.coordinates.monotone:
            points, logs = with_effects(self.regression, lambda each: self._law_of(prior, each), drawn, rng)
        logs = logs + self.regression.log_prior(points) - prior(points)
        logs = np.where(np.isfinite(logs), logs, -np.inf)
        weights = np.exp(logs - logs.max()) if np.isfinite(logs).any() else np.ones(number)
        weights = weights / weights.sum()
        chosen = rng.choice(number, size, p=weights)
        which = np.repeat(np.arange(len(drawn)), [count for _, count in drawn])[chosen]
        kept = {name: np.stack([drawn[place][0][name] for place in which]) for name in spreads}
        share = float(1 / np.sum(weights**2) / number) if np.isfinite(logs).any() else 0.0
        return points[chosen], kept, share, root

    def _law_of(self, prior: _Quadratic, spreads: Mapping[str, Floats]) -> Normal:
        """Return the normal distribution of the parameters, given the spreads."""
        precision, tilt = self._joined(prior, spreads)
        factor, covariance = self.release.whitening.factor, np.linalg.inv(precision)
        return Normal(self.release.point + factor @ (covariance @ tilt), factor @ covariance @ factor.T)

    def _prior_at_mode(self, spreads: Mapping[str, Floats]) -> _Quadratic:
        """Return the expansion of the prior around the posterior mode."""
        point, factor = self.release.point, self.release.whitening.factor
        prior = self._quadratic(point)
        for _ in range(CLIMBS):
            precision, tilt = self._joined(prior, spreads)
            moved = self.release.point + factor @ (np.linalg.pinv(precision, rcond=FLAT, hermitian=True) @ tilt)
            change = moved - point
            change = change * min(
                1.0, FARTHEST / max(np.abs(change[self.regression.num_linear :]).max(initial=0.0), 1e-30)
            )
            step = self.release.whitening.inverse @ change
            point = point + change
            prior = self._quadratic(point)
            if np.linalg.norm(step) < NEAR:
                break
        return prior

    def _quadratic(self, point: Floats) -> _Quadratic:
        gradient, bend = self.regression.prior_at(point)
        return _Quadratic(point, gradient, self._without_groups(self.regression.prior_precision(bend)))

    def _without_groups(self, precision: Floats) -> Floats:
        """Return a precision of the prior without that of random intercepts, which the spreads have."""
        for group in self.regression.groups:
            precision[group.places, :] = 0.0
            precision[:, group.places] = 0.0
        return precision

    def _joined(
        self, prior: _Quadratic, spreads: Mapping[str, Floats], without: tuple[str, int] | None = None
    ) -> tuple[Floats, Floats]:
        """Return precision and tilt of the posterior given the spreads, in whitened coordinates around the release.

        The prior of the effects of one spread can be left out.
        """
        factor, bend = self.release.whitening.factor, prior.bend.copy()
        gradient = prior.gradient + prior.bend @ (prior.point - self.release.point)
        for places, spread in self._members(spreads, without):
            bend[places, places] += spread**-2.0
            gradient[places] -= self.release.point[places] / spread**2
        precision = self.told.precision + factor.T @ bend @ factor
        return (precision + precision.T) / 2, self.told.tilt + factor.T @ gradient

    def _normal(self, prior: _Quadratic, spreads: Mapping[str, Floats], size: int, rng: Generator) -> Floats:
        precision, tilt = self._joined(prior, spreads)
        root = np.linalg.cholesky(precision)
        noise = np.linalg.solve(root.T, rng.standard_normal((len(tilt), size)))  # of few rows sooner than by triangles
        z = np.linalg.solve(precision, tilt) + noise.T
        return self.release.point + z @ self.release.whitening.factor.T

    def _members(
        self, spreads: Mapping[str, Floats], without: tuple[str, int] | None = None
    ) -> list[tuple[np.ndarray, float]]:
        return [
            (group.members(which), float(spread))
            for group in self.regression.groups
            for which, spread in enumerate(spreads[group.name])
            if (group.name, which) != without
        ]

    def _spreads(
        self, prior: _Quadratic, spreads: Mapping[str, Floats], number: int, rng: Generator
    ) -> list[tuple[Mapping[str, Floats], int]]:
        """Return Gibbs draws of the spreads, parameters integrated out, each with its number of draws."""
        free = [
            (group, which)
            for group in self.regression.groups
            if group.prior.fixed is None
            for which in range(group.num_spreads)
        ]
        if not free:
            return [(spreads, number)]
        found: list[tuple[Mapping[str, Floats], int]] = []
        current, laws = dict(spreads), dict[str, tuple[Floats, Floats]]()
        times = 1 if len(free) == 1 else REUSED
        while len(found) * times < number:
            for group, which in free:
                if not laws or len(free) > 1:  # one alone has the same distribution every time
                    laws[group.name] = self._law(prior, current, group, which)
                grid, shares = laws[group.name]
                near = rng.choice(len(grid), p=shares)
                jitter = np.log(grid[1] / grid[0]) * (rng.random() - 0.5)
                current[group.name] = _set(current[group.name], which, grid[near] * np.exp(jitter))
            found.append((dict(current), min(times, number - len(found) * times)))
        return found

    def _law(self, prior: _Quadratic, spreads: Mapping[str, Floats], group: Group, which: int) -> tuple[Floats, Floats]:
        """Return values of one spread with their probabilities, given the others."""
        places = group.members(which)
        precision, tilt = self._joined(prior, spreads, (group.name, which))
        effects, point = self.release.whitening.factor[places].T, self.release.point[places]

        def shares_of(grid: Floats) -> Floats:
            logs = log_evidence(precision, tilt, effects, point, grid) + group.prior.density(grid) + np.log(grid)
            shares = np.exp(logs - logs.max())
            return shares / shares.sum()

        wide = wide_grid(group.prior)
        grid = around(wide, shares_of(wide))
        return grid, shares_of(grid)


def _set(values: Floats, which: int, value: float) -> Floats:
    changed = values.copy()
    changed[which] = value
    return changed
