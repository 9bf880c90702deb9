"""Synthetic records: rows to try a model on, from the shapes, types and stated bounds of a record."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.missing_cells import is_hidden

INSIDE = (0.05, 0.95)
"""Where numbers without stated bounds are drawn: within the supports of most distributions."""

WIDE = (-2.0, 2.0)


def tables(record: Any, bounds: Mapping[str, tuple[float, float]], number: int) -> Iterator[Any]:
    """Yield tables of `number` random rows: within the bounds, on whole numbers, and wide if none are stated."""
    random = np.random.default_rng(0)
    paths, structure = jax.tree_util.tree_flatten_with_path(record)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    for unstated, rounded in ((INSIDE, False), ((0.0, 1.0), True), (WIDE, False)):
        leaves = [
            _column(random, leaf, bounds.get(name), unstated, rounded, number)
            for name, (_, leaf) in zip(names, paths, strict=True)
        ]
        yield jax.tree.unflatten(structure, leaves)


def uniform_records(
    key: jax.Array, record: Any, bounds: Sequence[tuple[float, float]], is_whole: Sequence[bool], number: int
) -> Any:
    """Return random rows, each leaf uniform within its bounds, and no cell missing.

    Args:
        key: of the random numbers.
        record: shapes and types of one row.
        bounds: those of its leaves, in their order.
        is_whole: which of the leaves are whole numbers.
        number: of the rows.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(record)
    leaves: list[jax.Array] = []
    for one, (path, leaf), limits, whole in zip(
        jax.random.split(key, len(paths)), paths, bounds, is_whole, strict=True
    ):
        shape = (number, *leaf.shape)
        if is_hidden(jax.tree_util.keystr(path, simple=True, separator=".")):
            leaves.append(jnp.zeros(shape, leaf.dtype))
        elif jnp.issubdtype(leaf.dtype, jnp.floating) and not whole:
            leaves.append(jax.random.uniform(one, shape, leaf.dtype, *limits))
        else:
            leaves.append(_whole_numbers(one, shape, limits).astype(leaf.dtype))
    return jax.tree.unflatten(structure, leaves)


def _whole_numbers(key: jax.Array, shape: tuple[int, ...], limits: tuple[float, float]) -> jax.Array:
    """Return whole numbers uniform within limits; where 32 bits do not hold them, rounded as records are stored."""
    least, most = int(np.ceil(limits[0])), int(np.floor(limits[1]))
    if max(-least, most) < np.iinfo(np.int32).max:
        return jax.random.randint(key, shape, least, most + 1)
    return jnp.rint(jax.random.uniform(key, shape, jnp.float32, *limits))


def blank(record: Any, number: int) -> Any:
    """Return a table of `number` rows of zeros."""
    return jax.tree.map(lambda leaf: jax.device_put(np.zeros((number, *leaf.shape), leaf.dtype)), record)


def shapes(record: Any, number: int) -> Any:
    """Return the shapes of a table of `number` rows."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((number, *leaf.shape), leaf.dtype), record)


def _column(
    random: np.random.Generator,
    leaf: Any,
    stated: tuple[float, float] | None,
    unstated: tuple[float, float],
    rounded: bool,
    number: int,
) -> jax.Array:
    shape = (number, *leaf.shape)
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        lower, upper = (min(max(side, -1e6), 1e6) for side in stated or unstated)
        column = random.uniform(lower, upper, shape)
        return jax.device_put(np.asarray(np.rint(column) if rounded else column, leaf.dtype))
    lower, upper = (0, 1) if stated is None else (int(np.clip(np.rint(side), -100, 100)) for side in stated)
    return jax.device_put(random.integers(min(lower, upper), max(lower, upper) + 1, shape).astype(leaf.dtype))
