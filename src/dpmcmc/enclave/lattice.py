"""Exact sums: contributions on a public lattice, added up in integers.

A record's contribution is rounded to granularity * k with an integer k, |k| <= bound, and the k are added up exactly:
the sum is the same whatever the chunk size, the order of the rows or the number of shards, and one record moves it by
at most 2 * bound (replace-one) or bound (add or remove one), in integers. `noise.md` has the proofs.

Sums are `Wide`: a pair of 32-bit words. In a float32 program 64-bit integers exist inside an `enable_x64` island only;
the pair is ordinary 32-bit code. It needs no island, lowers alike on every backend and jax version, survives vmap,
scan and a second evaluation of the traced program, and gives the same bits on CPU and GPU. Rows are added up in
int32 within a chunk, so the pair costs two more additions a chunk, not a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.enclave.clip import largest_entry
from dpmcmc.errors import InvalidArgument

MIN_SCALE_BITS, MAX_SCALE_BITS = 16, 40
"""Noise scales are powers of two in this range: below it the lattice is felt, above it nothing is gained."""

LEAST_NOISE, MOST_NOISE = 2.0**-8, 2.0**30
"""Between these the noise over the clip has a lattice: of a scale in that range, with a bound from 2^10 to 2^24."""

_TARGET_BOUND = 2**20  # finer than float32 contributions need, and 2047 rows of it fit in an int32
_MAX_BOUND = 2**24  # a float32 holds every integer up to it
_WORD = 2.0**32


@partial(jax.tree_util.register_dataclass, data_fields=["granularity"], meta_fields=["bound", "scale"])
@dataclass(frozen=True)
class Lattice:
    """The points granularity * k with integer k.

    `bound` and `scale` alone decide the privacy, and are constants. The granularity, which only gives them a unit, may
    be a traced number: a clip that grows with the distance of two positions moves the granularity.
    """

    granularity: ArrayLike
    bound: int
    """The largest l2 norm of one record's k."""
    scale: float = 0.0
    """The standard deviation of the noise, in steps of the lattice."""

    def __post_init__(self) -> None:
        bound = validation.integer("bound", self.bound, at_least=1)
        if bound > _MAX_BOUND:
            validation.refuse("bound", bound, f"must be <= {_MAX_BOUND}")
        validation.non_negative("scale", self.scale)
        if isinstance(self.granularity, float | int):
            validation.positive("granularity", self.granularity)


class Wide(NamedTuple):
    """The integers high * 2^32 + low."""

    high: jax.Array
    low: jax.Array

    def __int__(self) -> int:
        return (int(self.high) << 32) + int(self.low)


def noise_over_clip(noise_multiplier: float, clips_moved: int) -> float:
    """Return the noise in clips, of a multiple of the sensitivity; a neighbour moves the sum by so many clips."""
    least, most = LEAST_NOISE / clips_moved, MOST_NOISE / clips_moved
    if not least <= validation.positive("noise_multiplier", noise_multiplier) <= most:
        words = f"must be between {least:g} and {most:g} for a lattice to hold the noise"
        validation.refuse("noise_multiplier", noise_multiplier, words)
    return noise_multiplier * clips_moved


def gradient_lattice(clip: ArrayLike, noise_over_clip: float, num_records: int, num_coordinates: int = 1) -> Lattice:
    """Return the lattice for a clipped sum with noise of standard deviation noise_over_clip * clip.

    The noise scale is a power of two s = 2^p, the granularity sigma / s and the bound floor(clip / granularity), so
    that s / bound >= noise_over_clip exactly. p is the largest for which the bound is at most 2^20.
    """
    ratio = Fraction(validation.positive("noise_over_clip", noise_over_clip))
    bits = math.floor(math.log2(_TARGET_BOUND) + math.log2(ratio))
    scale = 2 ** min(max(bits, MIN_SCALE_BITS), MAX_SCALE_BITS)
    bound = math.floor(scale / ratio)
    if not 2**10 <= bound <= _MAX_BOUND:
        validation.refuse("noise_over_clip", noise_over_clip, "must be between 2^-8 and 2^30 for a lattice to hold it")
    _check_records(num_records, bound)
    _NormBound.of(bound, num_coordinates)
    return Lattice(_single(_times(clip, float(ratio) / scale)), bound, float(scale))


