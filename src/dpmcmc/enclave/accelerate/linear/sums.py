"""The exact sum of clipped gradients of the form residual * row, as one product of integer matrices.

`form` finds the form in the audited jaxpr. Then nobody has to write a record's gradient down: its norm is that of the
residuals times that of the row, and the sum over the records is a matrix product, one for all chains. Both factors are
integers that passed the gate: the row, once when the run starts, as a multiple of its own norm over 2^15, and the
residuals at every release. sums.md proves that the sensitivity holds exactly.

The integer rows are all that is read of them: linear predictors are computed from the same integers, tile by tile. All
tiles have one shape, and one compiled loop reads them, a few at a time, so that each operation is worth sharing between
cores.

Without privacy the same walk is made in floating point: `sum_scaled_rows`.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.enclave.accelerate.linear.form import Factors
from dpmcmc.enclave.accelerate.linear.products import bytes_for, product_of_bytes
from dpmcmc.enclave.accelerate.linear.rows import Rows, find_rows, gated_rows, groups_of, homes_of, rows_at_once
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, zero
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.core.gate import SCOPE, Ball, Chunk, Interval, hold, seal
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import SumRequest
from dpmcmc.enclave.core.places import Slots, sum_parts

LEAST_BOUND, MOST_BOUND = 2**5, 2**18
"""The least and the largest number of steps that a residual may have on either side of zero."""


@dataclass(frozen=True)
class LinearRows:
    """The path of gradients that are residuals times rows."""

    factors: Factors
    residuals: Lattice
    """The lattice of the residuals: as fine as that of the sum, with a bound that leaves room for rows."""
    name: str = "linear rows"

    def prepare(self, slots: Slots) -> Rows:
        """Return the records with their rows, which passed the gate."""
        return gated_rows(self.factors, slots)

    def sum(self, prepared: Rows, queries: Sequence[jax.Array], num_chains: int) -> Wide:  # noqa: ARG002
        """Return the sum for each chain."""
        return sum_parts(lambda part, _: sum_rows(part, self.residuals, queries), prepared)


def find_linear_rows(facts: Facts, request: SumRequest, lattice: Lattice) -> LinearRows | None:
    """Return the path, if a gradient has the form and the lattice of the sum has room for two factors.

    With residuals of norm <= bound and rows of norm <= ROW_BOUND a contribution is within the bound of the sum.
    """
    bound = min(lattice.bound // ROW_BOUND, MOST_BOUND)
    if request.form != "gradient" or bound < LEAST_BOUND:
        return None
    factors = find_rows(facts, request.contribution, request.queries)
    return None if factors is None else LinearRows(factors, Lattice(lattice.granularity, bound))


class Arithmetic(NamedTuple):
    """How the contributions of some tiles are added up."""

    hold: Callable[[Callable[[jax.Array], jax.Array], jax.Array], jax.Array]
    """What becomes of residuals in units of their rows, shape (tiles, chains, residuals, rows in a tile): from what
    computes them, given zero, and from who counts, shape (tiles, 1, 1, rows in a tile)."""
    product: Callable[[jax.Array, jax.Array], Any]
    """The sum over the records of the tiles, shape (residuals, entries), of residuals times rows."""
    add: Callable[[Any, Any], Any]
    zero: Callable[[tuple[int, ...]], Any]


def sum_rows(rows: Rows, lattice: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of residual * row for each chain, shape (chains, coordinates), in steps of the lattice."""
    num_residuals = sum(len(group.residuals) for group in groups_of(rows.factors))
    single = num_residuals == 1
    gate = Interval(-lattice.bound, lattice.bound) if single else Ball(lattice.bound, num_residuals)
    num_bytes = bytes_for(lattice.bound)

    def held(compute: Callable[[jax.Array], jax.Array], counts: jax.Array) -> jax.Array:
        def to_integers(turn: jax.Array) -> jax.Array:
            worth = compute(turn)
            return quantise.scalar(worth, lattice) if single else quantise.vector(worth, lattice, axis=2)

        shape = jax.eval_shape(to_integers, jax.ShapeDtypeStruct((), jnp.int32)).shape
        integers = seal(rows.slots.once, to_integers, jnp.zeros(shape, jnp.int32))
        with jax.named_scope(SCOPE):
            return jnp.swapaxes(hold(gate, jnp.swapaxes(integers, 2, 3), jnp.swapaxes(counts, 2, 3)), 2, 3)

    def product(steps: jax.Array, tiles: jax.Array) -> Wide:
        with jax.named_scope(SCOPE):
            return product_of_bytes(num_bytes, steps, tiles)

    return _assemble(rows, _sums(rows, queries, Arithmetic(held, product, add, zero)))


def sum_scaled_rows(rows: Rows, queries: Sequence[jax.Array]) -> jax.Array:
    """Return the sum of residual * row in floating point, shape (chains, coordinates); `rows` from `scale_rows`.

    A record whose contribution is not finite counts as zero.
    """

    def finite(compute: Callable[[jax.Array], jax.Array], counts: jax.Array) -> jax.Array:
        worth = compute(jnp.int32(0))
        return jnp.where(jnp.all(jnp.isfinite(worth), axis=2, keepdims=True) & counts, worth, 0)

    def product(worth: jax.Array, tiles: jax.Array) -> jax.Array:
        products = jnp.matmul(tiles, jnp.swapaxes(worth, 1, 2), precision=lax.Precision.HIGHEST)
        return jnp.sum(products, axis=0).T

    return _assemble(rows, _sums(rows, queries, Arithmetic(finite, product, jnp.add, jnp.zeros)))


