"""Independent draws of a normal distribution: no chain, and no query of the data."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.kernels.base import Info, Oracle, kernel


class DrawState(NamedTuple):
    """The latest draw."""

    position: jax.Array


@kernel
def normal_draws(*, scale: float) -> Any:
    """Draw theta ~ N(0, scale^2 I) at every step, whatever the last one was.

    In coordinates in which a posterior is about N(0, I) this is its normal approximation, drawn free of charge: what
    was released to find the coordinates has been paid for. A scale above one is for a centre that is itself noisy.
    """
    scale = validation.positive("scale", scale)

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> DrawState:  # noqa: ARG001
        return DrawState(position)

    def step(key: jax.Array, state: DrawState, oracle: Oracle) -> tuple[DrawState, Info]:  # noqa: ARG001
        drawn = scale * jax.random.normal(key, state.position.shape, state.position.dtype)  # line 4
        return DrawState(drawn), Info(jnp.asarray(True), jnp.asarray(False))

    return init, step