def penalty_lattice(clip: ArrayLike, noise_over_clip: float, num_records: int) -> Lattice:
    """Return the lattice for a log-ratio that a penalty test reads: sigma^2 / granularity is an integer.

    As `gradient_lattice`, with the granularity a whole multiple of 1 / s^2: then sigma^2 / granularity =
    s^2 * granularity is whole, and a(lambda) = e^lambda a(-lambda) for every lambda. Clip and noise move together by
    at most half of 1 / s^2 a step, which leaves bound and scale, hence the privacy, as they are.
    """
    lattice = gradient_lattice(clip, noise_over_clip, num_records)
    steps = lattice.scale**2
    whole = _times(lattice.granularity, steps)
    rounded = jnp.maximum(jnp.rint(whole), 1) if isinstance(whole, jax.Array) else max(round(whole), 1)
    return Lattice(_single(_times(rounded, 1 / steps)), lattice.bound, lattice.scale)


def logistic_lattice(clip: float, num_records: int) -> Lattice:
    """Return the lattice for a log-ratio that a logistic coin reads: the granularity is a power of two, >= 2^-26."""
    clip = validation.positive("clip", clip)
    bits = min(26, math.floor(math.log2(_TARGET_BOUND / clip)))
    if bits < 0 or clip * 2**bits < 1:
        validation.refuse("clip", clip, "must be between 2^-26 and 2^20 for a logistic coin")
    bound = math.floor(clip * 2**bits)
    _check_records(num_records, bound)
    return Lattice(2.0**-bits, bound)


def quantise_scalar(contribution: jax.Array, lattice: Lattice) -> jax.Array:
    """Return k = rint(y / granularity) held to [-bound, bound], entry by entry; 0 where y is not finite.

    The last step is a comparison of integers, so |k| <= bound whatever the arithmetic before it did. Rounding is to
    even, hence symmetric: swapping the two positions of a log-ratio changes the sign of k and nothing else.
    """
    # a product with 1 / granularity: XLA turns some quotients into products and not others, by their shape
    steps = jnp.where(jnp.isfinite(contribution), contribution, 0) * (1 / _like(lattice.granularity, contribution))
    whole = jnp.rint(jnp.clip(steps, -lattice.bound, lattice.bound)).astype(jnp.int32)
    return jnp.clip(whole, -lattice.bound, lattice.bound)


def quantise_vector(contribution: jax.Array, lattice: Lattice, axis: int = -1) -> jax.Array:
    """Return integers k near y / granularity with |k|_2 <= bound along `axis`; 0 where any entry is not finite.

    1. q = rint(y * min(1 / granularity, bound / max|y|)), held to [-bound, bound]: nothing overflows.
    2. An integer E with |q|_2^2 <= unit * E (`_NormBound`), exact, hence the same in any order of summation.
    3. Where unit * E <= bound^2, k = q: the norm is verified in integers.
       Elsewhere k = trunc(q * f) with f = (1 - 2^-18) * bound / sqrt(unit * E): toward zero, so |k|_2 <= bound; the
       slack is eight times the float32 error of a quotient, a root and a product.
    """
    norm = _NormBound.of(lattice.bound, contribution.shape[axis])
    largest = largest_entry(contribution, axis)
    per_step = jnp.minimum(1 / _like(lattice.granularity, contribution), lattice.bound / largest)
    # a record that is not finite may become any q here; its f is zero
    steps = jnp.rint(contribution * per_step).astype(jnp.int32)
    steps = jnp.clip(steps, -lattice.bound, lattice.bound)
    energy = norm.energy(steps, axis)
    # the root of a quotient: XLA would compile a quotient by a root as an approximate reciprocal root, at times
    shrink = jnp.where(energy <= norm.limit, 1, jnp.sqrt(np.float32(norm.square_radius) / energy.astype(jnp.float32)))
    shrink = jnp.where(jnp.isfinite(largest), shrink, 0)
    # q is at most 2^24, exact in float32, and the conversion to int32 truncates: f = 1 returns q itself
    return (steps.astype(jnp.float32) * shrink).astype(jnp.int32)


