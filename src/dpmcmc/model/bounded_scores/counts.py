"""Bounded scores of counts, whose predictor is the logarithm of their mean, or of the mean of one of their parts.

A cut that moves with the predictor passes one count after the other, and the mean of what it leaves has a kink at each:
no table of it is fine enough. So within a step of the grid the score is that at the middle of the step, the same
function of the count for every record there. Its mean under a record's own predictor is smooth, and three rows have it.
"""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, moments_row
from dpmcmc.model.bounded_scores.over_predictor import ROWS, OverPredictor

LOWEST = -14.0
"""The least predictor that is told from lower ones."""

NODES, SMALL = 1500, 300
"""Counts at which the moments are summed: all of them where they are not more; else the small ones, and among the
others some that stand for those around them."""


class Counts(OverPredictor):
    """Counts up to a stated bound; predictors beyond three more than its logarithm count as that."""

    def __init__(self, most: float) -> None:
        super().__init__(LOWEST, float(np.log1p(most)) + 3.0)

    @abstractmethod
    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return the log-probabilities of counts, up to a constant."""

    @abstractmethod
    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the standard deviation, and the length over which the tail falls by e."""

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return for each predictor of the grid the rows of its scores, at both ends of its step and in the middle."""
        return np.stack([self._rows(predictor, shapes, bound) for predictor in self.grid])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score: that of the nearest predictor of the grid, less its mean under the own one."""
        del trials
        place = (jnp.clip(predictors[0], self.lowest, self.highest) - self.lowest) / self.step
        index = jnp.clip(jnp.round(place).astype(jnp.int32), 0, ROWS - 1)
        x = 2 * (place - index)
        row = jnp.stack([x * (x - 1) / 2, 1 - x**2, x * (x + 1) / 2]) @ table[index].reshape(3, -1)
        return self.bounded(self.scores(jnp, response, self.lowest + self.step * index, shapes), row)

    def _rows(self, predictor: float, shapes: Floats, bound: float) -> Floats:
        counts, weights = self.rule(predictor, shapes)
        scores = self.scores(np, counts, predictor, shapes)
        cuts = np.append(bound, np.full(self.num_shapes, self.shape_bound(bound)))
        limits = np.sqrt(weights @ scores**2) * cuts
        cut = np.clip(scores, -limits, limits)
        rows: list[Floats] = []
        for away in (-0.5, 0.0, 0.5):
            own = predictor + away * self.step
            rows.append(
                moments_row(limits, cut, self.scores(np, counts, own, shapes), self.weights(counts, own, shapes))
            )
        return np.concatenate(rows)

    def rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return counts and weights with which to sum over the law."""
        mean = float(np.exp(predictor))
        sd, tail = self.spread(mean, shapes)
        counts = _nodes(mean - 12 * sd - 40, mean + 12 * sd + 40 * tail)
        return counts, self.weights(counts, predictor, shapes)

    def weights(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return how probable counts are, each with those that it stands for."""
        logs = self.log_density(counts, predictor, shapes)
        weights = _widths(counts) * np.exp(logs - logs.max())
        return weights / weights.sum()


class CountsWithZero(Counts):
    """Counts that know how probable zero is."""

    @abstractmethod
    def log_zero(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the logarithm of the probability of zero."""


def _nodes(least: float, most: float) -> Floats:
    """Return counts between two numbers: all of them, or some."""
    least = max(0.0, np.floor(least))
    if most - least <= NODES:
        return np.arange(least, most)
    if least:
        return np.linspace(least, most, NODES)
    return np.concatenate([np.arange(SMALL, dtype=float), np.geomspace(SMALL, most, NODES - SMALL)])


def _widths(counts: Floats) -> Floats:
    """Return for how many each count stands: where they are one apart, for itself."""
    edges = np.concatenate([[counts[0] - 0.5], (counts[1:] + counts[:-1]) / 2, [counts[-1] + 0.5]])
    return np.diff(edges)
