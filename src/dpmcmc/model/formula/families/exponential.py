"""Waiting times without memory."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import OneRow, rule_of
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import FARTHEST_LOG, NO_SHAPES, log_intercept, rate
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm."""
    del others
    return y - eta - jnp.exp(y - eta)


class Exponential(OneRow):
    """The logarithm of an exponential number of mean one."""

    usual_length = 1.2

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return e^r - 1."""
        del shapes
        return (xp.exp(xp.minimum(residual, FARTHEST_LOG)) - 1)[..., None]

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return logarithms of numbers."""
        del shapes
        return rule_of(lambda r: r - np.exp(r), 0.0, 1.0, 50.0)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the mean that goes with that of the logarithms."""
        del floor
        return np.array([response.mean + np.euler_gamma]), NO_SHAPES


FAMILY = Family(
    name="exponential",
    words="an exponential number; the linear predictor is the log of its mean",
    response="positive",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=lambda key, eta, _trials, _others: jnp.exp(eta) * random.exponential(key, eta.shape),
    scores=lambda _: Exponential(),
    intercept=log_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
)
