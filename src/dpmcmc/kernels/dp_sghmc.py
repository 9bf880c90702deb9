"""DP-SGHMC (Chen, Fox and Guestrin 2014, Algorithm 2, on noisy batches): dynamics with friction."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.temperature import check_noise, missing_noise, move


class FrictionState(NamedTuple):
    """Where the chain is and how it moves."""

    position: jax.Array
    momentum: jax.Array


@kernel
def dp_sghmc(
    gradient: Any,
    *,
    step_size: float,
    friction: float,
    num_inner: int = 1,
    resample_momentum: bool = False,
    batch_noise: float = 0.0,
) -> Any:
    """Stochastic-gradient HMC: p += h * (gradient of the log-posterior) - h C p + N(0, 2 (C - B) h); theta += h p.

    Friction C takes out the energy that the noise of the gradient puts in. One step is `num_inner` such updates, and
    each asks for a gradient. Without friction (0, exact mechanism) it is the naive SGHMC that drifts off.

    Args:
        gradient: releases the force from a batch, `SubsampledGradientSum` (its `for_sghmc` matches noise and step).
        step_size: the step size h.
        friction: the friction C >= 0: p loses h C p in every update.
        num_inner: the number of updates per step, the papers' J.
        resample_momentum: draw p anew from N(0, I) at the start of every step. The first kick is then half a kick, as
            in a leapfrog: whole kicks on fresh momenta would halve the temperature of short trajectories.
        batch_noise: B, an estimate of the noise from subsampling, without the privacy noise.
    """
    step_size = validation.positive("step_size", step_size)
    friction = validation.non_negative("friction", friction)
    num_inner = validation.integer("num_inner", num_inner, at_least=1)
    batch_noise = validation.non_negative("batch_noise", batch_noise)
    if batch_noise > friction:
        validation.refuse("batch_noise", batch_noise, f"must be <= friction={friction!r}")
    if friction * step_size >= 1:
        validation.refuse("friction", friction, f"must be < {1 / step_size:g}, one over the step size")

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> FrictionState:  # noqa: ARG001
        return FrictionState(position, jax.random.normal(key, position.shape, position.dtype))

    def step(key: jax.Array, state: FrictionState, oracle: Oracle) -> tuple[FrictionState, Info]:
        of_momentum, of_noise = jax.random.split(key)
        fresh = jax.random.normal(of_momentum, state.position.shape)
        momentum = fresh if resample_momentum else state.momentum  # line 1

        def update(phase: FrictionState, inputs: tuple[jax.Array, jax.Array]) -> tuple[FrictionState, None]:
            # kick before drift: with fresh momenta the last kick of a step would otherwise be paid for and thrown away
            key, length = inputs
            force = oracle.force(gradient, phase.position)  # line 2
            check_noise(force, gain=step_size, needed=2 * (friction - batch_noise) * step_size)
            noise = missing_noise(key, force, gain=length, needed=2 * (friction - batch_noise) * length)  # line 3
            momentum = phase.momentum + length * force.value - length * friction * phase.momentum + noise  # line 4
            return FrictionState(phase.position + step_size * momentum, momentum), None  # line 5

        start = FrictionState(state.position, momentum)
        lengths = jnp.full(num_inner, step_size).at[0].multiply(0.5 if resample_momentum else 1.0)
        end, _ = jax.lax.scan(update, start, (jax.random.split(of_noise, num_inner), lengths))
        moved, is_lost = move(start, end)
        return FrictionState(*moved), Info(~is_lost, is_lost)

    return init, step
