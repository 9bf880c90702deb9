"""Zero with one probability, and else a Poisson count that is not zero."""

import jax
import jax.numpy as jnp

from dpmcmc.model.bounded_scores.zeros import Hurdle
from dpmcmc.model.formula.families import poisson
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import count_intercept, hurdle, keep_or_zero, poisson_above_zero
from dpmcmc.model.formula.links import LOG_RATE


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without y!."""
    return hurdle(poisson.log_density(eta, y, trials, others), -jnp.exp(eta), y, others["hu"])


FAMILY = Family(
    name="hurdle_poisson",
    words="zero with probability hu, else a Poisson count that is not zero; the linear predictor is the log of the "
    "mean that it would have with zeros",
    response="count",
    link=LOG_RATE,
    log_density=log_density,
    mean=lambda eta, _, others: (1 - others["hu"]) * jnp.exp(eta) / -jnp.expm1(-jnp.exp(eta)),
    draw=lambda key, eta, _, others: keep_or_zero(key, others["hu"], lambda own: poisson_above_zero(own, eta)),
    scores=lambda response: Hurdle(response.bounds[1], poisson.Poisson(response.bounds[1])),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"hu": "beta(1, 1)"},
)
