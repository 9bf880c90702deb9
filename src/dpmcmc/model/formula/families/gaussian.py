"""Normal responses."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import NODES, LocationScale
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import location

QUARTILES = 1.349
"""How far apart the quartiles of a normal law are, in standard deviations."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of a normal law."""
    return -0.5 * ((y - eta) / others["sigma"]) ** 2 - jnp.log(others["sigma"])


class Gaussian(LocationScale):
    """A normal residual."""

    num_shapes = 1
    usual_length = 1.3

    def shape_bound(self, bound: float) -> float:
        """Return twice the bound, or where the residual is cut for the location, if that is further out."""
        return max(2.0 * bound, (bound**2 - 1) / np.sqrt(2.0))

    def cut_off(self, residuals: Floats, bound: float) -> tuple[Floats, Floats]:
        """Return what a cut takes off the scores by the location and by the log scale."""
        beyond, _ = super().cut_off(residuals, bound)
        return beyond, np.maximum((residuals**2 - 1) / np.sqrt(2.0) - self.shape_bound(bound), 0.0)

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return u and u^2 - 1."""
        del shapes
        return xp.stack([residual, residual**2 - 1], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return even steps."""
        del shapes
        residuals = np.linspace(-9.0, 9.0, NODES)
        weights = np.exp(-(residuals**2) / 2)
        return residuals, weights / weights.sum()

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the median, and the scale that the quartiles have."""
        del floor
        return quartiles(response)


def quartiles(response: Spread) -> tuple[Floats, Floats]:
    """Return the median of a histogram, and the logarithm of the scale that its quartiles have."""
    low, middle, high = (response.quantile(probability) for probability in (0.25, 0.5, 0.75))
    width = response.middles[1] - response.middles[0]
    return np.array([middle]), np.array([np.log(max(high - low, width / 2) / QUARTILES)])


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|y - eta| is at most the width w of the response where eta lies within its bounds: w / sigma^2.

    In log sigma the score is between -1 and w^2 / sigma^2 - 1.
    """
    low, high = response.read_bounds
    sigma, _, moves = region["sigma"]
    others = (max(1.0, ((high - low) / sigma) ** 2 - 1),) if moves else ()
    return Bound((high - low) / sigma**2, others, "the predicted mean within the bounds of the response")


FAMILY = Family(
    name="gaussian",
    words="normal around the predictor, with the standard deviation sigma",
    response="number",
    log_density=log_density,
    mean=location,
    draw=lambda key, eta, _, others: eta + others["sigma"] * random.normal(key, eta.shape),
    scores=lambda _: Gaussian(),
    intercept="normal(0, 1)",
    coefficients="normal(0, 0.5)",
    spread="half_normal(0.5)",
    others={"sigma": "half_normal(0.5)"},
    bound=bound,
    aliases=("normal", "linear"),
    scale="sigma",
)
