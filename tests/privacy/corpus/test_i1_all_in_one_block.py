"""I1: everybody in one block, with the integers that add up to most.

The attack: a sum in blocks is added up by halves of 16 bits in an int32. If all records of a chunk name one block, and
all of them have the integers whose halves are largest, one record more takes a half across 2^31: the sum would jump by
2^32 steps for one record. The same at the ends of chunks, where a row that stands in two of them may count twice; in a
slot without a record, if what it adds is not zero; and in a table, if a label or a cell is none that was stated.

What must happen: the sum is that of Python's integers, whatever the integers, and a chunk of more rows is refused.

False alarms: none; integers are compared. The control adds up in one int32, and is off.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from exact_sums import QUIETEST

from dpmcmc.enclave import BlockSum, PrivateData
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.mechanisms import block_sum
from dpmcmc.enclave.mechanisms.block_sum import MOST_ROWS, sum_in_blocks
from dpmcmc.enclave.sources import FileSource
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument

LARGEST = 2**24
EACH = 2**23
HALVES = (LARGEST - 1, -LARGEST, 65_535, -1, -65_535, LARGEST - 65_536)


def python(wide):
    return (np.asarray(wide.high).astype(object) << 32) + np.asarray(wide.low).astype(object)


def added(entry, place, rows=MOST_ROWS, sums=sum_in_blocks):
    """The sum of so many records in one block, each with one entry of it and none beside."""
    integers = jnp.tile(jnp.array([place, entry, 0], jnp.int32), (1, rows, 1))
    return python(
        jax.jit(lambda rows: sums(Ball(LARGEST, 2).movable, 3, 1, rows, jnp.ones(rows.shape[:2], bool)))(integers)
    )


@pytest.mark.parametrize("entry", HALVES)
def test_no_half_overflows_where_all_records_are_in_one_block(entry):
    for place, block in ((0, 0), (2, 2), (7, 2), (-(2**31), 0), (2**31 - 1, 2)):
        found = added(entry, place)[0]
        expected = [0] * 4
        expected[block] = (
            entry * MOST_ROWS if abs(entry) < LARGEST else found[block]
        )  # at the bound the gate may say no
        assert found.tolist() == expected
        assert found[block] in (entry * MOST_ROWS, 0)


def test_one_record_more_is_refused():
    with pytest.raises(InvalidArgument, match="too many rows"):
        added(-1, 0, MOST_ROWS + 1)


def test_a_sum_in_one_int32_would_be_off():
    """The control."""

    def hasty(gate, _, __, integers, counts):
        own = jnp.where(counts & gate.passes(integers[..., 1:])[..., 0], integers[..., 1], 0)
        sums = jnp.sum(own, axis=1, dtype=jnp.int32)
        return Wide(sums >> 31, sums.astype(jnp.uint32))

    assert added(LARGEST - 1, 0, sums=hasty)[0] != (LARGEST - 1) * MOST_ROWS


@pytest.mark.parametrize("size", [511, 512, 513, 1023, 1025])
@pytest.mark.parametrize("chunk_size", [7, 512, 600])
def test_ends_of_chunks_and_slots_without_a_record(size, chunk_size, monkeypatch):
    """Untrusted code gives every row, with or without a record, the same large integer in the last block.

    The noise has 2^16 steps: a row that counts twice is 128 standard deviations off, and eight of them are never seen.
    """
    monkeypatch.setattr(
        quantise, "vector", lambda value, _, **__: jnp.zeros(value.shape, jnp.int32).at[..., 0].set(EACH)
    )
    monkeypatch.setattr(quantise, "place", lambda value, _: jnp.full(value.shape, 2**31 - 1, jnp.int32))
    data = PrivateData.without_guarantee(np.ones((size, 3), np.float32), chunk_size=chunk_size)
    found = data.run(lambda oracle: oracle.sum(BlockSum(1.0, QUIETEST, 5, 1), lambda record: record), insecure_seed=3)
    steps = np.asarray(found.value, float) / (np.sqrt(float(np.asarray(found.variance))) / 2**16)
    assert np.abs(steps[:4]).max() < 8 * 2**16, "no other block has anything"
    assert abs(steps[4] - EACH * size) < 8 * 2**16, "each record counts once"


SCHEMA = {
    "columns": {
        "x": {"kind": "number", "lower": -1, "upper": 1},
        "site": {"kind": "category", "categories": ["a", "b", "c"], "missing": "category"},
    }
}
HOSTILE = {
    "an unknown label": {"site": "z"},
    "no label": {"site": None},
    "a label that looks like another": {"site": "\u0430"},
    "a huge number": {"x": 1e300},
    "no number": {"x": float("nan")},
    "infinite": {"x": -np.inf},
    "a text for a number": {"x": "much"},
}


def in_its_site(record):
    return jnp.stack([record["site"].astype(jnp.float32), record["x"], jnp.ones(())])


def vault(path, in_memory):
    """A table that nobody pays for, in memory or read chunk by chunk."""
    if not in_memory:
        return PrivateData.without_guarantee(LocalEngine(FileSource(path, SCHEMA)))
    return PrivateData.without_guarantee(read_table(path, SCHEMA).records)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_row_of_a_table_moves_two_clips_at_most(name, tmp_path):
    """In memory and chunk by chunk, with the same bits. The last of four levels stands for a missing label."""
    usual = pd.DataFrame({"x": np.linspace(-1, 1, 600), "site": ["a", "b", "c"] * 200}, dtype=object)
    changed = usual.copy()
    for column, cell in HOSTILE[name].items():
        changed.loc[333, column] = cell
    usual.to_csv(tmp_path / "usual.csv", index=False)
    changed.to_csv(tmp_path / "changed.csv", index=False)

    def program(oracle):
        return oracle.sum(BlockSum(1.0, 2.0, 4, 1), in_its_site).value

    vaults = [vault(tmp_path / f"{table}.csv", held) for table in ("usual", "changed") for held in (True, False)]
    assert len({str(data.price(program)) for data in vaults}) == 1, "the price is one of shapes"
    held, streamed, held_changed, streamed_changed = (
        np.asarray(data.run(program, insecure_seed=4), np.float64) for data in vaults
    )
    np.testing.assert_array_equal(held, streamed)
    np.testing.assert_array_equal(held_changed, streamed_changed)
    assert 0.1 < np.linalg.norm(held - held_changed) <= 2 + 1e-4


PERSONS = {**SCHEMA, "person": "who", "max_rows_per_person": 2}
MANY_ROWS = {
    "rows in several blocks": [("p", 1.0, "a"), ("p", 1.0, "b"), ("p", -1.0, "c"), ("p", 1e300, "z")],
    "one row a hundred times": [("p", 1.0, "b")] * 100,
    "one name in several forms": [("p", 1.0, "a"), (" p", 1.0, "c"), ("p ", 1.0, "b")],
    "cells of no kind": [("p", None, None), ("p", float("nan"), "")],
}


def of_a_person(record):
    """The block of the first row, and what all rows add."""
    there = record["present"]
    return jnp.stack([record["site"][0].astype(jnp.float32), jnp.sum(there * record["x"]), jnp.sum(there)])


@pytest.mark.parametrize("name", MANY_ROWS)
@pytest.mark.parametrize(("adjacency", "clips"), [("replace_one", 2), ("add_or_remove_one", 1)])
def test_a_person_with_many_rows_moves_what_one_record_may(name, adjacency, clips):
    """In the place of a person with one row, or beside the others: then their places stay, under the same seed."""
    others = [(f"a{number}", number / 300, "abc"[number % 3]) for number in range(300)]
    before = [*others, ("p", -1.0, "a")] if adjacency == "replace_one" else others
    facts = {} if adjacency == "replace_one" else {"capacity": 400}

    def program(oracle):
        return oracle.sum(BlockSum(1.0, 2.0, 4, 1), of_a_person).value

    found = []
    for rows in (before, [*others, *MANY_ROWS[name]]):
        table = read_table(pd.DataFrame(rows, columns=["who", "x", "site"], dtype=object), PERSONS)
        data = PrivateData.without_guarantee(table.records, adjacency=adjacency, **facts)
        found.append(np.asarray(data.run(program, insecure_seed=4), np.float64))
    assert 0.1 < np.linalg.norm(found[0] - found[1]) <= clips + 1e-4


def test_what_is_tested_is_what_runs():
    assert block_sum.MOST_ROWS * 65_535 < 2**31 <= (block_sum.MOST_ROWS + 1) * 65_535
