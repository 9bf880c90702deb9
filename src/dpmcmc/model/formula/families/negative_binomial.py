"""Counts with more variance than Poisson's."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.counts import CountsWithZero
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import count_intercept, digamma, negative_binomial, rate
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without y!."""
    concentration = others["concentration"]
    log_concentration = jnp.log(concentration)
    log_total = jnp.logaddexp(log_concentration, eta)
    known = gammaln(y + concentration) - gammaln(concentration)
    return known + concentration * (log_concentration - log_total) + y * (eta - log_total)


class NegativeBinomial(CountsWithZero):
    """Counts of variance mean + mean^2 / concentration; the shape is the logarithm of the concentration."""

    num_shapes = 1
    usual_length = 2.8

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tail is long."""
        return 3.0 * bound

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores by the predictor and by the log concentration."""
        concentration, mean = xp.exp(shapes[0]), xp.exp(predictor)
        total = concentration + mean
        known = digamma(xp, response + concentration) - digamma(xp, concentration)
        of_concentration = known + xp.log(concentration / total) + (mean - response) / total
        by_predictor = (response - mean) * (concentration / total)
        return xp.stack([by_predictor, concentration * of_concentration], axis=-1)

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return the logarithm of the probabilities."""
        concentration = float(np.exp(shapes[0]))
        log_total = np.logaddexp(shapes[0], predictor)
        known = special.gammaln(counts + concentration) - special.gammaln(counts + 1)
        return known + counts * (predictor - log_total)

    def log_zero(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the logarithm of the probability of zero."""
        return -xp.exp(shapes[0]) * xp.log1p(xp.exp(predictor - shapes[0]))

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the standard deviation; the tail falls like exp(-y / (1 + mean / concentration))."""
        concentration = float(np.exp(shapes[0]))
        return float(np.sqrt(mean + mean**2 / concentration)), 1 + mean / concentration

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what mean and variance have."""
        mean = max(response.mean, floor)
        concentration = np.clip(mean**2 / max(response.variance - mean, 0.02 * mean), 0.05, 50.0)
        return np.array([np.log(mean)]), np.array([np.log(concentration)])


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """(y - mu) / (1 + mu / c) is at most u for mu <= u, the largest count.

    In log c it is at most 2 u: c (psi(y + c) - psi(c)) - c y / (c + mu) lies between -y and y, the rest between -mu
    and 0.
    """
    upper = response.bounds[1]
    others = (2 * upper,) if region["concentration"].moves else ()
    return Bound(upper, others, f"the predicted mean at most {upper:g}")


FAMILY = Family(
    name="negative_binomial",
    words="a count with variance mean + mean^2 / concentration; the linear predictor is the log of its mean",
    response="count",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=lambda key, eta, _, others: negative_binomial(key, eta, others["concentration"]),
    scores=lambda response: NegativeBinomial(response.bounds[1]),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    others={"concentration": "gamma(2, 0.1)"},
    bound=bound,
    aliases=("negbin", "negbinomial", "negativebinomial", "nb", "overdispersed"),
)
