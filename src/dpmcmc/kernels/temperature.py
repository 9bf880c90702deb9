"""Noise at the right temperature: what the dynamics needs, less what the release has in it already."""

import jax
import jax.core
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels.base import Noisy

TOLERANCE = 1e-4
"""By how much, relatively, the noise of a release may exceed what the dynamics needs: it is rounded to a lattice."""


def check_noise(force: Noisy, gain: float, needed: float) -> None:
    """Refuse a release with more noise than an update that adds gain * force can hold: it would heat the chain.

    The variance is known when the program is traced, before anything is charged.
    """
    if isinstance(force.variance, jax.core.Tracer) or gain**2 * float(force.variance) <= needed * (1 + TOLERANCE):
        return
    raise InvalidArgument(
        f"the noise of the gradient is too large for the step: it puts the variance "
        f"{gain**2 * float(force.variance):.4g} into an update that needs {needed:.4g}. Take a smaller step_size, "
        "a larger batch, or less noise (SubsampledGradientSum.for_sgld and for_sghmc and samplers.langevin_noise match "
        "the noise to the step)"
    )


def missing_noise(key: jax.Array, force: Noisy, gain: jax.Array | float, needed: jax.Array | float) -> jax.Array:
    """Return N(0, needed - gain^2 * variance): what an update that adds gain * force lacks of the variance `needed`."""
    missing = jnp.maximum(needed - gain**2 * force.variance, 0.0)
    return jnp.sqrt(missing) * jax.random.normal(key, force.value.shape)


def move(state: tuple[jax.Array, ...], updated: tuple[jax.Array, ...]) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Return the updated state if it is finite, else the old one; and whether it was not."""
    is_lost = ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in updated]))
    return tuple(jnp.where(is_lost, old, new) for old, new in zip(state, updated, strict=True)), is_lost
