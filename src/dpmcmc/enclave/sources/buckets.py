"""Rows in buckets, in a file without a name: written as they come, and read bucket by bucket."""

import os

import numpy as np

from dpmcmc.enclave.sources.unnamed import UnnamedFile
from dpmcmc.enclave.tables.columns import Leaves


class Buckets:
    """Rows that came in any order, of which those of one bucket can be read, in the order in which they came.

    Every chunk is sorted by bucket and written behind those before, so that the disk is written from one end to the
    other; a bucket is read as one piece of each chunk.

    Args:
        types: the type of each leaf of a row.
        number: how many buckets there are.
        folder: a folder on the disk that is to hold the file.
        room: how many bytes there must be on the disk.
    """

    def __init__(
        self, types: dict[str, np.dtype], number: int, folder: str | os.PathLike[str] | None, room: int
    ) -> None:
        self._names = list(types)
        self._row = np.dtype([(f"leaf {place}", types[name]) for place, name in enumerate(self._names)])
        self._number, self._written = number, 0
        self._starts: list[np.ndarray] = []
        self._file = UnnamedFile(folder, room)

    def add(self, leaves: Leaves, buckets: np.ndarray) -> None:
        """Write a chunk, given the bucket of each of its rows."""
        order = np.argsort(buckets, kind="stable")
        rows = np.empty(len(order), self._row)
        for place, name in enumerate(self._names):
            rows[f"leaf {place}"] = leaves[name][order]
        self._file.append(rows)
        counts = np.bincount(buckets, minlength=self._number)
        self._starts.append(self._written + np.concatenate([[0], np.cumsum(counts)]))
        self._written += len(order)

    @property
    def counts(self) -> np.ndarray:
        """How many rows each bucket has."""
        return sum((np.diff(starts) for starts in self._starts), np.zeros(self._number, np.int64))

    def read(self, number: int) -> Leaves:
        """Return the rows of a bucket."""
        rows, at = np.empty(self.counts[number], self._row), 0
        for starts in self._starts:
            start, end = starts[number], starts[number + 1]
            self._file.read_into(rows[at : at + end - start], int(start) * self._row.itemsize)
            at += end - start
        return {name: np.ascontiguousarray(rows[f"leaf {place}"]) for place, name in enumerate(self._names)}

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
