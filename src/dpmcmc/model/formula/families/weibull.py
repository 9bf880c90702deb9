"""Times to an event whose hazard rises or falls, every one of them seen."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import gammaln
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import OneRow, rule_of
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import FARTHEST_LOG, digamma, log_intercept, rate
from dpmcmc.model.formula.links import LOG

SHAPES = (0.1, 50.0)
"""Shapes to start from."""


def _residual(eta: jax.Array, y: jax.Array, shape: Any) -> jax.Array:
    """Return the logarithm of (y / scale)^shape, which is that of an exponential number."""
    return shape * (y - eta + gammaln(1 + 1 / shape))


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm."""
    residual = _residual(eta, y, others["shape"])
    return jnp.log(others["shape"]) + residual - jnp.exp(residual)


class Weibull(OneRow):
    """The logarithm of an exponential number; the shape is the logarithm of Weibull's."""

    num_shapes = 1
    usual_length = 1.4

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the shape."""
        return 3.0 * bound

    def residual_of(self, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the logarithm of the exponential number."""
        return _residual(predictor, response, jnp.exp(shapes[0]))

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return k (e^r - 1) and 1 + r - r e^r + digamma(1 + 1 / k) (e^r - 1): the mean is held, not the scale."""
        shape, residual = xp.exp(shapes[0]), xp.clip(residual, -FARTHEST_LOG, FARTHEST_LOG / 2)
        power = xp.exp(residual)
        of_mean = digamma(xp, 1 + 1 / shape)
        return xp.stack([shape * (power - 1), 1 + residual - residual * power + of_mean * (power - 1)], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return logarithms of exponential numbers."""
        del shapes
        return rule_of(lambda r: r - np.exp(r), 0.0, 1.0, 50.0)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the shape that the variance of the logarithms has, and the mean that goes with theirs."""
        del floor
        shape = float(np.clip(np.pi / np.sqrt(6 * max(response.variance, 1e-6)), *SHAPES))
        constant = response.mean + np.euler_gamma / shape + special.gammaln(1 + 1 / shape)
        return np.array([constant]), np.array([np.log(shape)])


def _draw(key: jax.Array, eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    shape = others["shape"]
    logs = jnp.log(jnp.maximum(random.exponential(key, eta.shape), 1e-30))
    return jnp.exp(eta - gammaln(1 + 1 / shape) + logs / shape)


FAMILY = Family(
    name="weibull",
    words="a Weibull number with this shape; the linear predictor is the log of its mean",
    response="positive",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=_draw,
    scores=lambda _: Weibull(),
    intercept=log_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"shape": "gamma(2, 1)"},
)
