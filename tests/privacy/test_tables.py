"""Tables become records: the same from every source, within the stated bounds, cell by cell."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import AGE, COLUMNS, CSV, FRAME, PERSONS, SCHEMA, WARD, check_same, sources

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.tables import from_table, read_table
from dpmcmc.errors import AdjacencyMismatch, DatasetExists, InvalidArgument, UnknownDataset
from dpmcmc.schema import Column, Schema

KINDS = [
    "csv", "tsv", "parquet", "feather", "arrow", "folder", "pandas", "pandas objects", "pandas categories", "polars",
    "pyarrow", "duckdb", "duckdb object",
]  # fmt: skip


def one(column: Column, cells, **kind):
    """The leaf of a table with a single column, from pandas."""
    return read_table(pd.DataFrame({"x": pd.Series(cells, **kind)}), Schema({"x": column})).records


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_every_source_gives_the_same_records(kind, schema, tmp_path):
    table = read_table(sources(tmp_path)[kind], schema)
    check_same(table.records, read_table(FRAME, schema).records)
    assert set(table.records) == set(table.bounds) == set(schema.bounds)
    assert table.rows_per_person == (2 if schema is PERSONS else None)


def test_the_records_are_what_the_schema_says():
    records = read_table(FRAME, SCHEMA).records
    np.testing.assert_array_equal(records["age"], np.float32([31.5, 120, 0, 40, 55.25, 0]))
    np.testing.assert_array_equal(records["age_missing"], np.float32([0, 0, 0, 1, 0, 0]))
    np.testing.assert_array_equal(records["visits"], np.float32([1, 10, 0, 4, 10, 0]))
    np.testing.assert_array_equal(records["smoker"], np.float32([1, 0, 1, 1, 0, 0]))
    np.testing.assert_array_equal(records["ward"], np.int32([0, 1, 3, 3, 2, 0]))
    assert {leaf.dtype for leaf in records.values()} == {np.dtype("float32"), np.dtype("int32")}


def test_only_stated_columns_are_read(tmp_path):
    """A column that nobody stated may hold anything, even what cannot be read."""
    broken = CSV.encode().replace(b"Cleo", b"\xff\xfe")
    (tmp_path / "t.csv").write_bytes(broken)
    check_same(read_table(tmp_path / "t.csv", SCHEMA).records, read_table(FRAME, SCHEMA).records)
    with_dates = FRAME.assign(name=pd.Timestamp("2020-01-01"))
    check_same(read_table(with_dates, SCHEMA).records, read_table(FRAME, SCHEMA).records)


@pytest.mark.parametrize(
    ("cells", "stored"),
    [
        (["1", " 2.5 ", "+3", "1e1", ".5"], [1, 2.5, 3, 10, 0.5]),
        (["", "x", "NaN", "1,5", None, "--1"], [50] * 6),
        (["1e400", "-inf", "9" * 500, "-1e-400"], [100, 0, 100, 0]),
        ([b"4", True, 10**5000, 2, 2.5], [4, 1, 50, 2, 2.5]),
        ([pd.NA, pd.NaT, object(), [1], {"a": 1}], [50] * 5),
    ],
)
def test_numbers_kept_as_texts_and_objects(cells, stored):
    records = one(Column(kind="number", lower=0, upper=100), cells, dtype=object)
    np.testing.assert_array_equal(records["x"], np.float32(stored))


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (pa.int8(), [1, 0, None]),
        (pa.uint64(), [1, 0, None]),
        (pa.float32(), [1.0, 0.0, None]),
        (pa.float64(), [1.0, 0.0, math.nan]),
        (pa.decimal128(5, 2), [1, 0, None]),
        (pa.bool_(), [True, False, None]),
        (pa.string(), ["YES", "no", "maybe"]),
        (pa.string(), ["Y", "n", "J"]),
        (pa.string(), ["t", " F ", "tf"]),
        (pa.large_string(), ["True", "FALSE", ""]),
        (pa.string_view(), ["1", "0", None]),
        (pa.binary(), [b"true", b"false", b"\xff"]),
        (pa.dictionary(pa.int8(), pa.string()), ["1.0", "0.0", None]),
        (pa.int64(), [1, 0, 2]),
    ],
)
def test_booleans_and_how_they_may_be_kept(kind, cells):
    table = pa.table({"x": pa.array(cells, kind)})
    column = Column(kind="boolean", missing="indicator", fill=True)
    records = read_table(table, Schema({"x": column})).records
    np.testing.assert_array_equal(records["x"], np.float32([1, 0, 1]))
    np.testing.assert_array_equal(records["x_missing"], np.float32([0, 0, 1]))


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        (pa.string(), ["JA", "nein", "yes"]),
        (pa.string(), [" 1 ", "2", "0"]),
        (pa.int64(), [1, 2, 0]),
        (pa.float64(), [1.0, 2.0, math.nan]),
        (pa.bool_(), [True, False, None]),
    ],
)
def test_stated_words_and_no_others(kind, cells):
    column = Column(kind="boolean", true=("ja", "1"), false=("Nein", "2"), missing="indicator", fill=True)
    records = read_table(pa.table({"x": pa.array(cells, kind)}), Schema({"x": column})).records
    np.testing.assert_array_equal(records["x"], np.float32([1, 0, 1]))
    np.testing.assert_array_equal(records["x_missing"], np.float32([0, 0, 1]))


def test_semicolons_and_decimal_commas(tmp_path):
    columns = {"cost": Column(kind="number", lower=0, upper=100), "ward": WARD}
    (tmp_path / "t.csv").write_text("cost;ward;note\n1,5;a;x\n1.5;b;y\n1.000,5;a;z\n7;c;w\n")
    records = read_table(tmp_path / "t.csv", Schema(columns, delimiter=";", decimal=",")).records
    assert records["cost"].tolist() == [1.5, 50, 50, 7]  # a point is no part of a number then
    assert records["ward"].tolist() == [0, 1, 0, 2]
    frame = pd.DataFrame({"cost": [1.5, 2.5, 3, 4], "ward": list("abcd")})  # numbers have no decimal mark
    assert read_table(frame, Schema(columns, decimal=",")).records["cost"].tolist() == [1.5, 2.5, 3, 4]
    mixed = pd.DataFrame({"cost": [1.5, "2,5", 3, "4.5"], "ward": list("abcd")})  # the last one is no number
    middle = columns["cost"].stand_in
    assert read_table(mixed, Schema(columns, decimal=",")).records["cost"].tolist() == [1.5, 2.5, 3, middle]


@pytest.mark.parametrize("cells", [[1, 2, 3], [1.0, 2.0, math.nan], ["1", " 2 ", "3"], ["1", "2", "1.0"]])
def test_categories_may_be_kept_as_numbers(cells):
    column = Column(kind="category", categories=("2", "1"), missing="fill", fill="2")
    np.testing.assert_array_equal(one(column, cells)["x"], np.int32([1, 0, 0]))


def test_what_stands_for_missing_values_where_there_should_be_none():
    nothing = [None, None]
    assert one(Column(kind="number", lower=0, upper=5), nothing, dtype=object)["x"].tolist() == [2.5, 2.5]
    assert one(Column(kind="integer", lower=0, upper=5), nothing, dtype=float)["x"].tolist() == [2, 2]
    assert one(Column(kind="boolean"), nothing, dtype=object)["x"].tolist() == [0, 0]
    assert one(Column(kind="category", categories=("a", "b")), nothing, dtype=object)["x"].tolist() == [0, 0]
    empty = pa.table({"x": pa.nulls(2)})
    assert read_table(empty, Schema({"x": AGE})).records["x"].tolist() == [40, 40]


def test_a_single_column_of_csv_keeps_its_empty_cells(tmp_path):
    (tmp_path / "t.csv").write_text("\ufeffage\n1\n\n3\n", encoding="utf-8")
    assert read_table(tmp_path / "t.csv", Schema({"age": AGE})).records["age"].tolist() == [1, 40, 3]


def test_quoted_cells_of_csv_may_hold_commas_quotes_and_lines(tmp_path):
    column = Column(kind="category", categories=('a, "b"', "c\nd"), missing="category")
    (tmp_path / "t.csv").write_text('note,"the ward"\nx,"a, ""b"""\ny,"c\nd"\nz,e\n')
    records = read_table(tmp_path / "t.csv", Schema({"the ward": column})).records
    assert records["the ward"].tolist() == [0, 1, 2]


