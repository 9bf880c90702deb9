"""Full-batch DP-Langevin in a metric: the noise of the dynamics is the privacy noise, priced by trajectory time."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels.base import Info, Noisy, Oracle, kernel
from dpmcmc.kernels.leapfrog import positive_definite
from dpmcmc.kernels.temperature import check_noise, missing_noise, move


class OverdampedState(NamedTuple):
    """Where the chain is."""

    position: jax.Array


class UnderdampedState(NamedTuple):
    """Where the chain is, and how it moves in coordinates in which the metric is the identity."""

    position: jax.Array
    momentum: jax.Array


@dataclass(frozen=True)
class Geometry:
    """Coordinates z around a position theta, theta + F z, in which a metric G is the identity: F F^T = G^-1."""

    metric: jax.Array | Callable[[jax.Array], jax.Array] | None

    @classmethod
    def of(cls, metric: Any) -> "Geometry":
        """Check a metric that a user gave: nothing, a diagonal, a matrix, or a function of the position."""
        if metric is None or callable(metric):
            return cls(cast(Callable[[jax.Array], jax.Array] | None, metric))
        matrix = positive_definite("metric", metric)
        if matrix.ndim == 0:
            raise InvalidArgument(f"metric has the shape {matrix.shape}; expected (d,), (d, d) or a public function")
        return cls(jnp.diag(matrix) if matrix.ndim == 1 else matrix)

    def factor(self, position: jax.Array) -> jax.Array | None:
        """Return F at a position; None where it is the identity."""
        if self.metric is None:
            return None
        matrix = self.metric(position) if callable(self.metric) else self.metric
        return solve_triangular(jnp.linalg.cholesky(matrix), jnp.eye(position.size), lower=True, trans=1)

    def divergence(self, position: jax.Array) -> jax.Array:
        """Return sum_j d(G^-1)_ij / d theta_j, the drift that a metric which bends needs to keep its target."""
        if not callable(self.metric):
            return jnp.zeros_like(position)
        metric = self.metric
        return jnp.einsum("ijj->i", jax.jacfwd(lambda theta: jnp.linalg.inv(metric(theta)))(position))


@kernel
def dp_langevin(gradient: Any, *, step_size: float, metric: Any = None, friction: float | None = None) -> Any:
    """Langevin dynamics on all records: theta += h (G^-1 grad log posterior + div G^-1) + N(0, 2 h G^-1).

    The gradient of each record is clipped, and noised, in coordinates in which the metric G is the identity. The
    privacy noise is part of the noise of the dynamics, at best all of it; the kernel adds what is missing. With
    standard deviation sqrt(2 / h) nothing is missing, and a trajectory of time t costs the same however finely it is
    cut (`samplers.dp_langevin`). There is no test: the target is approached as h falls.

    Args:
        gradient: releases the force, `GradientSum`, whose clip is a length in the metric.
        step_size: h, in the units of the metric: about one is the time in which N(0, G^-1) is forgotten.
        metric: G, symmetric and positive definite: the identity unless stated; a diagonal or a matrix, fixed before the
            run (a precision that was released once, say); or a public function of the position, such as the Fisher
            information that the model expects of the stated number of records.
        friction: gamma of the underdamped dynamics, whose error is of second order in h and not of first; None for the
            overdamped one. For fixed metrics.
    """
    geometry = Geometry.of(metric)
    step_size = validation.positive("step_size", step_size)
    if friction is None:
        return _overdamped(gradient, geometry, step_size)
    if callable(metric):
        raise InvalidArgument("friction must be None where the metric is a function: its momenta would need more terms")
    return _underdamped(gradient, geometry, step_size, validation.positive("friction", friction))


def _force(oracle: Oracle, gradient: Any, position: jax.Array, factor: jax.Array | None) -> Noisy:
    return oracle.force(gradient, position) if factor is None else oracle.force(gradient, position, factor)


def _along(factor: jax.Array | None, step: jax.Array) -> jax.Array:
    return step if factor is None else factor @ step


def _overdamped(gradient: Any, geometry: Geometry, step_size: float) -> Any:
    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> OverdampedState:  # noqa: ARG001
        return OverdampedState(position)

    def step(key: jax.Array, state: OverdampedState, oracle: Oracle) -> tuple[OverdampedState, Info]:
        factor = geometry.factor(state.position)  # line 1
        force = _force(oracle, gradient, state.position, factor)  # line 2
        check_noise(force, gain=step_size, needed=2 * step_size)
        noise = missing_noise(key, force, gain=step_size, needed=2 * step_size)  # line 3
        drift = step_size * geometry.divergence(state.position)
        moved, is_lost = move(
            state,
            (state.position + _along(factor, step_size * force.value + noise) + drift,),  # line 4
        )
        return OverdampedState(*moved), Info(~is_lost, is_lost)

    return init, step


def _underdamped(gradient: Any, geometry: Geometry, step_size: float, friction: float) -> Any:
    """Half a kick, the thermostat, half a kick, a drift: OBABO, read after its A, so that one release serves two kicks.

    The noise of the release goes into both half kicks, the first of which the thermostat then damps: it adds
    (1 + decay) / 2 * h times itself to the momentum, and the thermostat less than 1 - decay^2.
    """
    decay = math.exp(-friction * step_size)
    gain, needed = (1 + decay) / 2 * step_size, 1 - decay**2

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> UnderdampedState:  # noqa: ARG001
        return UnderdampedState(position, jax.random.normal(key, position.shape, position.dtype))

    def step(key: jax.Array, state: UnderdampedState, oracle: Oracle) -> tuple[UnderdampedState, Info]:
        factor = geometry.factor(state.position)
        force = _force(oracle, gradient, state.position, factor)
        check_noise(force, gain=gain, needed=needed)
        kick = step_size / 2 * force.value  # line 5
        noise = missing_noise(key, force, gain=gain, needed=needed)  # line 6
        momentum = decay * (state.momentum + kick) + noise + kick  # line 7
        position = state.position + step_size * _along(factor, momentum)  # line 8
        moved, is_lost = move(state, (position, momentum))
        return UnderdampedState(*moved), Info(~is_lost, is_lost)

    return init, step
