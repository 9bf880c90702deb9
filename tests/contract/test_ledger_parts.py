"""Parts of a dataset, whose persons differ: what two parts are charged is not added up, and the whole keeps its budget.

The oracle is the definition: of one person there is what was charged to the whole and to their own part.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpmcmc as dp
from dpmcmc.accounting import Adjacency, Budget, Gaussian, Ledger, LogisticBit, Parallel, Partition, compose, delta
from dpmcmc.accounting.filters import RenyiFilter
from dpmcmc.errors import (
    AdjacencyMismatch,
    BudgetExceeded,
    DatasetExists,
    InvalidArgument,
    LedgerUnavailable,
    UnknownDataset,
)

BUDGET = Budget(1.0, 1e-6)
STEP = Gaussian(11.5)
FITS = 7
"""How many steps the budget pays for: see `test_the_capacity_is_seven`."""

WHOLE, OLDER, NEWER = "admissions", "admissions 2025", "admissions 2026"


@pytest.fixture(params=["sqlite", "postgresql", "in memory"])
def ledger(request: pytest.FixtureRequest, tmp_path) -> Ledger:
    """A ledger with a dataset and two parts of it."""
    if request.param == "in memory":
        made = Ledger.in_memory()
    elif request.param == "sqlite":
        made = Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    else:
        made = Ledger.create(request.getfixturevalue("postgres").new_url())
    made.register(WHOLE, BUDGET, "replace_one")
    for part in (OLDER, NEWER):
        made.register(part, part_of=WHOLE)
    return made


def charge(ledger: Ledger, dataset: str, times: int = 1) -> None:
    ledger.reserve(dataset, STEP * times, description="run").settle()


def test_the_capacity_is_seven() -> None:
    assert delta(STEP * FITS, BUDGET.epsilon) <= BUDGET.delta < delta(STEP * (FITS + 1), BUDGET.epsilon)


def test_each_part_has_the_whole_budget(ledger: Ledger) -> None:
    for part in (OLDER, NEWER):
        assert (ledger.account(part).budget, ledger.account(part).part_of) == (BUDGET, WHOLE)
        charge(ledger, part, FITS)
        with pytest.raises(BudgetExceeded, match="together with 'admissions', of which it is a part, has spent"):
            charge(ledger, part)
    whole = ledger.account(WHOLE)
    assert (whole.spent, whole.parts) == (STEP * FITS, (OLDER, NEWER))
    with pytest.raises(BudgetExceeded, match="together with the most expensive of its parts"):
        charge(ledger, WHOLE)


def test_what_the_whole_is_charged_counts_in_every_part_of_today_and_tomorrow(ledger: Ledger) -> None:
    charge(ledger, WHOLE, FITS - 2)
    ledger.register("admissions 2027", part_of=WHOLE)
    for part in (OLDER, NEWER, "admissions 2027"):
        assert ledger.account(part).spent == STEP * (FITS - 2)
        with pytest.raises(BudgetExceeded):
            charge(ledger, part, 3)
        charge(ledger, part, 2)
    for dataset in (WHOLE, OLDER):
        with pytest.raises(BudgetExceeded):
            charge(ledger, dataset)


def test_the_whole_may_be_charged_what_fits_beside_the_dearest_part(ledger: Ledger) -> None:
    charge(ledger, OLDER, FITS - 1)
    charge(ledger, NEWER, 2)
    with pytest.raises(BudgetExceeded):
        charge(ledger, WHOLE, 2)
    charge(ledger, WHOLE)
    assert ledger.account(NEWER).spent == STEP * 3
    assert ledger.account(OLDER).spent == STEP * FITS


def test_what_a_part_gives_back_can_be_charged_to_the_whole(ledger: Ledger) -> None:
    run = ledger.reserve(OLDER, STEP * FITS, description="stopped")
    assert ledger.account(WHOLE).standing == (run.run,)
    with pytest.raises(BudgetExceeded, match=r"runs not settled: 1.*a stopped run gives back"):
        charge(ledger, WHOLE)
    run.settle(STEP)
    charge(ledger, WHOLE, FITS - 1)


def test_parts_that_are_asked_in_other_ways_are_both_kept(ledger: Ledger) -> None:
    """Neither covers the other, so that the whole has both, and a charge is checked beside each."""
    bits = LogisticBit(0.05) * 40
    ledger.reserve(OLDER, STEP * 3, description="run")
    ledger.reserve(NEWER, bits, description="run")
    assert set(ledger.account(WHOLE).spent.cases) == {STEP * 3, bits}
    ledger.reserve(WHOLE, STEP, description="run")
    assert set(ledger.account(WHOLE).spent.cases) == {STEP * 4, bits + STEP}


def test_shards_of_parts_are_cells_beside_each_other(ledger: Ledger) -> None:
    """The shards of a part are of its own persons; those of the whole may be any."""
    for part, dear in ((OLDER, 3), (NEWER, 5)):
        cut = Partition.with_random_id(2)
        ledger.reserve(part, Parallel(cut, {0: STEP, 1: STEP * dear}), description="run")
    assert set(ledger.account(WHOLE).spent.cases) == {STEP, STEP * 3, STEP * 5}
    ledger.reserve(WHOLE, Parallel(Partition.with_random_id(2), {0: STEP * 2}), description="run")
    assert max(case.gaussian_rho for case in ledger.account(WHOLE).spent.cases) == (STEP * 7).gaussian_rho
    with pytest.raises(BudgetExceeded):
        charge(ledger, WHOLE)
    charge(ledger, OLDER, 2)


def test_many_parts_beside_many_shards_are_counted_at_the_dearest(ledger: Ledger) -> None:
    for year in range(30):
        ledger.register(f"admissions {1980 + year}", part_of=WHOLE)
        ledger.reserve(f"admissions {1980 + year}", STEP + Gaussian(100.0 + year), description="run")
    shards = Partition.with_random_id(4)
    ledger.reserve(WHOLE, Parallel(shards, {cell: STEP * (1 + cell % 2) for cell in range(4)}), description="run")
    total = ledger.account(WHOLE).delta_spent
    assert total >= delta(STEP * 3 + Gaussian(100.0), BUDGET.epsilon)
    assert total <= BUDGET.delta


def test_a_filter_is_kept_by_every_part(ledger: Ledger) -> None:
    ledger.register("people", BUDGET, "add_or_remove_one", adaptive=True)
    for part in ("people north", "people south"):
        assert ledger.register(part, part_of="people").adaptive
        charge(ledger, part, 5)
    assert RenyiFilter(BUDGET).used(ledger.account("people").spent) == RenyiFilter(BUDGET).used(STEP * 5)
    with pytest.raises(BudgetExceeded, match="kept by a filter"):
        charge(ledger, "people", 3)


def test_a_part_has_the_terms_of_the_whole(ledger: Ledger) -> None:
    before = ledger.history()
    assert ledger.register(OLDER, part_of=WHOLE) == ledger.account(OLDER)
    assert ledger.register(OLDER, BUDGET, "replace_one", part_of=WHOLE).part_of == WHOLE
    for terms in [
        {"budget": Budget(2.0, 1e-6)},
        {"budget": Budget(0.5, 1e-6)},
        {"adjacency": "add_or_remove_one"},
        {"adaptive": True},
    ]:
        with pytest.raises(InvalidArgument, match="a part of 'admissions' shares its budget"):
            ledger.register("admissions 2027", **terms, part_of=WHOLE)
    with pytest.raises(InvalidArgument, match="parts have no parts; register a part of 'admissions'"):
        ledger.register("admissions May 2026", part_of=NEWER)
    with pytest.raises(UnknownDataset):
        ledger.register("trees 2026", part_of="trees")
    with pytest.raises(InvalidArgument, match="budget=None"):
        ledger.register("trees")
    with pytest.raises(AdjacencyMismatch):
        ledger.reserve(OLDER, STEP, description="run", adjacency="add_or_remove_one")
    assert ledger.history() == before


def test_nothing_becomes_a_part_afterwards_or_ceases_to_be_one(ledger: Ledger) -> None:
    """A budget that was granted alone would be spent twice, and one that is shared would be granted anew."""
    ledger.register("visits", BUDGET, "replace_one")
    with pytest.raises(DatasetExists, match=r"already, not .*, as a part of 'admissions'"):
        ledger.register("visits", part_of=WHOLE)
    with pytest.raises(DatasetExists, match="already, as a part of 'admissions', not"):
        ledger.register(OLDER, BUDGET, "replace_one")
    with pytest.raises(DatasetExists, match=r"already, not .*, as a part of 'admissions'"):
        ledger.register(WHOLE, part_of=WHOLE)
    with pytest.raises(DatasetExists, match="looks like 'admissions 2026'"):
        ledger.register("Admissions-2026", part_of=WHOLE)


def test_parts_are_in_the_history_and_in_words(ledger: Ledger) -> None:
    entries = {entry.dataset: entry for entry in ledger.history()}
    assert [entries[name].part_of for name in (WHOLE, OLDER)] == [None, WHOLE]
    assert entries[OLDER].description == "budget granted, as a part of 'admissions'"
    assert "part of admissions" in repr(ledger.account(OLDER))
    assert "in 2 parts of different persons" in repr(ledger.account(WHOLE))
    assert ledger.account(OLDER).to_dict()["part_of"] == WHOLE
    assert ledger.account(WHOLE).to_dict()["parts"] == [OLDER, NEWER]


def test_a_library_that_knows_no_parts_refuses_the_book(tmp_path, monkeypatch) -> None:
    """It would charge the whole without what its parts have spent."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).register(WHOLE, BUDGET, "replace_one")
    monkeypatch.setattr("dpmcmc.accounting.ledger.schema.SCHEMA_VERSION", 2)
    with pytest.raises(LedgerUnavailable, match="tables of version 3"):
        Ledger(url)


