"""Noise at the right temperature: what the dynamics needs, less what the release has in it already."""

import jax
import jax.core
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument

TOLERANCE = 1e-4
"""By how much, relatively, the noise of a release may exceed what the dynamics needs: it is rounded to a lattice."""


def missing_noise(key: jax.Array, like: jax.Array, needed: float, released: jax.Array) -> jax.Array:
    """Return N(0, needed - released): an update that holds noise of the variance `released` gets the rest here.

    More noise than needed would heat the chain; that is refused when the program is traced, before anything is charged.
    """
    if not isinstance(released, jax.core.Tracer) and float(released) > needed * (1 + TOLERANCE):
        raise InvalidArgument(
            f"the noise of the gradient is too large for the step: it puts the variance {float(released):.4g} into an "
            f"update that needs {needed:.4g}. Take a smaller step_size, a larger batch, or less noise "
            "(SubsampledGradientSum.for_sgld and for_sghmc match the noise to the step)"
        )
    return jnp.sqrt(jnp.maximum(needed - released, 0.0)) * jax.random.normal(key, like.shape)


def move(state: tuple[jax.Array, ...], updated: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the updated state if it is finite, else the old one; and whether it was not."""
    is_lost = ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in updated]))
    return tuple(jnp.where(is_lost, old, new) for old, new in zip(state, updated, strict=True)), is_lost