def _assemble(rows: Rows, totals: Sequence[Any]) -> Any:
    """Return the sums of the groups, shape (chains * residuals, entries), as coordinates of each chain."""
    coordinates = np.concatenate([np.ravel(group.coordinates) for group in groups_of(rows.factors)])
    num_chains = sum(jax.tree.leaves(total)[0].size for total in totals) // len(coordinates)

    def assemble(*words: jax.Array) -> jax.Array:
        flat = jnp.concatenate([word.reshape(num_chains, -1) for word in words], axis=1)
        if np.array_equal(coordinates, np.arange(len(rows.factors.residual_of))):
            return flat
        return jnp.zeros((num_chains, len(rows.factors.residual_of)), flat.dtype).at[:, coordinates].set(flat)

    return jax.tree.map(assemble, *totals)


def _coefficients(factors: Factors, queries: Sequence[jax.Array]) -> list[tuple[int, jax.Array]]:
    """Return for each predictor its group and its coefficients, shape (chains, numbers, entries of the group)."""
    found = []
    for predictor, home in zip(factors.predictors, homes_of(factors) or (), strict=False):
        features = groups_of(factors)[home].features
        places = np.array([features.index(feature) for feature in predictor.features])
        own = jax.vmap(lambda *queries, predictor=predictor: predictor.coefficients(queries))(*queries)
        found.append((home, jnp.zeros((*own.shape[:2], len(features)), jnp.float32).at[:, :, places].add(own)))
    return found


def _sums(rows: Rows, queries: Sequence[jax.Array], arithmetic: Arithmetic) -> list[Any]:
    """Return the sums for each group, shape (chains * residuals, entries): a loop over a few tiles at a time.

    The last tiles of the loop overlap those before, which do not count again.
    """
    groups, num_chains, slots = groups_of(rows.factors), queries[0].shape[0], rows.slots
    num_tiles, _, in_tile = rows.tiles[0].shape
    coefficients = _coefficients(rows.factors, queries)
    order = np.concatenate([group.residuals for group in groups])
    group_of = np.concatenate([[number] * len(group.residuals) for number, group in enumerate(groups)])
    in_order = np.array_equal(order, np.arange(len(order)))
    ends = np.cumsum([0, *(len(group.residuals) for group in groups)])
    width = max(num_chains * len(order), *(tiles.shape[1] for tiles in rows.tiles))
    count = min(rows_at_once(width) // in_tile, num_tiles)

    def of_record(queries: Sequence[jax.Array], record: Any, predictions: Sequence[jax.Array]) -> jax.Array:
        residuals = rows.factors.residuals(queries, record, predictions)
        return residuals if in_order else residuals[order]

    of_tile = jax.vmap(jax.vmap(of_record, in_axes=(None, 0, -1), out_axes=1), in_axes=(0, None, 0))
    of_tiles = jax.vmap(of_tile, in_axes=(None, 0, 0))

    def turn(carry: tuple[jax.Array, list[Any]]) -> tuple[jax.Array, list[Any]]:
        number, totals = carry
        first = number * np.int32(count)
        start = jnp.minimum(first, np.int32(num_tiles - count))

        def worth(turn: jax.Array) -> jax.Array:
            here = start + turn
            tiles = [lax.dynamic_slice_in_dim(tiles, here, count) for tiles in rows.tiles]
            units = lax.dynamic_slice_in_dim(rows.units, here * in_tile, count * in_tile, axis=1)
            units = units.reshape(-1, count, 1, in_tile)
            predictions = [
                (_predict(own, tiles[group]) * units[group]).reshape(count, num_chains, *predictor.shape, in_tile)
                for (group, own), predictor in zip(coefficients, rows.factors.predictors, strict=False)
            ]
            records = Chunk(here * in_tile, count * in_tile).of(slots.rows)
            records = jax.tree.map(lambda leaf: leaf.reshape(count, in_tile, *leaf.shape[1:]), records)
            residuals = of_tiles(list(queries), records, predictions)
            return residuals * jnp.swapaxes(units, 0, 2)[0][:, None, group_of]

        with jax.named_scope(SCOPE):
            counts = Chunk(start * in_tile, count * in_tile).of(slots.occupied).reshape(count, 1, 1, in_tile)
            counts = counts & (start + lax.iota(jnp.int32, count) >= first)[:, None, None, None]
            tiles = [lax.dynamic_slice_in_dim(tiles, start, count) for tiles in rows.tiles]
        held = arithmetic.hold(worth, counts)
        sums = [
            arithmetic.product(held[:, :, a:b].reshape(count, -1, in_tile), tile)
            for (a, b), tile in zip(pairwise(ends), tiles, strict=True)
        ]
        with jax.named_scope(SCOPE):
            return number + 1, [arithmetic.add(total, more) for total, more in zip(totals, sums, strict=True)]

    totals = [arithmetic.zero((num_chains * len(group.residuals), len(group.features))) for group in groups]
    turns = slots.once * np.int32(-(-num_tiles // count))
    return lax.while_loop(lambda carry: carry[0] < turns, turn, (jnp.int32(0), totals))[1]


def _predict(coefficients: jax.Array, tiles: jax.Array) -> jax.Array:
    """Return linear predictors in units of the rows, shape (tiles, chains * numbers, rows in a tile).

    Tile by tile: how a product of matrices rounds depends on their shape, which is the same for all tiles.
    """
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    each = jnp.broadcast_to(flat, (len(tiles), *flat.shape))
    return jnp.matmul(each, tiles.astype(jnp.float32), precision=lax.Precision.HIGHEST)
