"""Cells that a schema does not fit: at most one flag a cell, and a record's flags are of its own rows alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import COLUMNS, FRAME, PERSONS, SCHEMA, sources

from dpmcmc.enclave.tables import read_table
from dpmcmc.enclave.tables.flags import flag_names, read_flags

NAMES = flag_names(SCHEMA)


def test_what_is_flagged():
    flags = pd.DataFrame(read_flags(FRAME, SCHEMA), columns=pd.MultiIndex.from_tuples(NAMES)).astype(int)
    found = {name: flags[name].to_numpy().tolist() for name in NAMES if flags[name].any()}
    assert found == {
        ("age", "missing"): [0, 0, 0, 1, 0, 0],
        ("age", "clamped"): [0, 1, 1, 0, 0, 0],
        ("visits", "clamped"): [0, 1, 1, 0, 0, 0],
        ("ward", "missing"): [0, 0, 1, 0, 0, 0],
        ("ward", "unknown"): [0, 0, 0, 1, 0, 0],
    }
    assert [name for name, problem in NAMES if problem == "clamped"] == ["age", "visits"]


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_every_source_has_the_same_flags(schema, tmp_path):
    expected = read_flags(FRAME, schema)
    for kind, source in sources(tmp_path).items():
        np.testing.assert_array_equal(read_flags(source, schema), expected, err_msg=kind)


def test_a_person_has_the_mean_of_all_rows():
    """Of the second person all three rows count, though a record of the table has two places."""
    rows, persons = read_flags(FRAME, SCHEMA), read_flags(FRAME, PERSONS)
    expected = [rows[FRAME["patient"] == who].mean(axis=0) for who in (7, 3, 12)]
    np.testing.assert_allclose(persons, np.stack(expected), rtol=1e-6)
    nobody = pd.concat([FRAME.astype(object), FRAME.astype(object).assign(patient=None)])
    np.testing.assert_array_equal(read_flags(nobody, PERSONS), persons)


CELLS = st.one_of(
    st.text(max_size=4), st.floats(), st.integers(), st.booleans(), st.none(), st.binary(max_size=4), st.dates()
)
ROWS = st.lists(st.tuples(st.sampled_from("pq"), *[CELLS] * len(COLUMNS)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=100)
@given(ROWS, ROWS)
def test_whatever_the_cells_are_a_record_is_within_the_clip_and_depends_on_its_own_rows(rows, others):
    """At most one flag a cell, and it is missing or unknown just where the table takes a stand-in."""
    frame = pd.DataFrame(rows, columns=["patient", *COLUMNS], dtype=object)
    flags = read_flags(frame, SCHEMA)
    stored = read_table(frame, SCHEMA).records
    for name in COLUMNS:
        of_column = flags[:, [owner == name for owner, _ in NAMES]]
        assert np.all(of_column.sum(axis=1) <= 1)
    places = [place for place, name in enumerate(NAMES) if name[0] == "age" and name[1] != "clamped"]
    np.testing.assert_array_equal(flags[:, places].any(axis=1), stored["age_missing"] == 1)
    persons = read_flags(frame, PERSONS)
    assert np.all(np.linalg.norm(persons, axis=1) <= np.sqrt(len(COLUMNS)) + 1e-6)
    mixed = pd.concat([pd.DataFrame(others, columns=["patient", *COLUMNS], dtype=object), frame], ignore_index=True)
    np.testing.assert_array_equal(read_flags(mixed, SCHEMA)[len(others) :], flags)
