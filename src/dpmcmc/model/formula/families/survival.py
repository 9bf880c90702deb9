"""What families of times to an event share: how a likelihood follows from a hazard."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.model.formula.families.family import Others, Stated

Function = Callable[[jax.Array, jax.Array, Others], jax.Array]
"""Of the predictor, the logarithm of a time, and the other parameters."""


def log_density_of(log_hazard: Function, cumulative: Function) -> Callable[..., jax.Array]:
    """Return the log-density of a time, whether the event was seen, and the time of entry.

    A record that came under observation after its time says nothing.
    """

    def log_density(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
        log_time, event, entry = y[..., 0], y[..., 1], y[..., 2]
        start = jnp.minimum(entry, log_time)
        passed = cumulative(eta, log_time, others) - cumulative(eta, start, others)
        return jnp.where(entry < log_time, event * log_hazard(eta, log_time, others) - passed, 0.0)

    return log_density


def survival_of(cumulative: Function) -> Function:
    """Return the probability that the event has not come by a time, given its logarithm."""
    return lambda eta, log_time, others: jnp.exp(-cumulative(eta, log_time, others))


def time_intercept(response: Stated) -> str:
    """Return the default prior of the logarithm of a time: around the longest that is stated."""
    return f"normal({response.read_bounds[1]:.3g}, 3)"


def hazard_intercept(response: Stated) -> str:
    """Return the default prior of the logarithm of a hazard: around one event in the longest time that is stated."""
    return f"normal({-response.read_bounds[1]:.3g}, 3)"


def log_of(value: Any) -> jax.Array:
    """Return the logarithm of a positive number that may have been rounded to zero."""
    return jnp.log(jnp.maximum(value, 1e-30))
