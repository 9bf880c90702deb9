"""Zero with one probability, and else a gamma number: costs, of which some are none."""

import jax
import jax.numpy as jnp

from dpmcmc.model.bounded_scores.zeros import HurdleRow
from dpmcmc.model.formula.families import gamma
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import keep_or_zero, log_upper_intercept, number_or_zero
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return that of a response that is read as its logarithm, or as zero."""
    return number_or_zero(lambda own: gamma.log_density(eta, own, trials, others), eta, y, others["hu"])


FAMILY = Family(
    name="hurdle_gamma",
    words="zero with probability hu, else a gamma number; the linear predictor is the log of the latter's mean",
    response="zero_or_positive",
    link=LOG,
    log_density=log_density,
    mean=lambda eta, _, others: (1 - others["hu"]) * jnp.exp(eta),
    draw=lambda key, eta, trials, others: keep_or_zero(
        key, others["hu"], lambda own: gamma.FAMILY.draw(own, eta, trials, others)
    ),
    scores=lambda _: HurdleRow(gamma.Gamma()),
    intercept=log_upper_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"shape": "gamma(2, 0.5)", "hu": "beta(1, 1)"},
)
