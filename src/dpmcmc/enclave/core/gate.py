"""The gate: integers in, and out come the same integers or zero, within their bound. Everything after it is integers.

What a record adds is computed in floating point by code that nobody proves anything of. It hands over integers, and all
that is believed of them is that each record's come from that record and public values alone. Here they are

1. *sealed*: written to memory as what a loop carries, whose number of turns is known at run time only. No compiler can
   compute them a second time behind the loop, so whoever reads them afterwards reads the same numbers;
2. *held*: a record whose integers are beyond the bound counts as zero, and so does a slot without a record;
3. added up exactly.

gate.md has the proof and what it assumes. `core.compiled` reads the compiled program and refuses one in which an
operation of the gate stands together with floating point.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.enclave.arithmetic.int64 import Wide, add, rows_in_block, sum_records, zero
from dpmcmc.errors import InvalidArgument

SCOPE = "dpmcmc_gate"
"""The name under which the operations of the gate are found in a compiled program."""

Integers = TypeVar("Integers")


def seal(once: jax.Array, compute: Callable[[jax.Array], Integers], before: Integers) -> Integers:
    """Return what `compute` gives, as the carry of a loop: nothing that reads it can compute it again.

    Args:
        once: the number of turns of the loop: one, but an argument of the program, so that no compiler knows.
        compute: the untrusted code; given the number of the turn, zero, to read its input by, so that it stays inside.
        before: integers of the same shapes, which are written over.
    """

    def turn(carry: tuple[jax.Array, Integers]) -> tuple[jax.Array, Integers]:
        return carry[0] + 1, compute(carry[0])

    return lax.while_loop(lambda carry: carry[0] < once, turn, (jnp.int32(0), before))[1]


@dataclass(frozen=True)
class Interval:
    """Single numbers from `low` to `high`; others are moved to the nearest of these."""

    low: int
    high: int

    @property
    def largest(self) -> int:
        """The largest entry that passes, in size."""
        return max(-self.low, self.high)

    def hold(self, integers: jax.Array) -> jax.Array:
        """Return every entry held to the interval."""
        return jnp.clip(integers, np.int32(self.low), np.int32(self.high))


@dataclass(frozen=True)
class Ball:
    """Vectors of `num_coordinates` entries with l2 norm <= `bound`; others count as zero.

    The norm is bounded from above in 32 bits. With a_i = min(|q_i|, bound + 1), t_i = ceil(a_i / 2^w) <= 2^15 + 1 and
    E = offset + sum_i floor(t_i^2 / 2^v), where the offset is the number of coordinates if v > 0 and else zero:
    sum a_i^2 <= 4^w 2^v E. So E <= limit = floor(bound^2 / (4^w 2^v)) implies that the norm of a is within the bound,
    hence a = |q|. Nothing overflows: v is so large that E < 2^31.
    """

    bound: int
    num_coordinates: int

    def __post_init__(self) -> None:
        if 4 * self.offset > self.limit or self.num_coordinates > 2**24:
            raise InvalidArgument(
                f"num_coordinates={self.num_coordinates} is too many for a lattice of bound={self.bound}"
            )

    @property
    def largest(self) -> int:
        """The largest entry that passes, in size."""
        return self.bound

    @property
    def reach(self) -> float:
        """The norm up to which every vector passes: what untrusted code aims at, so that no honest record fails."""
        unit = 2.0 ** (2 * self.coarse + self.drop)
        square = unit * max(self.limit - self.offset, 0)
        return max(square**0.5 - (2**self.coarse - 1) * self.num_coordinates**0.5, 0.0)

    def hold(self, integers: jax.Array) -> jax.Array:
        """Return the vectors that are in the ball, and zero for the others."""
        return self.movable.hold(integers)

    def passes(self, integers: jax.Array) -> jax.Array:
        """Say which vectors are in the ball; the last axis is kept, with length one."""
        return self.movable.passes(integers)

    @property
    def movable(self) -> "MovableBall":
        """The same ball, with its bound as an argument of a program."""
        limit, largest = np.uint32(self.limit - self.offset), 2 ** (self.bound - 1).bit_length()
        return MovableBall(np.uint32(self.bound + 1), limit, np.uint32(self.coarse), np.uint32(self.drop), largest)

    @property
    def coarse(self) -> int:
        """The w above."""
        return max(0, self.bound.bit_length() - 15)

    @property
    def drop(self) -> int:
        """The v above."""
        largest = -(-(self.bound + 1) >> self.coarse)
        drop = 0
        while self.num_coordinates * (((largest * largest) >> drop) + 1) >= 2**31:
            drop += 1
        return drop

    @property
    def offset(self) -> int:
        """What rounding down may have lost of E."""
        return self.num_coordinates if self.drop else 0

    @property
    def limit(self) -> int:
        """The largest E that passes."""
        return self.bound * self.bound >> (2 * self.coarse + self.drop)


@partial(jax.tree_util.register_dataclass, data_fields=["beyond", "limit", "coarse", "drop"], meta_fields=["largest"])
@dataclass(frozen=True)
class MovableBall:
    """A `Ball` whose numbers are arguments: `beyond` is bound + 1, `limit` what E, without the offset, is held to."""

    beyond: Any
    limit: Any
    coarse: Any
    drop: Any
    largest: int  # no entry that passes is larger: the next power of two

    def hold(self, integers: jax.Array) -> jax.Array:
        """Return the vectors that are in the ball, and zero for the others."""
        return jnp.where(self.passes(integers), integers, 0)

    def passes(self, integers: jax.Array) -> jax.Array:
        """Say which vectors are in the ball; the last axis is kept, with length one."""
        sign = integers >> 31
        size = ((integers ^ sign) - sign).astype(jnp.uint32)  # right for every int32, -2^31 too
        size = jnp.minimum(size, self.beyond)
        coarse = (size + ((np.uint32(1) << self.coarse) - np.uint32(1))) >> self.coarse
        squares = (coarse * coarse) >> self.drop
        if jax.default_backend() == "gpu":
            return jnp.sum(squares, axis=-1, keepdims=True, dtype=jnp.uint32) <= self.limit
        ones = jnp.ones((squares.shape[-1], 1), jnp.uint32)  # long sums XLA writes down first, on a CPU
        return squares @ ones <= self.limit


Gate = Interval | Ball | MovableBall
"""What may pass: a set of integer vectors, and what `hold` leaves of arbitrary int32 ones."""


def hold(gate: Gate, integers: jax.Array, counts: jax.Array) -> jax.Array:
    """Return sealed integers as the gate leaves them; zero where `counts`, which says who is there, is false."""
    with jax.named_scope(SCOPE):
        return jnp.where(counts, gate.hold(integers), 0)


def gated_sum(
    gate: Gate,
    compute: Callable[["Chunk"], jax.Array],
    counts: Callable[["Chunk"], jax.Array],
    length: int,
    chunk: int,
    once: jax.Array,
    summands: Callable[[jax.Array], jax.Array] | None = None,
    largest: int | None = None,
    adds: Callable[[jax.Array, jax.Array], Wide] | None = None,
    shape: tuple[int, ...] | None = None,
) -> Wide:
    """Return the exact sum of gated integers over `length` rows, about `chunk` of them in each turn of a loop.

    The last chunk overlaps the one before it, and rows that were counted there do not count again: all chunks have one
    shape, and one compiled body serves them.

    Args:
        gate: what one record may add.
        compute: untrusted: from the numbers of a chunk's rows to int32, shape (..., chunk, entries).
        counts: which of these rows hold a record, shape (..., chunk).
        length: the number of rows; public.
        chunk: how many may be held in memory at once; public.
        once: see `seal`.
        summands: what is added up, integers made of the ones that passed; they themselves, if nothing else is said.
        largest: the largest entry of `summands`.
        adds: the exact sum of what the gate leaves of integers and of who counts, where places differ (`BlockSum`).
        shape: of what `compute` gives, but for the rows, (..., entries), where that is known; another one is an error.
    """
    largest, chunk = gate.largest if largest is None else largest, min(chunk, length)
    block = min(rows_in_block(largest), chunk)
    chunk = -(-length // (-(-length // (chunk - chunk % block)) * block)) * block  # the last nearly full
    if shape is None:
        given = jax.eval_shape(lambda start: compute(Chunk(start, chunk)), jax.ShapeDtypeStruct((), jnp.int32)).shape
        shape = *given[:-2], given[-1]
    of_chunk, of_total = (*shape[:-1], chunk, shape[-1]), shape

    def more(integers: jax.Array, who: jax.Array) -> Wide:
        if adds is not None:
            return adds(integers, who)
        if summands is not None:
            return sum_records(summands(gate.hold(integers)), who, largest)
        if not isinstance(gate, Interval):
            return sum_records(integers, who & gate.passes(integers)[..., 0], largest)
        return sum_records(gate.hold(integers), who, largest)

    def turn(carry: tuple[jax.Array, jax.Array, Wide]) -> tuple[jax.Array, jax.Array, Wide]:
        number, integers, total = carry
        first = number * np.int32(chunk)
        start = jnp.minimum(first, np.int32(length - chunk))
        integers = seal(once, lambda turn: compute(Chunk(start + turn, chunk)), integers)
        with jax.named_scope(SCOPE):
            who = counts(Chunk(start, chunk)) & (start + lax.iota(jnp.int32, chunk) >= first)
            return number + 1, integers, add(total, more(integers, jnp.broadcast_to(who, of_chunk[:-1])))

    chunks = once * np.int32(-(-length // chunk))  # how many, which no compiler knows either
    if adds is not None or summands is not None:
        parts = (of_chunk, jnp.int32), (of_chunk[:-1], jnp.bool_)
        of_total = jax.eval_shape(more, *(jax.ShapeDtypeStruct(*part) for part in parts)).high.shape
    start = (jnp.int32(0), jnp.zeros(of_chunk, jnp.int32), zero(of_total))
    return lax.while_loop(lambda carry: carry[0] < chunks, turn, start)[2]


class Chunk(NamedTuple):
    """Consecutive rows: the number of the first one, and how many there are."""

    start: Any
    size: int

    def of(self, rows: Any, axis: int = 0) -> Any:
        """Return these rows of a pytree of arrays."""
        return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, self.start, self.size, axis), rows)
