"""Simulation of a sampler on a synthetic posterior: a standard normal, with the noise that the budget requires.

No data are used. In whitened coordinates the real posterior is approximately standard normal, if the model is regular
and the pilot converged. The simulated centre has the noise that the real one would have.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc.fitting.budget_split import Noise
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.recipes import RECIPES
from dpmcmc.kernels import Kernel

REPEATS = 16


class SimulatedError(NamedTuple):
    """The simulated errors of a sampler, in posterior standard deviations."""

    location: float
    """Error of the mean, root mean square over coordinates."""
    width: float
    """Error of the standard deviation, likewise."""

    @property
    def error(self) -> float:
        """Both errors combined."""
        return math.hypot(self.location, self.width)


class Noisy(NamedTuple):
    """A simulated release."""

    value: jax.Array
    variance: jax.Array


@dataclass(frozen=True)
class SimulatedOracle:
    """An oracle for one step of one chain on the posterior N(centre, I)."""

    key: jax.Array
    centre: jax.Array
    clips_moved: int

    def force(self, mechanism: Any, position: jax.Array, factor: jax.Array | None = None) -> Noisy:
        """Return the gradient with the noise of `GradientSum`; a recipe has no metric of its own."""
        if factor is not None:
            raise NotImplementedError
        sd = self.clips_moved * mechanism.noise_multiplier * mechanism.clip
        noise = jax.random.normal(self._key(position), position.shape)
        return Noisy(self.centre - position + sd * noise, jnp.square(sd))

    def accept(self, mechanism: Any, current: jax.Array, proposed: jax.Array, log_correction: Any) -> jax.Array:
        """Return the decision of `PenaltyTest`."""
        of_noise, of_test = jax.random.split(self._key(proposed))
        length = jnp.linalg.norm(proposed - current)
        sd = self.clips_moved * mechanism.noise_multiplier * mechanism.clip * length
        ratio = (jnp.sum((current - self.centre) ** 2) - jnp.sum((proposed - self.centre) ** 2)) / 2 + log_correction
        noisy = ratio + sd * jax.random.normal(of_noise)
        return -jax.random.exponential(of_test) < noisy - sd**2 / 2

    def log_posterior_ratio(self, mechanism: Any, current: jax.Array, proposed: jax.Array) -> Noisy:
        """Not supported: no recipe queries a bare ratio."""
        raise NotImplementedError

    def _key(self, position: jax.Array) -> jax.Array:
        """Return a key that depends on the position, since a step may query in a loop."""
        return jax.random.fold_in(self.key, jax.lax.bitcast_convert_type(jnp.sum(position), jnp.uint32))


CANDIDATES = tuple(
    sorted((name for name in RECIPES if RECIPES[name].is_candidate), key=lambda one: -RECIPES[one].is_iid)
)
"""Candidates of `auto`; independent draws first."""

SIMULABLE = (*CANDIDATES, *(name for name in RECIPES if RECIPES[name].is_simulable and name not in CANDIDATES))
"""The samplers whose releases can be simulated here: gradients of all records, and penalty tests."""


@cache
def simulate_sampler(name: str, facts: ProblemSize, noise: Noise, num_steps: int, num_chains: int) -> SimulatedError:
    """Return the simulated error of a sampler over several repeats, with fixed keys."""
    kernel = RECIPES[name].make(facts, noise.sampler)
    sd = facts.clips_moved * noise.refinement * facts.gradient_clip
    keys = jax.random.split(jax.random.key(0, impl="unsafe_rbg"), REPEATS)  # compiles fast; this noise protects nothing
    warmup = 0 if RECIPES[name].is_iid else num_steps // 10
    repeats = jax.jit(jax.vmap(lambda key: _repeat(kernel, facts, sd, key, num_steps, num_chains, warmup)))
    means, widths = repeats(keys)
    return SimulatedError(float(jnp.sqrt(jnp.mean(means**2))), float(jnp.sqrt(jnp.mean((widths - 1) ** 2))))


def _repeat(
    kernel: Kernel, facts: ProblemSize, sd: float, key: jax.Array, num_steps: int, num_chains: int, warmup: int
) -> tuple[jax.Array, jax.Array]:
    """Return the errors of the mean and of the standard deviation of the draws, in every coordinate."""
    of_centre, of_start, of_steps = jax.random.split(key, 3)
    centre = sd * jax.random.normal(of_centre, (facts.dimension,))

    def chain(start: jax.Array, own_key: jax.Array) -> jax.Array:
        def step(state: Any, one: jax.Array) -> tuple[Any, jax.Array]:
            of_kernel, of_oracle = jax.random.split(one)
            state, _ = kernel.step(of_kernel, state, SimulatedOracle(of_oracle, centre, facts.clips_moved))
            return state, state.position

        of_init, of_chain = jax.random.split(own_key)
        first = kernel.init(of_init, start, SimulatedOracle(of_init, centre, facts.clips_moved))
        return jax.lax.scan(step, first, jax.random.split(of_chain, num_steps))[1]

    starts = jax.random.normal(of_start, (num_chains, facts.dimension))
    draws = jax.vmap(chain)(starts, jax.random.split(of_steps, num_chains))[:, warmup:].reshape(-1, facts.dimension)
    return jnp.mean(draws, axis=0) - centre, jnp.std(draws, axis=0)