@dataclass(frozen=True)
class _NormBound:
    """How to bound |q|_2^2 for integers |q_i| <= bound in 32-bit arithmetic, without overflow.

    With t_i = ceil(|q_i| / 2^w) <= 2^15 and E = offset + sum_i floor(t_i^2 / 2^v): |q|_2^2 <= 4^w 2^v E. The offset
    is the number of coordinates where v > 0, else 0. A vector at the bound is shrunk by about 2^w sqrt(d) / bound.
    """

    coarse: int
    drop: int
    offset: int
    limit: int
    square_radius: float

    @staticmethod
    def of(bound: int, num_coordinates: int) -> "_NormBound":
        coarse = max(0, (bound - 1).bit_length() - 15)
        largest = -(-bound >> coarse)
        drop = 0
        while num_coordinates * (((largest * largest) >> drop) + 1) >= 2**31:
            drop += 1
        offset = num_coordinates if drop else 0
        limit = bound * bound >> (2 * coarse + drop)
        if 4 * offset > limit or num_coordinates > 2**24:
            raise InvalidArgument(f"num_coordinates={num_coordinates} is too many for a lattice of bound={bound}")
        square_radius = ((1 - 2.0**-18) * bound) ** 2 / 2.0 ** (2 * coarse + drop)
        return _NormBound(coarse, drop, offset, limit, square_radius)

    def energy(self, steps: jax.Array, axis: int) -> jax.Array:
        coarse = (jnp.abs(steps) + (2**self.coarse - 1)) >> self.coarse
        return jnp.sum((coarse * coarse) >> self.drop, axis=axis, keepdims=True) + self.offset


