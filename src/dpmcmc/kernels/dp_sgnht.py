"""DP-SGNHT (Ding et al. 2014, on noisy batches): a thermostat that adapts the friction to the noise."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.temperature import check_noise, missing_noise, move


class ThermostatState(NamedTuple):
    """Where the chain is, how it moves, and the friction of its thermostat."""

    position: jax.Array
    momentum: jax.Array
    friction: jax.Array


@kernel
def dp_sgnht(gradient: Any, *, step_size: float, diffusion: float) -> Any:
    """Stochastic-gradient Nosé-Hoover thermostat.

    p += h * (gradient of the log-posterior) - h xi p + N(0, 2 A h); theta += h p; xi += h (p.p / d - 1): the friction
    xi rises until the kinetic energy is right, whatever noise the batches add.

    Args:
        gradient: releases the force from a batch, `SubsampledGradientSum` (its `for_sghmc`, with A as the friction,
            matches noise and step).
        step_size: the step size h.
        diffusion: A, which is also the initial friction.
    """
    step_size = validation.positive("step_size", step_size)
    diffusion = validation.non_negative("diffusion", diffusion)

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> ThermostatState:  # noqa: ARG001
        momentum = jax.random.normal(key, position.shape, position.dtype)
        return ThermostatState(position, momentum, jnp.asarray(diffusion, position.dtype))

    def step(key: jax.Array, state: ThermostatState, oracle: Oracle) -> tuple[ThermostatState, Info]:
        force = oracle.force(gradient, state.position)  # line 1
        check_noise(force, gain=step_size, needed=2 * diffusion * step_size)
        noise = missing_noise(key, force, gain=step_size, needed=2 * diffusion * step_size)  # line 2
        # line 3
        momentum = state.momentum + step_size * force.value - step_size * state.friction * state.momentum + noise
        position = state.position + step_size * momentum  # line 4
        friction = state.friction + step_size * (momentum @ momentum / position.size - 1)  # line 5
        moved, is_lost = move(state, (position, momentum, friction))
        return ThermostatState(*moved), Info(~is_lost, is_lost)

    return init, step