NUMBERS = itertools.count()
ACTS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=10)


@given(acts=ACTS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_sequence_of_runs_breaks_the_budget_of_anybody(ledger: Ledger, acts: list[tuple[int, int, bool]]) -> None:
    """A charge is refused exactly if somebody would have more than the budget: number 0 is the whole."""
    names = [f"set {next(NUMBERS)}"]
    ledger.register(names[0], BUDGET, "replace_one")
    names += [f"{names[0]} {letter}" for letter in "abc"]
    for name in names[1:]:
        ledger.register(name, part_of=names[0])
    spent = [0, 0, 0, 0]
    for which, times, gives_back in acts:
        after = spent[0] + times + (max(spent[1:]) if which == 0 else spent[which])
        if after > FITS:
            with pytest.raises(BudgetExceeded):
                charge(ledger, names[which], times)
            continue
        ledger.reserve(names[which], STEP * times, description="run").settle(compose([]) if gives_back else None)
        spent[which] += 0 if gives_back else times
        for number in range(1, 4):
            assert ledger.account(names[number]).spent == STEP * (spent[0] + spent[number])
        assert ledger.account(names[0]).delta_spent == delta(STEP * (spent[0] + max(spent[1:])), BUDGET.epsilon)


# --- what results say -------------------------------------------------------------------------------------------------

SCHEMA = dp.Schema({"x": dp.Column(kind="number", lower=-1, upper=1), "y": dp.Column(kind="boolean")})


def vault(ledger: Ledger, dataset: str, seed: int) -> dp.PrivateData:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, 4000)
    rows = pd.DataFrame({"x": x, "y": rng.random(4000) < 1 / (1 + np.exp(-x))})
    return dp.PrivateData.from_table(rows, schema=SCHEMA, ledger=ledger, dataset=dataset)


