"""The programs of a run that the enclave traces: start the chains, advance them, or both in one.

Kernels work on vectors; a `Layout` of the model says how a position becomes one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.enclave import Noisy
from dpmcmc.enclave import Oracle as EnclaveOracle
from dpmcmc.enclave.oracle import LogDensity
from dpmcmc.kernels import Info, Kernel, Stage
from dpmcmc.model.layout import Layout


def log_likelihood(model: LogDensity, layout: Layout) -> Callable[[jax.Array, Any], jax.Array]:
    """Return one record's tempered log-likelihood at a flat position."""
    return lambda vector, record: model.temperature * model.log_likelihood(layout.unravel(vector), record)


def score(model: LogDensity, layout: Layout) -> Callable[[jax.Array, jax.Array, Any], jax.Array]:
    """Return the score of one record with respect to the coordinates z of position = centre + factor z."""

    def of_record(centre: jax.Array, factor: jax.Array, record: Any) -> jax.Array:
        return factor.T @ jax.grad(log_likelihood(model, layout))(centre, record)

    return of_record


@dataclass(frozen=True)
class VectorOracle:
    """An oracle for flat vectors, on top of one for the model's positions."""

    oracle: EnclaveOracle
    layout: Layout

    def force(self, mechanism: Any, position: jax.Array, factor: jax.Array | None = None) -> Noisy:
        """Return the noisy gradient of the log-posterior, in the coordinates z of position + factor z."""
        force = self.oracle.force(mechanism, self.layout.unravel(position), factor)
        return force if factor is not None else Noisy(self.layout.ravel(force.value), force.variance)

    def log_posterior_ratio(self, mechanism: Any, current: jax.Array, proposed: jax.Array) -> Noisy:
        """Return the noisy log-posterior ratio."""
        return self.oracle.log_posterior_ratio(mechanism, self.layout.unravel(current), self.layout.unravel(proposed))

    def accept(self, mechanism: Any, current: jax.Array, proposed: jax.Array, log_correction: Any) -> jax.Array:
        """Return the decision of a test."""
        first, second = self.layout.unravel(current), self.layout.unravel(proposed)
        return self.oracle.accept(mechanism, first, second, log_correction)


@dataclass(frozen=True)
class Begin:
    """Start the chains: ``begin(oracle, positions, keys)``, one position and one key per chain."""

    kernel: Kernel
    layout: Layout

    def __call__(self, oracle: EnclaveOracle, positions: jax.Array, keys: jax.Array) -> Any:
        """Return the states of the chains."""
        asked = VectorOracle(oracle, self.layout)
        return jax.vmap(lambda key, position: self.kernel.init(key, position, asked))(keys, positions)


@dataclass(frozen=True)
class Advance:
    """Advance the chains by `length` steps: ``advance(oracle, states, keys, first_step)``.

    Step t of a chain uses its key folded with t, so that proposals do not depend on the division into segments.
    """

    kernel: Kernel
    layout: Layout
    length: int

    def __call__(self, oracle: EnclaveOracle, states: Any, keys: jax.Array, first_step: jax.Array) -> Any:
        """Return the new states, and the positions and statistics of every step, one row per step."""
        asked = VectorOracle(oracle, self.layout)

        def step(states: Any, index: jax.Array) -> tuple[Any, tuple[jax.Array, Info]]:
            own_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, index)
            states, info = jax.vmap(lambda key, state: self.kernel.step(key, state, asked))(own_keys, states)
            return states, (states.position, info)

        return jax.lax.scan(step, states, first_step + jnp.arange(self.length, dtype=jnp.uint32))


@dataclass(frozen=True)
class Whole:
    """A whole run in one program, for its price: ``whole(oracle, positions, keys)``."""

    stages: tuple[Stage, ...]
    layout: Layout

    def __call__(self, oracle: EnclaveOracle, positions: jax.Array, keys: jax.Array) -> jax.Array:
        """Return the final positions of the chains."""
        states = None
        first_step = jnp.zeros((), jnp.uint32)
        for before, stage in zip((None, *self.stages[:-1]), self.stages, strict=True):
            if not continues(before, stage):
                start = positions if states is None else states.position
                states = Begin(stage.kernel, self.layout)(oracle, start, keys)
            states, _ = Advance(stage.kernel, self.layout, stage.num_steps)(oracle, states, keys, first_step)
            first_step = first_step + stage.num_steps
        return states.position  # pyright: ignore[reportOptionalMemberAccess]  # there is at least one stage


def continues(before: Stage | None, stage: Stage) -> bool:
    """Say whether a stage continues from the states of the previous one: if it is the same sampler with other settings.

    A stored noisy force has the distribution of the mechanism that released it, so another mechanism needs a new one.
    """
    if before is None or before.kernel.name != stage.kernel.name:
        return False
    old, new = before.kernel.settings, stage.kernel.settings
    return not new.get("reuse_gradients") or bool(old["reuse_gradients"] and old["gradient"] == new["gradient"])


def as_stages(kernel: Kernel | Sequence[Stage], num_steps: int) -> tuple[Stage, ...]:
    """Return a kernel with a number of steps, or stages, as a tuple of stages."""
    return (Stage(kernel, num_steps),) if isinstance(kernel, Kernel) else tuple(Stage(*stage) for stage in kernel)
