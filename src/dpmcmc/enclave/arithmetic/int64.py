"""64-bit integers in 32-bit code: a pair of words, and exact sums.

In a float32 program 64-bit integers exist inside an `enable_x64` island only; the pair is ordinary 32-bit code. It
needs no island, lowers alike on every backend and jax version, survives vmap, scan and a second evaluation of the
traced program, and gives the same bits on CPU and GPU. The pair costs two more additions a chunk of rows, not a row.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from dpmcmc.errors import InvalidArgument


class Wide(NamedTuple):
    """The integers high * 2^32 + low."""

    high: jax.Array
    low: jax.Array


def rows_in_block(bound: int) -> int:
    """Return how many entries of size at most `bound` are added up in an int32, which holds them: a power of two."""
    most = 2**31 if jax.default_backend() == "gpu" else 512  # a CPU takes longer over long products of one row
    return 1 << (max(min((2**31 - 1) // bound, most), 1).bit_length() - 1)


def sum_records(steps: jax.Array, counts: jax.Array, bound: int) -> Wide:
    """Return the exact sum over the rows that count of int32 entries of size at most `bound`.

    Args:
        steps: shape (..., rows, entries).
        counts: which rows count, shape (..., rows).
        bound: the largest entry; where rows exceed `rows_in_block`, they are a multiple of it.
    """
    rows, entries = steps.shape[-2:]
    block = min(rows, rows_in_block(bound))
    if rows % block:
        raise InvalidArgument(f"{rows} rows are no multiple of {block}")
    steps = steps.reshape(*steps.shape[:-2], -1, block, entries)
    counts = counts.reshape(*counts.shape[:-1], -1, block)
    if jax.default_backend() == "gpu":
        partial_sums = jnp.sum(jnp.where(counts[..., None], steps, 0), axis=-2, dtype=jnp.int32)
    else:  # as a product of integers XLA reads the entries once, where it would write out a masked copy of them
        batch = tuple(range(counts.ndim - 1))
        partial_sums = lax.dot_general(
            counts.astype(jnp.int32), steps, (((len(batch),), (len(batch),)), (batch, batch)), None, jnp.int32
        )
    return sum_words(jnp.moveaxis(partial_sums, -2, 0))


def sum_across(value: Wide, axis_name: str) -> Wide:
    """Return the exact sum over a mapped axis (at most 2^15 shards): the collective adds up 16-bit words."""
    parts = (value.low & 0xFFFF, value.low >> 16, value.high)
    lowest, middle, high = (lax.psum(part.astype(jnp.int32), axis_name) for part in parts)
    return add(Wide(high, jnp.zeros_like(value.low)), add(widen(lowest), shift_left(widen(middle), 16)))


def zero(shape: tuple[int, ...]) -> Wide:
    """Return zeros."""
    return Wide(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.uint32))


def widen(value: jax.Array) -> Wide:
    """Return int32 entries as `Wide`."""
    return Wide(value >> 31, value.astype(jnp.uint32))


def add(first: Wide, second: Wide) -> Wide:
    """Return first + second, exact while it fits in 64 bits."""
    low = first.low + second.low
    return Wide(first.high + second.high + (low < first.low).astype(jnp.int32), low)


def negate(value: Wide) -> Wide:
    """Return -value."""
    return Wide(~value.high + (value.low == 0).astype(jnp.int32), ~value.low + np.uint32(1))


def shift_left(value: Wide, bits: int) -> Wide:
    """Return value * 2^bits, for 0 < bits < 32."""
    carried = (value.low >> np.uint32(32 - bits)).astype(jnp.int32)
    return Wide((value.high << bits) | carried, value.low << np.uint32(bits))


def magnitude(value: Wide) -> Wide:
    """Return |value|."""
    negative, opposite = value.high < 0, negate(value)
    return Wide(jnp.where(negative, opposite.high, value.high), jnp.where(negative, opposite.low, value.low))


def to_float(value: Wide, granularity: ArrayLike) -> jax.Array:
    """Return granularity * value in float32, with a relative error of a few roundings."""
    size = magnitude(value)  # of one sign, so that the two words cannot cancel
    unsigned = size.high.astype(jnp.float32) * np.float32(2.0**32) + size.low.astype(jnp.float32)
    return jnp.where(value.high < 0, -unsigned, unsigned) * jnp.asarray(granularity, jnp.float32)


def sum_words(partial_sums: jax.Array) -> Wide:
    """Return the exact sum of up to 2^16 int32 entries along the first axis, by their 16-bit halves."""
    if partial_sums.shape[0] > 2**16:
        raise InvalidArgument("too many rows in one chunk for an exact sum: walk the records in smaller chunks")
    low = jnp.sum((partial_sums & 0xFFFF).astype(jnp.uint32), axis=0, dtype=jnp.uint32)
    high = jnp.sum(partial_sums >> 16, axis=0, dtype=jnp.int32)
    return add(Wide(jnp.zeros_like(high), low), shift_left(widen(high), 16))
