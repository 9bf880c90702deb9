"""Yes or no, with a normal threshold instead of a logistic one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy import special as of_jax
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.finite import FiniteScores
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import NO_SHAPES
from dpmcmc.model.formula.links import PROBIT

FARTHEST = 8.0
"""Predictors beyond count as this: single precision tells no probability there from zero."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability of the answer."""
    del others
    return of_jax.log_ndtr((2 * y - 1) * jnp.clip(eta, -FARTHEST, FARTHEST))


class Probit(FiniteScores):
    """Yes with the probability that a standard normal number is below the predictor."""

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities of no and yes, and the scores of both."""
        del shapes
        eta = xp.clip(predictors[0], -FARTHEST, FARTHEST)
        of = special if xp is np else of_jax
        logs = xp.stack([of.log_ndtr(-eta), of.log_ndtr(eta)])
        log_normal = -(eta**2) / 2 - np.log(2 * np.pi) / 2
        return xp.exp(logs), (xp.exp(log_normal - logs) * np.array([-1.0, 1.0]))[:, None]

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the normal quantile of the share."""
        return np.array([special.ndtri(np.clip(response.mean, floor, 1 - floor))]), NO_SHAPES


FAMILY = Family(
    name="probit",
    words="yes or no; the linear predictor is the probit of the probability of yes",
    response="binary",
    link=PROBIT,
    log_density=log_density,
    mean=lambda eta, _trials, _others: of_jax.ndtr(eta),
    draw=lambda key, eta, _trials, _others: random.bernoulli(key, of_jax.ndtr(eta)).astype(jnp.float32),
    scores=lambda _: Probit(),
    intercept="normal(0, 1.2)",
    coefficients="normal(0, 1)",
    spread="half_normal(0.6)",
)
