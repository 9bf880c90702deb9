"""kill -9, crashes and forks: a reservation that was handed out stands, one that was not leaves no trace."""

import os
import signal
from typing import Any

import pytest

import racers
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import compose
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.errors import BudgetExceeded, LedgerUnavailable, UnknownRun
from racers import BUDGET, CAPACITY, CHARGE, DATASET, run_apart
from servers import with_setting


@pytest.fixture
def url(new_url: str) -> str:
    Ledger.create(new_url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    return new_url


def kill(process: Any, pipe: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.join(racers.PATIENCE)
    assert process.exitcode == -signal.SIGKILL
    process.close()
    pipe.close()


def test_a_run_killed_after_it_reserved_is_charged_and_can_be_resumed(url: str) -> None:
    process, pipe = run_apart(racers.reserve_and_hang, url)
    run = pipe.recv()
    kill(process, pipe)

    ledger = Ledger(url)
    assert ledger.account(DATASET).standing == (run,)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(DATASET, CHARGE * CAPACITY, description="as if the killed run had cost nothing")
    resumed = ledger.reservation(run)
    assert (resumed.dataset, resumed.event, resumed.description) == (DATASET, CHARGE, "a run that is killed")
    resumed.settle()
    assert ledger.account(DATASET).standing == ()
    assert ledger.account(DATASET).spent == CHARGE
    with pytest.raises(UnknownRun, match="settled already"):
        resumed.settle(compose([]))


def test_a_run_killed_before_its_reservation_was_committed_leaves_no_trace(url: str) -> None:
    before = Ledger(url).history()
    process, pipe = run_apart(racers.append_and_hang, url)
    assert pipe.recv() == "appended"
    kill(process, pipe)

    ledger = Ledger(url)
    assert ledger.history() == before
    ledger.reserve(DATASET, CHARGE * CAPACITY, description="the lock is gone too")


def test_a_reservation_survives_a_crash_of_the_server(postgres) -> None:
    ledger = Ledger.create(postgres.new_url(), timeout=2.0)
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    run = ledger.reserve(DATASET, CHARGE, description="before the crash").run
    before = ledger.history()
    postgres.stop("immediate")
    try:
        with pytest.raises(LedgerUnavailable, match="cannot be reached"):
            ledger.reserve(DATASET, CHARGE, description="during the crash")
    finally:
        postgres.start()
    assert ledger.history() == before
    ledger.reservation(run).settle()


def test_commits_wait_for_the_disk(url: str, execute) -> None:
    """Only a pulled plug could show the durability itself; this shows that it is asked for, whatever the default."""
    if url.startswith("sqlite"):
        question, expected = "PRAGMA synchronous", 3  # EXTRA
    else:
        question, expected = "SHOW synchronous_commit", "on"
        url = with_setting(url, "synchronous_commit", "off")
    assert execute(url, question) != [(expected,)]
    with Ledger(url)._book.writing() as connection:
        assert connection.exec_driver_sql(question).scalar() == expected


def test_a_forked_process_cannot_use_a_ledger_in_memory() -> None:
    process, pipe = run_apart(racers.fork_with_a_ledger_in_memory)
    assert "belongs to the process that made it" in pipe.recv()
    process.join(racers.PATIENCE)
    process.close()
    pipe.close()


def test_both_sides_of_a_fork_can_use_a_ledger_in_a_database(url: str) -> None:
    process, pipe = run_apart(racers.reserve_on_both_sides_of_a_fork, url)
    runs = {pipe.recv(), pipe.recv()}
    process.join(racers.PATIENCE)
    process.close()
    pipe.close()
    assert runs < set(Ledger(url).account(DATASET).standing)
    assert Ledger(url).account(DATASET).spent == CHARGE * 3
