"""The noisy sum of a statistic that stands in one of many blocks: a record's group. The proof is in block_sum.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, shift_left, sum_records, widen
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.gate import MovableBall
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.sums import Numbers, ReferenceSum, plain_sum, reference_sum
from dpmcmc.enclave.mechanisms.sum import Flat
from dpmcmc.enclave.traces import traced_at
from dpmcmc.errors import InvalidArgument

MOST_ROWS = 2**15
"""So many halves of 16 bits are added up in an int32."""

MOST_COORDINATES = 2**24


@dataclass(frozen=True, slots=True)
class BlockSum:
    """Sum over the records of clip(statistic), each at the block that it names, with the noise of a `Sum`.

    The statistic is one vector: the index of a block, from zero on, then `block_length` entries that are added to that
    block, then entries that are summed over all records. The release has all blocks, one after the other, and then
    those sums. `clip` bounds the l2 norm of all entries together. A record that names no block, or whose entries are
    not finite, adds zero.
    """

    clip: float
    noise_multiplier: float
    num_blocks: int
    block_length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))
        for name in ("num_blocks", "block_length"):
            object.__setattr__(self, name, validation.integer(name, getattr(self, name), at_least=1))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return Flat(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: all blocks and what is common to them; a Gaussian, under either adjacency."""
        (result,) = traced_at(contribution, queries, facts.record).out_avals
        entries = result.shape[0] - 1
        common = entries - self.block_length
        released = self.num_blocks * self.block_length + common
        if common < 1 or released > MOST_COORDINATES:
            raise InvalidArgument(
                f"block_length={self.block_length} and num_blocks={self.num_blocks} do not fit a statistic of "
                f"{result.shape[0]} numbers; expected a number of a block, {self.block_length} entries of it and one "
                f"or more beside them, and at most {MOST_COORDINATES:,} released numbers"
            )
        sums = partial(SumInBlocks, num_blocks=self.num_blocks, block_length=self.block_length)
        plan = (facts, self.clip, self.noise_multiplier, contribution, entries)
        return plain_sum(*plan, sums=sums, num_released=released)


@dataclass(frozen=True)
class SumInBlocks(ReferenceSum):
    """A noisy sum in which each record has a place, by the reference path."""

    num_blocks: int = 1
    block_length: int = 1

    def total(self, slots: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        """Return the exact sum, shape (chains, coordinates)."""
        numbers: Numbers = slots.numbers
        lattices = Lattice(jnp.full(num_chains, numbers.granularity, jnp.float32), numbers.gate.largest)
        contribution = partial(self.contribution, numbers.constants)

        def to_integers(contributions: jax.Array, lattice: Lattice) -> jax.Array:
            places = quantise.place(contributions[:, :1], self.num_blocks)
            own = jnp.where(places < 0, 0, contributions[:, 1:])
            return jnp.concatenate([places, quantise.vector(own, lattice, aim=numbers.aim)], axis=1)

        how = min(self.chunk_size, MOST_ROWS), self.num_coordinates + 1
        adds = partial(sum_in_blocks, numbers.gate, self.num_blocks, self.block_length)
        return reference_sum(*how, contribution, slots, queries, lattices, numbers.gate, to_integers, adds)


def sum_in_blocks(
    gate: MovableBall, num_blocks: int, block_length: int, integers: jax.Array, counts: jax.Array
) -> Wide:
    """Return the exact sum of the records that pass: each one's block at its place, and what is common to them.

    Args:
        gate: what the entries of one record may be.
        num_blocks: how many places there are.
        block_length: how many entries stand there.
        integers: a place, held to those that there are, then entries, shape (chains, rows, 1 + entries).
        counts: which rows count.
    """
    if integers.shape[-2] > MOST_ROWS:
        raise InvalidArgument("too many rows in one chunk for an exact sum: walk the records in smaller chunks")
    places, entries = jnp.clip(integers[..., 0], 0, np.int32(num_blocks - 1)), integers[..., 1:]
    counts = counts & gate.passes(entries)[..., 0]
    own = jnp.where(counts[..., None], entries[..., :block_length], 0)
    halves = jnp.concatenate([own & 0xFFFF, own >> 16], axis=-1)  # of both so many sums fit in an int32

    def scattered(places: jax.Array, halves: jax.Array) -> jax.Array:
        return jnp.zeros((num_blocks, 2 * block_length), jnp.int32).at[places].add(halves, mode="promise_in_bounds")

    sums = jax.vmap(scattered)(places, halves)
    blocks = add(widen(sums[..., :block_length]), shift_left(widen(sums[..., block_length:]), 16))
    common = sum_records(entries[..., block_length:], counts, gate.largest)

    def joined(blocks: jax.Array, common: jax.Array) -> jax.Array:
        return jnp.concatenate([blocks.reshape(len(blocks), -1), common], axis=-1)

    return Wide(joined(blocks.high, common.high), joined(blocks.low, common.low))
