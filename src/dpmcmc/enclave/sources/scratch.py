"""Prepared rows in a private file that has no name: read once from wherever they are, then at the speed of the disk."""

import math
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import jax
import numpy as np

from dpmcmc.enclave.sources.ahead import read_ahead
from dpmcmc.enclave.sources.chunking import BLOCK, digest_of, identity_of, num_rows
from dpmcmc.enclave.sources.contract import Rows, changed, rows_before
from dpmcmc.enclave.sources.unnamed import UnnamedFile
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.errors import InvalidArgument

_BLOCK = 2**16
"""How many rows stand together in the file, leaf after leaf."""


class Scratch:
    """The rows of another source, in a file that only this process can reach, and that vanishes with it.

    The file is an `UnnamedFile`. It takes four bytes a leaf and row.

    Args:
        source: where the rows come from. They are read once, here.
        folder: a folder on the disk that is to hold the file; unless stated, where the system has temporary files,
            which on some machines is memory.
    """

    def __init__(self, source: Rows, folder: str | os.PathLike[str] | None = None) -> None:
        self._record, self._bounds = source.record, source.bounds
        self._rows = source.num_records
        self._file = UnnamedFile(folder, self._row * self._rows)
        try:
            self._fill(source)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Scratch({', '.join(self._bounds)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the space back. It is given back when the process ends, too."""
        self._file.close()

    @property
    def num_records(self) -> int:
        """The number of rows."""
        return self._rows

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        return dict(self._bounds)

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        return dict(self._record)

    @property
    def identity(self) -> bytes:
        """A digest of all rows, that of the source that it was made from. It is private."""
        return identity_of(self._bounds, map(digest_of, self.chunks(BLOCK)))

    def confirm(self) -> None:
        """Do nothing: nobody else reaches the file."""

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the records in chunks of a given size; another thread reads them ahead of the caller.

        Args:
            rows: how many rows a chunk has; the last may have fewer.
            first: the number of the first chunk that is wanted.
        """
        skip = rows_before(rows, first)
        if self._file.is_closed:
            raise InvalidArgument("source is a Scratch that was closed; make a new one")
        return self._ahead(rows, skip)

    def _ahead(self, rows: int, skip: int) -> Iterator[Leaves]:
        starts = range(skip, self._rows, rows)
        yield from read_ahead(self._read(start, min(start + rows, self._rows)) for start in starts)

    def _width(self, leaf: str) -> int:
        """Return how many bytes of a row are a leaf's."""
        return self._record[leaf].dtype.itemsize * math.prod(self._record[leaf].shape)

    @property
    def _row(self) -> int:
        return sum(self._width(leaf) for leaf in self._record)

    def _fill(self, source: Rows) -> None:
        written = 0
        for chunk in source.chunks(_BLOCK):
            written += num_rows(chunk)
            for leaf in self._record:
                self._file.append(np.ascontiguousarray(chunk[leaf]))
        if written != self._rows:
            raise changed("source")

    def _read(self, start: int, end: int) -> Leaves:
        """Return the rows from `start` to `end`, put together from the blocks that hold them."""
        chunk = {leaf: np.empty((end - start, *kept.shape), kept.dtype) for leaf, kept in self._record.items()}
        for block in range(start // _BLOCK, -(-end // _BLOCK)):
            begins = block * _BLOCK
            length = min(_BLOCK, self._rows - begins)
            low, high = max(start, begins), min(end, begins + length)
            at = begins * self._row
            for leaf, values in chunk.items():
                self._file.read_into(values[low - start : high - start], at + (low - begins) * self._width(leaf))
                at += length * self._width(leaf)
        return chunk
