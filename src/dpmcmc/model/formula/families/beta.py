"""Shares between zero and one that are no counts: fractions, scores, saturations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import log_sigmoid, sigmoid
from jax.scipy.special import gammaln
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import rule_of
from dpmcmc.model.bounded_scores.over_predictor import SmoothOverPredictor
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others, Stated
from dpmcmc.model.formula.families.parts import digamma, logistic
from dpmcmc.model.formula.links import LOGIT

NODES = 1201
BEYOND = 3.0
"""How far beyond the bounds of the response a predictor is told from others."""

LEAST = 1e-6
"""Means are at least so far from zero and one."""


def _parts(eta: jax.Array, phi: Any) -> tuple[jax.Array, jax.Array]:
    mean = jnp.clip(sigmoid(eta), LEAST, 1 - LEAST)
    return mean * phi, (1 - mean) * phi


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its log-odds."""
    first, second = _parts(eta, others["phi"])
    constant = gammaln(others["phi"]) - gammaln(first) - gammaln(second)
    return constant + first * log_sigmoid(y) + second * log_sigmoid(-y)


class Beta(SmoothOverPredictor):
    """The shape is the logarithm of the precision."""

    num_shapes = 1
    usual_length = 1.4

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the precision."""
        return 3.0 * bound

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores by the log-odds of the mean and by the log precision."""
        phi, mean, other = xp.exp(shapes[0]), logistic(xp, predictor), logistic(xp, -predictor)
        first, second = digamma(xp, mean * phi), digamma(xp, other * phi)
        log_share, log_rest = -xp.logaddexp(0.0, -response), -xp.logaddexp(0.0, response)
        by_mean = phi * mean * other * (response - first + second)
        by_phi = phi * (digamma(xp, phi) + mean * (log_share - first) + other * (log_rest - second))
        return xp.stack([by_mean, by_phi], axis=-1)

    def rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return log-odds of responses."""
        phi = float(np.exp(shapes[0]))
        first, second = phi * special.expit(predictor), phi * special.expit(-predictor)
        width = (first * second / phi) ** -0.5
        return rule_of(
            lambda x: first * special.log_expit(x) + second * special.log_expit(-x),
            predictor,
            width,
            45 / min(first, second) + 10 * width,
            NODES,
        )

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what mean and variance have."""
        del floor
        values = special.expit(response.middles)
        mean = float(np.clip(response.shares @ values, 1e-4, 1 - 1e-4))
        variance = max(float(response.shares @ (values - mean) ** 2), 1e-6)
        phi = np.clip(mean * (1 - mean) / variance - 1, 0.1, 1000.0)
        return np.array([special.logit(mean)]), np.array([np.log(phi)])


def _scores(response: Stated) -> Beta:
    low, high = response.read_bounds
    return Beta(low - BEYOND, high + BEYOND)


FAMILY = Family(
    name="beta",
    words="a share with variance mean (1 - mean) / (1 + phi); the linear predictor is the log-odds of its mean",
    response="share",
    link=LOGIT,
    log_density=log_density,
    mean=lambda eta, _trials, _others: sigmoid(eta),
    draw=lambda key, eta, _, others: random.beta(key, *_parts(eta, others["phi"])),
    scores=_scores,
    intercept="normal(0, 2)",
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"phi": "gamma(2, 0.1)"},
)
