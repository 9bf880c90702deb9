"""The exact sum of clipped gradients of the form residual * row, as one product of integer matrices.

`factors` finds the form in the audited jaxpr. Then nobody has to write a record's gradient down: its norm is that of
the residuals times that of the row, and the sum over the records is a matrix product, one for all chains. Both factors
are integers: the row, rounded once when the run starts to a multiple of its own norm over 2^15, and the residuals,
which are clipped and rounded on the lattice. linear_predictor.md proves that the sensitivity holds exactly.

The integer rows are all that is read of them: linear predictors are computed from the same integers. The walk has
tiles of one shape, which does not depend on the chunk size: a residual's bits come from the same compiled operations
wherever its record stands. Sums are exact, so nothing else could depend on the order. On a GPU `row_kernel` does the
whole walk where it can.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax

from dpmcmc.enclave.clip import largest_entry
from dpmcmc.enclave.factors import Factors, SingleNumbers, factorise
from dpmcmc.enclave.lattice import Lattice, Wide, add, quantise_scalar, quantise_vector, zero
from dpmcmc.enclave.mechanisms.base import Contribution, Facts
from dpmcmc.enclave.row_kernel import HAS_PALLAS, LEAF_TYPES, MOST_ENTRIES, ROWS_AT_ONCE, Problem, sum_tiles

ROW_BOUND = 127 * 256
"""The largest norm of a row in integers, and so of an entry: two signed bytes, neither of them -128."""

FINEST_SCALE = 2.0**36
"""Lattices are refined up to this scale of the noise, if the bound allows: then rounding moves a sum of n records by at
most n / 2^21 standard deviations."""

LARGEST_SCALE = 2.0**44
"""The largest scale of the noise that can be drawn; used where the bound would be smaller than"""

LEAST_BOUND, MOST_BOUND = 2**5, 2**18
"""the least number of steps that a residual may have on either side of zero; and the largest one."""

MOST_RECORDS = 2**29
"""So many contributions of at most MOST_BOUND * ROW_BOUND add up to less than 2^62."""

_FEW_RESIDUALS = 4


def rows_in_tile(width: int, num_records: int, fused: bool) -> int:
    """Return how many rows a tile has: as many as the caches like, and cut so that the last tile is nearly full."""
    if fused:
        return ROWS_AT_ONCE
    most, entries = (2**17, 2**26) if on_gpu() else (2**15, 2**19)
    most = max(min(entries // width, most), 4096)
    num_tiles = -(-num_records // most)
    return -(-num_records // (num_tiles * 128)) * 128


@partial(jax.tree_util.register_dataclass, data_fields=["records", "tiles", "units"], meta_fields=["factors"])
@dataclass(frozen=True)
class Rows:
    """Records with their rows in integers: what a run makes once, before its first release."""

    factors: Factors
    records: Any
    tiles: tuple[jax.Array, ...]
    """For each group of residuals its rows, int16, the norm of each at most ROW_BOUND, shape (tiles, entries, rows in a
    tile); what lies beyond the last record, in the last tile, counts for nothing."""
    units: jax.Array
    """What one step of a row is worth, shape (groups, all rows); zero for a row that is not finite or not there."""


@dataclass(frozen=True)
class Group:
    """Residuals that multiply the same features."""

    residuals: tuple[int, ...]
    features: tuple[int, ...]
    """The features of the row, -1 for the number one; a feature of two coordinates stands here twice."""
    coordinates: tuple[tuple[int, ...], ...]
    """Which coordinate it is that each residual (outer) gives with each feature (inner)."""


def find_rows(facts: Facts, contribution: Contribution, queries: Sequence[Any], records: Any) -> Rows | None:
    """Return the records with their rows in integers if the contribution is residual * row, else None.

    `queries` are those of one chain; their shapes alone are used.
    """
    factors = factorise(contribution, queries, facts.record)
    return None if factors is None or _num_rows(records) > MOST_RECORDS else make_rows(factors, records)


def make_rows(factors: Factors, records: Any) -> Rows:
    """Return the records with their rows in integers, a few tiles at a time: no copy of all rows in floats exists."""
    groups, num_rows = groups_of(factors), _num_rows(records)
    fused, width = on_gpu() and suits_kernel(factors, records), max(len(group.features) for group in groups)
    in_tile = rows_in_tile(width, num_rows, fused)
    at_once = max(rows_in_tile(width, num_rows, fused=False) // in_tile, 1) * in_tile

    def tiles_of(rows: Any) -> tuple[list[jax.Array], jax.Array]:
        features = jax.vmap(factors.features)(rows)
        extended = jnp.concatenate([features, jnp.ones((_num_rows(rows), 1), features.dtype)], axis=1)
        tiles, units = [], []
        for group in groups:
            wanted = np.array(group.features)
            own = features if np.array_equal(wanted, np.arange(features.shape[1])) else extended[:, wanted]
            steps, unit = quantise_rows(own)
            tiles.append(jnp.swapaxes(steps.reshape(-1, in_tile, len(wanted)), 1, 2))
            units.append(unit)
        return tiles, jnp.stack(units)

    whole = num_rows // at_once * at_once
    parts = []
    if whole:
        made = lax.map(lambda start: tiles_of(_rows(records, start, at_once)), jnp.arange(0, whole, at_once))
        parts = [([tiles.reshape(-1, *tiles.shape[2:]) for tiles in made[0]], jnp.moveaxis(made[1], 1, 0))]
    if whole < num_rows:
        padded = -(-(num_rows - whole) // in_tile) * in_tile
        tiles, unit = tiles_of(_rest(records, whole, padded))
        parts.append((tiles, jnp.where(jnp.arange(padded) < num_rows - whole, unit, 0)))
    tiles = [jnp.concatenate(own) for own in zip(*(tiles for tiles, _ in parts), strict=True)]
    units = jnp.concatenate([unit.reshape(len(groups), -1) for _, unit in parts], axis=1)
    return Rows(factors, records, tuple(tiles), units)


def quantise_rows(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return integers near each row over its unit, int16, of norm <= ROW_BOUND, and the units.

    The norm comes from 20-bit integers, whose squares add up exactly in float64: its bits depend on the row alone.
    The bound is verified on the integers that are returned. A row that is not finite becomes zero.
    """
    num_entries = rows.shape[1]
    largest = largest_entry(rows, 1)
    finite = jnp.isfinite(largest) & (largest > 0)
    target = ROW_BOUND - 1 - num_entries**0.5 / 2
    # the power of two that takes the largest entry to [2^19, 2^20), in two factors that float32 holds
    power = 146 - (lax.bitcast_convert_type(jnp.where(finite, largest, 1), jnp.int32) >> 23)
    powers = [lax.bitcast_convert_type((127 + part) << 23, jnp.float32) for part in (power >> 1, power - (power >> 1))]
    with enable_x64(True):
        exact = jnp.where(finite, rows, 0).astype(jnp.float64)
        shift = powers[0].astype(jnp.float64) * powers[1].astype(jnp.float64)
        fine = jnp.rint(exact * shift)
        norm = jnp.sqrt(jnp.sum(fine * fine, axis=1, keepdims=True)) / shift
        steps = jnp.rint(exact * jnp.where(finite, target / norm, 0))
        steps = jnp.clip(steps, -ROW_BOUND, ROW_BOUND)
        held = jnp.sum(steps * steps, axis=1, keepdims=True) <= float(ROW_BOUND) ** 2
        unit = jnp.where(finite & held, norm / target, 0).astype(jnp.float32)
        steps = jnp.where(held, steps, 0).astype(jnp.int16)
    return steps, unit[:, 0]


