"""Processes of their own that use a ledger: to race, to be killed, to run out of disk.

They are forked from a clean server process that has imported the library once, so that twenty start in a second.
"""

import multiprocessing
import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Gaussian
from dpmcmc.accounting.ledger import Ledger, entries
from dpmcmc.accounting.ledger.account import DatasetAccount
from dpmcmc.errors import BudgetExceeded, DpmcmcError, LedgerUnavailable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads is not forked
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["dpmcmc.accounting.ledger", "psycopg", "sqlalchemy.dialects.postgresql.psycopg", "pytest"]
)

NUM_RACERS = 20
CAPACITY = 7
DATASET, PART = "patients", "patients north"
CHARGE = Gaussian(10.0)
BUDGET = Budget(1.17, 1e-6)  # seven charges fit and eight do not: see test_the_capacity_is_seven
PATIENCE = 60.0


def race(url: str, racer: Callable[..., bool]) -> Counter[str]:
    """Let `NUM_RACERS` processes reserve at the same moment; count what came of it."""
    barrier, outcomes = PROCESSES.Barrier(NUM_RACERS), PROCESSES.SimpleQueue()
    processes = [PROCESSES.Process(target=_race_once, args=(url, racer, barrier, outcomes)) for _ in range(NUM_RACERS)]
    for process in processes:
        process.start()
    counted = Counter(outcomes.get() for _ in processes)
    for process in processes:
        process.join(PATIENCE)
        process.close()
    outcomes.close()
    return counted


def _race_once(url: str, racer: Callable[..., bool], barrier: Any, outcomes: Any) -> None:
    try:
        outcome = "admitted" if racer(Ledger(url, timeout=PATIENCE), barrier) else "refused"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    outcomes.put(outcome)


def reserve(ledger: Ledger, barrier: Any) -> bool:
    """Reserve as the library does."""
    barrier.wait(PATIENCE)
    try:
        ledger.reserve(DATASET, CHARGE, description="race")
    except BudgetExceeded:
        return False
    return True


def reserve_in_family(ledger: Ledger, barrier: Any) -> bool:
    """Reserve as the library does, every second racer for a part of the dataset."""
    which = DATASET if barrier.wait(PATIENCE) % 2 else PART
    try:
        ledger.reserve(which, CHARGE, description="race")
    except BudgetExceeded:
        return False
    return True


def reserve_in_family_locking_own_row(ledger: Ledger, barrier: Any) -> bool:
    """Reserve by a mutant: a part locks its own row and not that of the whole."""
    which = DATASET if barrier.wait(PATIENCE) % 2 else PART
    admits, terms = DatasetAccount.admits, entries.terms

    def admits_slowly(self: DatasetAccount, event: Any) -> bool:
        time.sleep(1.0)  # so that whoever waits for another row has read by then
        return admits(self, event)

    def lock_own(connection: Any, dataset: str, **lock: Any) -> Any:
        if lock.get("lock"):
            connection.execute(entries._registration(connection, dataset).with_for_update()).one()
        return terms(connection, dataset)

    entries.terms, DatasetAccount.admits = lock_own, admits_slowly
    try:
        ledger.reserve(which, CHARGE * CAPACITY, description="race")
    except BudgetExceeded:
        return False
    return True


def reserve_checking_outside(ledger: Ledger, barrier: Any) -> bool:
    """Reserve by a mutant: the check and the charge are two transactions."""
    admitted = ledger.account(DATASET).admits(CHARGE)
    barrier.wait(PATIENCE)
    if admitted:
        with ledger._book.writing() as connection:
            entry = {"who": "racer", "description": "race", "run": str(os.getpid()), "event": CHARGE}
            entries.append(connection, entries.RESERVE, DATASET, Adjacency.REPLACE_ONE, **entry)
    return admitted


def reserve_without_row_lock(ledger: Ledger, barrier: Any) -> bool:
    """Reserve by a mutant: one transaction, but the dataset's row is not locked."""
    account, admits = entries.account, DatasetAccount.admits

    def admits_when_all_have_read(self: DatasetAccount, event: Any) -> bool:
        barrier.wait(PATIENCE)
        return admits(self, event)

    entries.account = lambda connection, dataset, **_lock: account(connection, dataset)
    DatasetAccount.admits = admits_when_all_have_read
    ledger.reserve(DATASET, CHARGE, description="race")
    return True


def run_apart(job: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """Start `job(pipe, *arguments)` in a process of its own; return the process and the other end of the pipe."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=job, args=(there, *arguments))
    process.start()
    there.close()
    return process, here


def reserve_and_hang(pipe: Any, url: str) -> None:
    """Reserve, tell the run, and never settle."""
    pipe.send(Ledger(url).reserve(DATASET, CHARGE, description="a run that is killed").run)
    time.sleep(PATIENCE)


def append_and_hang(pipe: Any, url: str) -> None:
    """Append a reservation and hang before the transaction is committed."""
    append = entries.append

    def append_then_hang(*arguments: Any, **fields: Any) -> None:
        append(*arguments, **fields)
        pipe.send("appended")
        time.sleep(PATIENCE)

    entries.append = append_then_hang
    Ledger(url).reserve(DATASET, CHARGE, description="a run that is killed")


def reserve_and_lose_the_connection(pipe: Any, url: str) -> None:
    """Have the server end the connection between the charge and its commit; tell the error."""
    append, other = entries.append, Ledger(url)

    def append_then_lose(connection: Any, *arguments: Any, **fields: Any) -> None:
        append(connection, *arguments, **fields)
        server_process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with other._book.reading() as another:
            another.exec_driver_sql(f"SELECT pg_terminate_backend({server_process}, 10000)")

    entries.append = append_then_lose
    try:
        Ledger(url).reserve(DATASET, CHARGE, description="a run whose server goes away")
    except LedgerUnavailable as error:
        pipe.send(str(error))


def reserve_until_full(pipe: Any, url: str, largest_file: int) -> None:
    """Reserve nothing, with long words, until the file may not grow; tell how many were charged and the error."""
    ledger = Ledger(url)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    charged = 0
    try:
        for _ in range(100):
            ledger.reserve(DATASET, CHARGE * 0, description="x" * 3000)
            charged += 1
    except DpmcmcError as error:
        pipe.send((charged, type(error).__name__, str(error)))


def fork_with_a_ledger_in_memory(pipe: Any) -> None:
    """Fork a process that holds a ledger in memory; tell what the child got to hear when it reserved."""
    ledger = Ledger.in_memory()
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    child = os.fork()
    if child == 0:
        try:
            ledger.reserve(DATASET, CHARGE, description="twice the budget")
        except LedgerUnavailable as error:
            pipe.send(str(error))
        os._exit(0)
    os.waitpid(child, 0)


def reserve_on_both_sides_of_a_fork(pipe: Any, url: str) -> None:
    """Fork a process that holds a ledger in a file, and reserve in both."""
    ledger = Ledger(url)
    ledger.reserve(DATASET, CHARGE, description="before")
    child = os.fork()
    run = ledger.reserve(DATASET, CHARGE, description="child" if child == 0 else "parent").run
    if child == 0:
        pipe.send(run)
        os._exit(0)
    os.waitpid(child, 0)
    pipe.send(run)
