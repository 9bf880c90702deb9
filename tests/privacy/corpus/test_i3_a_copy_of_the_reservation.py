"""I3: a copy of what `reserve` hands out.

The attack: `copy.copy` of it, before anything is executed, is a second object with all that was set aside, and the two
share one charge: four copies of a reservation of two programs gave ten releases. An attempt of a selection keeps a
copy, which is not closed with the attempt.

What must happen: whatever copies or pickles it raises, and the original goes on; what holds it shares it. A ledger and
a reservation of it are copied without a budget being granted twice: what is left is in the book.

False alarms: none; how many releases there are is counted.
"""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from toy import ToySum

from dpmcmc.accounting import Budget, Gaussian, Ledger
from dpmcmc.enclave import Attempt, Journal, PrivateData
from dpmcmc.enclave.core.session import Session
from dpmcmc.errors import BudgetExceeded, RunRefused, RunSettled

ONE = Gaussian(2.0)
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "inside a list": lambda paid: copy.deepcopy([paid]),
    **{f"pickle {number}": lambda paid, number=number: pickle.dumps(paid, number) for number in range(6)},
}


def ask(oracle):
    return oracle.sum(ToySum(), lambda record: record).value


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


@pytest.fixture
def data(ledger):
    return PrivateData(np.zeros((5, 3), np.float32), ledger=ledger, dataset="people", extra_mechanisms=(ToySum,))


@pytest.mark.parametrize("way", WAYS)
def test_a_reservation_is_not_copied(way, data, tmp_path):
    with data.reserve(ONE * 2) as paid, pytest.raises(RunRefused, match="neither copied nor pickled"):
        WAYS[way](paid)
    with Journal.create(tmp_path / "run", {}) as journal, data.reserve_resumable(ONE, journal) as paid:
        with pytest.raises(RunRefused, match="neither copied nor pickled"):
            WAYS[way](paid)
        paid.run(ask)  # or its journal waits to be resumed


def test_nothing_of_a_reservation_is_replaced():
    """What `copy.replace` of Python 3.13 asks for."""
    assert not hasattr(Session, "__replace__")


def test_copies_make_no_further_release(data, ledger):
    """The attack as it was."""
    with data.reserve(ONE * 2) as paid:
        copies = [paid]
        for _ in range(4):
            with pytest.raises(RunRefused):
                copies.append(copy.copy(paid))
        made = 0
        for one in copies:
            for _ in range(2):
                made += one.run(ask) is not None
        with pytest.raises(BudgetExceeded):
            paid.run(ask)
    assert made == 2
    assert ledger.account("people").spent == ONE * 2


def test_an_attempt_keeps_no_copy(data):
    kept = []

    def attempt(paid):
        with pytest.raises(RunRefused):
            kept.append(copy.copy(paid))
        paid.run(ask)
        return 0.0, None

    data.select([Attempt(ONE, attempt)], mean=2.0)
    assert not kept


def test_a_copy_of_the_ledger_is_the_same_book(ledger):
    for one in (copy.copy(ledger), copy.deepcopy(ledger)):
        one.register("people", Budget(1000.0, 1e-6), "replace_one")
        with pytest.raises(Exception, match="people"):
            one.register("people", Budget(2000.0, 1e-6), "replace_one")
    reservation = ledger.reserve("people", ONE, description="run", adjacency="replace_one")
    for one in (copy.copy(reservation), dataclasses.replace(reservation)):
        one.check_standing()
    reservation.settle()
    with pytest.raises(RunSettled):
        copy.copy(reservation).settle()
    assert ledger.account("people").spent == ONE


def test_the_control_spends_twice(monkeypatch):
    """Without the guard a copy has what is left once more."""
    monkeypatch.delattr(Session, "__reduce_ex__")
    data = PrivateData.without_guarantee(np.zeros((5, 3), np.float32), extra_mechanisms=(ToySum,))
    with data.reserve(ONE) as paid:
        other = copy.copy(paid)
        assert paid.run(ask) is not None
        assert other.run(ask) is not None
