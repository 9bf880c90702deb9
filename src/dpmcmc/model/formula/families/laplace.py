"""Responses with Laplace's law: its location is a median, and regression on it is median regression."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import NODES, LocationScale
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import location

FARTHEST = 40.0
"""Beyond so many scales nothing is left of the law."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of Laplace's law."""
    return -jnp.abs(y - eta) / others["sigma"] - jnp.log(others["sigma"])


class Laplace(LocationScale):
    """A residual with exponential tails on both sides."""

    num_shapes = 1
    usual_length = 1.0

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the sign of the residual and |u| - 1."""
        del shapes
        return xp.stack([xp.sign(residual), xp.abs(residual) - 1], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return even steps of the root on either side: a middle one would lie on the kink."""
        del shapes
        steps = (np.arange(NODES // 2) + 0.5) * np.sqrt(FARTHEST) / (NODES // 2)
        half, weights = steps**2, np.exp(-(steps**2)) * steps
        weights = np.append(weights[::-1], weights)
        return np.append(-half[::-1], half), weights / weights.sum()

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the median, and the scale that the quartiles have."""
        del floor
        low, middle, high = (response.quantile(probability) for probability in (0.25, 0.5, 0.75))
        width = response.middles[1] - response.middles[0]
        return np.array([middle]), np.array([np.log(max(high - low, width / 2) / (2 * np.log(2.0)))])


FAMILY = Family(
    name="laplace",
    words="Laplace around the predictor, its median, with the scale sigma",
    response="number",
    log_density=log_density,
    mean=location,
    draw=lambda key, eta, _, others: eta + others["sigma"] * random.laplace(key, eta.shape),
    scores=lambda _: Laplace(),
    intercept="normal(0, 1)",
    coefficients="normal(0, 0.5)",
    spread="half_normal(0.5)",
    others={"sigma": "half_normal(0.5)"},
    aliases=("double_exponential", "median"),
    scale="sigma",
)
