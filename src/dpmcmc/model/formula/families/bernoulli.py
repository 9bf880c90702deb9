"""Yes or no."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.nn import log_sigmoid, sigmoid

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.finite import FiniteScores
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import NO_SHAPES, log_odds, logistic, share
from dpmcmc.model.formula.links import LOGIT


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability of the answer."""
    del others
    return log_sigmoid((2 * y - 1) * eta)


class Bernoulli(FiniteScores):
    """Yes with log-odds equal to the predictor."""

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities of no and yes, and y - p for both."""
        del shapes
        yes = logistic(xp, predictors[0])
        return xp.stack([1 - yes, yes]), xp.stack([-yes, 1 - yes])[:, None]

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the log-odds."""
        return log_odds(response, floor), NO_SHAPES


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|y - p| <= 1, everywhere."""
    del response, region
    return Bound(1.0, (), "")


FAMILY = Family(
    name="bernoulli",
    words="yes or no; the linear predictor is the log-odds of yes",
    response="binary",
    link=LOGIT,
    log_density=log_density,
    mean=share,
    draw=lambda key, eta, _trials, _others: random.bernoulli(key, sigmoid(eta)).astype(jnp.float32),
    scores=lambda _: Bernoulli(),
    intercept="normal(0, 2)",
    coefficients="normal(0, 1.5)",
    spread="half_normal(1)",
    bound=bound,
    aliases=("logistic", "logit", "binary"),
)
