"""Exact products of integer matrices, digit by digit: CPUs have instructions that add up products of bytes in int32."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax

from dpmcmc.enclave.arithmetic.int64 import Wide

_FEW_RESIDUALS = 4


def product_of_bytes(num_bytes: int, steps: jax.Array, tiles: jax.Array) -> Wide:
    """Sum residuals times rows, exactly, shape (residuals, entries), digit by digit.

    CPUs have instructions that add up products of bytes in int32. A product is at most 2^14, and fewer than 2^17 rows
    are read at a time (`rows_at_once`): below 2^31 in any order.
    """
    few = steps.shape[1] < _FEW_RESIDUALS  # it is the second factor that is rearranged: the smaller one, unless tiny
    first, second = _bytes(tiles, 2), _bytes(steps, num_bytes)
    if few:
        first, second = second, first
    products = lax.dot_general(first, second, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.int32)
    total = jnp.sum(products, axis=0, dtype=jnp.int32)
    total = (total.T if few else total).reshape(2, tiles.shape[1], num_bytes, steps.shape[1])
    with enable_x64(True):
        weights = 8 * (np.arange(2)[:, None] + np.arange(num_bytes))
        whole = jnp.sum(total.astype(jnp.int64) << weights[:, None, :, None], axis=(0, 2)).T
        return from_int64(whole)


def bytes_for(bound: int) -> int:
    """Return how many bytes hold the integers up to a bound, of either sign."""
    return next(count for count in (1, 2, 3) if bound <= 127 * (256**count - 1) // 255)


def _bytes(integers: jax.Array, count: int) -> jax.Array:
    """Return integers, shape (tiles, n, rows), as digits from -128 to 127 in base 256: (tiles, count * n, rows)."""
    shifts = 8 * np.arange(count, dtype=np.int32)[:, None, None]
    raised = integers.astype(jnp.int32)[:, None] + np.int32(128 * (256**count - 1) // 255)  # every digit, by 128
    digits = ((raised >> shifts & 0xFF) - 128).astype(jnp.int8)
    return digits.reshape(len(integers), -1, integers.shape[2])


def from_int64(value: jax.Array) -> Wide:
    """Return 64-bit integers, which exist where `enable_x64` says so, as `Wide`."""
    return Wide((value >> 32).astype(jnp.int32), value.astype(jnp.uint32))
