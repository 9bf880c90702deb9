"""The engine of one machine: chunks of a source, one after the other, while others are read ahead."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.core.places import tile_rows
from dpmcmc.enclave.engines.partial import PartialProgram, as_integers
from dpmcmc.enclave.sources.contract import changed
from dpmcmc.enclave.sources.opening import memory
from dpmcmc.errors import InvalidArgument

MOST_ROWS, CHUNK_BYTES = 2**18, 2**25
"""How many slots a chunk has at most, and how many bytes its rows take at most, unless a tile has more."""

_SHORTER, _ASIDE = tuple(2**bits for bits in range(13, 18)), 2**13
"""Other lengths of chunks, for cells that are short, and how many rows a chunk costs beside its own."""

_LEAST_ROOM, _PART = 2**28, 64
"""How many bytes the rows of cells may take up at least, and which part of the machine's memory."""

_UNDER_WAY = 2
"""How many chunks the processor is given before the first is waited for."""


def rows_of_chunk(size: int, record: Any) -> int:
    """Return how many slots a chunk has, which is public: a power of two, or as many tiles as are needed."""
    tile = tile_rows()
    most = max(2 ** (min(MOST_ROWS, CHUNK_BYTES // width_of(record)).bit_length() - 1), tile)
    return min(most, max(-(-size // tile), 1) * tile)


def width_of(record: Any) -> int:
    """Return how many bytes a record takes."""
    return sum(leaf.dtype.itemsize * max(int(np.prod(leaf.shape)), 1) for leaf in jax.tree.leaves(record))


def _room() -> int:
    """Return how many bytes the rows of cells may take up, from the memory that the machine has."""
    return max(_LEAST_ROOM, memory() // _PART)


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
        """Return how many slots a chunk has: fewer where cells are short, so that little is read beside them."""
        if cells is None:
            return self.rows
        shorter = [size for size in _SHORTER if size < self.rows and not size % tile_rows() and self._divides(size)]
        return min(
            [self.rows, *shorter],
            key=lambda rows: sum(end - first for first, end in runs_of(cells.intervals, rows)) * (rows + _ASIDE),
        )

    def intervals(self, cells: Cells | None) -> list[tuple[int, int]]:
        """Return the places that count, as intervals."""
        return [(0, self.num_records)] if cells is None else list(cells.intervals)

    def _divides(self, size: int) -> bool:
        """Whether chunks of a length end where longer ones end, or there is but one of those."""
        return not self.rows % size or self.num_records <= self.rows


class LocalEngine:
    """Adds up over a source, chunk by chunk of one shape; memory holds a few chunks, and those of the last cells.

    Cells that lead the way of a fit are asked several times and are few rows: they are read once, if they have room.

    Args:
        source: where the records come from.
        rows: how many slots a chunk has; from the number of records and the width of one, if None.
    """

    def __init__(self, source: Any, rows: int | None = None) -> None:
        self._source = source
        self.num_records: int = source.num_records
        self.bounds: dict[str, tuple[float, float]] = source.bounds
        self.record: dict[str, jax.ShapeDtypeStruct] = source.record
        self._shape = Shape(self.num_records, self.record, rows)
        self._kept: tuple[Cells | None, list[Any]] = (None, [])

    def rows(self, cells: Cells | None) -> int:
        """Return how many slots a chunk has in a pass over these cells."""
        return self._shape.of(cells)

    @property
    def identity(self) -> bytes:
        """What tells these records from others. It is private."""
        return self._source.identity

    def partial_sum(self, program: PartialProgram, public: Sequence[Any], cells: Cells | None) -> list[np.ndarray]:
        """Return the exact sums of a program over all chunks, or over those of some cells."""
        return add_up(program, self.chunks(cells), public)

    def chunks(self, cells: Cells | None) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """Yield the leaves of each chunk that has a place that counts, in its order, and which slots count."""
        if cells is not None and self._kept[0] == cells:
            yield from self._kept[1]
        else:
            yield from self._read(cells)
        self._source.confirm()

    def _read(self, cells: Cells | None) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        rows, intervals = self.rows(cells), self._shape.intervals(cells)
        runs, kept = runs_of(intervals, rows), list[Any]()
        has_room = cells is not None and rows * self._width * sum(end - first for first, end in runs) <= _room()
        self._kept = (None, [])
        for chunk in chunks_of(self._source, rows, runs, intervals):
            if has_room:
                kept.append(chunk)
            yield chunk
        if has_room:
            self._kept = cells, kept

    @property
    def _width(self) -> int:
        return width_of(self.record)


def add_up(program: PartialProgram, chunks: Iterable[Any], public: Sequence[Any]) -> list[np.ndarray]:
    """Return the exact sums of a program over chunks: their leaves, and which of their slots count."""
    total: list[np.ndarray] = []
    under_way: deque[Any] = deque()
    for leaves, occupied in chunks:
        under_way.append(program(leaves, occupied, public))
        if len(under_way) > _UNDER_WAY:
            total = added(total, as_integers(under_way.popleft()))
    while under_way:
        total = added(total, as_integers(under_way.popleft()))
    return total


def added(total: list[np.ndarray], more: list[np.ndarray]) -> list[np.ndarray]:
    """Return two lists of sums as one; an empty one is nothing."""
    if not (total and more):
        return total or more
    return [one + other for one, other in zip(total, more, strict=True)]


def chunks_of(
    source: Any, rows: int, runs: Sequence[tuple[int, int]], intervals: Sequence[tuple[int, int]]
) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """Yield the leaves of chunks of so many slots, which runs number, and which slots count."""
    wanted = {number for first, end in runs for number in range(first, end)}
    for first, end in _joined(runs, getattr(source, "apart", 0) // rows):
        chunks = _run(source, rows, first, end)
        try:
            for number in range(first, end):
                chunk = next(chunks, None)
                if chunk is None:
                    raise changed("source")
                if number not in wanted:
                    continue
                yield slots(chunk, rows, [(low - number * rows, high - number * rows) for low, high in intervals])
        finally:
            getattr(chunks, "close", lambda: None)()


def _joined(runs: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return runs of which those are one that lie so many chunks apart at most: what is between is read, and left."""
    joined: list[tuple[int, int]] = []
    for first, end in runs:
        if joined and first - joined[-1][1] <= gap:
            first, _ = joined.pop()
        joined.append((first, end))
    return joined


def _run(source: Any, rows: int, first: int, end: int) -> Iterator[Any]:
    """Return chunks of a source, from one to before another: where it can, nothing is read beside them."""
    if hasattr(source, "between"):
        return source.between(first * rows, min(end * rows, source.num_records), rows)
    return source.chunks(rows, first)


def slots(chunk: Any, rows: int, intervals: Sequence[tuple[int, int]]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the rows of a chunk in all its slots, and who counts: who is there, in these intervals of its slots."""
    leaves = [chunk[name] for name in sorted(chunk)]  # as pytrees have them
    there, occupied = len(leaves[0]), np.zeros(rows, np.bool_)
    for first, end in intervals:
        occupied[max(first, 0) : max(min(end, there), 0)] = True
    if there < rows:
        leaves = [np.pad(leaf, [(0, rows - there), *[(0, 0)] * (leaf.ndim - 1)]) for leaf in leaves]
    return leaves, occupied


def runs_of(intervals: Sequence[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """Return the numbers of the chunks that hold a place of intervals, as runs that do not touch."""
    runs: list[tuple[int, int]] = []
    for first, end in intervals:
        low, high = first // rows, -(-end // rows)
        if runs and low <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(runs[-1][1], high)
        else:
            runs.append((low, high))
    return runs
