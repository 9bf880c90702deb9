"""Zero with one probability, and else a lognormal number: costs, of which some are none."""

import jax
import jax.numpy as jnp

from dpmcmc.model.bounded_scores.zeros import HurdleRow
from dpmcmc.model.formula.families import gaussian, lognormal
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import keep_or_zero, log_upper_intercept, number_or_zero
from dpmcmc.model.formula.links import LOG_MEDIAN


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm, or as zero."""
    return number_or_zero(lambda own: gaussian.log_density(eta, own, trials, others), eta, y, others["hu"])


FAMILY = Family(
    name="hurdle_lognormal",
    words="zero with probability hu, else a number whose logarithm is normal around the predictor, with the standard "
    "deviation sigma",
    response="zero_or_positive",
    link=LOG_MEDIAN,
    log_density=log_density,
    mean=lambda eta, _, others: (1 - others["hu"]) * jnp.exp(eta + others["sigma"] ** 2 / 2),
    draw=lambda key, eta, trials, others: keep_or_zero(
        key, others["hu"], lambda own: lognormal.FAMILY.draw(own, eta, trials, others)
    ),
    scores=lambda _: HurdleRow(gaussian.Gaussian()),
    intercept=log_upper_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"sigma": "half_normal(1)", "hu": "beta(1, 1)"},
)
