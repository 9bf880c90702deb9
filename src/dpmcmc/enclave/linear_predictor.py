"""The exact sum of clipped gradients of the form residual * row, as one product of integer matrices.

`factors` finds the form in the audited jaxpr. Then nobody has to write a record's gradient down: its norm is that of
the residuals times that of the row, and the sum over the records is a matrix product, one for all chains. Both factors
are integers: the row, rounded once when the run starts to a multiple of its own norm over 2^15, and the residuals,
which are clipped and rounded on the lattice. linear_predictor.md proves that the sensitivity holds exactly.

The integer rows are all that is read of them: linear predictors are computed from the same integers, tile by tile. All
tiles have one shape: a residual's bits come from the same compiled operations wherever its record stands, and sums are
exact, so nothing else could depend on the order. On a CPU a sum reads many tiles at a time, so that each operation is
worth sharing between cores. On a GPU `row_kernel` does the whole walk where it can.

Without privacy the same walk is made in floating point: `sum_scaled_rows`.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax

from dpmcmc.enclave.factors import Factors, SingleNumbers, factorise
from dpmcmc.enclave.lattice import Lattice, Wide, add, from_int64, quantise_scalar, quantise_vector, zero
from dpmcmc.enclave.mechanisms.base import Contribution, Facts
from dpmcmc.enclave.row_kernel import Problem, sum_tiles
from dpmcmc.enclave.rows import (
    ROW_BOUND,
    Ready,
    Rows,
    count_rows,
    groups_of,
    homes_of,
    last_rows,
    make_rows,
    on_gpu,
    slice_rows,
    tiles_at_once,
)

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


def find_rows(
    facts: Facts, contribution: Contribution, queries: Sequence[Any], records: Any, ready: Ready | None = None
) -> Rows | None:
    """Return the records with their rows if the contribution is residual * row, else None.

    `queries` are those of one chain; their shapes alone are used. Rows become integers, if nothing else is said.
    """
    factors = factorise(contribution, queries, facts.record)
    return None if factors is None or count_rows(records) > MOST_RECORDS else make_rows(factors, records, ready)


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


class Arithmetic(NamedTuple):
    """How the contributions of some tiles are added up."""

    hold: Callable[[jax.Array], jax.Array]
    """What becomes of residuals in units of their rows, shape (tiles, chains, residuals, rows in a tile)."""
    product: Callable[[jax.Array, jax.Array], Any]
    """The sum over the records of the tiles, shape (residuals, entries), of residuals times rows."""
    add: Callable[[Any, Any], Any]
    zero: Callable[[tuple[int, ...]], Any]


def sum_rows(rows: Rows, lattice: Lattice, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of residual * row for each chain, shape (chains, coordinates), in steps of the fine lattice.

    `lattice` is the one of the residuals, from `finer`.
    """

    def quantise(worth: jax.Array) -> jax.Array:
        return quantise_scalar(worth, lattice) if worth.shape[2] == 1 else quantise_vector(worth, lattice, axis=2)

    if rows.fused:
        return _assemble(rows, [_fused_sum(rows, lattice, queries)])
    return _assemble(rows, _sums(rows, queries, Arithmetic(quantise, _product(lattice), add, zero)))


def sum_scaled_rows(rows: Rows, queries: Sequence[jax.Array]) -> jax.Array:
    """Return the sum of residual * row in floating point, shape (chains, coordinates); `rows` from `scale_rows`.

    A record whose contribution is not finite counts as zero.
    """

    def finite(worth: jax.Array) -> jax.Array:
        return jnp.where(jnp.all(jnp.isfinite(worth), axis=2, keepdims=True), worth, 0)

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
    """Return the sums for each group, shape (chains * residuals, entries): a loop over a few tiles at a time."""
    groups, num_chains, in_tile = groups_of(rows.factors), queries[0].shape[0], rows.tiles[0].shape[2]
    coefficients = _coefficients(rows.factors, queries)
    order = np.concatenate([group.residuals for group in groups])
    group_of = np.concatenate([[number] * len(group.residuals) for number, group in enumerate(groups)])
    in_order = np.array_equal(order, np.arange(len(order)))
    ends = np.cumsum([0, *(len(group.residuals) for group in groups)])
    num_tiles, width = len(rows.tiles[0]), max(tiles.shape[1] for tiles in rows.tiles)
    at_once = tiles_at_once(max(width, num_chains * len(order)), in_tile, num_tiles)

    def of_record(queries: Sequence[jax.Array], record: Any, predictions: Sequence[jax.Array]) -> jax.Array:
        residuals = rows.factors.residuals(queries, record, predictions)
        return residuals if in_order else residuals[order]

    of_tile = jax.vmap(jax.vmap(of_record, in_axes=(None, 0, -1), out_axes=1), in_axes=(0, None, 0))
    of_tiles = jax.vmap(of_tile, in_axes=(None, 0, 0))

    def add_tiles(totals: list[Any], first: Any, count: int, records: Any) -> list[Any]:
        tiles = [lax.dynamic_slice_in_dim(tiles, first, count) for tiles in rows.tiles]
        units = lax.dynamic_slice_in_dim(rows.units, first * in_tile, count * in_tile, axis=1)
        units = units.reshape(-1, count, 1, in_tile)
        predictions = [
            (_predict(own, tiles[group]) * units[group]).reshape(count, num_chains, *predictor.shape, in_tile)
            for (group, own), predictor in zip(coefficients, rows.factors.predictors, strict=False)
        ]
        records = jax.tree.map(lambda leaf: leaf.reshape(count, in_tile, *leaf.shape[1:]), records)
        worth = of_tiles(list(queries), records, predictions) * jnp.swapaxes(units, 0, 2)[0][:, None, group_of]
        held = arithmetic.hold(worth)
        sums = [
            arithmetic.product(held[:, :, a:b].reshape(count, -1, in_tile), tile)
            for (a, b), tile in zip(pairwise(ends), tiles, strict=True)
        ]
        return [arithmetic.add(total, more) for total, more in zip(totals, sums, strict=True)]

    def add_whole(number: Any, totals: list[Any]) -> list[Any]:
        first = number * at_once
        return add_tiles(totals, first, at_once, slice_rows(rows.records, first * in_tile, at_once * in_tile))

    totals = [arithmetic.zero((num_chains * len(group.residuals), len(group.features))) for group in groups]
    whole = count_rows(rows.records) // (at_once * in_tile)
    if whole:
        totals = lax.fori_loop(0, whole, add_whole, totals)
    first = whole * at_once
    if first < num_tiles:
        rest = last_rows(rows.records, first * in_tile, (num_tiles - first) * in_tile)
        totals = add_tiles(totals, first, num_tiles - first, rest)
    return totals


