"""Successes in trials."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import log_sigmoid, sigmoid
from scipy import special

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, Moments
from dpmcmc.model.bounded_scores.law import Law
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.trials import MOST_TRIALS, TrialsScores
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import NO_SHAPES, log_odds, logistic, share


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without the binomial coefficient."""
    del others
    return y * eta + trials * log_sigmoid(-eta)


def log_coefficients(xp: Any, counts: Any, trials: Any) -> Any:
    """Return the logarithms of the binomial coefficients of 0, 1, ... successes."""
    ratios = xp.log(xp.maximum(trials - counts[:-1], 0.5) / counts[1:])
    return np.tri(len(counts), len(counts) - 1, -1) @ ratios


class Binomial(TrialsScores):
    """Each trial succeeds with log-odds equal to the predictor; scores of too many trials are not cut."""

    def law(self, xp: Any, counts: Any, predictor: Any, shapes: Any, trials: Any) -> tuple[Any, Any]:
        """Return log-probabilities, and y - trials p."""
        del shapes
        scores = counts - trials * logistic(xp, predictor)
        return log_coefficients(xp, counts, trials) + counts * predictor, scores[:, None]

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        if self.trials <= MOST_TRIALS:
            return super().at(predictors, shapes, response, trials, table)
        mean = trials * sigmoid(predictors[0])
        slope = (mean * (1 - sigmoid(predictors[0]))).reshape(1, 1)
        most = jnp.maximum(mean, trials - mean)
        own = (response - mean).reshape(1)
        return BoundedScore(own, slope, slope, lambda gram: most * jnp.sqrt(jnp.maximum(gram[0, 0], 0.0)))

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return p (1 - p), of one trial."""
        del shapes
        share_of = special.expit(predictors[:1])
        return (share_of * (1 - share_of)).reshape(1, 1)

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the numbers of successes; of too many trials two that have their variance, and are not cut."""
        if self.trials <= MOST_TRIALS:
            return super().under_model(predictors, shapes, bound)
        mean = self.trials * float(special.expit(predictors[0]))
        scores = np.sqrt(mean * (1 - mean / self.trials)) * np.array([[-1.0], [1.0]])
        return Law(np.full(2, 0.5), scores, scores, np.array([max(mean, self.trials - mean)]))

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record."""
        if self.trials > MOST_TRIALS:
            return Moments(1.0, 1.0, lambda _: 1.0)
        return super().moments(predictors, shapes, bound)

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return the root of variance over slope."""
        if self.trials > MOST_TRIALS:
            return 1.0, np.eye(0)
        return super().cut_roots(predictors, shapes, bound)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the log-odds."""
        return log_odds(response, floor), NO_SHAPES


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|y - n p| <= n, everywhere."""
    del region
    return Bound(response.most_trials, (), "")


FAMILY = Family(
    name="binomial",
    words="a number of successes in some trials, each with log-odds equal to the predictor",
    response="proportion",
    log_density=log_density,
    mean=share,
    draw=lambda key, eta, trials, _others: random.binomial(key, trials, sigmoid(eta)),
    scores=lambda response: Binomial(response.most_trials),
    intercept="normal(0, 2)",
    coefficients="normal(0, 1.5)",
    spread="half_normal(1)",
    bound=bound,
    aliases=("proportion",),
)
