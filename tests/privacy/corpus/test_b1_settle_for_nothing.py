"""The attack: a run is found by its name, which the history shows to everybody, and settled at nothing while it works.

What must happen: nobody without the secret of the reservation settles it below its price; a run that was settled, at
its full price, executes nothing further; however often it is tried, the ledger shows all that was released.
"""

import numpy as np
import pytest

from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import compose
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.accounting.parallel import contains
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import BudgetExceeded, RunSettled, SettlementRefused

# ruff: noqa: S608, the statements are put together from constants alone
NOTHING = compose([])


def ask(oracle):
    return oracle.sum(Sum(1.0, 10.0), lambda record: record).value


@pytest.fixture
def url(new_url: str) -> str:
    Ledger.create(new_url).register("people", Budget(1.0, 1e-6), "replace_one")
    return new_url


def settle_all(url: str, spent) -> None:
    """What the attacker does, from a process of its own."""
    ledger = Ledger(url)
    for run in ledger.account("people").standing:
        ledger.reservation(run).settle(spent)


def test_standing_runs_are_not_settled_at_nothing(url: str) -> None:
    data = PrivateData(np.zeros((20, 2)), ledger=Ledger(url), dataset="people")
    price, released = data.price(ask), []

    def release() -> None:
        with data.reserve(price) as paid:
            released.append(paid.run(ask))
            with pytest.raises(SettlementRefused):
                settle_all(url, NOTHING)

    with pytest.raises(BudgetExceeded):
        _ = [release() for _ in range(100)]
    assert 0 < len(released) < 100
    assert contains(Ledger(url).account("people").spent, price * len(released))


def test_a_run_that_was_settled_at_its_full_price_stops(url: str) -> None:
    data = PrivateData(np.zeros((20, 2)), ledger=Ledger(url), dataset="people")
    price = data.price(ask)

    def release() -> None:
        with data.reserve(price * 2) as paid:
            paid.run(ask)
            settle_all(url, None)
            with pytest.raises(RunSettled, match="nothing was executed"):
                paid.run(ask)

    with pytest.warns(RuntimeWarning, match="settled by somebody else") as heard:
        release()
    assert not any("its charge stands" in str(one.message) for one in heard)
    assert Ledger(url).account("people").spent == price * 2


def test_a_settlement_written_by_hand_is_seen_before_the_next_program(url: str, execute) -> None:
    """Whoever writes the database can lie to it, but the run that is at work notices, and says what is true."""
    data = PrivateData(np.zeros((20, 2)), ledger=Ledger(url), dataset="people")
    columns = "kind, dataset, run, event, adjacency, who, made_at, what, library_version"

    def release() -> None:
        with data.reserve(data.price(ask) * 2) as paid:
            paid.run(ask)
            values = f"'{paid.entry['run']}', '{NOTHING.to_json()}', 'replace_one', 'a', 'b', 'c', 'd'"
            execute(url, f"INSERT INTO dpmcmc_entries ({columns}) VALUES ('settle', 'people', {values})")
            with pytest.raises(RunSettled):
                paid.run(ask)

    with pytest.warns(RuntimeWarning, match="at LESS than it released"):
        release()
