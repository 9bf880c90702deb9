"""Names of datasets that look alike, in letters that are not on the list.

The attack: a second budget for the same table under a name that nobody can tell from the first: with a blank of
Braille, which is printed as nothing, or an o of another alphabet.

What must happen: `DatasetExists`.
"""

import pytest

from dpmcmc.accounting import Budget
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.errors import DpmcmcError

PAIRS = {
    "a blank of Braille": ("people", "people\u2800"),
    "an Armenian o": ("people", "pe\u0585ple"),
    "a Coptic o": ("people", "pe\u2c9fple"),
    "a small capital o": ("people", "pe\u1d0fple"),
    "a Cherokee A": ("APPLE", "\u13aaPPLE"),
    "a Lisu B": ("BOOK", "\ua4d0OOK"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_no_second_budget(pair):
    ledger = Ledger.in_memory()
    ledger.register(pair[0], Budget(1.0, 1e-6), "replace_one")
    with pytest.raises(DpmcmcError):
        ledger.register(pair[1], Budget(1.0, 1e-6), "replace_one")
