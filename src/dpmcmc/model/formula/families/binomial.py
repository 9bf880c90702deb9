"""Successes in trials."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import log_sigmoid, sigmoid
from scipy import special

from dpmcmc.model.bounded_scores.base import RESIDUALS, BoundedScore, Floats, Moments
from dpmcmc.model.bounded_scores.law import Law
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.trials import MOST_TRIALS, TrialsScores
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import NO_SHAPES, log_odds, logistic, share
from dpmcmc.model.formula.links import LOGIT


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without the binomial coefficient."""
    del others
    return y * eta + trials * log_sigmoid(-eta)


def log_coefficients(xp: Any, counts: Any, trials: Any) -> Any:
    """Return the logarithms of the binomial coefficients of 0, 1, ... successes."""
    ratios = xp.log(xp.maximum(trials - counts[:-1], 0.5) / counts[1:])
    return np.tri(len(counts), len(counts) - 1, -1) @ ratios


LEAST_VARIANCE = 20.0
"""Of successes, for their distribution to be known from its first four moments."""


def edgeworth(xp: Any, residuals: Any, mean: Any, variance: Any, asymmetry: Any, peak: Any) -> Any:
    """Return how probable a number of successes below a residual is, to the second order.

    Args:
        xp: NumPy or JAX.
        residuals: in standard deviations.
        mean: of the number.
        variance: of the number.
        asymmetry: its skewness in one over its standard deviation.
        peak: its excess kurtosis in one over its variance.
    """
    sd = xp.sqrt(variance)
    x = (xp.floor(mean + residuals * sd) + 0.5 - mean) / sd
    skewness, kurtosis = asymmetry / sd, peak / variance
    more = skewness / 6 * (x**2 - 1) + kurtosis / 24 * (x**3 - 3 * x) + skewness**2 / 72 * (x**5 - 10 * x**3 + 15 * x)
    more = more - (x / (24 * variance))  # successes are whole numbers
    normal = xp.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)
    below = special.ndtr(x) if xp is np else jax.scipy.special.ndtr(x)
    return xp.clip(below - more * normal, 0.0, 1.0)


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

    def cut_off(self, residuals: Floats, bound: float) -> tuple[Floats, Floats]:
        """Return what a cut takes off the scores: of too many trials nothing."""
        return super().cut_off(residuals, bound if self.trials <= MOST_TRIALS else np.inf)

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return nothing to look up, but bins; None where there is one trial."""
        del shapes
        return np.zeros((1, 2 + len(RESIDUALS))) if self.trials > 1 else None

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in standard deviations, and how probable its bins are.

        Of too many trials to sum over by Edgeworth's series; where it does not hold, nothing is expected and nothing is
        seen.
        """
        if self.trials <= MOST_TRIALS:
            return super().residual(predictors, shapes, response, trials, table)
        p = sigmoid(predictors[0])
        mean, variance = trials * p, jnp.maximum(trials * p * (1 - p), 1e-12)
        below = edgeworth(jnp, np.asarray(RESIDUALS, np.float32), mean, variance, 1 - 2 * p, 1 - 6 * p * (1 - p))
        is_known = (variance > LEAST_VARIANCE).astype(jnp.float32)
        bins = is_known * jnp.diff(below, prepend=0.0, append=1.0)
        nothing = np.eye(len(RESIDUALS) + 1, dtype=np.float32)[len(RESIDUALS) // 2]
        return is_known * (response - mean) / jnp.sqrt(variance), bins + (1 - is_known) * nothing

    def bins_at(self, predictors: Floats, shapes: Floats, table: Floats) -> Floats:
        """Return how probable the bins are of a record with all of the trials."""
        if self.trials <= MOST_TRIALS:
            return super().bins_at(predictors, shapes, table)
        return np.diff(special.ndtr(RESIDUALS), prepend=0.0, append=1.0)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the log-odds."""
        return log_odds(response, floor), NO_SHAPES


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|y - n p| <= n, everywhere."""
    del region
    return Bound(response.most_trials, (), "")


FAMILY = Family(
    name="binomial",
    words="a number of successes in some trials, each with log-odds equal to the linear predictor",
    response="proportion",
    link=LOGIT,
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
