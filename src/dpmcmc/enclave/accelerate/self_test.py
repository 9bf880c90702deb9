"""Products of integers and sums in blocks against Python's, and sums of floating point, roughly.

They are more of `core.self_test`.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.accelerate.linear.products import product_of_bytes
from dpmcmc.enclave.accelerate.linear.sums import MOST_BOUND
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.compiler import compiled
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.self_test import held_exactly, hostile_integers
from dpmcmc.enclave.mechanisms.block_sum import sum_in_blocks

_SHAPES = ((3, 1, 3, 512), (2, 5, 10, 512), (1, 16, 32, 1024), (4, 3, 100, 512))


def checks() -> Iterator[Callable[[], bool]]:
    """Yield checks of products, over the shapes that residuals and rows have."""
    for tiles, residuals, entries, rows in _SHAPES:
        yield lambda case=(tiles, residuals, entries, rows): products_are_right(*case)
    for chains, rows, blocks, length, common in ((2, 1024, 7, 3, 5), (1, 2**15, 1000, 9, 40), (3, 2048, 60, 1, 1)):
        yield lambda case=(chains, rows, blocks, length, common): blocks_add_up(*case)
    for records, dimension, chains in ((1000, 5, 3), (3000, 5, 16), (20_000, 10, 3), (2000, 32, 16)):
        yield lambda case=(records, dimension, chains): sums_are_sums(*case)


def products_are_right(tiles: int, residuals: int, entries: int, rows: int) -> bool:
    """Compare sums of residuals times rows, at their largest too, with Python's integers."""
    product = compiled(lambda steps, rows: product_of_bytes(3, steps, rows))
    rng = np.random.default_rng(rows + entries)
    for extreme in (False, True, False):
        steps = rng.integers(-MOST_BOUND, MOST_BOUND + 1, (tiles, residuals, rows)).astype(np.int32)
        table = rng.integers(-ROW_BOUND, ROW_BOUND + 1, (tiles, entries, rows)).astype(np.int16)
        if extreme:
            steps, table = np.full_like(steps, -MOST_BOUND), np.full_like(table, ROW_BOUND)
        found = product(steps, table)
        words = (np.asarray(found.high).astype(np.int64) << 32) + np.asarray(found.low)
        if not np.array_equal(words, np.einsum("trk,tek->re", steps.astype(np.int64), table.astype(np.int64))):
            return False
    return True


def blocks_add_up(chains: int, rows: int, num_blocks: int, length: int, common: int) -> bool:
    """Compare sums in blocks with Python's integers, for hostile entries and places, all in one block too."""
    gate = Ball(2**24 - 1, length + common)
    total = compiled(lambda integers, counts: sum_in_blocks(gate.movable, num_blocks, length, integers, counts))
    rng = np.random.default_rng(rows + num_blocks)
    for is_one in (False, True):
        integers = hostile_integers(rng, (chains, rows, 1 + length + common), gate.largest)
        integers[..., 0] = 0 if is_one else rng.integers(-1, num_blocks + 1, (chains, rows))
        if is_one:
            integers[..., 1:] = np.where(np.arange(length + common) == 0, 2**24 - 2**16, 0)
        counts = rng.random((chains, rows)) < rng.choice([0.5, 1.0])
        held = np.where(counts[..., None], held_exactly(gate, integers[..., 1:].astype(np.int64)), 0)
        blocks = np.zeros((chains, num_blocks, length), np.int64)
        for chain, places in enumerate(np.clip(integers[..., 0], 0, num_blocks - 1)):
            np.add.at(blocks[chain], places, held[chain, :, :length])
        expected = np.concatenate([blocks.reshape(chains, -1), held[..., length:].sum(axis=1)], axis=1)
        found = total(integers, counts)
        if not np.array_equal((np.asarray(found.high).astype(np.int64) << 32) + np.asarray(found.low), expected):
            return False
    return True


def sums_are_sums(num_records: int, dimension: int, chains: int) -> bool:
    """Compare sums of floating-point arrays with NumPy's, roughly: one jaxlib took the numbers of another chain."""

    def of_chain(position: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        rows = (y - jnp.sum(x * position, axis=1))[:, None] * x
        return jnp.sum(jnp.where(jnp.all(jnp.isfinite(rows), axis=1, keepdims=True), rows, 0), axis=0)

    rng = np.random.default_rng(num_records + dimension)
    shapes = ((num_records, dimension), (num_records,), (chains, dimension))
    x, y, positions = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    expected = np.stack([(y - x.astype(np.float64) @ position) @ x.astype(np.float64) for position in positions])
    found = np.asarray(compiled(jax.vmap(of_chain, in_axes=(0, None, None)))(positions, x, y))
    return bool(np.all(np.abs(found - expected) < 1e-3 * np.sqrt(num_records)))
