"""The attack: a run is stopped, the events in its private file are set to nothing, and it is resumed, or finished.

What must happen: rows that the run has not written are noticed, the run does not go on, and all that it reserved stays
charged; nothing is given back. (Who restores a whole older file, or has its key, is the user, and outside the promise.)
"""

import sqlite3

import jax.numpy as jnp
import numpy as np
import pytest
from toy import ToySum

from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Gaussian, compose
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.enclave import Journal, PrivateData
from dpmcmc.enclave.resume import private_file
from dpmcmc.errors import ResumeRefused, SettlementRefused

# ruff: noqa: S608, the statements are put together from constants alone
ONE = Gaussian(2.0)
RESERVED = ONE * 3
TRICKS = {
    "nothing": f"UPDATE programs SET event = '{compose([]).to_json()}'",
    "less": f"UPDATE programs SET event = '{Gaussian(20.0).to_json()}' WHERE place = 1",
    "no event": "UPDATE programs SET event = ''",
    "another type": "UPDATE programs SET event = 7, tag = 'x'",
    "no tag": "UPDATE programs SET tag = x''",
    "another tag": "UPDATE programs SET tag = (SELECT tag FROM programs WHERE place = 0)",
    "another program": "UPDATE programs SET identity = x'00'",
    "exchanged": "UPDATE programs SET place = 7 - place",
    "the last row": "DELETE FROM programs WHERE place = 1",
    "the first row": "DELETE FROM programs WHERE place = 0",
    "all rows": "DELETE FROM programs",
    "the table": "DROP TABLE programs",
    "the table of version 0.1": "ALTER TABLE programs DROP COLUMN tag",
    "another key": "UPDATE run SET key = zeroblob(32)",
}


def step(oracle, before):
    return before + oracle.sum(ToySum(), lambda record: record).value


class Stopped(BaseException):
    """The process is no more."""


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


@pytest.fixture
def data(ledger):
    return PrivateData(np.zeros((5, 3)), ledger=ledger, dataset="people", extra_mechanisms=(ToySum,))


def begin_and_stop(data, folder, programs):
    with Journal.create(folder, {}) as journal, data.reserve_resumable(RESERVED, journal) as paid:
        for number in range(programs):
            paid.run(step, jnp.full(3, 1.0 * number))
        raise Stopped


@pytest.mark.parametrize("trick", TRICKS)
def test_an_altered_file_gives_nothing_back(trick, ledger, data, tmp_path):
    with pytest.raises(Stopped):
        begin_and_stop(data, tmp_path / "run", 2)
    connection = sqlite3.connect(next(private_file.private_folder().glob("*.db")))
    connection.execute(TRICKS[trick])
    connection.commit()
    connection.close()
    for _ in range(2):
        with pytest.raises(ResumeRefused, match="All that was reserved stays charged"):
            Journal.open(tmp_path / "run")
    assert ledger.account("people").spent == RESERVED
    (run,) = ledger.account("people").standing
    with pytest.raises(SettlementRefused):
        ledger.reservation(run).settle(compose([]))
    ledger.reservation(run).settle()
    assert ledger.account("people").spent == RESERVED


def test_a_file_that_was_not_altered_gives_the_rest_back(ledger, data, tmp_path):
    """The control."""
    with pytest.raises(Stopped):
        begin_and_stop(data, tmp_path / "run", 1)
    with Journal.open(tmp_path / "run") as journal, data.reserve_resumable(RESERVED, journal) as paid:
        paid.run(step, jnp.zeros(3))
    assert ledger.account("people").spent == ONE
