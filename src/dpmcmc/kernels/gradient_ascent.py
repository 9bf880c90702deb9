"""Noisy gradient ascent: a pilot that moves a chain from a public start to the posterior, and no sampler itself."""

from typing import Any, NamedTuple

import jax

from dpmcmc import validation
from dpmcmc.kernels.base import Info, Oracle, kernel
from dpmcmc.kernels.leapfrog import Metric
from dpmcmc.kernels.temperature import move


class AscentState(NamedTuple):
    """Where the ascent is."""

    position: jax.Array


@kernel
def gradient_ascent(gradient: Any, *, step_size: float, inverse_mass: Any = 1.0) -> Any:
    """Climb the log-posterior: theta += h M^-1 (gradient of the log-posterior).

    As the first stage of a run it is a pilot, charged like every other step. A step size near one over the
    largest curvature of the log-posterior (for a GLM: a public bound, from the bounds of the covariates) is safe.

    Args:
        gradient: releases the force, `GradientSum` or `SubsampledGradientSum`.
        step_size: the step size h.
        inverse_mass: M^-1, a number, a diagonal or a matrix, such as the squared scales of the parameters if known.
    """
    step_size = validation.positive("step_size", step_size)
    metric = Metric.of(inverse_mass)

    def init(key: jax.Array, position: jax.Array, oracle: Oracle) -> AscentState:  # noqa: ARG001
        return AscentState(position)

    def step(key: jax.Array, state: AscentState, oracle: Oracle) -> tuple[AscentState, Info]:  # noqa: ARG001
        force = oracle.force(gradient, state.position).value
        moved, is_lost = move(state, (state.position + step_size * metric.velocity(force),))
        return AscentState(*moved), Info(~is_lost, is_lost)

    return init, step
