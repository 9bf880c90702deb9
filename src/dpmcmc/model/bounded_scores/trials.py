"""Bounded scores of successes in trials: their moments are sums over the numbers of successes, record by record.

All of many trials may succeed, but hardly ever do where successes are rare: the score is cut, and its mean under the
model, a sum over the numbers of successes, is taken off.
"""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import RESIDUALS, BoundedScore, Floats, Moments, Scores
from dpmcmc.model.bounded_scores.law import Law

MOST_TRIALS = 256
"""Up to so many trials the moments are summed over the numbers of successes."""

IMPOSSIBLE = -1e30
"""The log-probability of more successes than trials."""


class TrialsScores(Scores):
    """Successes in a bounded number of trials."""

    usual_length = 1.3

    def __init__(self, trials: float) -> None:
        self.trials = float(trials)

    @abstractmethod
    def law(self, xp: Any, counts: Any, predictor: Any, shapes: Any, trials: Any) -> tuple[Any, Any]:
        """Return log-probabilities up to a constant (counts,) and scores (counts, arguments) of 0, 1, ... successes.

        Numbers beyond the trials may have any finite values.
        """

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return where scores are cut, in standard deviations."""
        del shapes
        return np.array([[bound]])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        weights, scores, cut, is_there = self._cut(jnp, predictors[0], shapes, trials, table[0, 0])
        own = (jnp.round(response) == np.arange(self.trials + 1)).astype(jnp.float32) @ cut
        slope, variance = (cut * weights[:, None]).T @ scores, (cut * weights[:, None]).T @ cut

        def longest(gram: Any) -> Any:
            squares = jnp.sum((cut @ gram) * cut, axis=1)
            return jnp.sqrt(jnp.maximum(jnp.max(jnp.where(is_there, squares, 0.0)), 0.0))

        return BoundedScore(own, (slope + slope.T) / 2, variance, longest)

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return nothing to look up, but bins; None where there is one trial, or too many to sum over."""
        del shapes
        return np.zeros((1, 2 + len(RESIDUALS))) if 1 < self.trials <= MOST_TRIALS else None

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in standard deviations, and how probable its bins are."""
        del table
        counts, weights, scores, _ = self._moments(jnp, predictors[0], shapes, trials)
        residuals = scores[:, 0] / jnp.sqrt(jnp.maximum(weights @ scores[:, 0] ** 2, 1e-12))
        lower = np.append(-np.inf, RESIDUALS).astype(np.float32)
        upper = np.append(RESIDUALS, np.inf).astype(np.float32)
        bins = (residuals[:, None] > lower) & (residuals[:, None] <= upper)
        own = (jnp.round(response) == counts).astype(jnp.float32) @ residuals
        return own, weights @ bins.astype(jnp.float32)

    def bins_at(self, predictors: Floats, shapes: Floats, table: Floats) -> Floats:
        """Return how probable the bins are of a record with all of the trials."""
        del table
        _, weights, scores, _ = self._moments(np, float(predictors[0]), shapes, self.trials)
        residuals = scores[:, 0] / np.sqrt(max(weights @ scores[:, 0] ** 2, 1e-12))
        places = np.searchsorted(RESIDUALS, residuals, side="left")
        return np.asarray(np.bincount(places, weights, len(RESIDUALS) + 1), np.float64)

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the information of a record with all of the trials."""
        _, weights, scores, _ = self._moments(np, float(predictors[0]), shapes, self.trials)
        return (scores * weights[:, None]).T @ scores

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the numbers of successes in all of the trials."""
        weights, scores, cut, _ = self._cut(np, float(predictors[0]), shapes, self.trials, bound)
        return Law(weights, scores, cut)

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record."""
        weights, scores, cut, _ = self._cut(np, float(predictors[0]), shapes, self.trials, bound)
        slope, variance = float(weights @ (cut[:, 0] * scores[:, 0])), float(weights @ cut[:, 0] ** 2)
        longest = float(np.max(np.abs(cut[:, 0])))
        return Moments(slope, variance, lambda _: longest)

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return roots of variance over slope, for the predictor and for the shapes."""
        weights, scores, cut, _ = self._cut(np, float(predictors[0]), shapes, self.trials, bound)
        slopes, variances = weights @ (cut * scores), weights @ cut**2
        roots = np.sqrt(variances / np.maximum(slopes, 1e-30))
        return float(roots[0]), np.diag(roots[1:])

    def shape_bound(self, bound: float) -> float:
        """Return where scores by shape parameters are cut: further out, tails tell of them."""
        return 3.0 * bound

    def _moments(self, xp: Any, predictor: Any, shapes: Any, trials: Any) -> tuple[Any, Any, Any, Any]:
        """Return the numbers of successes, their probabilities, their scores, and which of them can be."""
        counts = np.arange(self.trials + 1)
        logs, scores = self.law(xp, counts, predictor, shapes, trials)
        is_there = counts <= trials
        logs = xp.where(is_there, logs, IMPOSSIBLE)
        powers = xp.exp(logs - xp.max(logs))
        return counts, powers / xp.sum(powers), xp.where(is_there[:, None], scores, 0.0), is_there

    def _cut(self, xp: Any, predictor: Any, shapes: Any, trials: Any, bound: Any) -> tuple[Any, ...]:
        """Return the probabilities, the scores, the scores cut and centred, and which of them can be."""
        _, weights, scores, is_there = self._moments(xp, predictor, shapes, trials)
        scores = scores - weights @ scores  # zero but for rounding
        factors = np.append(1.0, np.full(self.num_shapes, self.shape_bound(1.0)))
        limits = bound * factors * xp.sqrt(weights @ scores**2)
        cut = xp.clip(scores, -limits, limits)
        return weights, scores, cut - weights @ cut, is_there