def sum_records(steps: jax.Array, bound: int, axis: int = 0) -> Wide:
    """Return the exact sum along one axis of int32 entries of size at most `bound`."""
    rows = steps.shape[axis]
    block = 1 << (max((2**31 - 1) // bound, 1).bit_length() - 1)
    if rows <= block:
        return widen(jnp.sum(steps, axis=axis, dtype=jnp.int32))
    whole = rows - rows % block
    blocks = lax.slice_in_dim(steps, 0, whole, axis=axis).reshape(
        *steps.shape[:axis], -1, block, *steps.shape[axis + 1 :]
    )
    total = sum_words(jnp.moveaxis(jnp.sum(blocks, axis=axis + 1, dtype=jnp.int32), axis, 0))
    if whole == rows:
        return total
    return add(total, sum_records(lax.slice_in_dim(steps, whole, rows, axis=axis), bound, axis))


def sum_chunks(
    contribution: Callable[[Any], jax.Array], records: Any, chunk_size: int, bound: int, axis: int = 0
) -> Wide:
    """Return the exact sum of `contribution(rows)`, int32 with the rows along `axis`, over the pytree `records`.

    Memory is flat in the number of rows: a loop holds one chunk at a time, and no column is copied. The remainder is
    filled up to a whole chunk with rows that do not count: XLA may round a record's own arithmetic differently in a
    chunk of another shape.
    """
    rows = jax.tree.leaves(records)[0].shape[0]
    chunk_size = validation.integer("chunk_size", chunk_size, at_least=1)
    whole = rows - rows % chunk_size

    def chunk_sum(chunk: Any) -> Wide:
        return sum_records(contribution(chunk), bound, axis)

    def chunk_at(start: Any) -> Any:
        return jax.tree.map(lambda column: lax.dynamic_slice_in_dim(column, start, chunk_size), records)

    one_chunk = jax.tree.map(
        lambda column: jax.ShapeDtypeStruct((chunk_size, *column.shape[1:]), column.dtype), records
    )
    total = zero(jax.eval_shape(chunk_sum, one_chunk).high.shape)
    if whole:
        total = lax.fori_loop(
            0, whole // chunk_size, lambda number, sum_: add(sum_, chunk_sum(chunk_at(number * chunk_size))), total
        )
    if whole < rows:
        missing = whole + chunk_size - rows
        last = jax.tree.map(lambda c: jnp.pad(c[whole:], [(0, missing), *[(0, 0)] * (c.ndim - 1)]), records)
        steps = contribution(last)
        counts = lax.broadcasted_iota(jnp.int32, steps.shape, axis) < chunk_size - missing
        total = add(total, sum_records(jnp.where(counts, steps, 0), bound, axis))
    return total


def even_chunks(rows: int, most: int) -> int:
    """Return the size of chunks of at most so many rows, for which the last one is nearly full."""
    return -(-rows // -(-rows // most))


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
    unsigned = size.high.astype(jnp.float32) * np.float32(_WORD) + size.low.astype(jnp.float32)
    return jnp.where(value.high < 0, -unsigned, unsigned) * jnp.asarray(granularity, jnp.float32)


def from_float(value: jax.Array) -> Wide:
    """Return the integer nearest to `value`, exactly, for |value| < 2^62; what is not finite becomes zero."""
    size = jnp.abs(jnp.rint(jnp.where(jnp.isfinite(value), value, 0)))
    size = jnp.minimum(size, 2.0**62)
    high = jnp.floor(size * (1 / _WORD))
    unsigned = Wide(high.astype(jnp.int32), (size - high * _WORD).astype(jnp.uint32))
    opposite = negate(unsigned)
    return Wide(*(jnp.where(value < 0, minus, plus) for minus, plus in zip(opposite, unsigned, strict=True)))


def from_int64(value: jax.Array) -> Wide:
    """Return 64-bit integers, which exist where `enable_x64` says so, as `Wide`."""
    return Wide((value >> 32).astype(jnp.int32), value.astype(jnp.uint32))


def to_int64(value: Wide) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the integers on the host."""
    return (np.asarray(value.high).astype(np.int64) << 32) + np.asarray(value.low)


def sum_words(partial_sums: jax.Array) -> Wide:
    """Return the exact sum of up to 2^16 int32 entries along the first axis, by their 16-bit halves."""
    if partial_sums.shape[0] > 2**16:
        raise InvalidArgument("too many rows in one chunk for an exact sum: walk the records in smaller chunks")
    low = jnp.sum((partial_sums & 0xFFFF).astype(jnp.uint32), axis=0, dtype=jnp.uint32)
    high = jnp.sum(partial_sums >> 16, axis=0, dtype=jnp.int32)
    return add(Wide(jnp.zeros_like(high), low), shift_left(widen(high), 16))


def _check_records(num_records: int, bound: int) -> None:
    if validation.integer("num_records", num_records, at_least=1) * bound >= 2**62:
        validation.refuse("num_records", num_records, f"must be < 2^62 / {bound}, or an exact sum could overflow")


def _like(number: ArrayLike, example: jax.Array) -> jax.Array:
    return jnp.asarray(number, example.dtype)


def _times(number: ArrayLike, factor: float) -> Any:
    """Multiply in float64 what is known now, in its own type what is traced."""
    return number * factor if isinstance(number, jax.Array) else validation.positive("clip", number) * factor


def _single(number: Any) -> Any:
    """Round a number that is known now to float32, so that host and device mean the same granularity."""
    return number if isinstance(number, jax.Array) else float(np.float32(number))