CELLS = st.one_of(
    st.text(max_size=8), st.floats(), st.integers(), st.booleans(), st.none(), st.binary(max_size=4), st.dates()
)


@settings(deadline=None, max_examples=150)
@given(st.lists(CELLS, min_size=1, max_size=6), st.lists(CELLS, min_size=1, max_size=6))
def test_whatever_the_cells_are_values_lie_in_the_bounds_and_depend_on_their_own_cell(cells, others):
    """Clamping and coding, for any object in any cell: no error, no value out of bounds, no look at other rows."""
    for column in COLUMNS.values():
        alone = one(column, cells, dtype=object)
        together = one(column, others + cells, dtype=object)
        for name, leaf in alone.items():
            lower, upper = (0.0, 1.0) if name == "x_missing" else column.bounds
            assert np.all((leaf >= np.float32(lower)) & (leaf <= np.float32(upper)))
            np.testing.assert_array_equal(together[name][len(others) :], leaf)


@settings(deadline=None, max_examples=150)
@given(st.floats(-1e300, 1e300), st.floats(-1e38, 1e38), st.floats(1e-3, 1e30))
def test_clamping_is_clamping(value, lower, width):
    upper = lower + width
    if np.float32(lower) == np.float32(upper):
        return
    (stored,) = one(Column(kind="number", lower=lower, upper=upper), [value])["x"]
    assert stored == np.float32(min(max(value, lower), upper))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", " a ", "A", "d", "", None]), min_size=1))
