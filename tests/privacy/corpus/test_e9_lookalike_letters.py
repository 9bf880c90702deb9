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
    "all in Lisu": ("PAT", "\ua4d1\ua4ee\ua4d4"),
    "all in Cherokee": ("PAT", "\u13e2\u13aa\u13a2"),
    "all in Coptic": ("coop", "\u2ca5\u2c9f\u2c9f\u2ca3"),
    "all in Armenian": ("ooo", "\u0585\u0585\u0585"),
    "an Arabic digit": ("patients 1", "patients \u0661"),
    "a digit of N'Ko": ("patients 1", "patients \u07c1"),
    "digits of Devanagari": ("12", "\u0967\u0968"),
    "r and n": ("summer", "surnrner"),
    "two v": ("ward", "vvard"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_no_second_budget(pair):
    ledger = Ledger.in_memory()
    ledger.register(pair[0], Budget(1.0, 1e-6), "replace_one")
    with pytest.raises(DpmcmcError):
        ledger.register(pair[1], Budget(1.0, 1e-6), "replace_one")


@pytest.mark.parametrize(
    "name", ["\u5317\u4eac 2", "ward 3", "\u03b7\u03bc\u03ad\u03c1\u03b1", "\u0628\u064a\u062a \u0662"]
)
def test_an_honest_name_gets_its_budget(name):
    """The control: in Chinese, Latin, Greek and Arabic letters."""
    ledger = Ledger.in_memory()
    ledger.register("ward 2", Budget(1.0, 1e-6), "replace_one")
    ledger.register(name, Budget(1.0, 1e-6), "replace_one")
    assert {entry.dataset for entry in ledger.history()} == {"ward 2", name}
