"""The engine of a Dask cluster, in the process that pays and draws noise."""

import os
import secrets
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.engines.dask import worker
from dpmcmc.enclave.engines.dask.machines import check_client, kind_of_workers
from dpmcmc.enclave.engines.packing import Shape
from dpmcmc.enclave.engines.partial import PartialProgram
from dpmcmc.enclave.sources.chunking import identity_of
from dpmcmc.enclave.sources.files import FileSource
from dpmcmc.errors import DpmcmcError, EngineUnavailable
from dpmcmc.schema import Schema

_PARTITIONS = 4
"""How many partitions a worker has, about: another one takes them over one by one if it dies."""

_MOST_CHUNKS = 16
"""Of a partition."""

_MOST_PROGRAMS = 64
"""Of which the cluster keeps the bytes."""

_FAN = 8
"""How many sums are added up at once."""

_LOOK, _PATIENCE = 1.0, 60.0
"""After how many seconds it is looked whether workers are left, and how long to wait if none is."""


class DaskEngine:
    """Adds up over rows that the workers of a cluster hold.

    Args:
        source: files as `FileSource` takes them, by names that mean the same on all workers.
        schema: what the owner states of the columns. No persons.
        client: a client of the cluster.
        rows: how many slots a chunk has; from the number of records and the width of one, if None.
    """

    paths = ("dask",)

    def __init__(self, source: Any, schema: Schema, client: Any, rows: int | None = None) -> None:
        check_client(client)
        self._client, self._programs = client, dict[bytes, Any]()
        like = self._answered(lambda: kind_of_workers(client))
        self.where = repr(sorted(like.items()))
        """The kind of the workers: a resumed run must find it again."""
        opened: FileSource = self._wait(self._submit(worker.opened, _absolute(source), schema))
        self.num_records, self.bounds, self.record = opened.num_records, opened.bounds, opened.record
        self._shape = Shape(self.num_records, self.record, rows)
        length = self._partition_rows(len(self._workers()))
        self._homes = [""] * max(-(-self.num_records // length), 1)
        token = secrets.token_hex(8)
        self._table = self._submit(worker.given, worker.Table(token, opened, length, like))
        weakref.finalize(self, _forget, client, token)
        self._pass(lambda number: (worker.hold, self._table, number), range(len(self._homes)), _all_of)

    @property
    def identity(self) -> bytes:
        """What tells these records from others: a digest of all rows, made where they are. It is private."""
        rows = self._shape.rows
        found = self._pass(
            lambda number: (worker.digests, self._table, number, rows), range(len(self._homes)), worker.joined
        )
        return identity_of(self.bounds, found)

    def rows(self, cells: Cells | None) -> int:
        """Return how many slots a chunk has in a pass over these cells."""
        return self._shape.of(cells)

    def prepare(self, program: PartialProgram) -> None:
        """Compile a program on all workers; whatever is refused is refused here, before anything is charged."""
        written = self._written(program)
        homes = self._workers()
        tasks = [self._submit(worker.prepare, written, program.reads, workers=[home]) for home in homes]
        for task in tasks:
            self._wait(task)

    def partial_sum(self, program: PartialProgram, public: Sequence[Any], cells: Cells | None) -> list[np.ndarray]:
        """Return the exact sums of a program over all chunks, or over those of some cells."""
        intervals = self._shape.intervals(cells)
        arguments = [np.asarray(jax.device_get(one)) for one in public]
        asked = worker.Question(arguments, program.reads, self.rows(cells), intervals)
        question, written = self._submit(worker.given, asked), self._written(program)
        return self._pass(
            lambda number: (worker.partial, self._table, number, written, question),
            self._asked(intervals),
            worker.add,
        )

    def _asked(self, intervals: Sequence[tuple[int, int]]) -> list[int]:
        """Return the numbers of the partitions that hold a place of intervals."""
        length = self._length
        return sorted({each for low, high in intervals for each in range(low // length, -(-high // length))})

    def _partition_rows(self, num_workers: int) -> int:
        chunks = -(-self.num_records // self._shape.rows)
        self._length = min(max(-(-chunks // (_PARTITIONS * num_workers)), 1), _MOST_CHUNKS) * self._shape.rows
        return self._length

    def _written(self, program: PartialProgram) -> Any:
        """Return a program as tasks name it; its bytes are sent once."""
        written = program.written
        if written not in self._programs:
            self._programs[written] = self._submit(worker.given, written)
            if len(self._programs) > _MOST_PROGRAMS:
                del self._programs[next(iter(self._programs))]
        return self._programs[written]

    def _pass(self, task: Callable[[int], tuple[Any, ...]], numbers: Sequence[int], add: Any) -> Any:
        """Return what tasks for some partitions give, added up as a tree."""
        self._find_homes()
        level = [
            self._submit(*task(number), workers=[self._homes[number]], allow_other_workers=True) for number in numbers
        ]
        while True:
            parts = [level[first : first + _FAN] for first in range(0, len(level), _FAN)]
            level = [self._submit(add, part) for part in parts]
            if len(level) == 1:
                return self._wait(level[0])

    def _find_homes(self) -> None:
        """Give partitions whose worker is gone to others, in turn."""
        there = self._workers()
        for number, home in enumerate(self._homes):
            if home not in there:
                self._homes[number] = there[number % len(there)]

    def _workers(self) -> list[str]:
        """Return the addresses of the workers; wait for one if there is none."""
        until = time.monotonic() + _PATIENCE
        while not (found := self._answered(lambda: sorted(self._client.scheduler_info(n_workers=-1)["workers"]))):
            if time.monotonic() > until:
                raise _lost("no worker is left")
            time.sleep(_LOOK / 5)
        return found

    def _submit(self, function: Any, *arguments: Any, **options: Any) -> Any:
        """Have a task done, under a random name."""
        key = f"dpmcmc-{function.__name__}-{secrets.token_hex(16)}"
        return self._answered(lambda: self._client.submit(function, *arguments, key=key, pure=False, **options))

    def _wait(self, future: Any) -> Any:
        """Return what a task gave, however many workers died on the way; raise what failed."""
        while True:
            try:
                result = future.result(timeout=_LOOK)
            except TimeoutError:
                self._workers()
            except Exception as error:
                reason = type(error).__name__
                break
            else:
                return result.get()
        raise _lost(reason)

    def _answered(self, ask: Callable[[], Any]) -> Any:
        """Return what the scheduler answers."""
        reason = f"the client is {self._client.status}"
        if self._client.status == "running":
            try:
                return ask()
            except DpmcmcError:
                raise
            except Exception as error:
                reason = type(error).__name__
        raise _lost(reason)


def _all_of(parts: list[worker.Result]) -> worker.Result:
    """Return that all went well; or the first failure."""
    return next((part for part in parts if part.failure is not None), worker.Result(True))


def _lost(reason: str) -> EngineUnavailable:
    return EngineUnavailable(
        f"the Dask cluster no longer answers ({reason}). Nothing of the pass that was under way is released, "
        "and what was charged stands. Start scheduler and workers again: a run that is written to a folder can then be "
        "resumed"
    )


def _absolute(source: Any) -> Any:
    """Return names of files that do not depend on the folder that a process is in."""
    if isinstance(source, list | tuple):
        return [_absolute(each) for each in source]
    path = os.fspath(source)
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def _forget(client: Any, token: str) -> None:
    with suppress(Exception):
        if client.status == "running":
            client.run(worker.forget, token, wait=False)
