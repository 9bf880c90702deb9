"""Bounded scores of counts, whose predictor is the logarithm of their mean: their moments are tabled over it."""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import BoundedScore, Floats, TabledScores, residual_row, table_row

ROWS = 257
LOWEST = -14.0
"""The least predictor that is told from lower ones."""

NODES, SMALL = 1500, 300
"""Counts at which the moments are summed: all of them where they are not more; else the small ones, and among the
others some that stand for those around them."""


class Counts(TabledScores):
    """Counts up to a stated bound; predictors beyond three more than its logarithm count as that."""

    def __init__(self, most: float) -> None:
        self.highest = float(np.log1p(most)) + 3.0

    @abstractmethod
    def scores(self, xp: Any, count: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores of one count or of many (..., arguments)."""

    @abstractmethod
    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return the log-probabilities of counts, up to a constant."""

    @abstractmethod
    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the standard deviation, and the length over which the tail falls by e."""

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return a row for each predictor of an even grid."""
        return np.stack([self._row(predictor, shapes, bound) for predictor in np.linspace(LOWEST, self.highest, ROWS)])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        del trials
        predictor = jnp.clip(predictors[0], LOWEST, self.highest)
        return self.bounded(self.scores(jnp, response, predictor, shapes), self._between(predictor, table))

    def _between(self, predictor: Any, table: Any) -> Any:
        """Return a row between the two nearest ones."""
        place = (predictor - LOWEST) * ((ROWS - 1) / (self.highest - LOWEST))
        index = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, ROWS - 2)
        share = place - index
        return table[index] * (1 - share) + table[index + 1] * share

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return a row for each predictor of an even grid, finer than a count can jump over a bin's edge."""
        grid = np.linspace(LOWEST, self.highest, ROWS)
        return np.stack([residual_row(*self._law(predictor, shapes)) for predictor in grid])

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in standard deviations, and how probable its bins are.

        Bins of a count's residual are as probable as at the nearest predictor of the grid, where it is taken to be.
        """
        del trials
        step = (self.highest - LOWEST) / (ROWS - 1)
        index = jnp.clip(jnp.round((predictors[0] - LOWEST) / step).astype(jnp.int32), 0, ROWS - 1)
        scores = self.scores(jnp, response, LOWEST + step * index, shapes)
        return scores[0] * table[index, 0], table[index, 1:]

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the Fisher information of one record, its scores cut far out."""
        return np.asarray(self.columns(self.row(predictors, shapes, 20.0))[3])

    def row(self, predictors: Floats, shapes: Floats, bound: float) -> Floats:
        """Return the row at a predictor, not looked up."""
        return self._row(float(np.clip(predictors[0], LOWEST, self.highest)), shapes, bound)

    def _row(self, predictor: float, shapes: Floats, bound: float) -> Floats:
        counts, weights = self._rule(predictor, shapes)
        return table_row(self.scores(np, counts, predictor, shapes), weights, bound, self.shape_bound(bound))

    def _law(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return scores by the predictor and their weights."""
        counts, weights = self._rule(predictor, shapes)
        return self.scores(np, counts, predictor, shapes)[:, 0], weights

    def _rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return counts and weights with which to sum over the law."""
        mean = float(np.exp(predictor))
        sd, tail = self.spread(mean, shapes)
        counts, widths = _nodes(mean - 12 * sd - 40, mean + 12 * sd + 40 * tail)
        logs = self.log_density(counts, predictor, shapes)
        weights = widths * np.exp(logs - logs.max())
        return counts, weights / weights.sum()


def _nodes(least: float, most: float) -> tuple[Floats, Floats]:
    """Return counts between two numbers, and for how many each of them stands."""
    least = max(0.0, np.floor(least))
    if most - least <= NODES:
        counts = np.arange(least, most)
        return counts, np.ones_like(counts)
    if least:
        counts = np.linspace(least, most, NODES)
        return counts, np.ones_like(counts)
    small = np.arange(SMALL, dtype=float)
    large = np.geomspace(SMALL, most, NODES - SMALL)
    edges = np.concatenate([[SMALL - 0.5], (large[1:] + large[:-1]) / 2, [most]])
    return np.concatenate([small, large]), np.concatenate([np.ones(SMALL), np.diff(edges)])


class Poisson(Counts):
    """Poisson counts."""

    usual_length = 2.0

    def scores(self, xp: Any, count: Any, predictor: Any, shapes: Any) -> Any:
        """Return y - mean."""
        del shapes
        return (count - xp.exp(predictor))[..., None]

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return y eta - log y!."""
        del shapes
        return counts * predictor - special.gammaln(counts + 1)

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the root of the mean; tails are short."""
        del shapes
        return float(np.sqrt(mean)), 1.0


class NegativeBinomial(Counts):
    """Counts of variance mean + mean^2 / concentration; the shape is the logarithm of the concentration."""

    num_shapes = 1
    usual_length = 2.8

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tail is long."""
        return 3.0 * bound

    def scores(self, xp: Any, count: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores by the predictor and by the log concentration."""
        concentration, mean = xp.exp(shapes[0]), xp.exp(predictor)
        psi = special.digamma if xp is np else digamma
        total = concentration + mean
        known = psi(count + concentration) - psi(concentration)
        of_concentration = known + xp.log(concentration / total) + (mean - count) / total
        by_predictor = (count - mean) * (concentration / total)
        return xp.stack([by_predictor, concentration * of_concentration], axis=-1)

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return the logarithm of the probabilities."""
        concentration = float(np.exp(shapes[0]))
        log_total = np.logaddexp(shapes[0], predictor)
        known = special.gammaln(counts + concentration) - special.gammaln(counts + 1)
        return known + counts * (predictor - log_total)

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the standard deviation; the tail falls like exp(-y / (1 + mean / concentration))."""
        concentration = float(np.exp(shapes[0]))
        return float(np.sqrt(mean + mean**2 / concentration)), 1 + mean / concentration
