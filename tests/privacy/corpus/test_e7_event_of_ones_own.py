"""A reservation of events that are something else to the ledger than to the run.

The attack: `PrivateData.reserve` takes an event from its caller. A subclass of `Approximation`, with a hash and an
equality of its own, is next to nothing to the ledger and the accountants, and to the run, which looks in a dictionary
for what is left of each part of a price, it is the Gaussian that a program costs, a million times.

What must happen: an error of dpmcmc before anything is charged (events of the library's own classes alone have a
price).

False alarms: none; what was charged is compared with what was released.
"""

import numpy as np

from dpmcmc.accounting import Budget, epsilon
from dpmcmc.accounting.event import Approximation, Composed, Event, counts
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import DpmcmcError

TIMES = 40


def program(oracle):
    return oracle.sum(Sum(1.0, 10.0), lambda record: record).value


def test_a_reservation_covers_what_is_released():
    ledger = Ledger.in_memory()
    ledger.register("people", Budget(epsilon=1.0, delta=1e-6), "replace_one")
    data = PrivateData(np.zeros((600, 2), np.float32), ledger=ledger, dataset="people")
    price = data.price(program)

    parts = {(1 + number) * 1e-40: part for number, part in enumerate(counts(price))}

    class Disguised(Approximation):
        held = frozenset((Approximation,))

        def __hash__(self):
            return hash(parts[self.total_variation])

        def __eq__(self, other):
            if isinstance(other, Disguised):
                return self.total_variation == other.total_variation
            return other == parts[self.total_variation]

    released = 0
    try:
        event = Composed({Disguised(number): 10**6 for number in parts})
        with data.reserve(event) as paid:
            for _ in range(TIMES):
                paid.run(program)
                released += 1
            standing = ledger.account("people").epsilon_spent
    except DpmcmcError:
        if not released:
            return
        standing = ledger.account("people").epsilon_spent
    finally:
        Event.kinds.pop("Disguised", None)
    true = epsilon(price * released, delta=1e-6)
    assert standing >= true, f"{released} releases of epsilon {true:.3g} for {standing:.3g}"
