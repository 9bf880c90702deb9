"""Records with their rows made ready: what a run makes once, before its first release, of records that have a form.

A row is what the residuals of one group multiply (`form`). For private sums it is rounded to integers and passes the
gate, one group of tiles after the other, into a buffer that nothing writes to again; predictors and products read that
buffer alone. For exact sums it stays as it is, over a power of two.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.enclave.accelerate.linear.form import Factors, factorise
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.core.gate import SCOPE, Ball, Chunk, hold, seal
from dpmcmc.enclave.core.mechanism import Contribution
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots, tile_rows


@partial(jax.tree_util.register_dataclass, data_fields=["slots", "tiles", "units"], meta_fields=["factors"])
@dataclass(frozen=True)
class Rows:
    """Records with their rows, in tiles."""

    factors: Factors
    slots: Slots
    tiles: tuple[jax.Array, ...]
    """For each group of residuals its rows, over their units, shape (tiles, entries, rows in a tile): integers, int16,
    the norm of each at most ROW_BOUND and zero where no record is, or floats."""
    units: jax.Array
    """What one step of a row is worth, shape (groups, slots)."""

    @property
    def length(self) -> int:
        """The number of slots on this device."""
        return self.slots.length

    @property
    def is_spread(self) -> bool:
        """Whether other devices hold other slots."""
        return self.slots.is_spread


@dataclass(frozen=True)
class Group:
    """Residuals that multiply the same features."""

    residuals: tuple[int, ...]
    features: tuple[int, ...]
    """The features of the row, -1 for the number one; a feature of two coordinates stands here twice."""
    coordinates: tuple[tuple[int, ...], ...]
    """Which coordinate it is that each residual (outer) gives with each feature (inner)."""


def find_rows(facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> Factors | None:
    """Return the form of a contribution if it is residual * row, from the shapes of the queries of one chain."""
    return factorise(contribution, queries, facts.record)


def gated_rows(factors: Factors, slots: Slots) -> Rows:
    """Return the records with their rows in integers that passed the gate, a few tiles at a time."""
    groups, tile = groups_of(factors), tile_rows()
    widths = [len(group.features) for group in groups]
    at_once = min(rows_at_once(max(widths)) // tile, slots.length // tile) * tile
    tiles_at_once = at_once // tile

    def of_rows(rows: Any) -> tuple[list[jax.Array], jax.Array]:
        made = [quantise.rows(own) for own in _features(factors, groups, rows)]
        return [steps for steps, _ in made], jnp.stack([unit for _, unit in made])

    def turn(carry: Any) -> Any:
        number, sealed, tiles, units = carry
        start = jnp.minimum(number * np.int32(at_once), np.int32(slots.length - at_once))
        integers, own_units = seal(
            slots.once, lambda turn: of_rows(Chunk(start + turn, at_once).of(slots.rows)), sealed
        )
        counts = Chunk(start, at_once).of(slots.occupied)[:, None]
        filled = []
        for buffer, steps, width in zip(tiles, integers, widths, strict=True):
            held = hold(Ball(ROW_BOUND, width), steps, counts)
            with jax.named_scope(SCOPE):
                tiled = jnp.swapaxes(held.astype(jnp.int16).reshape(tiles_at_once, tile, width), 1, 2)
                filled.append(lax.dynamic_update_slice_in_dim(buffer, tiled, start // np.int32(tile), 0))
        units = lax.dynamic_update_slice_in_dim(units, own_units, start, 1)
        return number + 1, (integers, own_units), filled, units

    before = ([jnp.zeros((at_once, width), jnp.int32) for width in widths], jnp.zeros((len(groups), at_once)))
    tiles = [jnp.zeros((slots.length // tile, width, tile), jnp.int16) for width in widths]
    start = (jnp.int32(0), before, tiles, jnp.zeros((len(groups), slots.length)))
    turns = slots.once * np.int32(-(-slots.length // at_once))
    _, _, tiles, units = lax.while_loop(lambda carry: carry[0] < turns, turn, start)
    return Rows(factors, slots, tuple(tiles), units)


def scale_rows(factors: Factors, slots: Slots) -> Rows:
    """Return the records with their rows in floating point, each over a power of two: for exact sums, no gate.

    A residual times that power is not finite where the contribution is not, and the row itself is below two.
    """
    tile = tile_rows()

    def scaled(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        largest = jnp.max(jnp.where(jnp.isfinite(rows), jnp.abs(rows), jnp.inf), axis=1, keepdims=True)
        power = lax.bitcast_convert_type(lax.bitcast_convert_type(largest, jnp.int32) & (0xFF << 23), jnp.float32)
        usable = jnp.isfinite(power) & (power > 0)
        unit = jnp.where(jnp.isfinite(power), power, jnp.nan)[:, 0]
        steps = jnp.where(usable, rows, 0) / jnp.where(usable, power, 1)
        return jnp.swapaxes(steps.reshape(-1, tile, rows.shape[1]), 1, 2), jnp.where(slots.occupied, unit, 0)

    made = [scaled(own) for own in _features(factors, groups_of(factors), slots.rows)]
    return Rows(factors, slots, tuple(tiles for tiles, _ in made), jnp.stack([unit for _, unit in made]))


def _features(factors: Factors, groups: Sequence[Group], rows: Any) -> list[jax.Array]:
    """Return the rows of each group, shape (records, entries)."""
    features = jax.vmap(factors.features)(rows)
    extended = jnp.concatenate([features, jnp.ones((features.shape[0], 1), features.dtype)], axis=1)
    wanted = [np.array(group.features) for group in groups]
    everything = np.arange(features.shape[1])
    return [features if np.array_equal(own, everything) else extended[:, own] for own in wanted]


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


def rows_at_once(width: int) -> int:
    """Return how many rows the caches like at a time; fewer than 2^17, on which the exact sums of `sums` rest."""
    on_gpu = jax.default_backend() == "gpu"
    least, most, entries = (tile_rows(), 2**16, 2**24) if on_gpu else (tile_rows(), 2**16, 2**18)
    return max(min(entries // width, most), least)
