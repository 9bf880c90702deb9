"""Bounded scores of numbers around a predictor: their moments do not depend on the predictor, one row has them."""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from scipy import optimize, special

from dpmcmc.fitting.strategies.weighted_scores.scores import BoundedScore, Floats, TabledScores, residual_row, table_row

NODES = 4001
EXTREMES, BETWEEN = 128, 1.004
"""Residuals among which the longest score is looked for, and by how much those between them may be longer."""

LONGEST_STEP = 2.0
"""How far the logarithm of a scale may be moved at once."""


class LocationScale(TabledScores):
    """The first shape is the logarithm of the scale; scores are functions of the residual in scales."""

    @abstractmethod
    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the scores by eta / scale and the shapes, of one residual or of many (..., arguments)."""

    @abstractmethod
    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return residuals and weights with which to sum over the law."""

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return the one row, and behind it the scores of residuals among which the longest is looked for."""
        residuals, weights = self.rule(shapes)
        scores = self.scores(np, residuals, shapes)
        row = table_row(scores, weights, bound, self.shape_bound(bound))
        limits, means, _, _, _ = self.columns(row)
        cut = np.clip(scores, -limits, limits) - means
        return np.append(row, _spread_out(cut, EXTREMES).ravel())[None]

    def row(self, predictors: Floats, shapes: Floats, bound: float) -> Floats:
        """Return the one row."""
        del predictors
        return np.asarray(self.table(shapes, bound)[0])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score; by the predictor it is one over the scale times that by eta / scale."""
        del trials
        scale = jnp.exp(shapes[0])
        found = self.bounded(self.scores(jnp, (response - predictors[0]) / scale, shapes), table[0])
        units = jnp.concatenate([1 / scale[None], jnp.ones(self.num_shapes)])
        both = units[:, None] * units
        size = 1 + self.num_shapes
        extremes = table[0, 3 * size + 2 * size**2 :].reshape(-1, size)

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
        scores = self.scores(jnp, (response - predictors[0]) / jnp.exp(shapes[0]), shapes)
        return scores[0] * table[0, 0], table[0, 1:]

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the Fisher information of one record."""
        del predictors
        residuals, weights = self.rule(shapes)
        scores = self.scores(np, residuals, shapes) * np.append(np.exp(-shapes[0]), np.ones(self.num_shapes))
        return (scores * weights[:, None]).T @ scores

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


def _spread_out(scores: Floats, number: int) -> Floats:
    """Return scores (nodes, arguments) at so many places along their curve, evenly by its length."""
    units = np.maximum(np.abs(scores).max(axis=0), 1e-30)
    lengths = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(scores / units, axis=0), axis=1)))
    places = np.linspace(0.0, lengths[-1], number)
    return np.stack([np.interp(places, lengths, column) for column in scores.T], axis=1)


class Gaussian(LocationScale):
    """A normal residual."""

    num_shapes = 1
    usual_length = 1.3

    def shape_bound(self, bound: float) -> float:
        """Return twice the bound, or where the residual is cut for the location, if that is further out."""
        return max(2.0 * bound, (bound**2 - 1) / np.sqrt(2.0))

    def cut_off(self, residuals: Floats, bound: float) -> tuple[Floats, Floats]:
        """Return what a cut takes off the scores by the location and by the log scale."""
        beyond, _ = super().cut_off(residuals, bound)
        return beyond, np.maximum((residuals**2 - 1) / np.sqrt(2.0) - self.shape_bound(bound), 0.0)

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return u and u^2 - 1."""
        del shapes
        return xp.stack([residual, residual**2 - 1], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return even steps."""
        del shapes
        residuals = np.linspace(-9.0, 9.0, NODES)
        weights = np.exp(-(residuals**2) / 2)
        return residuals, weights / weights.sum()


class StudentT(LocationScale):
    """A residual with Student's law; the second shape is the logarithm of its degrees of freedom."""

    num_shapes = 2
    usual_length = 1.3

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the degrees of freedom."""
        return 3.0 * bound

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the scores by location, log scale and log degrees of freedom."""
        nu, square = xp.exp(shapes[1]), residual**2
        psi = special.digamma if xp is np else digamma
        shrunk = (nu + 1) / (nu + square)
        constant = psi((nu + 1) / 2) - psi(nu / 2) - 1 / nu
        of_nu = nu / 2 * (constant - xp.log1p(square / nu) + shrunk * square / nu)
        return xp.stack([shrunk * residual, shrunk * square - 1, of_nu], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return even steps of the inverse hyperbolic sine: tails are heavy."""
        nu = np.exp(shapes[1])
        steps = np.linspace(-12.0, 12.0, NODES)
        residuals = np.sinh(steps)
        weights = np.exp(-(nu + 1) / 2 * np.log1p(residuals**2 / nu)) * np.cosh(steps)
        return residuals, weights / weights.sum()
