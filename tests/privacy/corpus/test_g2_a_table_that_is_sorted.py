"""Shards of a table that is sorted by a value: a neighbour moves every row across the cuts.

The attack: the rows come ORDER BY age. One person's age goes from the lowest to the highest, which is one row that is
replaced, and all others move up by one place. A public program asks every shard of a table in which an attribute
alternates from shard to shard: each sum moves by one, for the price of one shard. (Here all even shards are asked at
once, and all odd ones.)

What must happen: rows in memory are shuffled, by a secret permutation under which neighbours differ in one place
(core/places.md), so that the *mean* of what the attacker adds up, over fresh vaults, moves by no more than the
sensitivity, two clips. Rows that are read chunk by chunk have shards only where the owner states that they keep their
place, which certificates repeat; and a fit of other ones asks all rows. The control: as they stand, the sum moves by
one clip for each shard.

False alarms: as in test_a2_place, 1.3e-8 for ERRORS standard errors of 2 * VAULTS - 2 = 46 degrees of freedom, if the
sums are about normal.
"""

import numpy as np
import pandas as pd
import pytest
from exact_sums import QUIET
from toy import Book

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.sources import MemorySource
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting import prepare_fit

SHARDS, ROWS = 32, 10
SIZE, VAULTS, ERRORS = SHARDS * ROWS, 24, 6.5
SCHEMA = {
    "columns": {"age": {"kind": "number", "lower": 0, "upper": 120}, "sick": {"kind": "number", "lower": 0, "upper": 1}}
}


def neighbours():
    """Two tables, each sorted by age, that differ in one row; who is sick alternates from shard to shard."""
    table = pd.DataFrame({"age": np.linspace(20, 80, SIZE), "sick": (np.arange(SIZE) // ROWS % 2 == 0) * 1.0})
    other = table.copy()
    other.loc[0, "age"] = 90.0
    return table, other.sort_values("age")


def alternating(oracle):
    partition = oracle.partition(range(ROWS, SIZE, ROWS))
    shards = [oracle.shard(partition, range(first, SHARDS, 2)) for first in (0, 1)]
    even, odd = (shard.sum(Sum(1.0, QUIET), lambda row: row["sick"]).value[0] for shard in shards)
    return even - odd


def released(open_vault):
    """What the attacker adds up, in clips, over fresh vaults of each neighbour."""
    return [np.array([float(open_vault(table).run(alternating)) for _ in range(VAULTS)]) for table in neighbours()]


def test_rows_in_memory_are_shuffled():
    ones, others = released(lambda table: PrivateData.from_table(table, schema=SCHEMA, ledger=Book(), dataset="people"))
    error = np.sqrt((ones.var(ddof=1) + others.var(ddof=1)) / VAULTS)
    assert error * ERRORS + 2 < SHARDS - 2, "what happens without is seen"
    assert abs(ones.mean() - others.mean()) <= 2 + ERRORS * error


def test_as_they_stand_every_shard_moves():
    """The control, in vaults for which nothing is claimed: in memory, and chunk by chunk."""
    for made in (lambda table: table.to_dict("series"), lambda table: MemorySource(table, SCHEMA)):
        one, other = (float(PrivateData.without_guarantee(made(table)).run(alternating)) for table in neighbours())
        assert abs(one - other) > SHARDS - 3


def test_rows_that_may_move_have_no_shards():
    table, _ = neighbours()
    options = {"schema": SCHEMA, "in_memory": False, "budget": Budget(1.0, 1e-6)}
    data = PrivateData.from_table(table, **options)
    for asked in (lambda: data.partition([10]), lambda: data.price(alternating), lambda: data.run(alternating)):
        with pytest.raises(InvalidArgument, match="rows_keep_place=True"):
            asked()
    stated = PrivateData.from_table(table, **options, rows_keep_place=True)
    part = stated.partition([10])
    with pytest.raises(InvalidArgument, match="not stated that rows keep"):  # nor may those of another vault be asked
        data.price(lambda oracle: oracle.shard(part, 0).sum(Sum(1.0, 9.0), lambda row: row["sick"]).value)
    assert stated.price(alternating).cells
    (words,) = stated.assumptions
    assert "no value of a row decides where rows stand" in words
    assert words in str(stated.certificate(stated.price(alternating), 1e-6).to_json())


def test_a_fit_of_rows_that_may_move_asks_all_of_them():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": np.sort(rng.uniform(-1, 1, 60_000)), "y": rng.integers(0, 2, 60_000)})
    columns = {"x": {"kind": "number", "lower": -1, "upper": 1}, "y": {"kind": "boolean"}}
    budget = Budget(8.0, 1e-6)

    def prepared(passes=None, **options):
        data = PrivateData.from_table(table, schema={"columns": columns}, budget=budget, in_memory=False, **options)
        return prepare_fit("y ~ x", data, epsilon=8.0, delta=1e-6, passes=passes, allow_low_accuracy=True)

    assert "not stated that rows keep their place" in prepared().describe()
    assert not prepared().event.outermost
    with pytest.raises(InvalidArgument, match="rows_keep_place=True"):
        prepared(passes=1)
    assert prepared(passes=1, rows_keep_place=True).event.outermost
