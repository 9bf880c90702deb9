"""The engine of one machine: chunks of a source, one after the other, while others are read ahead."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.engines.packing import Placed, Shape, packed, width_of
from dpmcmc.enclave.engines.partial import PartialProgram, as_integers
from dpmcmc.enclave.sources.opening import memory
from dpmcmc.enclave.sources.scattered import Scattered

_LEAST_ROOM, _PART = 2**28, 64
"""How many bytes the rows of cells may take up at least, and which part of the machine's memory."""


def _room() -> int:
    """Return how many bytes the rows of cells may take up, from the memory that the machine has."""
    return max(_LEAST_ROOM, memory() // _PART)


class LocalEngine:
    """Adds up over a source, chunk by chunk of one shape; memory holds a few chunks, and those of the last cells.

    Cells that lead the way of a fit are asked several times and are few rows: they are read once, if they have room.

    Args:
        source: where the records come from.
        rows: how many slots a chunk has; from the number of records and the width of one, if None.
    """

    def __init__(self, source: Any, rows: int | None = None) -> None:
        self._source = source
        self.scattered: Scattered | None = source if isinstance(source, Scattered) else None
        self.num_records: int = source.num_records
        self.bounds: dict[str, tuple[float, float]] = source.bounds
        self.record: dict[str, jax.ShapeDtypeStruct] = source.record
        self._shape = Shape(self.num_records, self.record, rows)
        self._kept: tuple[Cells | None, list[Placed]] = (None, [])

    def rows(self, cells: Cells | None) -> int:
        """Return how many slots a chunk has in a pass over these cells."""
        return self._shape.of(cells)

    @property
    def identity(self) -> bytes:
        """What tells these records from others. It is private."""
        return self._source.identity

    def standing(self, seed: bytes) -> "LocalEngine":
        """Return the same over the records as they stand by a seed, where they were scattered by one."""
        made = copy(self)
        if self.scattered is not None:
            made._source = made.scattered = self.scattered.standing(seed)
            made._kept = (None, [])
        return made

    def partial_sum(self, program: PartialProgram, public: Sequence[Any], cells: Cells | None) -> list[np.ndarray]:
        """Return the exact sums of a program over all chunks, or over those of some cells."""
        return add_up(program, self.chunks(cells), public, num_threads())

    def chunks(self, cells: Cells | None) -> Iterator[Placed]:
        """Yield the chunks of the rows that are asked, in their order."""
        of, kept = self._kept  # read once: another session's thread may replace it
        if cells is not None and of == cells:
            yield from kept
        else:
            yield from self._read(cells)
        self._source.confirm()

    def _read(self, cells: Cells | None) -> Iterator[Placed]:
        rows, kept = self.rows(cells), list[Placed]()
        has_room = cells is not None and -(-cells.size // rows) * rows * width_of(self.record) <= _room()
        if has_room:
            self._kept = (None, [])
        for chunk in packed(self._source, rows, self._shape.intervals(cells), 0, self.num_records):
            if has_room:
                kept.append(chunk)
            yield chunk
        if has_room:
            self._kept = cells, kept


def add_up(
    program: PartialProgram, chunks: Iterable[Placed], public: Sequence[Any], threads: int = 1
) -> list[np.ndarray]:
    """Return the exact sums of a program over chunks: their leaves, and which of their slots count.

    So many threads compute, each a chunk of its own: a program for a CPU has one thread itself (`partial`).
    """
    total: list[np.ndarray] = []
    under_way: deque[Future[list[np.ndarray]]] = deque()
    with ThreadPoolExecutor(threads, "dpmcmc add up") as pool:
        for leaves, occupied in chunks:
            under_way.append(pool.submit(_sums, program, leaves, occupied, public))
            if len(under_way) > threads:
                total = added(total, under_way.popleft().result())
        for one in under_way:
            total = added(total, one.result())
    return total


def _sums(program: PartialProgram, leaves: list[np.ndarray], occupied: np.ndarray, public: Sequence[Any]) -> Any:
    return as_integers(program(leaves, occupied, public))


def num_threads() -> int:
    """Return how many chunks are computed at once: one for each processor of this process; two on a GPU."""
    if jax.default_backend() == "gpu":
        return 2
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def added(total: list[np.ndarray], more: list[np.ndarray]) -> list[np.ndarray]:
    """Return two lists of sums as one; an empty one is nothing."""
    if not (total and more):
        return total or more
    return [one + other for one, other in zip(total, more, strict=True)]
