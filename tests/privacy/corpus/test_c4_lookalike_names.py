"""The attack: the same table is registered again under a name that reads the same, and gets a second budget.

What must happen: such a name is refused, with the name that it resembles; no message advises another name. A name that
is honestly different gets a budget of its own: no ledger sees whether the same people are behind it; the docs say so.
"""

import pytest

from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.errors import DatasetExists, LedgerError

BUDGET = Budget(1.0, 1e-6)
DISGUISES = {
    "clinic-10 records": [
        "Clinic-10 Records",
        "clinic 10 records",
        "clinic_10.records",
        "clinic10records",
        "сlіnіс-10 rесоrds",  # Cyrillic
        "clinic-10 recοrds",  # a Greek omicron
        "clinic-lO records",
        "c1inic-10 records",
        "clínïc-10 rècords",
        "ｃｌｉｎｉｃ-１０ records",
        "clinic-10 records\u034f",
        "clinic\u3164-10 records",
        "\N{MATHEMATICAL BOLD SMALL C}linic-10 records",
        "clinic\N{EN DASH}10 records",
        "[clinic-10 records]",
        "c\N{DIVIDES}inic-10 records",
        "c\N{HEBREW PUNCTUATION PASEQ}inic-10 records",
    ],
    "ОТЧЁТ 3": ["OTЧЕТ 3", "отчёт-3", "отчет3"],
    "ΗΜΕΡΑ": ["ημερα", "HMEPA"],
}


@pytest.mark.parametrize(("name", "disguise"), [(name, one) for name, some in DISGUISES.items() for one in some])
def test_a_disguise_gets_no_budget(name: str, disguise: str) -> None:
    ledger = Ledger.in_memory()
    ledger.register(name, BUDGET, "replace_one")
    before = ledger.history()
    with pytest.raises((DatasetExists, ValueError)) as refusal:
        ledger.register(disguise, BUDGET, "replace_one")
    assert ledger.history() == before
    if isinstance(refusal.value, LedgerError):
        assert repr(name) in str(refusal.value)
    assert "under another name" not in str(refusal.value)


@pytest.mark.parametrize("budget", [Budget(2.0, 1e-6), Budget(1.0, 1e-5)])
def test_other_terms_are_not_advised_to_take_another_name(budget: Budget) -> None:
    ledger = Ledger.in_memory()
    ledger.register("people", BUDGET, "replace_one")
    with pytest.raises(DatasetExists) as refusal:
        ledger.register("people", budget, "replace_one")
    assert "another name" not in str(refusal.value)
