"""What runs on a worker: rows are read, held and added up here, and nothing leaves but exact sums.

Rows are no results of tasks: those may be copied to other workers and spilled to disks. They are held by this process,
as far as its memory allows, and read again where it does not, or where another worker has died.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from dpmcmc import errors
from dpmcmc.enclave.core.self_test import check_machine
from dpmcmc.enclave.engines.dask.machines import check_like
from dpmcmc.enclave.engines.local import add_up, added
from dpmcmc.enclave.engines.packing import packed
from dpmcmc.enclave.engines.partial import PartialProgram
from dpmcmc.enclave.sources.chunking import digest_of, regrouped
from dpmcmc.enclave.sources.files import FileSource
from dpmcmc.enclave.sources.opening import memory
from dpmcmc.enclave.sources.picking import Intervals
from dpmcmc.enclave.tables.columns import Leaves

_SHARE = 0.4
"""What of a worker's memory rows may take up; Dask pauses and ends workers that come near their limit."""

_MOST_PROGRAMS = 64


@dataclass(frozen=True, repr=False)
class Result:
    """What a task gives: something, or why there is nothing. Its words hold neither."""

    value: Any = None
    failure: tuple[str, str] | None = None
    """The name of an error of `dpmcmc.errors`, and its message."""

    def get(self) -> Any:
        """Return what was given, or raise what failed, where the caller is."""
        if self.failure is None:
            return self.value
        kind, message = self.failure
        raise getattr(errors, kind)(message)


@dataclass(frozen=True, repr=False)
class Table:
    """A table as all workers know it."""

    token: str
    """A random name."""
    source: FileSource
    rows: int
    """How many rows a partition has."""
    like: dict[str, str]
    """The kind of machine that may read it."""


@dataclass(frozen=True, repr=False)
class Question:
    """What is asked of partitions in one pass."""

    public: Sequence[np.ndarray]
    reads: tuple[int, ...]
    rows: int
    intervals: Intervals


@dataclass(repr=False)
class _Here:
    """What this process holds."""

    lock: Lock = field(default_factory=Lock)
    reading: Lock = field(default_factory=Lock)
    sources: dict[str, FileSource] = field(default_factory=dict)
    partitions: dict[tuple[str, int], "Held"] = field(default_factory=dict)
    programs: dict[bytes, PartialProgram] = field(default_factory=dict)


_HERE = _Here()


class Held:
    """The rows of a partition, from one position of the table on, as a source of chunks."""

    def __init__(self, leaves: Leaves, first: int) -> None:
        self.leaves, self._first = leaves, first
        self.size = sum(values.nbytes for values in leaves.values())

    def chunks(self, rows: int, first: int = 0) -> Any:
        """Return the chunks of the table that lie here, from one on."""
        length = len(next(iter(self.leaves.values())))
        starts = range(first * rows - self._first, length, rows)
        return ({name: values[start : start + rows] for name, values in self.leaves.items()} for start in starts)

    def picked(self, intervals: Intervals, rows: int, lead: int) -> Any:
        """Return the rows at some places of the table; see `picking.picked`."""
        ends = [(low - self._first, high - self._first) for low, high in intervals]
        parts = ({name: values[low:high] for name, values in self.leaves.items()} for low, high in ends)
        return regrouped(parts, rows, lead=lead)


def guarded(function: Callable[[], Any]) -> Result:
    """Return what a function gives, or its failure; of errors of others no word, for they quote what they read."""
    try:
        return Result(function())
    except errors.DpmcmcError as error:
        known = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        return Result(failure=(known, str(error)))
    except BaseException as error:
        name = type(error).__name__
    return Result(failure=("EngineUnavailable", f"a worker could not do its part ({name}); nothing of it is released"))


def given(value: Any) -> Any:
    """Return a value, so that Dask hands it to every task that names it, and makes it anew where it was lost."""
    return value


def opened(source: Any, schema: Any) -> Result:
    """Open files where workers see them."""
    return guarded(lambda: FileSource(source, schema))


