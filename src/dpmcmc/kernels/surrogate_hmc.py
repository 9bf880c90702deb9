"""HMC on a public surrogate, which queries nothing, with a private test that corrects for the difference.

The surrogate transition method (Liu 2001; Christen and Fox 2005) with a noisy test.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.kernels.accept import accept, penalty_test
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.leapfrog import Metric, Phase, leapfrog
from dpmcmc.kernels.walk import WalkState


@kernel
def surrogate_hmc(
    test: Any,
    log_density: Callable[[jax.Array], jax.Array],
    *,
    step_size: float,
    num_leapfrog: int,
    num_trajectories: int = 1,
    inverse_mass: Any = 1.0,
) -> Any:
    """Propose by ordinary HMC on a public density, free of charge; test the posterior against it.

    The target is exact for every surrogate: a poor one lowers the acceptance rate. With the model `remainder` and its
    surrogate the test is on the remainders of the records, which are small, and so is the noise.

    Args:
        test: releases the decision, `RemainderTest`, `PenaltyTest`, `BarkerBit`; or the ratio, `LogRatio`.
        log_density: ``log_density(position)`` of the surrogate, public code of a flat position, up to a constant.
        step_size: the leapfrog step size.
        num_leapfrog: the number of leapfrog steps of one trajectory.
        num_trajectories: the number of trajectories, each with its own exact test on the surrogate, before the private
            test.
        inverse_mass: the inverse mass matrix M^-1: a number, a diagonal or a matrix.
    """
    metric = Metric.of(inverse_mass)
    step_size = validation.positive("step_size", step_size)
    num_leapfrog = validation.integer("num_leapfrog", num_leapfrog, at_least=1)
    num_trajectories = validation.integer("num_trajectories", num_trajectories, at_least=1)
    force = jax.grad(log_density)

    def trajectory(position: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        of_momentum, of_test = jax.random.split(key)
        momentum = metric.draw(of_momentum, position.shape)  # line 1
        there = leapfrog(
            force, Phase(position, momentum, force(position)), metric, jnp.asarray(step_size), num_leapfrog
        )
        gain = metric.kinetic_energy(momentum) - metric.kinetic_energy(there.momentum)
        ratio = log_density(there.position) - log_density(position) + gain  # a NaN is a rejection
        moves = penalty_test(of_test, ratio, jnp.zeros(())) & jnp.all(jnp.isfinite(there.position))
        return jnp.where(moves, there.position, position), None  # line 2

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> WalkState:  # noqa: ARG001
        return WalkState(position)

    def step(key: jax.Array, state: WalkState, oracle: Oracle) -> tuple[WalkState, Info]:
        of_proposal, of_test = jax.random.split(key)
        proposed, _ = jax.lax.scan(trajectory, state.position, jax.random.split(of_proposal, num_trajectories))
        public = log_density(state.position) - log_density(proposed)  # line 3
        info = accept(of_test, oracle, test, state.position, proposed, public)  # line 4
        return WalkState(jnp.where(info.is_accepted, proposed, state.position)), info

    return init, step
