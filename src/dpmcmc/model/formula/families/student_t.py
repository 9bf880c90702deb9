"""Responses with Student's law: around the predictor, with heavy tails."""

from collections.abc import Mapping
from math import log, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import gammaln

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.one_row import NODES, LocationScale
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.gaussian import quartiles
from dpmcmc.model.formula.families.parts import digamma, location

FREEDOM = 5.0
"""Degrees of freedom to start from."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return that of Student's law."""
    nu, sigma = others["nu"], others["sigma"]
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu) - jnp.log(sigma)
    return constant - (nu + 1) / 2 * jnp.log1p(((y - eta) / sigma) ** 2 / nu)


class StudentT(LocationScale):
    """A residual with Student's law; the second shape is the logarithm of its degrees of freedom."""

    num_shapes = 2
    usual_length = 1.3

    def shape_bound(self, bound: float) -> float:
        """Return three times the bound: the tails tell of the degrees of freedom."""
        return 3.0 * bound

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the scores by location, log scale and log degrees of freedom."""
        nu, square = xp.exp(shapes[1]), residual**2
        shrunk = (nu + 1) / (nu + square)
        constant = digamma(xp, (nu + 1) / 2) - digamma(xp, nu / 2) - 1 / nu
        of_nu = nu / 2 * (constant - xp.log1p(square / nu) + shrunk * square / nu)
        return xp.stack([shrunk * residual, shrunk * square - 1, of_nu], axis=-1)

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return even steps of the inverse hyperbolic sine: tails are heavy."""
        nu = np.exp(shapes[1])
        steps = np.linspace(-12.0, 12.0, NODES)
        residuals = np.sinh(steps)
        weights = np.exp(-(nu + 1) / 2 * np.log1p(residuals**2 / nu)) * np.cosh(steps)
        return residuals, weights / weights.sum()

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the median, the scale that the quartiles have, and some degrees of freedom."""
        del floor
        constant, scale = quartiles(response)
        return constant, np.append(scale, np.log(FREEDOM))


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """(nu + 1) r / (sigma (nu + r^2)) <= (nu + 1) / (2 sigma sqrt nu) for every r; in log sigma between -1 and nu.

    In log nu half of the sum of a number between 0 and 1 / nu (the digammas), r^2 / (nu + r^2) between 0 and 1, and
    nu r^2 / (nu + r^2) - nu log(1 + r^2 / nu) <= 0, where r is at most the width over sigma.
    """
    sigma, _, sigma_moves = region["sigma"]
    least, most, nu_moves = region["nu"]
    largest = (response.read_bounds[1] - response.read_bounds[0]) / sigma
    others = [max(1.0, most)] if sigma_moves else []
    if nu_moves:
        others.append(0.5 * max(1 / least + 1, most * log(1 + largest**2 / most)))
    residual = max((nu + 1) / (2 * sqrt(nu)) for nu in (least, most)) / sigma
    condition = "the predicted location within the bounds of the response" if nu_moves else ""
    return Bound(residual, tuple(others), condition)


FAMILY = Family(
    name="student_t",
    words="Student t around the predictor, with the scale sigma and nu degrees of freedom",
    response="number",
    log_density=log_density,
    mean=location,
    draw=lambda key, eta, _, others: eta + others["sigma"] * random.t(key, others["nu"], eta.shape),
    scores=lambda _: StudentT(),
    intercept="normal(0, 1)",
    coefficients="normal(0, 0.5)",
    spread="half_normal(0.5)",
    others={"sigma": "half_normal(0.5)", "nu": "gamma(2, 0.1)"},
    bound=bound,
    aliases=("t", "student", "studentt"),
    scale="sigma",
)
