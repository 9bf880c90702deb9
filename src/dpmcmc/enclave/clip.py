"""Per-record clipping: y * min(1, bound / |y|).

A contribution with an entry that is not finite counts as zero, the whole record: an error or a count would leak it.
Clipped values here are floating point, so the bound holds up to rounding; `lattice` makes it hold exactly, in integers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

_SHORT = 64


def clip_scalar(value: jax.Array, bound: ArrayLike) -> jax.Array:
    """Return y * min(1, bound / |y|) entry by entry, which is y held to [-bound, bound]; 0 where y is not finite."""
    return jnp.where(jnp.isfinite(value), jnp.clip(value, -jnp.asarray(bound), bound), 0)


def clip_vector(value: jax.Array, bound: ArrayLike, axis: int = -1) -> jax.Array:
    """Return y * min(1, bound / |y|_2), the norm taken along `axis`; 0 where any entry of the vector is not finite.

    The norm is taken of y / max|y|, so that it overflows for no finite y, and so does not turn a huge record into zero.
    """
    largest = largest_entry(value, axis)
    finite = jnp.isfinite(largest)
    safe = jnp.where(finite, value, 0)
    # XLA may divide by multiplying with 1 / unit: neither may be flushed to zero. Below the smallest normal number no
    # clipping is needed; above an eighth of the largest float, entries of up to 8 units do no harm.
    limits = jnp.finfo(value.dtype)
    unit = jnp.where(finite & (largest > limits.tiny), jnp.minimum(largest, limits.max / 8), 1)
    scaled = safe / unit
    norm = jnp.sqrt(jnp.sum(scaled * scaled, axis=axis, keepdims=True))
    return jnp.where(norm * unit <= bound, safe, scaled * (bound / jnp.maximum(norm, 1)))


def largest_entry(value: jax.Array, axis: int) -> jax.Array:
    """Return max|y| along `axis`, kept as an axis of length one; infinite if any entry is not finite.

    Floats without a sign are ordered as their bits are, NaN above infinity, and compilers make a maximum of integers
    out of vector instructions: for short vectors, on CPU, half the time of comparing floats. For long ones comparing
    is faster, once NaN has become an infinity and `jnp.max`'s rules for NaN are not needed.
    """
    if value.shape[axis] > _SHORT:
        sizes = jnp.where(jnp.isfinite(value), jnp.abs(value), jnp.inf)
        largest = lax.reduce(sizes, np.zeros((), value.dtype), _larger, (axis % value.ndim,))
        return jnp.expand_dims(largest, axis)
    bits = f"int{8 * value.dtype.itemsize}"
    infinite = lax.bitcast_convert_type(jnp.asarray(jnp.inf, value.dtype), bits)
    largest = jnp.max(lax.bitcast_convert_type(jnp.abs(value), bits), axis=axis, keepdims=True)
    return lax.bitcast_convert_type(jnp.minimum(largest, infinite), value.dtype)


def _larger(first: jax.Array, second: jax.Array) -> jax.Array:
    return lax.select(first > second, first, second)