def test_coding_is_the_place_in_the_list(cells):
    code = {"a": 0, " a ": 0, "b": 1, "c": 2}
    assert one(WARD, cells, dtype=object)["x"].tolist() == [code.get(cell, 3) for cell in cells]


# Refusals: they name files and columns, before a row is looked at.


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([0], pa.timestamp("s")), "holds dates or times; state kind='date'"),
        (pa.array([0], pa.date32()), "holds dates or times"),
        (pa.array([0], pa.duration("s")), "holds dates or times"),
        (pa.array([[1]]), "neither a number, a boolean nor text"),
        (pa.array([{"a": 1}]), "neither a number, a boolean nor text"),
    ],
)
@pytest.mark.parametrize("use", ["column", "person"])
def test_types_that_hold_no_value(column, words, use):
    schema = Schema({"x": AGE}) if use == "column" else Schema({"age": AGE}, person="x")
    with pytest.raises(InvalidArgument, match=f"column 'x' .*{words}"):
        read_table(pa.table({"x": column, "age": pa.array([1.0])}), schema)


def test_truth_values_are_no_category():
    with pytest.raises(InvalidArgument, match=r"'x' holds booleans.*kind='boolean'"):
        one(WARD, [True, False])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nowhere.csv", None, "cannot be read: no such file or folder"),
        ("t.xlsx", "x", r"must end in one of \.csv, \.tsv, \.parquet"),
        ("t.csv", "", "has no column age; the schema names it"),
        ("t.csv", "ages;ward\n1;a\n", "has no column age.*separated by commas"),
        ("t.csv", "age,age\n1,2\n", "has the column age more than once"),
    ],
)
def test_files_that_are_refused(name, content, words, tmp_path):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InvalidArgument, match=words):
        read_table(tmp_path / name, Schema({"age": AGE}))


