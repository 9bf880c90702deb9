"""Normal priors on flat positions."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray


def normal_prior(mean: NDArray[np.float64], variance: float) -> Callable[[jax.Array], jax.Array]:
    """Return the log-density of N(mean, variance I)."""
    constant = -0.5 * mean.size * float(np.log(2 * np.pi * variance))

    def log_prior(position: jax.Array) -> jax.Array:
        return -0.5 / variance * jnp.sum((position - jnp.asarray(mean, position.dtype)) ** 2) + constant

    return log_prior


def sample_normal_prior(mean: NDArray[np.float64], variance: float) -> Callable[[jax.Array], jax.Array]:
    """Return a function of a key that draws from N(mean, variance I)."""

    def sample_prior(key: jax.Array) -> jax.Array:
        return jnp.asarray(mean, jnp.float32) + float(np.sqrt(variance)) * jax.random.normal(key, mean.shape)

    return sample_prior
