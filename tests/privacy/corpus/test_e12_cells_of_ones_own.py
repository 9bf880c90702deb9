"""A mechanism, or a caller, that says which places were asked.

The attack: `Parallel` costs what its dearest cell costs. A mechanism that the owner accepted, an attempt of a selection
or the caller of `reserve` states a `Parallel` of many cells for releases that were computed from all places: ten sums
for the price of one. Or an object that is written as one, or a `Parallel` that says that it is none.

What must happen: of a mechanism and an attempt, an error of dpmcmc before anything is charged or released. What a
caller sets aside pays for what the vault computed, place by place: one sum of all places, and not ten.

False alarms: none; what was charged is compared with what was released.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from toy import Book, ToySum

from dpmcmc.accounting import Composed, Event, Gaussian, Parallel, Partition, epsilon
from dpmcmc.accounting.event import counts
from dpmcmc.accounting.parallel import contains
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.core import session
from dpmcmc.enclave.select import Attempt
from dpmcmc.errors import BudgetExceeded, DpmcmcError, InvalidArgument

ROWS = np.zeros((60, 2), np.float32)
TENTHS = Partition(tuple(range(0, 61, 6)))
TEN_FOR_ONE = Parallel(TENTHS, {cell: Gaussian(2.0) for cell in range(10)})


class Written(Gaussian):
    """A Gaussian, by its class, that is written as a Parallel."""

    def to_dict(self):
        return TEN_FOR_ONE.to_dict()


class SaysItHasNone(Parallel):
    """A Parallel that stands inside compositions."""

    outermost = False


OWN_KINDS = {kind.__name__: Event.kinds.pop(kind.__name__) for kind in (Written, SaysItHasNone)}


@pytest.fixture(autouse=True)
def _kinds(monkeypatch):
    """What is known while these tests run, and in no others of the process: the kinds above too."""
    monkeypatch.setattr(Event, "kinds", {**Event.kinds, **OWN_KINDS})


def says_it_has_none():
    made = object.__new__(SaysItHasNone)
    made._set(partitions=TEN_FOR_ONE.partitions, cells=TEN_FOR_ONE.cells)
    return made


STATED = {
    "a Parallel": lambda: TEN_FOR_ONE,
    "with something of all places": lambda: TEN_FOR_ONE + Gaussian(50.0),
    "of one cell": lambda: Parallel(Partition((0, 60)), {0: Gaussian(2.0)}),
    "of nothing": lambda: Parallel(TENTHS, {}),
    "written as one": lambda: Written(2.0),
    "written as one, composed": lambda: Composed({Written(2.0): 1, Gaussian(50.0): 1}),
    "that says it is none": says_it_has_none,
    "that says it is none, composed": lambda: Composed({says_it_has_none(): 3}),
}


@dataclass(frozen=True)
class StatesItsCells(ToySum):
    """A mechanism that the owner accepts, whose price has cells."""

    name: str = ""

    def plan(self, facts, contribution, queries):
        plan = ToySum.plan(self, facts, contribution, queries)
        return replace(plan, event=STATED[self.name]()) if self.name else plan


@pytest.mark.parametrize("name", STATED)
def test_a_mechanism_does_not_state_its_cells(name):
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people", extra_mechanisms=[StatesItsCells])

    def program(oracle):
        return oracle.sum(StatesItsCells(name=name), lambda record: record).value

    for ask in (data.price, data.run):
        with pytest.raises(InvalidArgument, match=r"^event is a Parallel|no kind of event|^kind="):
            ask(program)
    assert book.reserved == []


def whole(oracle):
    return oracle.sum(StatesItsCells(), lambda record: record).value


@pytest.mark.parametrize("name", STATED)
def test_an_attempt_does_not_state_its_cells(name):
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people")
    with pytest.raises(DpmcmcError):
        data.select([Attempt(STATED[name](), lambda paid: (paid, 0.0))], mean=2.0)
    assert book.reserved == []


@pytest.mark.parametrize("name", STATED)
def test_what_a_caller_sets_aside_pays_for_what_was_computed(name):
    """Whatever it is written as: releases of all places are paid in every cell."""
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people", extra_mechanisms=[StatesItsCells])
    with data.reserve(STATED[name]()) as paid, pytest.raises(BudgetExceeded):
        _ = [paid.run(whole) for _ in range(10)]
    (reserved,) = book.reserved
    assert type(reserved) is Parallel
    assert contains(reserved, paid.spent)
    assert paid.count == min(counts(cell).get(Gaussian(2.0), 0) for cell in reserved.cells)


def test_there_is_an_attack(monkeypatch):
    """Were it not compared place by place, ten sums of all records would be paid as one: the negative control."""
    assert epsilon(TEN_FOR_ONE, 1e-6) == epsilon(Gaussian(2.0), 1e-6) < epsilon(Gaussian(2.0) * 10, 1e-6) / 3
    data = PrivateData(ROWS, ledger=Book(), dataset="people", extra_mechanisms=[StatesItsCells])
    monkeypatch.setattr(session, "contains", lambda *_: True)
    monkeypatch.setattr(session, "remove", lambda left, _: left)
    with data.reserve(TEN_FOR_ONE) as paid:
        _ = [paid.run(whole) for _ in range(10)]
    assert paid.spent == Gaussian(2.0) * 10
    assert epsilon(paid.spent, 1e-6) > 3 * epsilon(TEN_FOR_ONE, 1e-6)
