"""Positive numbers with a constant coefficient of variation: costs, durations, rainfall."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import gammaln
from scipy import optimize, special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import OneRow, rule_of
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import FARTHEST_LOG, digamma, log_intercept, rate
from dpmcmc.model.formula.links import LOG

SHAPES = (0.05, 500.0)
"""Shapes to start from."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm."""
    shape, residual = others["shape"], y - eta
    return shape * (residual - jnp.exp(residual)) + shape * jnp.log(shape) - gammaln(shape)


class Gamma(OneRow):
    """The logarithm of a gamma number of mean one; the shape is the logarithm of the gamma law's."""

    num_shapes = 1
    usual_length = 1.4

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the shape."""
        return 3.0 * bound

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return a (e^r - 1) and a (log a + 1 - digamma a + r - e^r)."""
        shape, residual = xp.exp(shapes[0]), xp.clip(residual, -FARTHEST_LOG / xp.exp(shapes[0]), FARTHEST_LOG)
        power = xp.exp(residual)
        known = shapes[0] + 1 - digamma(xp, shape)
        return xp.stack([shape * (power - 1), shape * (known + residual - power)], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return logarithms of numbers."""
        shape = float(np.exp(shapes[0]))
        width = 1 / np.sqrt(shape)
        return rule_of(lambda r: shape * (r - np.exp(r)), 0.0, width, 45 / shape + 10 * width)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the shape that the variance of the logarithms has, and the mean that goes with theirs."""
        del floor
        variance = float(np.clip(response.variance, *special.polygamma(1, SHAPES[::-1])))
        low, high = np.log(SHAPES)
        log_shape = optimize.brentq(lambda one: special.polygamma(1, np.exp(one)) - variance, low - 0.1, high + 0.1)
        constant = response.mean - special.digamma(np.exp(log_shape)) + log_shape
        return np.array([constant]), np.array([log_shape])


FAMILY = Family(
    name="gamma",
    words="a gamma number with variance mean^2 / shape; the linear predictor is the log of its mean",
    response="positive",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=lambda key, eta, _, others: jnp.exp(eta) * random.gamma(key, others["shape"], eta.shape) / others["shape"],
    scores=lambda _: Gamma(),
    intercept=log_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"shape": "gamma(2, 0.5)"},
)
