"""The random walk that several samplers share: propose, test, move or stay."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc.kernels.accept import accept
from dpmcmc.kernels.base import Info, Oracle


class WalkState(NamedTuple):
    """Where the chain is."""

    position: jax.Array


def walk(mechanism: Any, propose: Callable[[jax.Array, jax.Array], jax.Array]) -> Any:
    """Return the two functions of a kernel that proposes symmetrically and tests by `mechanism`."""

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> WalkState:  # noqa: ARG001
        return WalkState(position)

    def step(key: jax.Array, state: WalkState, oracle: Oracle) -> tuple[WalkState, Info]:
        of_proposal, of_test = jax.random.split(key)
        proposed = propose(of_proposal, state.position)  # line 1
        info = accept(of_test, oracle, mechanism, state.position, proposed)  # line 2
        return WalkState(jnp.where(info.is_accepted, proposed, state.position)), info  # line 3

    return init, step
