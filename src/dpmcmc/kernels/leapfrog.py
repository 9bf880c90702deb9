"""Hamiltonian dynamics: momenta, and the leapfrog with forces that may be noisy."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from dpmcmc.errors import InvalidArgument


def positive_definite(name: str, value: object) -> jax.Array:
    """Return a number, a diagonal or a matrix that a user gave, if it is positive, or positive definite, and finite."""
    matrix = np.asarray(value, np.float32)  # checked on the host, also while a program is traced
    if matrix.ndim > 2 or (matrix.ndim == 2 and matrix.shape[0] != matrix.shape[1]):
        raise InvalidArgument(f"{name} has the shape {matrix.shape}; expected (), (d,) or (d, d)")
    usable = bool(np.all(np.isfinite(matrix))) and (matrix.ndim < 2 or np.allclose(matrix, matrix.T))
    if not usable or np.any((np.linalg.eigvalsh(matrix) if matrix.ndim == 2 else matrix) <= 0):
        raise InvalidArgument(f"{name} must be positive, or symmetric and positive definite, and finite")
    return jnp.asarray(matrix)


class Metric(NamedTuple):
    """The Gaussian law of the momentum, by the inverse of its covariance M: a number, a diagonal or a full matrix."""

    inverse_mass: jax.Array

    @classmethod
    def of(cls, inverse_mass: object) -> "Metric":
        """Check an inverse mass matrix that a user gave."""
        return cls(positive_definite("inverse_mass", inverse_mass))

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Return a momentum p ~ N(0, M)."""
        noise = jax.random.normal(key, shape)
        if self.inverse_mass.ndim < 2:
            return noise / jnp.sqrt(self.inverse_mass)
        return solve_triangular(jnp.linalg.cholesky(self.inverse_mass), noise, lower=True, trans=1)

    def velocity(self, momentum: jax.Array) -> jax.Array:
        """Return M^-1 p."""
        return self.inverse_mass @ momentum if self.inverse_mass.ndim == 2 else self.inverse_mass * momentum

    def kinetic_energy(self, momentum: jax.Array) -> jax.Array:
        """Return p^T M^-1 p / 2."""
        return momentum @ self.velocity(momentum) / 2


class Phase(NamedTuple):
    """A point of a trajectory: where it is, how it moves, and the force last felt there."""

    position: jax.Array
    momentum: jax.Array
    force: jax.Array


def leapfrog(
    force: Callable[[jax.Array], jax.Array], start: Phase, metric: Metric, step_size: jax.Array, num_leapfrog: int
) -> Phase:
    """Follow a trajectory of `num_leapfrog` steps, which asks for `num_leapfrog` forces (the first one is given).

    Half a kick; then drift and a full kick, L times; the last kick is half. Each kick, with its noise held fixed, is a
    shear, so that the whole is volume-preserving and reversible whatever the noise (Räisä et al. 2021, Theorem 3.3).
    """
    kicks = jnp.full(num_leapfrog, step_size).at[-1].multiply(0.5)

    def drift_and_kick(phase: Phase, kick: jax.Array) -> tuple[Phase, None]:
        position = phase.position + step_size * metric.velocity(phase.momentum)  # line 5
        felt = force(position)  # line 6
        return Phase(position, phase.momentum + kick * felt, felt), None  # line 7

    kicked = start._replace(momentum=start.momentum + step_size / 2 * start.force)  # line 4
    return jax.lax.scan(drift_and_kick, kicked, kicks)[0]
