"""One of several classes."""

from collections.abc import Mapping
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import log_softmax, softmax

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.finite import FiniteScores
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import NO_SHAPES
from dpmcmc.model.formula.links import LOGIT


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of a softmax; the first class is the reference, with predictor zero."""
    del others
    scores = log_softmax(jnp.concatenate([jnp.zeros(1), eta]))
    return jnp.sum(jnp.where(y == jnp.arange(scores.shape[0]), scores, 0.0))


def _with_reference(eta: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.zeros((*eta.shape[:-1], 1)), eta], axis=-1)


class Categorical(FiniteScores):
    """One of the classes; each but the first has a predictor."""

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities, and the indicators of the classes less their probabilities."""
        del shapes
        scores = xp.concatenate([xp.zeros(1), predictors])
        powers = xp.exp(scores - xp.max(scores))
        probabilities = powers / xp.sum(powers)
        return probabilities, xp.eye(len(scores))[:, 1:] - probabilities[1:]

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the log-odds against the first class."""
        logs = np.log(np.maximum(response.shares, floor))
        return logs[1:] - logs[0], NO_SHAPES


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|e_y - p| <= sqrt 2, everywhere."""
    del response, region
    return Bound(sqrt(2.0), (), "")


FAMILY = Family(
    name="categorical",
    words="one of the classes; each but the first has a predictor, its log-odds against the first",
    response="classes",
    link=LOGIT,
    log_density=log_density,
    mean=lambda eta, _trials, _others: softmax(_with_reference(eta)),
    draw=lambda key, eta, _trials, _others: random.categorical(key, _with_reference(eta)),
    scores=lambda _: Categorical(),
    intercept="normal(0, 2)",
    coefficients="normal(0, 1.5)",
    spread="half_normal(1)",
    bound=bound,
    aliases=("multinomial", "softmax"),
)
