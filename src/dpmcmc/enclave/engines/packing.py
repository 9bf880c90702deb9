"""How rows lie in chunks: those that are asked stand one after the other, and every chunk has one shape.

A row of the cells that are asked stands in the slot that is the number of their places before its own: public, and the
same wherever the row is computed. So a pass computes over the rows that take part, and over few empty slots.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.core.places import tile_rows
from dpmcmc.enclave.sources.picking import Intervals, num_before, picked, within
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import OCCUPIED

MOST_ROWS, MOST_ROWS_ON_GPU, CHUNK_BYTES = 2**16, 2**18, 2**25
"""How many slots a chunk has at most, and how many bytes its rows take at most, unless a tile has more."""

Placed = tuple[list[np.ndarray], np.ndarray]
"""The leaves of a chunk, in all its slots, and which slots count."""


def rows_of_chunk(size: int, record: Any) -> int:
    """Return how many slots a chunk has, which is public: a power of two, or as many tiles as are needed."""
    tile, most = tile_rows(), MOST_ROWS_ON_GPU if jax.default_backend() == "gpu" else MOST_ROWS
    most = max(2 ** (min(most, CHUNK_BYTES // width_of(record)).bit_length() - 1), tile)
    return min(most, max(-(-size // tile), 1) * tile)


def width_of(record: Any) -> int:
    """Return how many bytes a record takes."""
    return sum(leaf.dtype.itemsize * max(int(np.prod(leaf.shape)), 1) for leaf in jax.tree.leaves(record))


class Shape:
    """How a table of so many records is cut into chunks: from public facts alone, and alike for every engine.

    Args:
        num_records: the number of rows.
        record: the shape and type of one record, by leaf.
        rows: how many slots a chunk has; from the number of records and the width of one, if None.
    """

    def __init__(self, num_records: int, record: Any, rows: int | None = None) -> None:
        self.num_records = num_records
        self.rows = rows_of_chunk(num_records, record) if rows is None else rows
        if self.rows < 1 or self.rows % tile_rows():
            raise InvalidArgument(f"rows={rows} must be a multiple of {tile_rows()}, at least that")

    def of(self, cells: Cells | None) -> int:
        """Return how many slots a chunk has: fewer where one holds the rows of all cells; of few lengths."""
        return self.rows if cells is None else min(self.rows, max(tile_rows(), 1 << (cells.size - 1).bit_length()))

    def intervals(self, cells: Cells | None) -> list[tuple[int, int]]:
        """Return the places that count, as intervals."""
        return [(0, self.num_records)] if cells is None else list(cells.intervals)


def packed(source: Any, rows: int, intervals: Intervals, start: int, end: int) -> Iterator[Placed]:
    """Yield the chunks of the rows that are asked, as far as they stand from one place of the table to before another.

    Args:
        source: what has these rows; see `picking.picked`.
        rows: how many slots a chunk has.
        intervals: the places of all rows that are asked, of the whole table.
        start: the first place.
        end: the place after the last.
    """
    lead = num_before(intervals, start) % rows
    inside = [(low + start, high + start) for low, high in within(intervals, start, end)]
    return placed(picked(source, inside, rows, lead), rows, lead) if inside else iter(())


def placed(chunks: Iterable[Leaves], rows: int, lead: int = 0) -> Iterator[Placed]:
    """Yield chunks in all their slots; in the first of them so many slots come before the first row.

    A slot counts if a row stands in it; where rows have the leaf `OCCUPIED`, if that says so.
    """
    for chunk in chunks:
        yield _slots(chunk, rows, lead)
        lead = 0


def _slots(chunk: Leaves, rows: int, first: int) -> Placed:
    leaves = [chunk[name] for name in sorted(chunk) if name != OCCUPIED]  # as pytrees have them
    there, occupied = len(leaves[0]), np.zeros(rows, np.bool_)
    occupied[first:there] = chunk[OCCUPIED][first:] if OCCUPIED in chunk else True
    if there < rows:
        leaves = [np.pad(leaf, [(0, rows - there), *[(0, 0)] * (leaf.ndim - 1)]) for leaf in leaves]
    return leaves, occupied
