"""Processes with one thread each that work through a list, longest first; one that dies is replaced."""

import os
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import gettempdir
from typing import Any

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "JAX_COMPILATION_CACHE_DIR": str(Path(gettempdir()) / "stress_compiled"),  # shared by all processes
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.5",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
TRIES = 2
"""How often a task is begun, should its process die."""

Task = Callable[[Any, float], None]


def work_through(task: Task, units: Sequence[Any], number: int, time_limit: float) -> list[Any]:
    """Do ``task(unit, deadline)`` for all units, in their order; return those that were given up or not begun.

    Args:
        task: a function of a module; it stops by itself soon after the deadline, in seconds of `time.time`.
        units: what to do.
        number: of processes; with one it is done in this one.
        time_limit: in seconds.
    """
    deadline = time.time() + time_limit
    if number == 1:
        for place, unit in enumerate(units):
            if time.time() > deadline:
                return list(units[place:])
            task(unit, deadline)
        return []
    os.environ.update(ONE_THREAD)  # before a process of theirs imports anything
    left, tries = list(units), dict.fromkeys(map(str, units), 0)
    cores = sorted(os.sched_getaffinity(0))
    given: dict[Connection, tuple[Any, Any, int]] = {}
    lost: list[Any] = []
    for place in range(min(number, len(left))):
        _begin(given, task, left.pop(0), deadline, cores, place)
    while given:
        for connection in wait(list(given)):
            process, unit, place = given[connection]
            try:
                is_alive = True
                if not connection.recv():
                    lost.append(unit)
            except EOFError:
                is_alive = False
                tries[str(unit)] += 1
                print(f"the process of {unit} died", flush=True)  # noqa: T201
                (left.append if tries[str(unit)] < TRIES else lost.append)(unit)
            if is_alive and left and time.time() < deadline:
                given[connection] = (process, left.pop(0), place)
                connection.send((given[connection][1], deadline))
                continue
            del given[connection]
            connection.close()
            process.join(10)
            if not is_alive and left and time.time() < deadline:
                _begin(given, task, left.pop(0), deadline, cores, place)
    return lost + left


def _begin(given: dict[Connection, Any], task: Task, unit: Any, deadline: float, cores: list[int], place: int) -> None:
    """Start a process on a core of its own, which it and its threads inherit, and give it something to do."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(task, theirs), daemon=True)
    os.sched_setaffinity(0, {cores[place % len(cores)]})
    process.start()
    os.sched_setaffinity(0, set(cores))
    theirs.close()
    ours.send((unit, deadline))
    given[ours] = (process, unit, place)


def _serve(task: Task, connection: Connection) -> None:
    Path(ONE_THREAD["JAX_COMPILATION_CACHE_DIR"]).mkdir(parents=True, exist_ok=True)
    while True:
        try:
            unit, deadline = connection.recv()
        except EOFError:
            return
        try:
            task(unit, deadline)
        except Exception:  # the others go on
            traceback.print_exc()
            connection.send(False)
        else:
            connection.send(True)
