"""A process that is copied while something is set aside.

The attack: `os.fork` copies a process with all that it holds. Inside `reserve` both have the reservation, and each
spends it; or the copy, which has executed nothing, leaves the block first and settles the run at nothing while the
other goes on releasing.

What must happen: the copy executes nothing and settles nothing.

Beside it, from the same report: a book's event that has two values of one name is refused, whoever reads it first.

False alarms: none.
"""

import os

import numpy as np
import pytest
from toy import Book, ToySum

from dpmcmc.accounting import Event, Gaussian
from dpmcmc.accounting.event import compose
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import InvalidArgument, RunRefused

ONE = Gaussian(2.0)


def ask(oracle):
    return oracle.sum(ToySum(), lambda record: record).value


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def data(book):
    return PrivateData(np.zeros((5, 3), np.float32), ledger=book, dataset="people", extra_mechanisms=(ToySum,))


def test_a_copy_executes_nothing_and_settles_nothing(data, book, monkeypatch):
    """The copy is this process under another number: forking one that runs threads of XLA may hang."""
    own = os.getpid()
    with data.reserve(ONE) as paid:
        with monkeypatch.context() as copied:
            copied.setattr(os, "getpid", lambda: own + 1)
            with pytest.raises(RunRefused, match="another process than the one that made it"):
                paid.run(ask)
            assert not paid.settle()
        assert book.settled == []
        paid.run(ask)
    assert book.settled == [ONE]


def test_a_copy_that_leaves_the_block_gives_nothing_back(data, book, monkeypatch):
    own = os.getpid()
    with monkeypatch.context() as copied, data.reserve(ONE):
        copied.setattr(os, "getpid", lambda: own + 1)
    assert book.settled == []
    assert book.reserved == [ONE]


@pytest.mark.parametrize(
    "document",
    [
        '{"kind": "Gaussian", "noise_multiplier": 1.0, "noise_multiplier": 50.0}',
        '{"kind": "NonPrivate", "kind": "Composed", "parts": []}',
        '{"kind": "Composed", "parts": [{"event": {"kind": "NonPrivate"}, "count": 9, "count": 1}]}',
    ],
)
def test_a_name_has_one_value(document):
    with pytest.raises(InvalidArgument, match="two values of one name"):
        Event.from_json(document)


def test_what_is_asked_and_not_used_is_refused_in_words(book):
    data = PrivateData(np.zeros((5, 3), np.float32), ledger=book, dataset="people")
    with pytest.raises(RunRefused, match="depends on the value of no release, return one, or ask for none"):
        data.run(lambda oracle: (oracle.sum(Sum(1.0, 2.0), lambda record: record).value, compose([]))[0].shape[0] * 1.0)
    assert book.reserved == []
