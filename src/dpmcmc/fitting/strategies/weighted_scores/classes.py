"""Bounded scores of responses with finitely many values: yes or no, successes in trials, classes, ordered classes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import BoundedScore, FiniteScores, Floats, Scores

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
    """Successes in at most so many trials, each with log-odds equal to the predictor."""

    def __init__(self, trials: float) -> None:
        self.usual_length = float(np.sqrt(2 * trials))

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return y - trials p, at most trials max(p, 1 - p)."""
        del shapes, table
        share = sigmoid(predictors[0])
        slope = (trials * share * (1 - share)).reshape(1, 1)
        most = trials * jnp.maximum(share, 1 - share)
        own = (response - trials * share).reshape(1)
        return BoundedScore(own, slope, slope, lambda gram: most * jnp.sqrt(jnp.maximum(gram[0, 0], 0.0)))

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return p (1 - p), of one trial."""
        del shapes
        share = special.expit(predictors[:1])
        return (share * (1 - share)).reshape(1, 1)


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
