"""Poisson counts."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.counts import CountsWithZero
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import NO_SHAPES, count_intercept, poisson, rate
from dpmcmc.model.formula.links import LOG


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return y eta - mean."""
    del others
    return y * eta - jnp.exp(eta)


class Poisson(CountsWithZero):
    """Poisson counts."""

    usual_length = 2.0

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return y - mean."""
        del shapes
        return (response - xp.exp(predictor))[..., None]

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return y eta - log y!."""
        del shapes
        return counts * predictor - special.gammaln(counts + 1)

    def log_zero(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the logarithm of the probability of zero."""
        del shapes
        return -xp.exp(predictor)

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return the root of the mean; tails are short."""
        del shapes
        return float(np.sqrt(mean)), 1.0

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the logarithm of the mean."""
        return np.array([np.log(max(response.mean, floor))]), NO_SHAPES


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|y - mu| <= u for mu <= u, the largest count."""
    del region
    upper = response.bounds[1]
    return Bound(upper, (), f"the predicted mean at most {upper:g}")


FAMILY = Family(
    name="poisson",
    words="a Poisson count; the linear predictor is the log of its mean",
    response="count",
    link=LOG,
    log_density=log_density,
    mean=rate,
    draw=lambda key, eta, _trials, _others: poisson(key, eta),
    scores=lambda response: Poisson(response.bounds[1]),
    intercept=count_intercept,
    coefficients="normal(0, 1)",
    spread="half_normal(1)",
    bound=bound,
    aliases=("count", "counts"),
)
