"""Zero with one probability, and else an overdispersed count that is not zero."""

import jax
import jax.numpy as jnp
from jax import random

from dpmcmc.model.bounded_scores.zeros import Hurdle
from dpmcmc.model.formula.families import negative_binomial
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import count_intercept, hurdle, keep_or_zero
from dpmcmc.model.formula.families.parts import negative_binomial as draw_counts
from dpmcmc.model.formula.links import LOG_RATE


def _log_zero(eta: jax.Array, others: Others) -> jax.Array:
    return -others["concentration"] * jnp.log1p(jnp.exp(eta) / others["concentration"])


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without y!."""
    return hurdle(negative_binomial.log_density(eta, y, trials, others), _log_zero(eta, others), y, others["hu"])


def _above_zero(key: jax.Array, eta: jax.Array, others: Others) -> jax.Array:
    """Draw counts that are not zero: the first jump of the process that they count, and what comes after it.

    The process has jumps at the rate -log P(0), each of a logarithmic law (Kemp 1981 draws it from two uniforms).
    """
    when, one, two, rest = random.split(key, 4)
    log_zero, log_rest = _log_zero(eta, others), -jnp.log1p(jnp.exp(eta) / others["concentration"])
    time = jnp.log1p(random.uniform(when, eta.shape) * jnp.expm1(log_zero)) / log_zero
    below = jnp.log(-jnp.expm1(random.uniform(one, eta.shape, minval=1e-6) * log_rest))
    jump = jnp.floor(1 + jnp.log(random.uniform(two, eta.shape, minval=1e-30)) / below)
    left = jnp.maximum(1 - time, 1e-6)
    return jump + draw_counts(rest, eta + jnp.log(left), others["concentration"] * left)


FAMILY = Family(
    name="hurdle_negative_binomial",
    words="zero with probability hu, else an overdispersed count that is not zero; the linear predictor is the log of "
    "the mean that it would have with zeros",
    response="count",
    link=LOG_RATE,
    log_density=log_density,
    mean=lambda eta, _, others: (1 - others["hu"]) * jnp.exp(eta) / -jnp.expm1(_log_zero(eta, others)),
    draw=lambda key, eta, _, others: keep_or_zero(key, others["hu"], lambda own: _above_zero(own, eta, others)),
    scores=lambda response: Hurdle(response.bounds[1], negative_binomial.NegativeBinomial(response.bounds[1])),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"concentration": "gamma(2, 0.1)", "hu": "beta(1, 1)"},
    aliases=("hurdle_negbin", "hurdle_negbinomial"),
)
