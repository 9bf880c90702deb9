"""The exact sum of clipped contributions as one GPU kernel for long rows: records are read once for several chains.

A program reads a block of whole records, one row of a matrix each, computes their contributions `row_by_row`, and holds
and rounds them as `column_kernel` does; rounding.md proves the bound. Every place of the block has integer sums of
its own, for each chain, until the end. The records are read as they lie. Where there is no GPU the same kernel can be
interpreted: for tests.
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
from jax import lax

from dpmcmc.enclave.column_kernel import MOST_ENTRIES, reciprocal_root
from dpmcmc.enclave.lattice import Lattice, Wide, add, shift_left, sum_words
from dpmcmc.enclave.mechanisms.base import Contribution, Facts
from dpmcmc.enclave.rounding import LEAST_BOUND, MOST_BOUND, MOST_COORDINATES, held, nearest, reachable
from dpmcmc.enclave.row_by_row import RowByRow, row_by_row
from dpmcmc.enclave.row_kernel import HAS_PALLAS, LEAF_TYPES, pallas, power_of_two, triton

PLACES = 2048
"""The places of a block, filled-up ones among them: sixteen for each thread of"""

WARPS = 4

CHAINS = 4
"""How many chains a program serves at most: each has a sum in every place."""

PROGRAMS = 2112
"""16 for each processor of the largest GPUs."""


@partial(jax.tree_util.register_dataclass, data_fields=["records"], meta_fields=["rows"])
@dataclass(frozen=True)
class Blocks:
    """Records whose contributions are computed row by row."""

    rows: RowByRow
    records: Any


def find_blocks(
    facts: Facts, contribution: Contribution, queries: Sequence[Any], records: Any, bound: int
) -> Blocks | None:
    """Return the records with the form of their contributions if one kernel can add them up, else None."""
    leaves = jax.tree.leaves(records)
    suits = HAS_PALLAS and sum(prod(query.shape) for query in queries) <= MOST_COORDINATES
    suits = suits and LEAST_BOUND <= bound <= MOST_BOUND and all(leaf.dtype in LEAF_TYPES for leaf in leaves)
    suits = suits and all(prod(leaf.shape) <= MOST_ENTRIES for leaf in leaves)
    rows = row_by_row(contribution, queries, facts.record) if suits else None
    return None if rows is None else Blocks(rows, records)


@dataclass(frozen=True)
class _Plan:
    """How the sums are divided: programs walk over blocks of rows, each for a group of chains."""

    chains: int
    groups: int
    rows: int
    places: int
    programs: int
    blocks: int

    @staticmethod
    def of(num_chains: int, length: int, num_rows: int, bound: int) -> "_Plan":
        groups = -(-num_chains // CHAINS)
        places = power_of_two(length)
        rows = max(PLACES // places, 1)
        blocks = -(-num_rows // rows)
        most_steps = (2**31 - 1) // bound
        programs = max(min(-(-PROGRAMS // groups), blocks), -(-blocks // most_steps))
        return _Plan(-(-num_chains // groups), groups, rows, places, programs, blocks)


def sum_blocks(records: Blocks, lattices: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of quantised contributions for each chain, shape (chains, coordinates).

    `lattices` have one granularity a chain.
    """
    rows, num_chains = records.rows, queries[0].shape[0]
    leaves = jax.tree.leaves(records.records)
    num_rows = leaves[0].shape[0]
    plan = _Plan.of(num_chains, rows.length, num_rows, lattices.bound)
    public = jax.vmap(lambda *queries: rows.public(queries))(*queries)
    per_step = 1 / jnp.asarray(lattices.granularity, jnp.float32)
    fill = (0, plan.groups * plan.chains - num_chains)
    public = jnp.pad(public, [fill, (0, 0), (0, plan.places - rows.length)])
    read = [leaves[leaf].reshape(num_rows, -1) for leaf in rows.leaves]
    operands = [jnp.pad(per_step, [fill]), public, *(leaf if leaf.shape[1] > 1 else leaf[:, 0] for leaf in read)]
    shape = (plan.programs, 2, plan.groups * plan.chains, plan.places)
    sums = pallas.pallas_call(
        partial(_kernel, plan, rows, lattices.bound, num_rows),
        grid=(plan.groups, plan.programs),  # the groups that read the same rows run at the same time
        out_shape=jax.ShapeDtypeStruct(shape, jnp.int32),
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=jax.default_backend() != "gpu",
    )(*operands)
    high, low = (sum_words(sums[:, half, :num_chains, : rows.length]) for half in range(2))
    return add(shift_left(high, 16), low)


def _kernel(plan: _Plan, rows: RowByRow, bound: int, num_rows: int, *refs: Any) -> None:
    """Walk over every `programs`-th block of rows; public rows and sums stay in registers until the end."""
    per_step, public, *leaves, sums = refs
    group, program = pallas.program_id(0), pallas.program_id(1)
    chains = [group * plan.chains + chain for chain in range(plan.chains)]
    everywhere, size = pallas.ds(0, plan.places), (plan.rows, plan.places)
    of_chains = [[public[chain, place, everywhere][None] for place in range(public.shape[1])] for chain in chains]
    inside = jnp.broadcast_to((jnp.arange(plan.places) < rows.length)[None], size)

    def block(step: Any, totals: Any) -> Any:
        first = (program + step * plan.programs) * plan.rows
        own = pallas.ds(first, plan.rows)
        is_record = first + jnp.arange(plan.rows) < num_rows
        there = is_record[:, None]

        def numbers(leaf: Any) -> jax.Array:
            if leaf.ndim == 1:
                return triton.load(leaf.at[own], mask=is_record, other=0)[:, None]
            return triton.load(leaf.at[own, everywhere], mask=inside & there, other=0)

        values, found = [numbers(leaf) for leaf in leaves], []
        for chain, known in zip(chains, of_chains, strict=True):
            own_rows = jnp.broadcast_to(rows.contributions(values, known, inside), size)
            square = jnp.sum(own_rows * own_rows, axis=1)
            shorten = reciprocal_root(square, reachable(bound, rows.length))
            scale, counts = held(square, per_step[chain], shorten)
            found.append(jnp.where((counts & is_record)[:, None], nearest(own_rows * scale[:, None]), 0))
        return tuple(total + more for total, more in zip(totals, found, strict=True))

    start = tuple(jnp.zeros(size, jnp.int32) for _ in chains)
    num_steps = (plan.blocks - program + plan.programs - 1) // plan.programs
    totals = lax.fori_loop(0, num_steps, block, start)
    for chain, total in zip(chains, totals, strict=True):
        sums[program, 0, chain, everywhere] = jnp.sum(total >> 16, axis=0)
        sums[program, 1, chain, everywhere] = jnp.sum(total & 0xFFFF, axis=0)
