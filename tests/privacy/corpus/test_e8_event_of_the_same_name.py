"""A ledger that forgets because somebody defines a class.

The attack, or the mistake: every subclass of `Event` enters itself in `Event.kinds` under its name, also one called
`Gaussian` that somebody writes in a notebook. From then on the ledger reads its entries as events of that class. One
that says that it costs nothing makes all that was spent nothing, and the budget can be spent again; an honest one
makes the ledger unreadable, with a bare ValueError.

What must happen: the definition is refused with an error, or the ledger goes on to read its own classes.
"""

from dataclasses import dataclass

import pytest

from dpmcmc.accounting import Budget
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.event import Gaussian as Honest
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.errors import BudgetExceeded, DpmcmcError


@pytest.fixture(autouse=True)
def _kinds():
    kept = dict(Event.kinds)
    yield
    Event.kinds.clear()
    Event.kinds.update(kept)


@pytest.mark.parametrize("free", [True, False])
def test_the_ledger_remembers(free):
    ledger = Ledger.in_memory()
    ledger.register("people", Budget(1.0, 1e-6), "replace_one")
    ledger.reserve("people", Honest(6.0), description="a run").settle()
    spent = ledger.account("people").epsilon_spent
    try:

        @dataclass(frozen=True)
        class Gaussian(Event):
            noise_multiplier: float
            if free:
                held = frozenset((Honest,))
                gaussian_rho = 0.0

    except (DpmcmcError, TypeError):
        return
    assert ledger.account("people").epsilon_spent == spent
    with pytest.raises(BudgetExceeded):
        ledger.reserve("people", Honest(5.0), description="another")
