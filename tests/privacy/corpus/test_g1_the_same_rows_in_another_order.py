"""Shards of one table in several orders, of which the ledger took the dearest and not the sum.

The attack: cells were positions in the table, under the same name in every vault. The rows are given again in another
order, as a query without ORDER BY or a list of files does by itself, and the first quarter of the positions is now
another quarter of the rows. Four vaults of a table, each turned by a quarter, ask "another" quarter each at the whole
budget: the same rows every time, for the price of one release.

What must happen: places have a name of their own in each vault, so that what two vaults ask adds up, and the second
request is refused. Within one vault, and within a run that is resumed with the same rows in the same order, cells stay
disjoint: four shards for the price of one (the control).

False alarms: none; only prices and names are compared.
"""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from dpmcmc.accounting import Budget, Gaussian, Ledger, Parallel, compose, epsilon, noise_for
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.errors import BudgetExceeded

SIZE, QUARTERS = 4_000, (1_000, 2_000, 3_000)
NOISE = 1.01 * noise_for(Gaussian, 1.0, 1e-6)
SCHEMA = {"columns": {"x": {"kind": "number", "lower": 0, "upper": 1}}}
ROWS = np.random.default_rng(0).random(SIZE)
KINDS = {
    "in memory": {},
    "chunk by chunk": {"in_memory": False, "rows_keep_place": True},
    "persons": {"schema": {**SCHEMA, "person": "who", "max_rows_per_person": 1}},
}


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1.0, 1e-6), "replace_one")
    return made


def vault(ledger, turned=0, **options):
    rows = pd.DataFrame({"who": np.arange(SIZE), "x": ROWS}).iloc[np.roll(np.arange(SIZE), turned)]
    return PrivateData.from_table(rows, ledger=ledger, dataset="people", **{"schema": SCHEMA, **options})


def quarter(number):
    def program(oracle):
        shard = oracle.shard(oracle.partition(QUARTERS), number)
        return shard.sum(Sum(1.0, NOISE), lambda record: record["x"].sum()).value

    return program


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_in_another_order_are_charged_again(kind, ledger):
    vault(ledger, **KINDS[kind]).run(quarter(0))
    for number in (1, 2, 3):
        with pytest.raises(BudgetExceeded):
            vault(ledger, number * SIZE // 4, **KINDS[kind]).run(quarter(number))


@pytest.mark.parametrize("kind", KINDS)
def test_one_vault_has_every_shard_for_the_price_of_one(kind, ledger):
    data = vault(ledger, **KINDS[kind])
    for number in range(4):
        data.run(quarter(number))
    assert epsilon(ledger.account("people").spent, 1e-6) == pytest.approx(epsilon(data.price(quarter(0)), 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_resumed_has_its_places_if_the_rows_are_in_their_order(kind, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))

    def taken_up(data, journal):
        price = compose([data.price(quarter(number)) for number in range(4)])
        return data.reserve_resumable(price, journal)

    first = vault(ledger, **KINDS[kind])
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "run", {}) as journal, taken_up(first, journal):
        raise KeyboardInterrupt  # nothing was executed, so that nobody was recognised for good
    again, turned = vault(ledger, **KINDS[kind]), vault(ledger, SIZE // 4, **KINDS[kind])
    assert len({one.facts.places for one in (first, again, turned)}) == 3
    with Journal.open(tmp_path / "run") as journal:
        if kind != "persons":  # who are the same, in whatever order their rows come
            with pytest.raises(Exception, match="charged"), taken_up(turned, journal):
                pass
            assert turned.facts.places != first.facts.places
        with taken_up(again, journal) as paid:
            assert again.facts.places == first.facts.places
            for number in range(4):
                paid.run(quarter(number))
    assert isinstance(ledger.account("people").spent, Parallel)


def test_many_vaults_are_added_up_and_not_refused(ledger):
    """As many placements as there may be: each is charged at its dearest cell, and what was paid stays readable."""
    ledger.register("many", Budget(9.0, 1e-6), "replace_one")
    cuts = tuple(range(10, 1_000, 10))

    def blocks(oracle):
        shard = oracle.shard(oracle.partition(cuts), (3, 50))
        return shard.sum(Sum(1.0, 5 * NOISE), lambda record: record["x"]).value

    for number in range(1, 5):
        data = PrivateData({"x": ROWS[:1_000]}, bounds={"x": (0, 1)}, ledger=ledger, dataset="many")
        once = next(case for case in data.price(blocks).cases if case.held)
        data.run(blocks)
        assert epsilon(ledger.account("many").spent, 1e-6) == pytest.approx(epsilon(once * number, 1e-6), rel=1e-6)
