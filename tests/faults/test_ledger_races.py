"""Twenty processes at once, on both engines: exactly what fits is admitted, and the test notices where more is."""

from collections import Counter

import pytest

import racers
from dpmcmc.accounting.accountants import delta
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.ledger import Ledger
from racers import BUDGET, CAPACITY, CHARGE, DATASET, NUM_RACERS, PART, race
from servers import with_setting


@pytest.fixture
def url(new_url: str) -> str:
    Ledger.create(new_url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    return new_url


def check_race(url: str, outcomes: Counter[str]) -> None:
    """What must hold after a race."""
    account = Ledger(url).account(DATASET)
    assert outcomes == {"admitted": CAPACITY, "refused": NUM_RACERS - CAPACITY}
    assert len(account.standing) == CAPACITY
    assert account.spent == CHARGE * CAPACITY
    assert account.delta_spent <= BUDGET.delta


def test_the_capacity_is_seven() -> None:
    assert delta(CHARGE * CAPACITY, BUDGET.epsilon) <= BUDGET.delta < delta(CHARGE * (CAPACITY + 1), BUDGET.epsilon)


def test_twenty_processes_never_overspend(url: str) -> None:
    check_race(url, race(url, racers.reserve))


def test_a_server_whose_default_is_a_stale_snapshot_does_not_overspend(postgres, execute) -> None:
    url = postgres.new_url()
    Ledger.create(url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    stale = with_setting(url, "default_transaction_isolation", "repeatable read")
    assert execute(stale, "SHOW transaction_isolation") == [("repeatable read",)]
    check_race(url, race(stale, racers.reserve))


def test_a_check_outside_the_transaction_is_caught(url: str) -> None:
    outcomes = race(url, racers.reserve_checking_outside)
    with pytest.raises(AssertionError):
        check_race(url, outcomes)
    assert outcomes == {"admitted": NUM_RACERS}
    assert Ledger(url).account(DATASET).delta_spent > BUDGET.delta


def test_a_missing_row_lock_is_caught(postgres) -> None:
    url = postgres.new_url()
    Ledger.create(url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    outcomes = race(url, racers.reserve_without_row_lock)
    with pytest.raises(AssertionError):
        check_race(url, outcomes)
    assert outcomes == {"admitted": NUM_RACERS}


def test_a_whole_and_its_part_never_overspend_together(url: str) -> None:
    Ledger(url).register(PART, part_of=DATASET)
    outcomes = race(url, racers.reserve_in_family)
    assert outcomes == {"admitted": CAPACITY, "refused": NUM_RACERS - CAPACITY}
    for name in (DATASET, PART):
        assert Ledger(url).account(name).spent == CHARGE * CAPACITY


def test_a_part_that_locks_its_own_row_alone_is_caught(postgres) -> None:
    url = postgres.new_url()
    Ledger.create(url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    Ledger(url).register(PART, part_of=DATASET)
    outcomes = race(url, racers.reserve_in_family_locking_own_row)
    assert outcomes == {"admitted": 2, "refused": NUM_RACERS - 2}, "one for the whole and one for the part"
    assert Ledger(url).account(PART).delta_spent > BUDGET.delta
