"""Counts before the first success: overdispersed ones with concentration one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.counts import Counts
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import NO_SHAPES, count_intercept, negative_binomial, rate
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return y log(mean) - (y + 1) log(1 + mean)."""
    del others
    return y * eta - (y + 1) * jnp.logaddexp(0.0, eta)


class Geometric(Counts):
    """Counts of variance mean + mean^2."""

    usual_length = 1.8

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return (y - mean) / (1 + mean)."""
        del shapes
        mean = xp.exp(predictor)
        return ((response - mean) / (1 + mean))[..., None]

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return the logarithm of the probabilities."""
        del shapes
        return counts * (predictor - np.logaddexp(0.0, predictor))

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the standard deviation, and the mean and one: by that the tail falls by e, about."""
        del shapes
        return float(np.sqrt(mean + mean**2)), 1 + mean

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the logarithm of the mean."""
        return np.array([np.log(max(response.mean, floor))]), NO_SHAPES


FAMILY = Family(
    name="geometric",
    words="a geometric count, with variance mean + mean^2; the linear predictor is the log of its mean",
    response="count",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=lambda key, eta, _trials, _others: negative_binomial(key, eta, 1.0),
    scores=lambda response: Geometric(response.bounds[1]),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
)