def test_folders_and_other_things_that_are_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="a folder without Parquet files"):
        read_table(tmp_path, SCHEMA)
    with pytest.raises(InvalidArgument, match=r"source is a builtins\.dict; expected a path"):
        read_table({"age": [1]}, SCHEMA)
    with pytest.raises(InvalidArgument, match="source has a int for a connection"):
        read_table((3, "SELECT 1"), SCHEMA)
    with pytest.raises(InvalidArgument, match="the pandas DataFrame has no column ward"):
        read_table(FRAME.drop(columns="ward"), SCHEMA)


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(InvalidArgument, match=r'needs pyarrow.*pip install "dpmcmc\[data\]"'):
        read_table(FRAME, SCHEMA)


# The vault.

BUDGET = Budget(1.0, 1e-6)


def test_a_table_in_a_vault(tmp_path):
    (tmp_path / "patients.csv").write_text(CSV)
    (tmp_path / "patients.toml").write_text(SCHEMA.to_toml())
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).register("patients", BUDGET, "replace_one")
    data = from_table(tmp_path / "patients.csv", schema=tmp_path / "patients.toml", ledger=url)
    assert isinstance(data, PrivateData)
    assert (data.dataset, data.budget, data.facts.size) == ("patients", BUDGET, 6)
    assert dict(data.facts.bounds) == SCHEMA.bounds


def test_a_budget_with_a_ledger_is_granted_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for _ in range(2):
        data = from_table(FRAME, schema=PERSONS, ledger=url, dataset="people", budget=BUDGET)
    assert data.facts.size == 3
    assert data.facts.record["age"].shape == (2,)
    with pytest.raises(DatasetExists):
        from_table(FRAME, schema=PERSONS, ledger=url, dataset="people", budget=Budget(2.0, 1e-6))


def test_a_budget_without_a_ledger():
    stated = {"adjacency": "add_or_remove_one", "capacity": 10}
    data = from_table(FRAME, schema=SCHEMA, budget=BUDGET, chunk_size=2, **stated)
    assert (data.facts.size, data.facts.chunk_size) == (10, 2)


def test_what_pays_is_checked_before_a_row_is_read(tmp_path):
    """The source does not exist, and it is not what the errors are about."""
    url, nowhere = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "nowhere.csv"
    ledger = Ledger.create(url)
    ledger.register("nowhere", BUDGET, "replace_one")
    with pytest.raises(UnknownDataset):
        from_table(nowhere, schema=SCHEMA, ledger=url, dataset="other")
    with pytest.raises(AdjacencyMismatch, match="say adjacency='replace_one'"):
        from_table(nowhere, schema=SCHEMA, ledger=ledger, adjacency="add_or_remove_one", capacity=9)
    with pytest.raises(InvalidArgument, match="capacity=None must be stated"):
        from_table(nowhere, schema=SCHEMA, ledger=ledger, adjacency="add_or_remove_one")
    with pytest.raises(InvalidArgument, match="state the budget"):
        from_table(nowhere, schema=SCHEMA)
    with pytest.raises(InvalidArgument, match="dataset=None must be the name"):
        from_table(FRAME, schema=SCHEMA, ledger=ledger)
    with pytest.raises(InvalidArgument, match="no such file"):
        from_table(nowhere, schema=SCHEMA, ledger=ledger)


def test_no_budget_is_granted_to_the_name_of_no_file(tmp_path):
    book = Ledger.in_memory()
    with pytest.raises(InvalidArgument, match="no such file or folder"):
        from_table(tmp_path / "nobody.csv", schema=SCHEMA, ledger=book, budget=Budget(1.0, 1e-6))
    assert book.datasets() == []
