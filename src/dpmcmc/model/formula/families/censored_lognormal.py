"""Times to an event whose logarithm is normal, some of them censored."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import log_ndtr
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.log_times import LogTimes
from dpmcmc.model.formula.families.family import Family, Others, Stated
from dpmcmc.model.formula.families.survival import log_density_of, survival_of, time_intercept
from dpmcmc.model.formula.links import TIME

HALF_LOG_TWO_PI = 0.9189385332046727


def _residual(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
    return (log_time - eta) / others["sigma"]


def _cumulative(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
    return -log_ndtr(-_residual(eta, log_time, others))


def _log_hazard(eta: jax.Array, log_time: jax.Array, others: Others) -> jax.Array:
    """Return that of the logarithm of the time."""
    residual = _residual(eta, log_time, others)
    return -0.5 * residual**2 - HALF_LOG_TWO_PI - jnp.log(others["sigma"]) - log_ndtr(-residual)


class LogNormal(LogTimes):
    """The residual is a normal number; the shape is the logarithm of its standard deviation."""

    usual_length = 1.8
    num_shapes = 1
    sign = -1.0
    lowest, highest = -8.0, 5.0

    def window(self, bound: float) -> tuple[float, float]:
        """Return up to how many standard deviations a time is looked at, and how far down."""
        return min(0.4 + 0.4 * bound, self.highest), min(1.6 + 0.6 * bound, 13.0)

    def log_hazard(self, residual: Floats) -> Floats:
        """Return log of density over survival."""
        return -0.5 * residual**2 - HALF_LOG_TWO_PI - special.log_ndtr(-residual)

    def of_residual(self, residual: Floats) -> Floats:
        """Return minus the logarithm of the survival."""
        return -special.log_ndtr(-residual)

    def scores(self, xp: Any, residual: Any) -> Any:
        """Return -(h - z) and -1 - z (h - z), h the hazard."""
        log_survival = special.log_ndtr(-residual) if xp is np else log_ndtr(-residual)
        steep = xp.exp(-0.5 * residual**2 - HALF_LOG_TWO_PI - log_survival) - residual
        return xp.stack([-steep, -1 - residual * steep], axis=-1)


def _scores(response: Stated) -> LogNormal:
    return LogNormal(response.read_bounds[1], response.has_entry)


FAMILY = Family(
    name="lognormal",
    words="a time whose logarithm is normal around the predictor, with the standard deviation sigma",
    response="survival",
    link=TIME,
    log_density=log_density_of(_log_hazard, _cumulative),
    mean=lambda eta, _, others: jnp.exp(eta + others["sigma"] ** 2 / 2),
    draw=lambda key, eta, _, others: jnp.exp(eta + others["sigma"] * random.normal(key, eta.shape)),
    scores=_scores,
    intercept=time_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"sigma": "half_normal(1)"},
    aliases=("log_normal",),
    survival=survival_of(_cumulative),
)