def _predict(coefficients: jax.Array, tiles: jax.Array) -> jax.Array:
    """Return linear predictors in units of the rows, shape (tiles, chains * numbers, rows in a tile).

    Tile by tile: how a product of matrices rounds depends on their shape, which is the same for all tiles.
    """
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    each = jnp.broadcast_to(flat, (len(tiles), *flat.shape))
    return jnp.matmul(each, tiles.astype(jnp.float32), precision=lax.Precision.HIGHEST)


def _product(lattice: Lattice) -> Callable[[jax.Array, jax.Array], Wide]:
    """Return what sums residuals times rows, exactly, shape (residuals, entries), over the records of some tiles."""
    return _product_of_floats if on_gpu() else partial(_product_of_bytes, _num_bytes(lattice.bound))


def _product_of_floats(steps: jax.Array, tiles: jax.Array) -> Wide:
    """Multiply in float64: every partial sum is an integer of at most MOST_BOUND * ROW_BOUND * 2^17 < 2^50."""
    with enable_x64(True):
        steps, tiles = steps.astype(jnp.float64), tiles.astype(jnp.float64)
        if steps.shape[1] < _FEW_RESIDUALS:  # a sum that is fused with the conversion reads the integers alone
            total = jnp.sum(steps[:, :, None] * tiles[:, None], axis=(0, 3))
        else:
            total = jnp.sum(jnp.matmul(tiles, jnp.swapaxes(steps, 1, 2), precision=lax.Precision.HIGHEST), axis=0).T
        high = jnp.floor(total * 2.0**-32)
        return Wide(high.astype(jnp.int32), (total - high * 2.0**32).astype(jnp.uint32))


def _product_of_bytes(num_bytes: int, steps: jax.Array, tiles: jax.Array) -> Wide:
    """Multiply digit by digit: CPUs have instructions that add up products of bytes in int32.

    A product is at most 2^14, and fewer than 2^17 rows are read at a time (`tiles_at_once`): below 2^31 in any order.
    """
    few = steps.shape[1] < _FEW_RESIDUALS  # it is the second factor that is rearranged: the smaller one, unless tiny
    first, second = _bytes(tiles, 2), _bytes(steps, num_bytes)
    if few:
        first, second = second, first
    products = lax.dot_general(first, second, (((2,), (2,)), ((0,), (0,))), preferred_element_type=jnp.int32)
    total = jnp.sum(products, axis=0)
    total = (total.T if few else total).reshape(2, tiles.shape[1], num_bytes, steps.shape[1])
    with enable_x64(True):
        weights = 8 * (np.arange(2)[:, None] + np.arange(num_bytes))
        whole = jnp.sum(total.astype(jnp.int64) << weights[:, None, :, None], axis=(0, 2)).T
        return from_int64(whole)


def _num_bytes(bound: int) -> int:
    """Return how many bytes hold the integers up to a bound, of either sign."""
    return next(count for count in (1, 2, 3) if bound <= 127 * (256**count - 1) // 255)


def _bytes(integers: jax.Array, count: int) -> jax.Array:
    """Return integers, shape (tiles, n, rows), as digits from -128 to 127 in base 256: (tiles, count * n, rows)."""
    shifts = 8 * np.arange(count, dtype=np.int32)[:, None, None]
    raised = integers.astype(jnp.int32)[:, None] + np.int32(128 * (256**count - 1) // 255)  # every digit, by 128
    digits = ((raised >> shifts & 0xFF) - 128).astype(jnp.int8)
    return digits.reshape(len(integers), -1, integers.shape[2])


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
