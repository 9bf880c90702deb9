"""DP-SGLD (Wang, Fienberg and Smola 2015; Li, Chen, Liu and Carin 2019): Langevin dynamics on noisy batches."""

from typing import Any, NamedTuple

import jax

from dpmcmc import validation
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.temperature import check_noise, missing_noise, move


class LangevinState(NamedTuple):
    """Where the chain is."""

    position: jax.Array


@kernel
def dp_sgld(gradient: Any, *, step_size: float) -> Any:
    """Stochastic-gradient Langevin dynamics: theta += h / 2 * (gradient of the log-posterior) + N(0, h).

    The privacy noise of the gradient is part of N(0, h), at best all of it; the kernel adds what is missing. There is
    no test: the target is approached as h falls. (Algorithm 1 of Li et al. 2019 has the other sign and, with drift h
    and noise N(0, h), half the temperature: it would sample the squared posterior.)

    Args:
        gradient: releases the force from a batch, `SubsampledGradientSum` (its `for_sgld` matches noise and step), or
            from all records, `GradientSum`.
        step_size: h, in the units of the position squared; the papers' eta / n where they scale by n.
    """
    step_size = validation.positive("step_size", step_size)

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> LangevinState:  # noqa: ARG001
        return LangevinState(position)

    def step(key: jax.Array, state: LangevinState, oracle: Oracle) -> tuple[LangevinState, Info]:
        force = oracle.force(gradient, state.position)  # line 1
        check_noise(force, gain=step_size / 2, needed=step_size)
        noise = missing_noise(key, force, gain=step_size / 2, needed=step_size)  # line 2
        moved, is_lost = move(state, (state.position + step_size / 2 * force.value + noise,))  # line 3
        return LangevinState(*moved), Info(~is_lost, is_lost)

    return init, step
