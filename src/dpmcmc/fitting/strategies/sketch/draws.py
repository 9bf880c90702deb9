"""Draws from a posterior whose likelihood is known from a noisy sketch: post-processing at no privacy cost.

The release is S = T + N(0, s^2), where T is the sum of the coefficients. Given S, T is distributed as S + N(0, s^2), so
the draws are from the mixture of the posteriors given many such values: they include the noise.

They are made by importance sampling: proposals from a mixture that is fitted to the posterior in rounds, with
importance weights. This handles several modes and ridges, but does not work in more than about ten dimensions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpmcmc.fitting.strategies.sketch.mixture import Mixture
from dpmcmc.fitting.strategies.sketch.skeleton import Matrix
from dpmcmc.fitting.strategies.sketch.sketch import Sketch

REPLICATES = 256
POINTS = 2**14
LAST_POINTS = 2**15
CENTRES = 250
ROUNDS = 6
CLIMBS = 16
NARROWER = 0.7
"""Scale of a mixture component, relative to the local scale of the posterior."""

ENOUGH = 0.5
"""Effective share of the points at which the rounds stop."""

TOO_FEW = 0.02
"""Below this effective share the weights are tempered before centres are drawn by them."""

LEVELLING = 0.8
"""Power of one tempering of the weights; it is repeated as often as needed."""

FARTHEST = 30.0
"""A mode is ignored if its estimated log-mass is this far below that of the best one."""


class Points(NamedTuple):
    """A weighted sample from a distribution."""

    positions: Matrix
    weights: Matrix
    """(point, replicate of the noise); each column adds up to one."""

    @property
    def effective(self) -> float:
        """The effective share of the points, averaged over replicates."""
        together = self.weights.mean(axis=1)
        return float(1 / np.sum(together**2) / len(together))

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Return draws, one row each."""
        return self.positions[_chosen(rng, self.weights.mean(axis=1), num_draws)]

    def pairs(self, rng: np.random.Generator, num_pairs: int) -> tuple[Matrix, Matrix]:
        """Return two draws row by row, both with the same replicate of the noise: no wider than the posterior."""
        each = -(-num_pairs // self.weights.shape[1])
        chosen = np.stack([_chosen(rng, column, 2 * each) for column in self.weights.T])
        first, second = self.positions[chosen[:, :each]], self.positions[chosen[:, each:]]
        return first.reshape(-1, self.positions.shape[1]), second.reshape(-1, self.positions.shape[1])


@dataclass(frozen=True, eq=False)
class Sketched:
    """A posterior given a released sketch."""

    sketch: Sketch
    total: Matrix
    """The noisy sum of the coefficients."""

    deviation: float
    """The standard deviation of its noise."""

    num_records: int

    def explore(self, rng: np.random.Generator, positions: Matrix) -> Points:
        """Return a weighted sample from the posterior; the search starts at `positions`."""
        totals = self.replicates(rng)
        mixture, widest = self._around_modes(positions)
        for _ in range(ROUNDS):
            drawn = mixture.draw(rng, POINTS)
            points = self.weigh(drawn, mixture.log_density(drawn), totals)
            mixture = self._fitted(rng, points, widest)
            if points.effective >= ENOUGH:
                break
        drawn = mixture.draw(rng, LAST_POINTS)
        return self.weigh(drawn, mixture.log_density(drawn), totals)

    def replicates(self, rng: np.random.Generator) -> Matrix:
        """Return draws of the true sum given the noisy one, one row each."""
        return self.total + self.deviation * rng.standard_normal((REPLICATES, self.sketch.rank))

    def weigh(self, positions: Matrix, log_density: NDArray[np.float64], totals: Matrix) -> Points:
        """Return positions, drawn with that log-density, as weighted samples from the posteriors given these sums."""
        sums = np.column_stack([np.full(len(totals), self.num_records), totals])
        fixed = self.sketch.likelihood.log_priors(positions) - log_density
        with np.errstate(over="ignore", invalid="ignore"):  # points far out, which get no weight
            values = self.sketch.basis(positions) @ sums.T + fixed[:, None]
        is_finite = np.isfinite(values)
        if not is_finite.any(axis=0).all():
            raise ValueError("with the noise of this budget the sketched posterior is nowhere finite")
        return Points(positions, softmax(np.where(is_finite, values, -np.inf), axis=0))

    def _around_modes(self, positions: Matrix) -> tuple[Mixture, Matrix]:
        """Optimise from some of the positions; return a mixture around the modes, and the spread of the positions."""
        sketch, likelihood = self.sketch, self.sketch.likelihood
        sums = np.append(self.num_records, self.total)
        heights = likelihood.log_priors(positions) + sketch.basis(positions) @ sums
        order = np.argsort(-heights)
        starts = positions[[*order[: CLIMBS // 2], *order[:: 2 * len(order) // CLIMBS]]]
        weights = sums @ sketch.skeleton.to_basis
        widest = np.cov(positions, rowvar=False).reshape(positions.shape[1], -1)
        found: list[tuple[float, Matrix, Matrix]] = []
        for start in starts:
            ended = likelihood.climb(start, sketch.anchors, weights)
            curvature = None if ended is None else likelihood.curvatures(ended[0][None], sketch.anchors, weights)[0]
            if ended is None or curvature is None or not np.isfinite(curvature).all():
                continue
            mode, height = ended
            precision = _at_least(curvature, widest)
            if all((mode - other) @ near @ (mode - other) > 1 for _, other, near in found):
                found.append((height - 0.5 * float(np.linalg.slogdet(precision)[1]), mode, precision))
        if not found:
            raise ValueError("with the noise of this budget the sketched posterior has no mode")
        best = max(mass for mass, _, _ in found)
        kept = [(mode, precision) for mass, mode, precision in found if mass > best - FARTHEST]
        factors: list[Matrix] = []
        for mode, precision in kept:
            covariance = np.linalg.inv(precision)
            slopes = sketch.skeleton.to_basis[1:] @ likelihood.slopes(mode, sketch.anchors)
            moved = self.deviation * covariance @ slopes.T  # by which noise moves the mode
            factors.append(np.asarray(np.linalg.cholesky(covariance + moved @ moved.T), np.float64))
        return Mixture(np.stack([mode for mode, _ in kept]), np.stack(factors)), widest

    def _fitted(self, rng: np.random.Generator, points: Points, widest: Matrix) -> Mixture:
        """Return a mixture of many narrow components at points of the posterior, each with the local scale."""
        levelled = _levelled(points.weights.mean(axis=1))
        centres = points.positions[_chosen(rng, levelled, CENTRES)]
        weights = np.append(self.num_records, self.total) @ self.sketch.skeleton.to_basis
        curvatures = self.sketch.likelihood.curvatures(centres, self.sketch.anchors, weights)
        is_finite = np.isfinite(curvatures).all(axis=(1, 2))
        centres, curvatures = centres[is_finite], curvatures[is_finite]
        widths = [np.linalg.inv(_at_least(curvature, widest)) for curvature in curvatures]
        return Mixture(centres, np.asarray(NARROWER * np.linalg.cholesky(np.stack(widths)), np.float64))


def _chosen(rng: np.random.Generator, weights: NDArray[np.float64], number: int) -> NDArray[np.int64]:
    """Return indices by weight, spread as evenly as can be and shuffled."""
    heights = np.cumsum(weights)
    places = (np.arange(number) + rng.uniform()) / number * heights[-1]
    return rng.permutation(np.searchsorted(heights, places, side="right"))


def _levelled(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights, tempered by the largest power up to one with a sufficient effective share."""
    levelled = weights / weights.max()
    while levelled.sum() ** 2 < TOO_FEW * len(weights) * np.sum(levelled**2):
        levelled = levelled**LEVELLING
    return levelled / levelled.sum()


def _at_least(precision: Matrix, widest: Matrix) -> Matrix:
    """Return a precision that is positive, and nowhere below that of the widest covariance."""
    factor = np.linalg.cholesky(widest)
    values, vectors = np.linalg.eigh(factor.T @ precision @ factor)
    root = np.linalg.solve(factor.T, vectors)
    return (root * np.maximum(np.abs(values), 1.0)) @ root.T
