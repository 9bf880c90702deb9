"""Simulated covariates and the linear predictor of the regressions."""

import jax
import numpy as np
from numpy.typing import NDArray

from dpmcmc.zoo.problem import Vector


def simulated_rows(rng: np.random.Generator, num_records: int, num_covariates: int) -> NDArray[np.float32]:
    """Return covariates that are uniform on (-1, 1), shape (num_records, num_covariates)."""
    return rng.uniform(-1, 1, (num_records, num_covariates)).astype(np.float32)


def with_intercept(x: NDArray[np.float32]) -> Vector:
    """Return the rows (1, x) in float64."""
    return np.concatenate([np.ones((len(x), 1)), x.astype(np.float64)], axis=1)


def predictor(position: jax.Array, x: jax.Array) -> jax.Array:
    """Return position[0] + x' position[1:]."""
    return position[0] + x @ position[1:]
