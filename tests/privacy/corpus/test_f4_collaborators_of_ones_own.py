"""Objects of one's own make where the vault expects its own.

The attack: a run is taken up with a subclass of `Journal`, or with something that only looks like one. Its `spent` says
that nothing was, so that everything is given back; its `begin` returns a key of one's own, so that the noise is known;
its `kept` returns what it likes; or it does not recognise records. An event of one's own make is set aside, with one
price for the ledger and another for the session.

What must happen: refused before anything is charged; an event is what it is written as. And what a session has executed
itself is never given back, whatever a journal says.

False alarms: none; nothing is executed but in the controls.
"""

import numpy as np
import pytest
from toy import ToySum

from dpmcmc.accounting import Budget, Event, Gaussian, Ledger
from dpmcmc.accounting.event import compose
from dpmcmc.enclave import Journal, PrivateData
from dpmcmc.enclave.resume import journal as journal_module
from dpmcmc.errors import BudgetExceeded, InvalidArgument

ONE = Gaussian(2.0)


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


@pytest.fixture
def data(ledger):
    return PrivateData(np.zeros((5, 3), np.float32), ledger=ledger, dataset="people", extra_mechanisms=(ToySum,))


def ask(oracle):
    return oracle.sum(ToySum(), lambda record: record).value


class Free(Journal):
    __slots__ = ()

    @property
    def spent(self):
        return compose([])


class Known(Journal):
    __slots__ = ()

    def begin(self, place, identity, event):
        super().begin(place, identity, event)
        return bytes(32)


class Same(Journal):
    """As it was, but for its class, which has a place for attributes."""


class Around:
    """Hands everything on, and can be changed."""

    def __init__(self, journal):
        self.journal = journal

    def __getattr__(self, name):
        return getattr(self.journal, name)

    @property
    def __class__(self):
        return Journal


@pytest.mark.parametrize("kind", [Free, Known, Same])
def test_a_subclass_is_no_journal(kind, data, ledger, tmp_path):
    with (
        kind.create(tmp_path / "run", {}) as journal,
        pytest.raises(InvalidArgument, match=r"journal is a \w+; expected a dpmcmc.enclave.Journal"),
        data.reserve_resumable(ONE, journal) as paid,
    ):
        paid.run(ask)
    assert [entry.kind for entry in ledger.history("people")] == ["register"]


def test_what_looks_like_a_journal_is_none(data, ledger, tmp_path):
    with Journal.create(tmp_path / "run", {}) as journal:
        around = Around(journal)
        assert isinstance(around, Journal), "there is no attack"
        with pytest.raises(InvalidArgument, match="journal is a Around"), data.reserve_resumable(ONE, around) as paid:
            paid.run(ask)
    assert [entry.kind for entry in ledger.history("people")] == ["register"]


@pytest.mark.parametrize("name", ["spent", "begin", "kept", "recognise", "places", "secret"])
def test_nothing_of_a_journal_can_be_written_over(name, tmp_path):
    with Journal.create(tmp_path / "run", {}) as journal, pytest.raises(AttributeError):
        object.__setattr__(journal, name, lambda *_: compose([]))


def test_what_was_executed_is_not_given_back(data, ledger, tmp_path, monkeypatch):
    """Whatever a journal says: here it has lost its rows."""
    monkeypatch.setattr(journal_module.Journal, "spent", property(lambda _: compose([])))
    with Journal.create(tmp_path / "run", {}) as journal, data.reserve_resumable(ONE * 2, journal) as paid:
        paid.run(ask)
        assert paid.spent == ONE
    assert ledger.account("people").spent == ONE


class Cheap(Gaussian):
    """A Gaussian with a price of its own, for who asks it and not for who reads how it is written."""

    gaussian_rho = 0.0

    @property
    def cases(self):
        return (Gaussian(1e9),)

    def to_dict(self):
        return ONE.to_dict()


Event.kinds.pop("Cheap")


@pytest.mark.parametrize("method", ["reserve", "reserve_resumable"])
def test_an_event_is_what_it_is_written_as(method, data, ledger, tmp_path):
    """And pays for no more than that."""
    with Journal.create(tmp_path / "run", {}) as journal:
        further = (journal,) if method == "reserve_resumable" else ()
        with getattr(data, method)(Cheap(2.0), *further) as paid:
            paid.run(ask)
            with pytest.raises(BudgetExceeded):
                paid.run(ask)
    assert ledger.account("people").spent == ONE
