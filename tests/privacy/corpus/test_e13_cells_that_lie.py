"""Cells of a shard that are not what they say.

The attack: a program asks a shard, whose price is that of its cells, with cells or a partition of its own make: a cell
that is traced and so differs when the program runs; a partition of a class of its own, or one whose cuts were changed
after it was made so that cells overlap; numbers that say that they are equal to others; a partition of the places of
another vault; or it binds the primitive itself, with any object for the cells.

What must happen: an error of dpmcmc before anything is charged; or the release, its price and the records that it reads
all follow from the same plain integers.

False alarms: none; nothing is drawn but sums of ones with little noise, rounded.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Book

from dpmcmc.accounting import Partition
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.release import dp_release
from dpmcmc.errors import DpmcmcError

ROWS = np.ones((60, 1), np.float32)
HALVES = Partition((0, 30, 60))
MECHANISM = Sum(1.0, 0.05)


def ask(oracle, partition, cell):
    return oracle.shard(partition, cell).sum(MECHANISM, lambda record: record).value


class OwnPartition(Partition):
    """Says that it is cut in the middle, and is not."""

    @property
    def numbering(self):
        return "", 60


class Sly(int):
    """A whole number that says that it is another."""

    def __new__(cls, value, says):
        made = super().__new__(cls, value)
        made.says = says
        return made

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return hash(self.says)

    def __index__(self):
        return self.says

    def __int__(self):
        return self.says


def with_cuts(*cuts, places=""):
    made = Partition((0, 30, 60))
    object.__setattr__(made, "cuts", cuts)
    object.__setattr__(made, "places", places)
    return made


class Everything:
    """Equal to all, and has every attribute of cells."""

    partition, numbers, intervals, size = HALVES, (0,), [(0, 60)], 60

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(Cells(HALVES, (0,)))

    def price(self, event):
        return event * 0


class OwnCells(Cells):
    intervals = [(0, 60)]  # noqa: RUF012


def bound(oracle, cells):
    """The primitive itself."""
    term = Term(lambda record: record, jax.tree.structure(()))
    return dp_release.bind(facts=oracle.facts, mechanism=MECHANISM, term=term, chains=(), cells=cells)[0]


REFUSED = {
    "a traced cell": lambda oracle, traced: ask(oracle, HALVES, traced),
    "a list with a traced cell": lambda oracle, traced: ask(oracle, HALVES, [0, traced]),
    "a cell that is an array": lambda oracle, _: ask(oracle, HALVES, jnp.int32(1)),
    "a text": lambda oracle, _: ask(oracle, HALVES, "0"),
    "no cell": lambda oracle, _: ask(oracle, HALVES, []),
    "a truth value": lambda oracle, _: ask(oracle, HALVES, True),
    "a cell beyond the last": lambda oracle, _: ask(oracle, HALVES, 2),
    "a cell before the first": lambda oracle, _: ask(oracle, HALVES, -1),
    "half a cell": lambda oracle, _: ask(oracle, HALVES, 0.5),
    "a class of its own": lambda oracle, _: ask(oracle, OwnPartition((0, 30, 61)), 0),
    "no partition": lambda oracle, _: ask(oracle, (0, 30, 60), 0),
    "fewer places": lambda oracle, _: ask(oracle, Partition((0, 30)), 0),
    "more places": lambda oracle, _: ask(oracle, Partition((0, 30, 600)), 0),
    "places of another vault": lambda oracle, _: ask(oracle, Partition((0, 30, 60), "ab" * 16), 0),
    "cuts that go back": lambda oracle, _: ask(oracle, with_cuts(0, 50, 40, 60), 0),
    "cuts that are no integers": lambda oracle, _: ask(oracle, with_cuts(0, 30.0, 60), 0),
    "cuts that say they are others": lambda oracle, _: ask(oracle, with_cuts(0, Sly(60, 30), 60), 0),
    "cuts in a list": lambda oracle, _: ask(oracle, with_cuts(0, 30, 60, places=["x"]), 0),
    "an object that is equal to all": lambda oracle, _: bound(oracle, Everything()),
    "cells of its own": lambda oracle, _: bound(oracle, OwnCells(HALVES, (0,))),
    "cells with a list": lambda oracle, _: bound(oracle, Cells(HALVES, [0])),
    "cells with sly numbers": lambda oracle, _: bound(oracle, Cells(HALVES, (Sly(1, 0),))),
    "cells with numbers that are none": lambda oracle, _: bound(oracle, Cells(HALVES, ("0",))),
    "cells beyond": lambda oracle, _: bound(oracle, Cells(HALVES, (5,))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_cells_that_are_none_are_refused_before_anything_is_charged(name):
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people")
    for call in (data.price, data.run):
        with pytest.raises((DpmcmcError, jax.errors.JAXTypeError, TypeError)):
            call(REFUSED[name], jnp.int32(0))
    assert book.reserved == []


def test_what_is_read_and_what_is_paid_follow_from_the_same_numbers():
    """A sly number of a caller becomes a plain one, once: the price names the cell that was read."""
    data = PrivateData.without_guarantee(ROWS)
    partition = Partition((0, 10, 60))

    def program(oracle):
        return ask(oracle, partition, Sly(1, 0))

    (count,) = np.round(data.run(program, insecure_seed=0))
    read = {10.0: 0, 50.0: 1}[float(count)]
    assert data.price(program).groups[0][1] == (read,)


def test_cells_that_are_named_twice_count_once():
    data = PrivateData.without_guarantee(ROWS)
    (count,) = np.round(data.run(lambda oracle: bound(oracle, Cells(HALVES, (1, 1, 1))), insecure_seed=0))
    assert count == 30


def test_a_partition_that_is_changed_after_it_was_used_changes_nothing():
    """The oracle has a copy of its own."""
    data, partition = PrivateData.without_guarantee(ROWS), Partition((0, 10, 60))

    def program(oracle):
        shard = oracle.shard(partition, 0)
        object.__setattr__(partition, "cuts", (0, 60))
        try:
            return shard.sum(MECHANISM, lambda record: record).value
        finally:
            object.__setattr__(partition, "cuts", (0, 10, 60))

    assert float(np.round(data.run(program, insecure_seed=0))[0]) == 10
    assert data.price(program).partitions == (Partition((0, 10, 60)),)