def groups_of(factors: Factors) -> tuple[Group, ...]:
    """Return the residuals, those with the same features together."""
    own: dict[int, list[tuple[int, int]]] = {}
    for coordinate, (residual, feature) in enumerate(zip(factors.residual_of, factors.feature_of, strict=True)):
        if residual >= 0:
            own.setdefault(residual, []).append((feature, coordinate))
    together: dict[tuple[int, ...], list[int]] = {}
    for residual, pairs in own.items():
        together.setdefault(tuple(feature for feature, _ in sorted(pairs)), []).append(residual)
    return tuple(
        Group(
            tuple(residuals),
            features,
            tuple(tuple(coordinate for _, coordinate in sorted(own[residual])) for residual in residuals),
        )
        for features, residuals in together.items()
    )


def finer(lattice: Lattice) -> tuple[Lattice, int] | None:
    """Return the lattice of the residuals, and the power of two by which it is finer than the given one.

    Bound and scale of the sum grow by the same factor, so that their quotient, which decides the privacy, stays. With
    residuals of norm <= bound and rows of norm <= ROW_BOUND a contribution is within the bound of the sum. None where
    the noise is so large that a lattice that can hold it has no room for two factors.
    """
    refined = 1
    while refined * lattice.bound < MOST_BOUND * ROW_BOUND // 2 and 2 * refined * lattice.scale <= FINEST_SCALE:
        refined *= 2
    while refined * lattice.bound < LEAST_BOUND * ROW_BOUND and 2 * refined * lattice.scale <= LARGEST_SCALE:
        refined *= 2
    bound = min(refined * lattice.bound // ROW_BOUND, MOST_BOUND)
    return None if bound < LEAST_BOUND else (Lattice(lattice.granularity / refined, bound), refined)


def sum_rows(rows: Rows, lattice: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of residual * row for each chain, shape (chains, coordinates), in steps of the fine lattice.

    `lattice` is the one of the residuals, from `finer`.
    """
    groups, num_chains = groups_of(rows.factors), queries[0].shape[0]
    fused = on_gpu() and suits_kernel(rows.factors, rows.records)
    totals = [_fused_sum(rows, lattice, queries)] if fused else _sums(rows, lattice, queries)
    coordinates = np.concatenate([np.ravel(group.coordinates) for group in groups])

    def assemble(*words: jax.Array) -> jax.Array:
        flat = jnp.concatenate([word.reshape(num_chains, -1) for word in words], axis=1)
        if np.array_equal(coordinates, np.arange(len(rows.factors.residual_of))):
            return flat
        return jnp.zeros((num_chains, len(rows.factors.residual_of)), flat.dtype).at[:, coordinates].set(flat)

    return jax.tree.map(assemble, *totals)


def _homes(factors: Factors) -> list[int] | None:
    """Return for each predictor a group that has all its features; None if one has no such group.

    Then residuals are computed from the records and not from rows.
    """
    groups = [set(group.features) for group in groups_of(factors)]
    homes = [
        next((i for i, group in enumerate(groups) if group.issuperset(predictor.features)), None)
        for predictor in factors.predictors
    ]
    return None if None in homes else cast(list[int], homes)


def _coefficients(factors: Factors, queries: Sequence[jax.Array]) -> list[tuple[int, jax.Array]]:
    """Return for each predictor its group and its coefficients, shape (chains, numbers, entries of the group)."""
    found = []
    for predictor, home in zip(factors.predictors, _homes(factors) or (), strict=False):
        features = groups_of(factors)[home].features
        places = np.array([features.index(feature) for feature in predictor.features])
        own = jax.vmap(lambda *queries, predictor=predictor: predictor.coefficients(queries))(*queries)
        found.append((home, jnp.zeros((*own.shape[:2], len(features)), jnp.float32).at[:, :, places].add(own)))
    return found


def _sums(rows: Rows, lattice: Lattice, queries: Sequence[jax.Array]) -> list[Wide]:
    """Return the sums for each group, shape (chains * residuals, entries): a loop over tiles."""
    groups, num_chains, in_tile = groups_of(rows.factors), queries[0].shape[0], rows.tiles[0].shape[2]
    coefficients = _coefficients(rows.factors, queries)
    order = np.concatenate([group.residuals for group in groups])
    group_of = np.concatenate([[number] * len(group.residuals) for number, group in enumerate(groups)])
    in_order = np.array_equal(order, np.arange(len(order)))
    ends = np.cumsum([0, *(len(group.residuals) for group in groups)])

    def of_record(queries: Sequence[jax.Array], record: Any, predictions: Sequence[jax.Array]) -> jax.Array:
        residuals = rows.factors.residuals(queries, record, predictions)
        return residuals if in_order else residuals[order]

    of_tile = jax.vmap(jax.vmap(of_record, in_axes=(None, 0, -1), out_axes=1), in_axes=(0, None, 0))

    def add_tile(totals: list[Wide], number: Any, records: Any) -> list[Wide]:
        tiles = [lax.dynamic_index_in_dim(tiles, number, keepdims=False) for tiles in rows.tiles]
        units = lax.dynamic_slice_in_dim(rows.units, number * in_tile, in_tile, axis=1)
        predictions = [
            _predict(own, tiles[group], units[group]).reshape(num_chains, *predictor.shape, in_tile)
            for (group, own), predictor in zip(coefficients, rows.factors.predictors, strict=False)
        ]
        worth = of_tile(list(queries), records, predictions) * units[group_of]
        steps = quantise_scalar(worth, lattice) if len(order) == 1 else quantise_vector(worth, lattice, axis=1)
        sums = [
            _product(steps[:, a:b].reshape(-1, in_tile), tile)
            for (a, b), tile in zip(pairwise(ends), tiles, strict=True)
        ]
        return [add(total, more) for total, more in zip(totals, sums, strict=True)]

    def add_whole_tile(number: Any, totals: list[Wide]) -> list[Wide]:
        return add_tile(totals, number, _rows(rows.records, number * in_tile, in_tile))

    totals = [zero((num_chains * len(group.residuals), len(group.features))) for group in groups]
    whole = _num_rows(rows.records) // in_tile
    if whole:
        totals = lax.fori_loop(0, whole, add_whole_tile, totals)
    if whole * in_tile < _num_rows(rows.records):
        totals = add_tile(totals, whole, _rest(rows.records, whole * in_tile, in_tile))
    return totals


def _predict(coefficients: jax.Array, tile: jax.Array, units: jax.Array) -> jax.Array:
    """Return the linear predictors of a tile of rows, shape (chains * numbers, rows)."""
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    return jnp.matmul(flat, tile.astype(jnp.float32), precision=lax.Precision.HIGHEST) * units


def _product(steps: jax.Array, tile: jax.Array) -> Wide:
    """Return the exact sums over the records of a tile, shape (residuals, entries).

    Every partial sum is an integer of at most MOST_BOUND * ROW_BOUND * 2^17 < 2^50, so float64 is exact in any order.
    """
    with enable_x64(True):
        steps, tile = steps.astype(jnp.float64), tile.astype(jnp.float64)
        if on_gpu() and len(steps) < _FEW_RESIDUALS:  # a sum that is fused with the conversion reads the integers alone
            total = jnp.sum(steps[:, None] * tile[None], axis=2)
        else:
            total = jnp.matmul(tile, steps.T, precision=lax.Precision.HIGHEST).T
        high = jnp.floor(total * 2.0**-32)
        return Wide(high.astype(jnp.int32), (total - high * 2.0**32).astype(jnp.uint32))


def suits_kernel(factors: Factors, records: Any) -> bool:
    """Say whether one kernel can make the sums: one residual, of single numbers, and rows that fit into registers."""
    numbers, leaves = factors.single_numbers, jax.tree.leaves(records)
    return (
        HAS_PALLAS
        and numbers is not None
        and bool(factors.predictors)
        and bool(_homes(factors))
        and factors.num_features < MOST_ENTRIES
        and all(predictor.shape == () for predictor in factors.predictors)
        and all(leaves[leaf].dtype in LEAF_TYPES for leaf in numbers.leaves)
    )


def _fused_sum(rows: Rows, lattice: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return what `_sums` does for the only group, from one kernel."""
    numbers = cast(SingleNumbers, rows.factors.single_numbers)
    public = jax.vmap(lambda *queries: numbers.public(queries))(*queries)
    none = jnp.zeros((0, queries[0].shape[0]), jnp.float32)
    problem = Problem(
        numbers,
        jnp.stack([own[:, 0] for _, own in _coefficients(rows.factors, queries)]),
        jnp.stack([number.astype(jnp.float32) for number in public]) if public else none,
        1 / jnp.asarray(lattice.granularity, jnp.float32),
        lattice.bound,
    )
    leaves = jax.tree.leaves(rows.records)
    return sum_tiles(problem, rows.tiles[0], rows.units[0], [leaves[leaf].reshape(-1) for leaf in numbers.leaves])


def on_gpu() -> bool:
    """Say whether programs are compiled for a GPU: loops are cut larger there."""
    return jax.default_backend() == "gpu"


def _num_rows(records: Any) -> int:
    return jax.tree.leaves(records)[0].shape[0]


def _rows(records: Any, start: Any, count: int) -> Any:
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, count), records)


def _rest(records: Any, start: int, count: int) -> Any:
    """Return the last records, filled up to `count` with zeros."""

    def filled(leaf: jax.Array) -> jax.Array:
        return jnp.pad(leaf[start:], [(0, start + count - leaf.shape[0]), *[(0, 0)] * (leaf.ndim - 1)])

    return jax.tree.map(filled, records)
