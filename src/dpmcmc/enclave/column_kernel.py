"""The exact sum of clipped contributions of any model as one GPU kernel: records are read once for several chains.

XLA would write every record's gradient to memory, for sixteen chains many times the bytes of the data. Here a
contribution is `written_out` in single numbers, each of them a vector over a few records: gradients, norms and integers
stay in registers, and a thread adds up integers of its own until the end. Columns, the same entry of consecutive
records, have to lie together for that: `make_columns` copies them so, once a run. rounding.md proves the bound.
Where there is no GPU the same kernel can be interpreted: for tests.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportMissingTypeStubs=false, reportPrivateImportUsage=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.enclave.lattice import Lattice, Wide, add, shift_left, sum_words
from dpmcmc.enclave.mechanisms.base import Contribution, Facts
from dpmcmc.enclave.rounding import LEAST_BOUND, LEAST_SQUARE, MOST_BOUND, held, nearest, reachable
from dpmcmc.enclave.row_kernel import HAS_PALLAS, LEAF_TYPES, pallas, power_of_two, triton
from dpmcmc.enclave.written_out import Numbers, WrittenOut, total, write_out

ROWS_IN_TILE = 1024
"""What a program reads lies close together."""

MOST_COORDINATES = 40
"""Kernels for more of them take minutes to compile."""

MOST_ENTRIES = 2**31 - 1
"""Kernels count them in 32 bits."""

SUMS_IN_REGISTERS = 80
"""How many sums a thread holds at once, of all the chains that it serves."""

PROGRAMS = 4224
"""32 for each processor of the largest GPUs; each is one warp."""


@partial(jax.tree_util.register_dataclass, data_fields=["records", "columns"], meta_fields=["written"])
@dataclass(frozen=True)
class Columns:
    """Records with their columns: what a run makes once, before its first release."""

    written: WrittenOut
    records: Any
    columns: tuple[jax.Array, ...]
    """The leaves that are read: shape (tiles, entries, rows in a tile), filled up with zeros; one number a record as it
    is, shape (records,)."""


def find_columns(
    facts: Facts, contribution: Contribution, queries: Sequence[Any], records: Any, bound: int
) -> Columns | None:
    """Return the records with their columns if one kernel can add up the contributions, else None."""
    leaves = jax.tree.leaves(records)
    suits = HAS_PALLAS and sum(prod(query.shape) for query in queries) <= MOST_COORDINATES
    suits = suits and LEAST_BOUND <= bound <= MOST_BOUND and all(leaf.dtype in LEAF_TYPES for leaf in leaves)
    written = write_out(contribution, queries, facts.record) if suits else None
    if written is None:
        return None
    entries = [prod(leaves[leaf].shape[1:]) for leaf in written.leaves]
    rows = len(leaves[0]) + ROWS_IN_TILE
    return (
        None
        if sum(entries) > MOST_COORDINATES or max(entries) * rows > MOST_ENTRIES
        else make_columns(written, records)
    )


def make_columns(written: WrittenOut, records: Any) -> Columns:
    """Return the records with their columns."""

    def columns(leaf: jax.Array) -> jax.Array:
        rows, entries = leaf.shape[0], prod(leaf.shape[1:])
        if entries == 1:
            return leaf.reshape(-1)
        filled = jnp.pad(leaf.reshape(rows, entries), [(0, -rows % ROWS_IN_TILE), (0, 0)])
        return jnp.swapaxes(filled.reshape(-1, ROWS_IN_TILE, entries), 1, 2)

    leaves = jax.tree.leaves(records)
    return Columns(written, records, tuple(columns(leaves[leaf]) for leaf in written.leaves))


@dataclass(frozen=True)
class _Plan:
    """How the sums are divided: programs walk over blocks of rows, each for a group of chains."""

    chains: int
    groups: int
    rows: int
    programs: int
    blocks: int

    @staticmethod
    def of(num_chains: int, num_coordinates: int, num_rows: int, bound: int) -> "_Plan":
        groups = -(-num_chains // max(SUMS_IN_REGISTERS // num_coordinates, 1))
        chains = -(-num_chains // groups)
        in_thread = max(SUMS_IN_REGISTERS // (num_coordinates * chains), 1)
        rows = 32 * min(power_of_two(in_thread + 1) // 2, 4)
        blocks = -(-num_rows // rows)
        most_steps = (2**31 - 1) // bound
        return _Plan(chains, groups, rows, max(min(PROGRAMS // groups, blocks), -(-blocks // most_steps)), blocks)


def sum_columns(records: Columns, lattices: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of quantised contributions for each chain, shape (chains, coordinates).

    `lattices` have one granularity a chain.
    """
    written, num_chains = records.written, queries[0].shape[0]
    num_rows = jax.tree.leaves(records.records)[0].shape[0]
    plan = _Plan.of(num_chains, written.num_coordinates, num_rows, lattices.bound)
    public = jax.vmap(lambda *queries: written.public(queries))(*queries)
    per_step = 1 / jnp.asarray(lattices.granularity, jnp.float32)
    public = jnp.concatenate([per_step[:, None], public], axis=1)
    public = jnp.pad(public, [(0, plan.groups * plan.chains - num_chains), (0, 0)])
    leaves = jax.tree.leaves(records.records)
    shapes = [leaves[place].shape[1:] for place in written.leaves]
    shape = (plan.programs, 2, plan.groups * plan.chains, written.num_coordinates)
    sums = pallas.pallas_call(
        partial(_kernel, plan, written, lattices.bound, num_rows, shapes),
        grid=(plan.groups, plan.programs),  # the groups that read the same rows run at the same time
        out_shape=jax.ShapeDtypeStruct(shape, jnp.int32),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=jax.default_backend() != "gpu",
    )(public, *records.columns)
    high, low = (sum_words(sums[:, half, :num_chains]) for half in range(2))
    return add(shift_left(high, 16), low)


