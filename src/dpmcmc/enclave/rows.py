"""Records with their rows made ready: what a run makes once, before its first release, of records that have a form.

A row is what the residuals of one group multiply (`factors`). For private sums it is rounded to integers, for exact
ones it stays as it is, over a power of two.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax

from dpmcmc.enclave.clip import largest_entry
from dpmcmc.enclave.factors import Factors
from dpmcmc.enclave.row_kernel import HAS_PALLAS, LEAF_TYPES, MOST_ENTRIES, ROWS_AT_ONCE

ROW_BOUND = 127 * 256
"""The largest norm of a row in integers, and so of an entry: two signed bytes, neither of them -128."""

ROWS_IN_TILE = 512
"""On a CPU. A constant, whatever the number of records: see `linear_predictor._predict`."""


@partial(jax.tree_util.register_dataclass, data_fields=["records", "tiles", "units"], meta_fields=["factors", "fused"])
@dataclass(frozen=True)
class Rows:
    """Records with their rows, in tiles."""

    factors: Factors
    records: Any
    tiles: tuple[jax.Array, ...]
    """For each group of residuals its rows, over their units, shape (tiles, entries, rows in a tile): integers, int16,
    the norm of each at most ROW_BOUND, or floats. What lies beyond the last record counts for nothing."""
    units: jax.Array
    """What one step of a row is worth, shape (groups, all rows); zero for a row that is not there."""
    fused: bool
    """Whether the tiles are those of `row_kernel`."""


@dataclass(frozen=True)
class Group:
    """Residuals that multiply the same features."""

    residuals: tuple[int, ...]
    features: tuple[int, ...]
    """The features of the row, -1 for the number one; a feature of two coordinates stands here twice."""
    coordinates: tuple[tuple[int, ...], ...]
    """Which coordinate it is that each residual (outer) gives with each feature (inner)."""


Ready: TypeAlias = Callable[[jax.Array], tuple[jax.Array, jax.Array]]
"""Makes rows, shape (records, entries), ready: returns them over their units, and the units."""


def make_rows(factors: Factors, records: Any, ready: Ready | None = None) -> Rows:
    """Return the records with their rows, in integers if nothing else is said, a few tiles at a time.

    No copy of all rows in floats exists, where they become integers.
    """
    groups, num_rows = groups_of(factors), count_rows(records)
    fused = ready is None and on_gpu() and suits_kernel(factors, records)
    ready, width = ready or quantise_rows, max(len(group.features) for group in groups)
    in_tile = rows_in_tile(width, num_rows, fused)
    at_once = max(1, _rows_at_once(width) // in_tile) * in_tile

    def tiles_of(rows: Any) -> tuple[list[jax.Array], jax.Array]:
        features = jax.vmap(factors.features)(rows)
        extended = jnp.concatenate([features, jnp.ones((count_rows(rows), 1), features.dtype)], axis=1)
        tiles, units = [], []
        for group in groups:
            wanted = np.array(group.features)
            own = features if np.array_equal(wanted, np.arange(features.shape[1])) else extended[:, wanted]
            steps, unit = ready(own)
            tiles.append(jnp.swapaxes(steps.reshape(-1, in_tile, len(wanted)), 1, 2))
            units.append(unit)
        return tiles, jnp.stack(units)

    whole = num_rows // at_once * at_once
    parts = []
    if whole:
        made = lax.map(lambda start: tiles_of(slice_rows(records, start, at_once)), jnp.arange(0, whole, at_once))
        parts = [([tiles.reshape(-1, *tiles.shape[2:]) for tiles in made[0]], jnp.moveaxis(made[1], 1, 0))]
    if whole < num_rows:
        padded = -(-(num_rows - whole) // in_tile) * in_tile
        tiles, unit = tiles_of(last_rows(records, whole, padded))
        parts.append((tiles, jnp.where(jnp.arange(padded) < num_rows - whole, unit, 0)))
    tiles = [jnp.concatenate(own) for own in zip(*(tiles for tiles, _ in parts), strict=True)]
    units = jnp.concatenate([unit.reshape(len(groups), -1) for _, unit in parts], axis=1)
    return Rows(factors, records, tuple(tiles), units, fused)


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
        norm = jnp.sqrt(_sum_of_squares(fine)) / shift
        steps = jnp.rint(exact * jnp.where(finite, target / norm, 0))
        steps = jnp.clip(steps, -ROW_BOUND, ROW_BOUND)
        held = _sum_of_squares(steps) <= float(ROW_BOUND) ** 2
        unit = jnp.where(finite & held, norm / target, 0).astype(jnp.float32)
        steps = jnp.where(held, steps, 0).astype(jnp.int16)
    return steps, unit[:, 0]


def scale_rows(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return each row over the power of two below its largest entry, and the powers; not a number if it is not finite.

    A residual times that power is not finite where the contribution is not, and the row itself is below two.
    """
    largest = largest_entry(rows, 1)
    power = lax.bitcast_convert_type(lax.bitcast_convert_type(largest, jnp.int32) & (0xFF << 23), jnp.float32)
    usable = jnp.isfinite(power) & (power > 0)
    scaled = jnp.where(usable, rows, 0) / jnp.where(usable, power, 1)
    return scaled, jnp.where(jnp.isfinite(power), power, jnp.nan)[:, 0]


