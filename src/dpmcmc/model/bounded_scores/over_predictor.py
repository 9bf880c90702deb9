"""Bounded scores whose moments depend on the predictor: a row of a table for each of an even grid of predictors."""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, TabledScores, residual_row, table_row
from dpmcmc.model.bounded_scores.law import Law

ROWS = 257


class OverPredictor(TabledScores):
    """Scores of responses given one predictor, which counts as an end of its range where it lies beyond it."""

    def __init__(self, lowest: float, highest: float) -> None:
        self.lowest, self.highest = lowest, highest

    @abstractmethod
    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores of one response or of many (..., arguments)."""

    @abstractmethod
    def rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return responses and weights with which to sum over the law."""

    @property
    def grid(self) -> Floats:
        """The predictors of the rows."""
        return np.linspace(self.lowest, self.highest, ROWS)

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return a row for each predictor of the grid."""
        rows: list[Floats] = []
        for predictor in self.grid:
            responses, weights = self.rule(predictor, shapes)
            rows.append(residual_row(self.scores(np, responses, predictor, shapes)[:, 0], weights))
        return np.stack(rows)

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in standard deviations, and how probable its bins are.

        Both are as at the nearest predictor of the grid, where the record is taken to be.
        """
        del trials
        index = jnp.clip(jnp.round((predictors[0] - self.lowest) / self.step).astype(jnp.int32), 0, ROWS - 1)
        scores = self.scores(jnp, response, self.lowest + self.step * index, shapes)
        return scores[0] * table[index, 0], table[index, 1:]

    def bins_at(self, predictors: Floats, shapes: Floats, table: Floats) -> Floats:
        """Return the row of the nearest predictor of the grid."""
        del shapes
        index = int(np.clip(np.round((predictors[0] - self.lowest) / self.step), 0, ROWS - 1))
        return np.asarray(table[index, 1:], np.float64)

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the Fisher information of one record, its scores cut far out."""
        return np.asarray(self.columns(self.row(predictors, shapes, 20.0))[3])

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the responses of the rule at a predictor."""
        predictor = float(np.clip(predictors[0], self.lowest, self.highest))
        responses, weights = self.rule(predictor, shapes)
        scores = self.scores(np, responses, predictor, shapes)
        limits, means, bounds, _, _ = self.columns(table_row(scores, weights, bound, self.shape_bound(bound)))
        return Law(weights, scores, np.clip(scores, -limits, limits) - means, bounds)

    def row(self, predictors: Floats, shapes: Floats, bound: float) -> Floats:
        """Return the row at a predictor, not looked up."""
        predictor = float(np.clip(predictors[0], self.lowest, self.highest))
        responses, weights = self.rule(predictor, shapes)
        return table_row(self.scores(np, responses, predictor, shapes), weights, bound, self.shape_bound(bound))

    @property
    def step(self) -> float:
        """How far the predictors of the grid are apart."""
        return (self.highest - self.lowest) / (ROWS - 1)


class SmoothOverPredictor(OverPredictor):
    """Scores of numbers: what is tabled is smooth, and a cubic through four rows is right to the table's own error."""

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return a row for each predictor of the grid."""
        return np.stack([self.row(np.array([predictor]), shapes, bound) for predictor in self.grid])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        del trials
        predictor = jnp.clip(predictors[0], self.lowest, self.highest)
        row = self._between((predictor - self.lowest) / self.step, table)
        return self.bounded(self.scores(jnp, response, predictor, shapes), row)

    def _between(self, place: Any, table: Any) -> Any:
        """Return the cubic through the four nearest rows."""
        index = jnp.clip(jnp.floor(place).astype(jnp.int32), 1, ROWS - 3)
        x = place - index
        weights = jnp.stack(
            [
                -x * (x - 1) * (x - 2) / 6,
                (x + 1) * (x - 1) * (x - 2) / 2,
                -(x + 1) * x * (x - 2) / 2,
                (x + 1) * x * (x - 1) / 6,
            ]
        )
        rows = jnp.stack([table[index - 1], table[index], table[index + 1], table[index + 2]])
        return weights @ rows
