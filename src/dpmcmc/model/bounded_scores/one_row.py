"""Bounded scores of numbers whose moments do not depend on the predictor: one row of a table has them.

Such are residuals around a location, and positive numbers around the logarithm of their mean.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import optimize

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, TabledScores, residual_row, table_row
from dpmcmc.model.bounded_scores.law import Law

NODES = 4001
EXTREMES, CORNERS, BETWEEN = 112, 24, 1.004
"""Residuals among which the longest score is looked for, even ones and those where a cut begins or ends, and by how
much those between them may be longer."""

LONGEST_STEP = 2.0
"""How far the logarithm of a scale may be moved at once."""


class OneRow(TabledScores):
    """Scores are functions of a residual, whose law the shapes alone decide."""

    @abstractmethod
    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the scores by the predictor, in its unit, and by the shapes, of residuals: (..., arguments)."""

    @abstractmethod
    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return residuals and weights with which to sum over the law."""

    def residual_of(self, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the residual of a response, in JAX."""
        del shapes
        return response - predictor

    def unit(self, xp: Any, shapes: Any) -> Any:
        """Return in what the score by the predictor is measured."""
        del shapes
        return xp.ones(())

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return the one row, and behind it the scores of residuals among which the longest is looked for."""
        residuals, weights = self.rule(shapes)
        scores = self.scores(np, residuals, shapes)
        row = table_row(scores, weights, bound, self.shape_bound(bound))
        limits, means, _, _, _ = self.columns(row)
        cut = np.clip(scores, -limits, limits) - means
        corners = _corners(cut, np.abs(scores) >= limits, CORNERS)
        return np.concatenate([row, _spread_out(cut, EXTREMES).ravel(), corners.ravel()])[None]

    def row(self, predictors: Floats, shapes: Floats, bound: float) -> Floats:
        """Return the one row."""
        del predictors
        return np.asarray(self.table(shapes, bound)[0])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        del trials
        found = self.bounded(self.scores(jnp, self.residual_of(response, predictors[0], shapes), shapes), table[0])
        units = self._units(jnp, shapes)
        both = units[:, None] * units
        extremes = table[0, 3 * self.size + 2 * self.size**2 :].reshape(-1, self.size)

        def longest(gram: Any) -> Any:
            squares = jnp.sum((extremes @ (both * gram)) * extremes, axis=1)
            return BETWEEN * jnp.sqrt(jnp.maximum(jnp.max(squares), 0.0))

        return BoundedScore(units * found.score, both * found.slope, both * found.variance, longest)

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return the one row."""
        residuals, weights = self.rule(shapes)
        return residual_row(self.scores(np, residuals, shapes)[:, 0], weights)[None]

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in standard deviations, and how probable its bins are."""
        del trials
        scores = self.scores(jnp, self.residual_of(response, predictors[0], shapes), shapes)
        return scores[0] * table[0, 0], table[0, 1:]

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the residuals of the rule: the same for every predictor."""
        del predictors
        residuals, weights = self.rule(shapes)
        scores, units = self.scores(np, residuals, shapes), self._units(np, shapes)
        limits, means, _, _, _ = self.columns(table_row(scores, weights, bound, self.shape_bound(bound)))
        return Law(weights, units * scores, units * (np.clip(scores, -limits, limits) - means))

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the Fisher information of one record."""
        del predictors
        residuals, weights = self.rule(shapes)
        scores = self.scores(np, residuals, shapes) * self._units(np, shapes)
        return (scores * weights[:, None]).T @ scores

    def _units(self, xp: Any, shapes: Any) -> Any:
        return xp.concatenate([xp.reshape(self.unit(xp, shapes), (1,)), xp.ones(self.size - 1)])


class LocationScale(OneRow):
    """The first shape is the logarithm of the scale; scores are functions of the residual in scales."""

    def residual_of(self, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the residual in scales."""
        return (response - predictor) / jnp.exp(shapes[0])

    def unit(self, xp: Any, shapes: Any) -> Any:
        """Return one over the scale: the score is that by eta / scale."""
        return xp.exp(-shapes[0])

    def step_of_scale(self, shapes: Floats, bound: float, newton: float) -> float | None:
        """Return by how much the logarithm of the scale is off, if its bounded score has the mean that was seen."""
        residuals, weights = self.rule(shapes)
        limits, means, _, slope, _ = self.columns(self.table(shapes, bound)[0])
        mean = newton * slope[1, 1]

        def missed(step: float) -> float:
            scores = self.scores(np, np.exp(step) * residuals, shapes)[:, 1]
            return float(weights @ np.clip(scores, -limits[1], limits[1]) - means[1] - mean)

        if missed(-LONGEST_STEP) > 0:
            return -LONGEST_STEP
        if missed(LONGEST_STEP) < 0:
            return LONGEST_STEP
        return float(optimize.brentq(missed, -LONGEST_STEP, LONGEST_STEP, xtol=1e-3))


def rule_of(
    log_density: Callable[[Floats], Floats], centre: float, scale: float, reach: float, nodes: int = NODES
) -> tuple[Floats, Floats]:
    """Return numbers and weights with which to sum over a law on the line: even steps of an inverse hyperbolic sine.

    Args:
        log_density: of the law, up to a constant.
        centre: about where its peak is.
        scale: about how wide that is.
        reach: how far from the centre something is left of it.
        nodes: how many numbers there are.
    """
    steps = np.linspace(-1.0, 1.0, nodes) * np.arcsinh(reach / scale)
    numbers = centre + scale * np.sinh(steps)
    with np.errstate(over="ignore"):
        logs = log_density(numbers) + np.log(np.cosh(steps))
    weights = np.exp(logs - logs.max())
    is_there = weights > 0
    return numbers[is_there], weights[is_there] / weights.sum()


def _corners(scores: Floats, is_cut: Any, number: int) -> Floats:
    """Return scores (nodes, arguments) on both sides of where one begins or ends to be cut, so many of them."""
    places = np.flatnonzero(np.any(is_cut[1:] != is_cut[:-1], axis=1))
    kept = np.append(places, places + 1)[:number]
    found = np.zeros((number, scores.shape[1]))
    found[: len(kept)] = scores[kept]
    return found


def _spread_out(scores: Floats, number: int) -> Floats:
    """Return scores (nodes, arguments) at so many places along their curve, evenly by its length."""
    units = np.maximum(np.abs(scores).max(axis=0), 1e-30)
    lengths = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(scores / units, axis=0), axis=1)))
    places = np.linspace(0.0, lengths[-1], number)
    return np.stack([np.interp(places, lengths, column) for column in scores.T], axis=1)
