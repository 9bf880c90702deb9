"""Positive numbers whose logarithm is normal."""

import jax.numpy as jnp
from jax import random

from dpmcmc.model.formula.families import gaussian
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.families.parts import log_intercept
from dpmcmc.model.formula.links import LOG_MEDIAN

FAMILY = Family(
    name="lognormal",
    words="a number whose logarithm is normal around the predictor, with the standard deviation sigma",
    response="positive",
    link=LOG_MEDIAN,
    log_density=gaussian.log_density,
    mean=lambda eta, _, others: jnp.exp(eta + others["sigma"] ** 2 / 2),
    draw=lambda key, eta, _, others: jnp.exp(eta + others["sigma"] * random.normal(key, eta.shape)),
    scores=lambda _: gaussian.Gaussian(),
    intercept=log_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"sigma": "half_normal(1)"},
    bound=gaussian.bound,
    aliases=("log_normal",),
    scale="sigma",
)
