"""Proposals of the random-walk samplers."""

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument


def check_scale(proposal_scale: object) -> jax.Array:
    """Return the scale of a proposal as an array, one number or one a coordinate, all above zero."""
    scale = jnp.asarray(proposal_scale, jnp.float32)
    if scale.ndim > 1 or not bool(jnp.all((scale > 0) & jnp.isfinite(scale))):
        raise InvalidArgument(
            f"proposal_scale={proposal_scale!r} must be > 0 and finite, one number or one a coordinate"
        )
    return scale


def random_walk(key: jax.Array, position: jax.Array, scale: jax.Array) -> jax.Array:
    """Return position + N(0, diag(scale^2))."""
    return position + scale * jax.random.normal(key, position.shape)


def one_component_walk(key: jax.Array, position: jax.Array, scale: jax.Array) -> jax.Array:
    """Return the position with one component, picked at random, moved by N(0, scale^2).

    A shorter move has a smaller sensitivity, hence less noise in the test (Yıldırım and Ermiş 2019).
    """
    of_component, of_step = jax.random.split(key)
    component = jax.random.randint(of_component, (), 0, position.size)
    return position.at[component].add(jnp.broadcast_to(scale, position.shape)[component] * jax.random.normal(of_step))
