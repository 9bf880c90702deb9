"""DP-HMC (Räisä, Koskela and Honkela 2021, Algorithm 1) and its variants."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.kernels.accept import accept
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.leapfrog import Metric, Phase, leapfrog
from dpmcmc.kernels.schedule import halton


class HMCState(NamedTuple):
    """Where the chain is, the noisy force there (kept between steps only where gradients are reused), and the step."""

    position: jax.Array
    force: jax.Array
    iteration: jax.Array
    shift: jax.Array
    """The random shift of the Halton sequence."""


@kernel
def dp_hmc(
    gradient: Any,
    log_ratio: Any,
    *,
    step_size: float,
    num_leapfrog: int,
    inverse_mass: Any = 1.0,
    reuse_gradients: bool = False,
    step_size_jitter: float = 0.0,
) -> Any:
    """Hamiltonian Monte Carlo with noisy forces and a penalty test. With exact mechanisms it is HMC.

    Noise and clipping of the forces do not change the target distribution; clipping of `log_ratio` does.

    Args:
        gradient: releases the force, `GradientSum`; L + 1 releases per step, or L where gradients are reused.
        log_ratio: releases the log-likelihood ratio, `LogRatio`; or only the decision, `PenaltyTest`, `BarkerBit`.
        step_size: the leapfrog step size, the papers' eta.
        num_leapfrog: the number of leapfrog steps, the papers' L.
        inverse_mass: the inverse mass matrix M^-1: a number, a diagonal or a matrix.
        reuse_gradients: keep the noisy force of the last position instead of querying a fresh one (Räisä 2021,
            Algorithm 3). The chain is then Markov on (position, force) and leaves pi(theta) N(force; g(theta)) alone:
            the trajectory, read backwards, uses the same noisy forces. docs/samplers.md has the proof.
        step_size_jitter: shorten the step by a factor 1 - jitter * h, h from a randomised Halton sequence in [0, 1).
    """
    metric = Metric.of(inverse_mass)
    step_size = validation.positive("step_size", step_size)
    num_leapfrog = validation.integer("num_leapfrog", num_leapfrog, at_least=1)
    jitter = validation.non_negative("step_size_jitter", step_size_jitter)
    if jitter > 1:
        validation.refuse("step_size_jitter", jitter, "must be <= 1")

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> HMCState:
        force = oracle.force(gradient, position).value if reuse_gradients else jnp.zeros_like(position)
        return HMCState(position, force, jnp.zeros((), jnp.uint32), jax.random.uniform(key))

    def step(key: jax.Array, state: HMCState, oracle: Oracle) -> tuple[HMCState, Info]:
        of_momentum, of_test = jax.random.split(key)
        length = step_size * (1 - jitter * halton(state.iteration, state.shift))  # line 1

        def force(position: jax.Array) -> jax.Array:
            return oracle.force(gradient, position).value

        momentum = metric.draw(of_momentum, state.position.shape)  # line 2
        here = Phase(state.position, momentum, state.force if reuse_gradients else force(state.position))  # line 3
        there = leapfrog(force, here, metric, length, num_leapfrog)
        gain = metric.kinetic_energy(momentum) - metric.kinetic_energy(there.momentum)  # line 8
        info = accept(of_test, oracle, log_ratio, here.position, there.position, gain)  # line 9
        # On rejection the old force is kept, not the one at the end of the trajectory: it is part of the state.
        chosen = jax.tree.map(lambda new, old: jnp.where(info.is_accepted, new, old), there, here)  # line 10
        kept = chosen.force if reuse_gradients else state.force  # line 11
        return HMCState(chosen.position, kept, state.iteration + 1, state.shift), info

    return init, step
