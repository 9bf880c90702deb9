"""Overdispersed counts, of which a share is zero whatever the predictor says."""

import jax
import jax.numpy as jnp

from dpmcmc.model.bounded_scores.zeros import ZeroInflated
from dpmcmc.model.formula.families import negative_binomial
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import count_intercept, inflated, keep_or_zero
from dpmcmc.model.formula.families.parts import negative_binomial as draw_counts
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without y!."""
    counts = negative_binomial.log_density(eta, y, trials, others)
    zero = -others["concentration"] * jnp.log1p(jnp.exp(eta) / others["concentration"])
    return inflated(counts, zero, y, others["zi"])


FAMILY = Family(
    name="zero_inflated_negative_binomial",
    words="zero with probability zi, else a count with variance mean + mean^2 / concentration; the linear predictor "
    "is the log of the latter's mean",
    response="count",
    link=LOG,
    log_density=log_density,
    mean=lambda eta, _, others: (1 - others["zi"]) * jnp.exp(eta),
    draw=lambda key, eta, _, others: keep_or_zero(
        key, others["zi"], lambda own: draw_counts(own, eta, others["concentration"])
    ),
    scores=lambda response: ZeroInflated(response.bounds[1], negative_binomial.NegativeBinomial(response.bounds[1])),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"concentration": "gamma(2, 0.1)", "zi": "beta(1, 1)"},
    aliases=("zinb", "zero_inflated_negbin", "zero_inflated_negbinomial"),
)