def hold(table: Table, number: int) -> Result:
    """Read a partition and hold it, where there is room for it; say whether there was."""
    return guarded(lambda: _partition(table, number) is not None)


def prepare(written: bytes, reads: tuple[int, ...]) -> Result:
    """Compile a program here, and look for the gate in it."""
    return guarded(lambda: bool(_program(written, reads).reads))


def partial(table: Table, number: int, written: bytes, question: Question) -> Result:
    """Return the exact sums of a program over the chunks of a partition that count."""
    return guarded(lambda: _partial(table, number, written, question))


def digests(table: Table, number: int, rows: int) -> Result:
    """Return the digests of the chunks of a partition, in their order."""

    def made() -> list[bytes]:
        start, end = _ends(table, number)
        held = _partition(table, number)
        chunks = held.chunks(rows, start // rows) if held else _source(table).between(start, end, rows)
        return [digest_of(chunk) for chunk in chunks]

    return guarded(made)


def joined(parts: list[Result]) -> Result:
    """Return lists as one, in their order; or the first failure."""
    failed = next((part for part in parts if part.failure is not None), None)
    return failed or Result([each for part in parts for each in part.value])


def add(parts: list[Result]) -> Result:
    """Return the sum of sums; or the first failure."""
    failed = next((part for part in parts if part.failure is not None), None)
    if failed is not None:
        return failed
    total: list[np.ndarray] = []
    for part in parts:
        total = added(total, part.value)
    return Result(total)


def forget(token: str) -> None:
    """Hold nothing of a table any more."""
    with _HERE.reading:
        _HERE.sources.pop(token, None)
        for key in [key for key in _HERE.partitions if key[0] == token]:
            del _HERE.partitions[key]


def _partial(table: Table, number: int, written: bytes, question: Question) -> list[np.ndarray]:
    program, source = _program(written, question.reads), _partition(table, number) or _source(table)
    chunks = packed(source, question.rows, question.intervals, *_ends(table, number))
    return add_up(program, chunks, question.public)


def _ends(table: Table, number: int) -> tuple[int, int]:
    return number * table.rows, min((number + 1) * table.rows, table.source.num_records)


def _source(table: Table) -> FileSource:
    """Return the files as they are here: once this machine is known to be fit, and they are the same."""
    with _HERE.lock:
        if table.token not in _HERE.sources:
            check_like(table.like)
            check_machine()
            _HERE.sources[table.token] = table.source.arrived()
        return _HERE.sources[table.token]


def _partition(table: Table, number: int) -> Held | None:
    """Return the rows of a partition as they are held here, or None where there is no room."""
    source, key = _source(table), (table.token, number)
    start, end = _ends(table, number)
    if key in _HERE.partitions:
        return _HERE.partitions[key]
    with _HERE.reading:  # one partition at a time: what is read has room
        if key in _HERE.partitions:
            return _HERE.partitions[key]
        row = sum(leaf.dtype.itemsize for leaf in source.record.values())
        taken = sum(held.size for held in list(_HERE.partitions.values()))
        if taken + row * (end - start) > _SHARE * _limit():
            return None
        (leaves,) = source.between(start, end, end - start)
        _HERE.partitions[key] = Held(leaves, start)
        return _HERE.partitions[key]


def _limit() -> int:
    from distributed import get_worker

    return getattr(getattr(get_worker(), "memory_manager", None), "memory_limit", None) or memory()


def _program(written: bytes, reads: tuple[int, ...]) -> PartialProgram:
    digest = hashlib.sha256(written).digest()
    with _HERE.lock:
        if digest not in _HERE.programs:
            made = PartialProgram.from_bytes(written, reads)
            _ = made.compiled  # and looked at, before it is given a row
            _HERE.programs[digest] = made
            if len(_HERE.programs) > _MOST_PROGRAMS:
                del _HERE.programs[next(iter(_HERE.programs))]
        return _HERE.programs[digest].reading(reads)
