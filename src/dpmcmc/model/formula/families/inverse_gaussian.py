"""Positive numbers with a steep rise and a long tail: first passage times."""

from math import exp, log
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import rule_of
from dpmcmc.model.bounded_scores.over_predictor import SmoothOverPredictor
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others, Stated
from dpmcmc.model.formula.families.parts import log_intercept, rate
from dpmcmc.model.formula.links import LOG

NODES = 1201
BEYOND = 3.0
"""How far beyond the bounds of the response a predictor is told from others."""

FARTHEST = 40.0
"""Residuals beyond count as this."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm: with y / mean = e^x, shape / mean times cosh x - 1."""
    shape = others["shape"]
    return 0.5 * jnp.log(shape) - shape * jnp.exp(-eta) * 2 * jnp.sinh((y - eta) / 2) ** 2


class InverseGaussian(SmoothOverPredictor):
    """The shape is the logarithm of the law's, in units of the response."""

    num_shapes = 1
    usual_length = 1.4

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the shape."""
        return 3.0 * bound

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return f (e^x - 1) and 1/2 - f (cosh x - 1), with f the shape over the mean."""
        ratio = xp.exp(shapes[0] - predictor)
        residual = xp.clip(response - predictor, -FARTHEST, FARTHEST)
        return xp.stack([ratio * xp.expm1(residual), 0.5 - ratio * 2 * xp.sinh(residual / 2) ** 2], axis=-1)

    def rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return logarithms of responses."""
        ratio = exp(shapes[0] - predictor)
        mode, width = -np.arcsinh(0.5 / ratio), (ratio**2 + 0.25) ** -0.25
        reach = float(np.arccosh(1 + 45 / ratio)) + abs(mode)
        steps, weights = rule_of(lambda x: -x / 2 - ratio * 2 * np.sinh(x / 2) ** 2, mode, width, reach, NODES)
        return predictor + steps, weights

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what mean and variance have."""
        del floor
        values = np.exp(response.middles)
        mean = float(response.shares @ values)
        variance = max(float(response.shares @ (values - mean) ** 2), 1e-4 * mean**2)
        return np.array([np.log(mean)]), np.array([np.log(mean**3 / variance)])


def _scores(response: Stated) -> InverseGaussian:
    low, high = response.read_bounds
    return InverseGaussian(low - BEYOND, high + BEYOND)


def _draw(key: jax.Array, eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Draw by the roots of a chi-square (Michael, Schucany and Haas 1976)."""
    first, second = random.split(key)
    square = random.normal(first, eta.shape) ** 2 * jnp.exp(eta) / others["shape"]
    root = jnp.sqrt(square * (4 + square))
    small = 2 / (2 + square + root)  # the smaller root, over the mean; the other one is its inverse
    is_small = random.uniform(second, eta.shape) * (1 + small) <= 1
    return jnp.exp(eta) * jnp.where(is_small, small, 1 / small)


def _shape(response: Stated) -> str:
    low, high = response.bounds
    return f"lognormal({(log(low) + log(high)) / 2:.3g}, 2)"


FAMILY = Family(
    name="inverse_gaussian",
    words="an inverse Gaussian number with variance mean^3 / shape; the linear predictor is the log of its mean",
    response="positive",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=_draw,
    scores=_scores,
    intercept=log_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"shape": _shape},
    aliases=("wald",),
)
