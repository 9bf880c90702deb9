"""Contributions held to their bound and rounded to integers in floating point, with room for every rounding.

`lattice.quantise_vector` verifies a norm in integers, which takes passes over the contributions that a processor feels.
Here the norm is one sum of squares, held to a little less than the bound: rounding.md proves that the integers are
within it, from the error bounds of float32 arithmetic alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from dpmcmc.enclave.lattice import Lattice

LEAST_BOUND, MOST_BOUND = 2**10, 2**21
"""Above the first rounding takes little off; up to the second a sum with 3 * 2^22 is rounded to a whole number."""

MOST_COORDINATES = 1024
"""Of more of them the room for the errors of the sum of squares would be felt."""

LEAST_SQUARE = np.float32(2.0**-100)
"""Of smaller squares the rounding errors are not known: some entries of theirs are flushed to zero."""

_SHIFT = np.float32(3 * 2**22)
_SHIFT_BITS = int(_SHIFT.view(np.int32))


def reachable(bound: int, num_coordinates: int) -> float:
    """Return the norm that contributions are held to before they are rounded to integers of norm <= bound."""
    return bound * (1 - 2.0**-17 - num_coordinates * 2.0**-22) - num_coordinates**0.5 / 2


def is_rounded(lattice: Lattice, num_coordinates: int) -> bool:
    """Say whether the proof covers contributions of so many coordinates on a lattice."""
    return LEAST_BOUND <= lattice.bound <= MOST_BOUND and num_coordinates <= MOST_COORDINATES


def held(square: jax.Array, per_step: ArrayLike, shorten: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return what contributions are multiplied with, given their square norms, and which of them count.

    `shorten` is what takes them to the norm that is reachable.
    """
    scale = jnp.minimum(per_step, shorten)
    return scale, (square < jnp.inf) & (scale >= 0)  # which no NaN is


def nearest(value: jax.Array) -> jax.Array:
    """Return the whole numbers next to numbers of at most MOST_BOUND."""
    return lax.bitcast_convert_type(value + _SHIFT, jnp.int32) - _SHIFT_BITS


def quantise_rounded(contribution: jax.Array, lattice: Lattice) -> jax.Array:
    """Return integers k near y / granularity with |k|_2 <= bound along the last axis, of lattices that `is_rounded`.

    0 where any entry, or the square norm, is not finite.
    """
    reach = reachable(lattice.bound, contribution.shape[-1])
    square = jnp.sum(contribution * contribution, axis=-1, keepdims=True)
    # the root of a quotient, which does not overflow: of a quotient by a root XLA makes an approximate one, at times
    shorten = 2.0**20 * jnp.sqrt(np.float32(2.0**-40 * reach * reach) / jnp.maximum(square, LEAST_SQUARE))
    scale, counts = held(square, 1 / jnp.asarray(lattice.granularity, jnp.float32), shorten)
    return nearest(jnp.where(counts, contribution * scale, 0))
