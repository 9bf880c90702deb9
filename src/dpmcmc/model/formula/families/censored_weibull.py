"""Times to an event whose hazard rises or falls, some of them censored; with a constant hazard the exponential ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import gammaln

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.log_times import LogTimes
from dpmcmc.model.formula.families.family import Family, Others, Stated
from dpmcmc.model.formula.families.parts import rate
from dpmcmc.model.formula.families.survival import log_density_of, log_of, survival_of, time_intercept
from dpmcmc.model.formula.links import TIME

FARTHEST = 30.0
"""Logarithms of a cumulative hazard count as this beyond it."""


def _shape(others: Others) -> Any:
    return others.get("shape", 1.0)


def _cumulative(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
    return jnp.exp(jnp.minimum(_shape(others) * (log_time - eta), FARTHEST))


def _log_hazard(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
    """Return that of the logarithm of the time."""
    return jnp.log(_shape(others)) + _shape(others) * (log_time - eta)


def _draw(key: jax.Array, eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    return jnp.exp(eta + log_of(random.exponential(key, eta.shape)) / _shape(others))


class Exponential(LogTimes):
    """The residual is the logarithm of the cumulative hazard."""

    usual_length = 1.6
    lowest, highest = -20.0, 3.0

    def window(self, bound: float) -> tuple[float, float]:
        """Return where the cumulative hazard is the bound; before it scores are all alike."""
        return float(np.log(max(bound, 1.0))), 23.0

    def log_hazard(self, residual: Floats) -> Floats:
        """Return the residual."""
        return residual

    def of_residual(self, residual: Floats) -> Floats:
        """Return its exponential."""
        return np.exp(residual)

    def scores(self, xp: Any, residual: Any) -> Any:
        """Return minus one."""
        return -xp.ones_like(residual)[..., None]


class Weibull(Exponential):
    """The shape is the logarithm of Weibull's."""

    usual_length = 1.8
    num_shapes = 1

    def window(self, bound: float) -> tuple[float, float]:
        """Return so far up and down that both scores are bounded: few tell much of the shape, and are long."""
        return float(np.log(0.5 + max(bound, 1.0) / 2)), min(1.5 + 0.75 * bound, 22.0)

    def scores(self, xp: Any, residual: Any) -> Any:
        """Return minus one and 1 + z."""
        return xp.stack([-xp.ones_like(residual), 1 + residual], axis=-1)


def _weibull(response: Stated) -> Weibull:
    return Weibull(response.read_bounds[1], response.has_entry)


def _exponential(response: Stated) -> Exponential:
    return Exponential(response.read_bounds[1], response.has_entry)


WEIBULL = Family(
    name="weibull",
    words=(
        "a Weibull time with this shape; the linear predictor is the log of its scale, by which 63 % have had the event"
    ),
    response="survival",
    link=TIME,
    log_density=log_density_of(_log_hazard, _cumulative),
    mean=lambda eta, _, others: jnp.exp(eta + gammaln(1 + 1 / others["shape"])),
    draw=_draw,
    scores=_weibull,
    intercept=time_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"shape": "gamma(2, 1)"},
    survival=survival_of(_cumulative),
)

EXPONENTIAL = Family(
    name="exponential",
    words="a time with a constant hazard; the linear predictor is the log of its mean",
    response="survival",
    link=TIME,
    log_density=log_density_of(_log_hazard, _cumulative),
    mean=rate,
    draw=_draw,
    scores=_exponential,
    intercept=time_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    survival=survival_of(_cumulative),
)
