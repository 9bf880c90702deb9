"""Stochastic-gradient HMC as the thesis has it, to be looked at: its clip protects half as well as it says.

The gradient of a whole batch is clipped, so one record can turn it round. Batches are dealt from the shuffled rows,
each trajectory from another place on. The printed friction has the wrong sign, which drives every chain off: it is set
right here, unless asked for.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def clipped(gradient: jax.Array, clip: jax.Array) -> jax.Array:
    """Return the gradient, shortened to the clip."""
    return gradient * jnp.minimum(1.0, clip / jnp.maximum(jnp.linalg.norm(gradient), 1e-30))


def sghmc(
    gradient: Callable[[jax.Array, Any], jax.Array], records: Any, *, batch_size: int, num_inner: int
) -> Callable[..., np.ndarray]:
    """Return a sampler: ``run(starts, step_sizes, friction, clip, seed, sign)`` gives positions (chain, step, d).

    `gradient` is that of the potential of a whole batch, prior and all. `step_sizes` has one entry a trajectory;
    momenta are drawn anew for each. `sign` is 1 for a brake, -1 as printed.
    """
    records = jax.tree.map(jnp.asarray, records)
    size = len(jax.tree.leaves(records)[0])

    def trajectory(state: tuple[jax.Array, jax.Array], step: jax.Array, settings: Any) -> Any:
        position, key = state
        friction, clip, sign = settings
        key, of_momentum, of_place, of_noise = jax.random.split(key, 4)
        place = jax.random.randint(of_place, (), 0, size)
        momentum = jax.random.normal(of_momentum, position.shape)

        def update(phase: tuple[jax.Array, jax.Array], inner: jax.Array) -> Any:
            position, momentum = phase
            rows = (place + inner * batch_size + jnp.arange(batch_size)) % size
            batch = jax.tree.map(lambda leaf: leaf[rows], records)
            force = clipped(gradient(position, batch), clip)
            noise = jax.random.normal(jax.random.fold_in(of_noise, inner), position.shape)
            momentum = momentum - step * force - sign * step * friction * momentum
            momentum = momentum + jnp.sqrt(2 * friction * step) * noise
            return (position + step * momentum, momentum), None

        (position, _), _ = jax.lax.scan(update, (position, momentum), jnp.arange(num_inner))
        return (position, key), position

    @jax.jit
    def run(starts: jax.Array, step_sizes: jax.Array, friction: Any, clip: Any, keys: jax.Array, sign: Any) -> Any:
        def chain(start: jax.Array, key: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda s, h: trajectory(s, h, (friction, clip, sign)), (start, key), step_sizes)[1]

        return jax.vmap(chain)(starts, keys)

    def call(
        starts: np.ndarray, step_sizes: np.ndarray, friction: float, clip: float, seed: int, sign: float = 1.0
    ) -> np.ndarray:
        keys = jax.random.split(jax.random.key(seed), len(starts))
        first, steps = jnp.asarray(starts, jnp.float32), jnp.asarray(step_sizes, jnp.float32)
        return np.asarray(run(first, steps, friction, clip, keys, sign))

    return call


@lru_cache(maxsize=4)
def softmax_sghmc(data: Any, prior_precision: float, batch_size: int, num_inner: int) -> Callable[..., np.ndarray]:
    """Return the sampler on the radon data: the loss is a mean over the batch, the prior counts once."""
    model = data.model(1.0, 1.0)

    def gradient(position: jax.Array, batch: Any) -> jax.Array:
        def loss(position: jax.Array) -> jax.Array:
            return -jnp.mean(jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, batch))

        return jax.grad(loss)(position) + prior_precision * position

    return sghmc(gradient, data.train, batch_size=batch_size, num_inner=num_inner)