def _sum_of_squares(integers: jax.Array) -> jax.Array:
    """Return the sum of squares of each row; exact in any order, as long as it is below 2^53."""
    if on_gpu():
        return jnp.sum(integers * integers, axis=1, keepdims=True)
    # a product with ones: compilers for CPUs sum slowly in the layout that the rows have here, and multiply fast
    ones = jnp.ones((integers.shape[1], 1), integers.dtype)
    return jnp.matmul(integers * integers, ones, precision=lax.Precision.HIGHEST)


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


def homes_of(factors: Factors) -> list[int] | None:
    """Return for each predictor a group that has all its features; None if one has no such group.

    Then residuals are computed from the records and not from rows.
    """
    groups = [set(group.features) for group in groups_of(factors)]
    homes = [
        next((i for i, group in enumerate(groups) if group.issuperset(predictor.features)), None)
        for predictor in factors.predictors
    ]
    return None if None in homes else cast(list[int], homes)


def suits_kernel(factors: Factors, records: Any) -> bool:
    """Say whether one kernel can make the sums: one residual, of single numbers, and rows that fit into registers."""
    numbers, leaves = factors.single_numbers, jax.tree.leaves(records)
    return (
        HAS_PALLAS
        and numbers is not None
        and bool(factors.predictors)
        and bool(homes_of(factors))
        and factors.num_features < MOST_ENTRIES
        and all(predictor.shape == () for predictor in factors.predictors)
        and all(leaves[leaf].dtype in LEAF_TYPES for leaf in numbers.leaves)
    )


def rows_in_tile(width: int, num_records: int, fused: bool) -> int:
    """Return how many rows a tile has: few on a CPU, and on a GPU so many that the last tile is nearly full."""
    if fused:
        return ROWS_AT_ONCE
    if not on_gpu():
        return ROWS_IN_TILE
    num_tiles = -(-num_records // _rows_at_once(width))
    return -(-num_records // (num_tiles * 128)) * 128


def tiles_at_once(width: int, in_tile: int, num_tiles: int) -> int:
    """Return how many tiles a sum reads at a time: all, if there are few, and then XLA converts them once a run.

    They have fewer than 2^17 rows on a CPU, and at most as many on a GPU: `linear_predictor`'s exact sums rest on it.
    """
    num_rows = num_tiles * in_tile
    if not on_gpu() and num_rows < 2**17 and num_rows * width <= 2**21:
        return num_tiles
    return max(1, _rows_at_once(width) // in_tile)


def _rows_at_once(width: int) -> int:
    """Return how many rows the caches like at a time."""
    least, most, entries = (2**12, 2**17, 2**26) if on_gpu() else (ROWS_IN_TILE, 2**16, 2**18)
    return max(min(entries // width, most), least)


def on_gpu() -> bool:
    """Say whether programs are compiled for a GPU: loops are cut larger there."""
    return jax.default_backend() == "gpu"


def count_rows(records: Any) -> int:
    """Return how many records there are."""
    return jax.tree.leaves(records)[0].shape[0]


def slice_rows(records: Any, start: Any, count: int) -> Any:
    """Return consecutive records."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, count), records)


def last_rows(records: Any, start: int, count: int) -> Any:
    """Return the last records, filled up to `count` with zeros."""

    def filled(leaf: jax.Array) -> jax.Array:
        return jnp.pad(leaf[start:], [(0, start + count - leaf.shape[0]), *[(0, 0)] * (leaf.ndim - 1)])

    return jax.tree.map(filled, records)