def test_a_year_goes_on_from_the_last_at_the_price_of_one(tmp_path) -> None:
    ledger = Ledger.in_memory()
    ledger.register(WHOLE, Budget(2.0, 1e-6), Adjacency.REPLACE_ONE)
    years = [f"admissions {year}" for year in (2024, 2025, 2026)]
    call = {"family": "bernoulli", "epsilon": 1.9, "progress": False}
    posterior = None
    for seed, year in enumerate(years):
        ledger.register(year, part_of=WHOLE)
        posterior = dp.fit("y ~ x", vault(ledger, year, seed), **call, prior=posterior)
        stated = [words for words in posterior.certificate.holds_if if "nobody is in two of its parts" in words]
        assert len(stated) == 1
        assert "which part that is counts as public" in stated[0]
        assert posterior.certificate.epsilon <= 1.9
        posterior = dp.Posterior.load(posterior.save(tmp_path / year))
    assert posterior.settings["parts"] == [[WHOLE, year] for year in reversed(years)]
    again = dp.fit("y ~ x", vault(ledger, WHOLE, 9), family="bernoulli", epsilon=0.3, allow_low_accuracy=True)
    assert again.combine(posterior).certificate.epsilon > 1.9, "whoever is in a part may be in the whole"
    twice = posterior.combine(posterior)
    assert twice.certificate.epsilon > 2.5, "the same part twice is the same persons"
    assert twice.quality.verdict == "bad"
    assert "the same run is in both" in twice.quality.reasons[0]
    assert "the same run is in both" not in str(again.combine(posterior).quality.reasons)


def test_a_part_under_add_or_remove_says_nothing_of_which_part() -> None:
    ledger = Ledger.in_memory()
    ledger.register(WHOLE, BUDGET, "add_or_remove_one")
    (words,) = ledger.register(OLDER, part_of=WHOLE).assumptions
    assert "nobody is in two of its parts" in words
    assert "public" not in words
    assert Ledger.in_memory().register("trees", BUDGET, "replace_one").assumptions == ()
