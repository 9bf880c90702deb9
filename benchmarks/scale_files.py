"""Tables of stated size for benchmarks/scale.py: ten columns in one byte each and an outcome, written side by side.

Parquet, or, for machines without PyArrow, plain bytes: a file has so many rows, and holds column after column.
"""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = tuple(f"x{number}" for number in range(10))
OUTCOME = "y"
ROWS_IN_FILE = 2**22
ROWS_IN_GROUP = 2**16
EFFECTS = np.array([0.5, -0.4, 0.3, -0.2, 0.1, 0.0, -0.1, 0.2, -0.3, 0.4], np.float32)
"""On columns that run from -1 to 1, and -1/2 for the intercept."""

SCHEMA = {
    "columns": {name: {"kind": "number", "lower": 0, "upper": 255} for name in COLUMNS} | {OUTCOME: {"kind": "boolean"}}
}


def write(folder: Path, rows: int, kind: str, processes: int) -> None:
    """Write so many rows, of which a file is what its number says: more rows are more files."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, rows, ROWS_IN_FILE)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(partial(_write_file, folder, rows, kind), starts))


def files(folder: Path, rows: int, kind: str) -> list[Path]:
    """Return the files that hold the first rows."""
    return [folder / f"{number:05}.{kind}" for number in range(-(-rows // ROWS_IN_FILE))]


def made(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns, as bytes, and the outcomes of the first rows of a file."""
    rng = np.random.default_rng(number)
    columns = rng.integers(0, 256, (len(COLUMNS), rows), np.uint8)
    eta = EFFECTS @ (columns.astype(np.float32) / 127.5 - 1) - 0.5
    return columns, rng.random(rows, np.float32) < 1 / (1 + np.exp(-eta))


def _write_file(folder: Path, rows: int, kind: str, start: int) -> None:
    number, length = start // ROWS_IN_FILE, min(ROWS_IN_FILE, rows - start)
    columns, outcome = made(number, length)
    path = folder / f"{number:05}.{kind}"
    if kind == "raw":
        with path.open("wb") as file:
            for column in (*columns, outcome.view(np.uint8)):
                column.tofile(file)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({**dict(zip(COLUMNS, columns, strict=True)), OUTCOME: outcome})
    pq.write_table(table, path, row_group_size=ROWS_IN_GROUP, compression="none")


class RawSource:
    """A `Source` of files of plain bytes; threads read and widen chunks ahead of the caller."""

    def __init__(self, folder: Path, rows: int, threads: int) -> None:
        import jax

        self._paths, self._threads = files(folder, rows, "raw"), threads
        self.num_records = rows
        self.bounds = {**dict.fromkeys(COLUMNS, (0.0, 255.0)), OUTCOME: (0.0, 1.0)}
        self.record = {name: jax.ShapeDtypeStruct((), np.float32) for name in (*COLUMNS, OUTCOME)}
        self._sizes = [path.stat().st_size // (len(COLUMNS) + 1) for path in self._paths]

    @property
    def identity(self) -> bytes:
        """What tells these files from others."""
        return repr([(path.name, path.stat().st_mtime_ns) for path in self._paths]).encode()

    def confirm(self) -> None:
        """Nobody else writes to files that were written for this."""

    def chunks(self, rows: int, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """Return the records, so many rows at a time, from a chunk on."""
        return self.between(first * rows, self.num_records, rows)

    def between(self, start: int, end: int, rows: int) -> Iterator[dict[str, np.ndarray]]:
        """Return the rows from `start` to `end`, so many at a time."""
        starts = iter(range(start, end, rows))
        with ThreadPoolExecutor(self._threads) as pool:
            ahead: deque[Any] = deque()
            for at in starts:
                ahead.append(pool.submit(self._read, at, min(at + rows, end)))
                if len(ahead) > 2 * self._threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _read(self, start: int, end: int) -> dict[str, np.ndarray]:
        leaves = {name: np.empty(end - start, np.float32) for name in self.record}
        at = start
        while at < end:
            number, inside = divmod(at, ROWS_IN_FILE)
            size = self._sizes[number]
            take = min(end - at, size - inside)
            kept = np.memmap(self._paths[number], np.uint8, "r", shape=(len(COLUMNS) + 1, size))
            for column, values in zip(kept, leaves.values(), strict=True):
                values[at - start : at - start + take] = column[inside : inside + take]
            at += take
        return leaves
