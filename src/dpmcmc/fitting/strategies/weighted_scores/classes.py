"""Bounded scores of responses with finitely many values: yes or no, successes in trials, classes, ordered classes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import (
    RESIDUALS,
    BoundedScore,
    FiniteScores,
    Floats,
    Moments,
    Scores,
)

MOST_TRIALS = 256
"""Up to so many trials the scores of proportions are cut: their moments are sums over the numbers of successes."""

LEAST = 1e-12
"""Probabilities below it are raised to it where they divide."""


class Bernoulli(FiniteScores):
    """Yes with log-odds equal to the predictor."""

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities of no and yes, and y - p for both."""
        del shapes
        yes = _logistic(xp, predictors[0])
        return xp.stack([1 - yes, yes]), xp.stack([-yes, 1 - yes])[:, None]


class Binomial(Scores):
    """Successes in at most so many trials, each with log-odds equal to the predictor.

    All of many trials may succeed, but hardly ever do where successes are rare: the score is cut, and its mean under
    the model, a sum over the numbers of successes, is taken off.
    """

    usual_length = 1.3

    def __init__(self, trials: float) -> None:
        self.trials = float(trials)

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return where scores are cut, in standard deviations; far out where there are too many trials to sum over."""
        del shapes
        return np.array([[bound if self.trials <= MOST_TRIALS else 1e6]])

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score of y - trials p."""
        del shapes
        mean = trials * sigmoid(predictors[0])
        if self.trials > MOST_TRIALS:
            slope = (mean * (1 - sigmoid(predictors[0]))).reshape(1, 1)
            most = jnp.maximum(mean, trials - mean)
            own = (response - mean).reshape(1)
            return BoundedScore(own, slope, slope, lambda gram: most * jnp.sqrt(jnp.maximum(gram[0, 0], 0.0)))
        limit, shift, slope, variance, longest = self._cut(jnp, predictors[0], trials, table[0, 0])
        own = (jnp.clip(response - mean, -limit, limit) - shift).reshape(1)
        return BoundedScore(
            own,
            slope.reshape(1, 1),
            variance.reshape(1, 1),
            lambda gram: longest * jnp.sqrt(jnp.maximum(gram[0, 0], 0.0)),
        )

    def _probabilities(self, xp: Any, predictor: Any, trials: Any) -> tuple[Any, Any, Any]:
        """Return the numbers of successes, how probable they are, and which of them can be."""
        counts = np.arange(self.trials + 1)
        ratios = xp.log(xp.maximum(trials - counts[:-1], 0.5) / counts[1:])
        logs = np.tri(len(counts), len(counts) - 1, -1) @ ratios + counts * predictor
        is_there = counts <= trials
        logs = xp.where(is_there, logs, -np.inf)
        powers = xp.exp(logs - xp.max(logs))
        return counts, powers / xp.sum(powers), is_there

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return nothing to look up, but bins; None where there is one trial, or too many to sum over."""
        del shapes
        return np.zeros((1, 2 + len(RESIDUALS))) if 1 < self.trials <= MOST_TRIALS else None

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the residual in standard deviations, and how probable its bins are."""
        del shapes, table
        counts, weights, _ = self._probabilities(jnp, predictors[0], trials)
        mean = jnp.sum(weights * counts)
        sd = jnp.sqrt(jnp.maximum(jnp.sum(weights * (counts - mean) ** 2), 1e-12))
        lower = np.append(-np.inf, RESIDUALS).astype(np.float32)
        upper = np.append(RESIDUALS, np.inf).astype(np.float32)
        places = ((counts - mean) / sd)[:, None]
        return (response - mean) / sd, weights @ ((places > lower) & (places <= upper)).astype(jnp.float32)

    def bin_probabilities(self, predictors: Floats, table: Floats) -> Floats:
        """Return how probable the bins of a usual record are."""
        del table
        counts, weights, _ = self._probabilities(np, float(predictors[0]), self.trials)
        mean = float(weights @ counts)
        sd = float(np.sqrt(weights @ (counts - mean) ** 2))
        places = np.searchsorted(RESIDUALS, (counts - mean) / sd, side="left")
        return np.asarray(np.bincount(places, weights, len(RESIDUALS) + 1), np.float64)

    def _cut(self, xp: Any, predictor: Any, trials: Any, bound: Any) -> tuple[Any, ...]:
        """Return where the score is cut, its mean, slope and variance, and its longest value."""
        counts, weights, is_there = self._probabilities(xp, predictor, trials)
        scores = counts - xp.sum(weights * counts)
        limit = bound * xp.sqrt(xp.sum(weights * scores**2))
        cut = xp.clip(scores, -limit, limit)
        shift = xp.sum(weights * cut)
        cut = cut - shift
        longest = xp.max(xp.where(is_there, xp.abs(cut), 0.0))
        return limit, shift, xp.sum(weights * cut * scores), xp.sum(weights * cut**2), longest

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return p (1 - p), of one trial."""
        del shapes
        share = special.expit(predictors[:1])
        return (share * (1 - share)).reshape(1, 1)

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record."""
        if self.trials > MOST_TRIALS:
            return super().moments(predictors, shapes, bound)
        _, _, slope, variance, longest = self._cut(np, float(predictors[0]), self.trials, bound)
        return Moments(float(slope), float(variance), lambda _: float(longest))

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return the root of variance over slope."""
        moments = self.moments(predictors, shapes, bound)
        return float(np.sqrt(moments.variance / moments.slope)), np.eye(0)


class Categorical(FiniteScores):
    """One of the classes; each but the first has a predictor."""

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities, and the indicators of the classes less their probabilities."""
        del shapes
        scores = xp.concatenate([xp.zeros(1), predictors])
        powers = xp.exp(scores - xp.max(scores))
        probabilities = powers / xp.sum(powers)
        return probabilities, xp.eye(len(scores))[:, 1:] - probabilities[1:]


class Ordinal(FiniteScores):
    """One of ordered classes: at most class k with log-odds equal to cutpoint k less the predictor."""

    def __init__(self, num_classes: int) -> None:
        self.num_shapes = num_classes - 1

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities, and the derivatives of their logarithms."""
        gaps = xp.exp(shapes[1:])
        cutpoints = shapes[0] + xp.concatenate([xp.zeros(1), xp.cumsum(gaps)])
        below, above = _logistic(xp, cutpoints - predictors[0]), _logistic(xp, predictors[0] - cutpoints)
        edge = xp.zeros(1)
        # F(b) - F(a) without cancellation: F(b) (1 - F(a)) (1 - exp(a - b))
        upper, lower = xp.concatenate([below, edge + 1]), xp.concatenate([edge + 1, above])
        inner = -xp.expm1(-gaps)
        apart = xp.concatenate([edge + 1, inner, edge + 1])
        probabilities = xp.maximum(upper * lower * apart, LEAST)
        density = below * above
        rows = np.arange(self.num_shapes + 1)[:, None]
        columns = np.arange(self.num_shapes)
        by_cutpoint = ((rows == columns) * 1.0 - (rows == columns + 1) * 1.0) * density / probabilities[:, None]
        moved = xp.concatenate(
            [xp.ones((self.num_shapes, 1)), np.tri(self.num_shapes, k=-1)[:, : len(gaps)] * gaps], axis=1
        )
        return probabilities, xp.concatenate([-xp.sum(by_cutpoint, axis=1)[:, None], by_cutpoint @ moved], axis=1)


def _logistic(xp: Any, value: Any) -> Any:
    return special.expit(value) if xp is np else sigmoid(value)
