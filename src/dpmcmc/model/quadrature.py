"""Integrals over one or two standard normal numbers of a record, by an adaptive Gauss-Hermite rule.

The rule is moved to where the integrand has its mode, and is as wide as the curvature there says (Liu and Pierce 1994).
Where it stands is no part of the derivative: the integral does not depend on it. A fixed number of steps leads there,
so that no record waits for another.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

NODES = {1: 15, 2: 9}
"""How many nodes there are along each axis, by the number of axes, of a rule that stands still."""

ADAPTIVE = {1: 15, 2: 7}
"""The same of one that is moved to the mode."""

STEPS, LONGEST = 10, 2.0
"""Newton's steps to the mode, and how long one may be."""

WIDEST = 0.5
"""The least precision along an axis: where the integrand is flatter, or bends the other way, the rule is as wide."""

Function = Callable[[jax.Array, Any], jax.Array]


def rule(dimension: int, number: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of a standard normal law, (nodes, dimension), and the logarithms of their weights."""
    places, weights = np.polynomial.hermite_e.hermegauss(number or NODES[dimension])
    nodes = np.stack(np.meshgrid(*[places] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    logs = sum(np.meshgrid(*[np.log(weights / weights.sum())] * dimension, indexing="ij"), start=np.zeros(()))
    return nodes.astype(np.float32), np.ravel(logs).astype(np.float32)


def log_integral(log_density: Function, given: Any, dimension: int) -> jax.Array:
    """Return the logarithm of the mean of a function of standard normal numbers.

    Args:
        log_density: its logarithm, ``log_density(numbers, given)``, twice differentiable by the numbers.
        given: what else it is a function of, by which the answer may be differentiated.
        dimension: how many numbers there are, one or two.
    """
    centre, factor, log_size = jax.lax.stop_gradient(_place(log_density, jax.lax.stop_gradient(given), dimension))
    nodes, weights = rule(dimension, ADAPTIVE[dimension])
    places = centre + nodes @ factor.T
    logs = jax.vmap(lambda place: log_density(place, given))(places)
    moved = 0.5 * (jnp.sum(nodes**2, axis=1) - jnp.sum(places**2, axis=1))
    return logsumexp(logs + moved + weights) + log_size


def _place(log_density: Function, given: Any, dimension: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return where the rule stands, by what its nodes are multiplied, and the logarithm of that determinant."""

    def bend(place: jax.Array) -> tuple[jax.Array, jax.Array]:
        gradient = jax.grad(log_density)(place, given) - place
        precision = jnp.eye(dimension) - jax.hessian(log_density)(place, given)
        is_finite = jnp.all(jnp.isfinite(gradient)) & jnp.all(jnp.isfinite(precision))
        flat = jnp.eye(dimension)
        return jnp.where(is_finite, gradient, -place), jnp.where(is_finite, _steep(precision), flat)

    def step(place: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        gradient, precision = bend(place)
        spread = _inverse(precision)
        move = spread @ gradient
        return place + move * jnp.minimum(1.0, LONGEST / jnp.maximum(jnp.sqrt(jnp.sum(move**2)), 1e-6)), spread

    # what bends at the last but one place bends so at the last: compiled once
    centre, spreads = jax.lax.scan(step, jnp.zeros(dimension), None, length=STEPS)
    spread = spreads[-1]
    first = jnp.sqrt(spread[0, 0])
    if dimension == 1:
        return centre, first[None, None], jnp.log(first)
    below = spread[1, 0] / first
    last = jnp.sqrt(jnp.maximum(spread[1, 1] - below**2, 1e-12))
    return centre, jnp.array([[first, 0.0], [below, last]]), jnp.log(first) + jnp.log(last)


def _steep(precision: jax.Array) -> jax.Array:
    """Return a precision whose smallest eigenvalue is at least `WIDEST`."""
    if len(precision) == 1:
        return jnp.maximum(precision, WIDEST)
    middle, apart = (precision[0, 0] + precision[1, 1]) / 2, (precision[0, 0] - precision[1, 1]) / 2
    least = middle - jnp.sqrt(apart**2 + precision[0, 1] ** 2)
    return precision + jnp.maximum(WIDEST - least, 0.0) * jnp.eye(2)


def _inverse(matrix: jax.Array) -> jax.Array:
    if len(matrix) == 1:
        return 1 / matrix
    (a, b), (c, d) = matrix
    return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)
