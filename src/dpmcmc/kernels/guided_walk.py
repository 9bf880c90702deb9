"""Guided walk with penalty test (Gustafson 1998; Yıldırım and Ermiş 2019; Räisä 2021, Section 3.1)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc.kernels.accept import accept
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.propose import check_scale


class GuidedState(NamedTuple):
    """Where the chain is, and the direction, +1 or -1, in which each component goes."""

    position: jax.Array
    direction: jax.Array


@kernel
def guided_walk(log_ratio: Any, *, proposal_scale: Any) -> Any:
    """One-component walk that keeps going in one direction until a proposal is rejected.

    A component picked at random moves by abs(N(0, scale^2)) in its direction. On rejection, and only then, its own
    direction turns, and no other: the chain leaves pi(theta) times uniform directions alone.

    Args:
        log_ratio: releases the log-likelihood ratio, `LogRatio`, `MinibatchLogRatio`; or only the decision.
        proposal_scale: scale of the half-normal step, one number or one a coordinate.
    """
    scale = check_scale(proposal_scale)

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> GuidedState:  # noqa: ARG001
        return GuidedState(position, jax.random.rademacher(key, position.shape, position.dtype))

    def step(key: jax.Array, state: GuidedState, oracle: Oracle) -> tuple[GuidedState, Info]:
        of_component, of_step, of_test = jax.random.split(key, 3)
        component = jax.random.randint(of_component, (), 0, state.position.size)  # line 1
        # line 2
        length = jnp.abs(jax.random.normal(of_step)) * jnp.broadcast_to(scale, state.position.shape)[component]
        proposed = state.position.at[component].add(state.direction[component] * length)  # line 3
        info = accept(of_test, oracle, log_ratio, state.position, proposed)  # line 4
        turned = state.direction.at[component].multiply(-1)  # line 5
        moved = GuidedState(
            jnp.where(info.is_accepted, proposed, state.position), jnp.where(info.is_accepted, state.direction, turned)
        )
        return moved, info

    return init, step