def _kernel(
    plan: _Plan, written: WrittenOut, bound: int, num_rows: int, shapes: Sequence[tuple[int, ...]], *refs: Any
) -> None:
    """Walk over every `programs`-th block of rows; public numbers and sums stay in registers until the end."""
    public, *columns, sums = refs
    group, program = pallas.program_id(0), pallas.program_id(1)
    blocks_in_tile, lanes = ROWS_IN_TILE // plan.rows, jnp.arange(plan.rows)
    chains = [group * plan.chains + chain for chain in range(plan.chains)]
    of_chains = [[public[chain, place] for place in range(public.shape[1])] for chain in chains]

    def block(step: Any, totals: Any) -> Any:
        number = program + step * plan.programs
        there = number * plan.rows + lanes < num_rows
        places = pallas.ds((number % blocks_in_tile) * plan.rows, plan.rows)

        def numbers(column: Any, shape: tuple[int, ...]) -> Numbers:
            values = np.empty(prod(shape), object)
            for entry in range(len(values)):
                if column.ndim == 1:
                    own = column.at[pallas.ds(number * plan.rows, plan.rows)]
                    values[entry] = triton.load(own, mask=there, other=0)
                else:
                    values[entry] = column[number // blocks_in_tile, entry, places]
            return values.reshape(shape)

        leaves = [numbers(column, shape) for column, shape in zip(columns, shapes, strict=True)]
        found: list[jax.Array] = []
        for per_step, *own in of_chains:
            found += quantise(written.coordinates(leaves, own), per_step, bound, there)
        return tuple(total + more for total, more in zip(totals, found, strict=True))

    start = tuple(jnp.zeros(plan.rows, jnp.int32) for _ in range(plan.chains * written.num_coordinates))
    num_steps = (plan.blocks - program + plan.programs - 1) // plan.programs
    totals = lax.fori_loop(0, num_steps, block, start)
    for place, one in enumerate(totals):
        chain, coordinate = divmod(place, written.num_coordinates)
        sums[program, 0, chains[chain], coordinate] = jnp.sum(one >> 16)
        sums[program, 1, chains[chain], coordinate] = jnp.sum(one & 0xFFFF)


def quantise(contribution: Sequence[Any], per_step: Any, bound: int, there: jax.Array) -> list[jax.Array]:
    """Return integers near contribution * per_step, coordinate by coordinate, whose norm for each record is <= bound.

    The norm is held to what is `reachable`, which leaves room for all roundings. A record that is not `there`, or whose
    square norm is not finite, becomes zero.
    """
    entries = [jnp.broadcast_to(entry, there.shape) for entry in contribution]
    square = total(lax.add_p, [entry * entry for entry in entries])
    scale, counts = held(square, per_step, reciprocal_root(square, reachable(bound, len(entries))))
    return [jnp.where(counts & there, nearest(entry * scale), 0) for entry in entries]


def reciprocal_root(square: jax.Array, reach: float) -> jax.Array:
    """Return reach / sqrt(square), as a GPU makes it fast."""
    return np.float32(reach) * lax.rsqrt(jnp.maximum(square, LEAST_SQUARE))
