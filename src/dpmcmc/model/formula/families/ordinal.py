"""One of several classes in order."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import log_sigmoid, sigmoid
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.finite import FiniteScores
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.formula.families.family import Bound, Family, Interval, Others, Stated
from dpmcmc.model.formula.families.parts import logistic
from dpmcmc.model.formula.links import LOGIT

LEAST = 1e-12
"""Probabilities below it are raised to it where they divide."""


def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the log of F(b - eta) - F(a - eta) for a class between the cutpoints a < b, F the logistic function.

    It equals log F(b - eta) + log(1 - F(a - eta)) + log(1 - exp(a - b)), which nothing cancels in.
    """
    cutpoints, gaps = others["cutpoints"], others["gaps"]
    places = jnp.arange(cutpoints.shape[0])
    below = jnp.sum(jnp.where(places == y, log_sigmoid(cutpoints - eta), 0.0))
    above = jnp.sum(jnp.where(places == y - 1, log_sigmoid(eta - cutpoints), 0.0))
    return below + above + jnp.sum(jnp.where(places[1:] == y, jnp.log(-jnp.expm1(-gaps)), 0.0))


def _probabilities(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    cumulative = sigmoid(others["cutpoints"] - eta[..., None])
    edge = jnp.zeros((*cumulative.shape[:-1], 1))
    return jnp.diff(jnp.concatenate([edge, cumulative, edge + 1], axis=-1))


class Ordinal(FiniteScores):
    """One of ordered classes: at most class k with log-odds equal to cutpoint k less the predictor."""

    has_threshold = True

    def __init__(self, num_classes: int) -> None:
        self.num_shapes = num_classes - 1

    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities, and the derivatives of their logarithms."""
        gaps = xp.exp(shapes[1:])
        cutpoints = shapes[0] + xp.concatenate([xp.zeros(1), xp.cumsum(gaps)])
        below, above = logistic(xp, cutpoints - predictors[0]), logistic(xp, predictors[0] - cutpoints)
        edge = xp.zeros(1)
        # F(b) - F(a) without cancellation: F(b) (1 - F(a)) (1 - exp(a - b))
        upper, lower = xp.concatenate([below, edge + 1]), xp.concatenate([edge + 1, above])
        inner = -xp.expm1(-gaps)
        apart = xp.concatenate([edge + 1, inner, edge + 1])
        probabilities = xp.maximum(upper * lower * apart, LEAST)
        density = below * above
        rows = np.arange(self.num_shapes + 1)[:, None]
        columns = np.arange(self.num_shapes)
        by_cutpoint = ((rows == columns) * 1.0 - (rows == columns + 1) * 1.0) * density / probabilities[:, None]
        moved = xp.concatenate(
            [xp.ones((self.num_shapes, 1)), np.tri(self.num_shapes, k=-1)[:, : len(gaps)] * gaps], axis=1
        )
        return probabilities, xp.concatenate([-xp.sum(by_cutpoint, axis=1)[:, None], by_cutpoint @ moved], axis=1)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the cutpoints that the shares have."""
        shares = np.maximum(response.shares, floor)
        cutpoints = special.logit(np.cumsum(shares / shares.sum())[:-1])
        return np.zeros(1), np.append(cutpoints[:1], np.log(np.maximum(np.diff(cutpoints), floor)))


def bound(response: Stated, region: Mapping[str, Interval]) -> Bound:
    """|1 - F(a) - F(b)| <= 1 in eta and the first cutpoint.

    In the logarithm of a gap g below at most g, in that of the own gap at most g + g / (e^g - 1) <= g + 1; so all gaps
    together at most their sum plus one.
    """
    del response
    return Bound(1.0, (1.0, region["cutpoints"].high + 1), "")


FAMILY = Family(
    name="ordinal",
    words="one of ordered classes; at most class k with log-odds equal to cutpoint k less the predictor",
    response="order",
    link=LOGIT,
    log_density=log_density,
    mean=_probabilities,
    draw=lambda key, eta, trials, others: random.categorical(key, jnp.log(_probabilities(eta, trials, others) + 1e-30)),
    scores=lambda response: Ordinal(len(response.classes)),
    intercept="normal(0, 2)",
    coefficients="normal(0, 1.5)",
    spread="half_normal(1)",
    bound=bound,
    aliases=("cumulative", "ordered"),
)
