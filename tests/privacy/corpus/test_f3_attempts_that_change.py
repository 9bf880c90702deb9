"""A candidate of a selection that states one event for the price and another for what it may execute.

The attack: `PrivateData.select` asks each attempt what it releases, to make the price, and again when it runs. An
object whose `event` is a property is cheap the first time and dear the second; a list that is changed by a run, or
read anew, is another list.

What must happen: each attempt is asked once; what it executes is held to the event that was charged.

False alarms: none; nothing is executed, and what is charged is compared as it is.
"""

import numpy as np
import pytest
from toy import Book

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.select import Attempt
from dpmcmc.errors import SelectionFailed

ROWS = np.ones(600, np.float32)


def ask(noise):
    return lambda oracle: oracle.sum(Sum(1.0, noise), lambda record: record).value


CHEAP, DEAR = ask(1e4), ask(0.01)
RELEASED = []


def leak(paid):
    RELEASED.append(paid.run(DEAR))
    return 1.0, RELEASED[-1]


class DearTheSecondTime:
    def __init__(self, *events):
        self.events, self.asked = events, 0

    @property
    def event(self):
        self.asked += 1
        return self.events[self.asked > 1]

    @property
    def run(self):
        return leak


class AnotherListEachTime(list):
    """A list whose places hold the dear attempt, and whose iteration gives the cheap one."""

    def __getitem__(self, place):
        return self.dear


def cheap_to_who_iterates(cheap, dear):
    made = AnotherListEachTime([Attempt(cheap, leak)])
    made.dear = Attempt(dear, leak)
    return made


def changed_by_its_run(cheap, dear):
    made = []

    def run(paid):
        made[:] = [Attempt(dear, leak)]
        return leak(paid)

    made.append(Attempt(cheap, run))
    return made


LISTS = {
    "a property": lambda cheap, dear: [DearTheSecondTime(cheap, dear)],
    "a list that differs": cheap_to_who_iterates,
    "changed by its run": changed_by_its_run,
    "from a generator": lambda cheap, dear: (DearTheSecondTime(*pair) for pair in [(cheap, dear)]),
}


@pytest.mark.parametrize("name", LISTS)
def test_what_an_attempt_executes_is_what_it_stated(name):
    RELEASED.clear()
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people")
    attempts = LISTS[name](data.price(CHEAP), data.price(DEAR))
    with pytest.raises(SelectionFailed):
        data.select(attempts, mean=3.0)
    assert not RELEASED
    assert len(book.reserved) == 1
