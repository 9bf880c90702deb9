"""A row with a name and a number that occur nowhere else, and not a trace of them in errors, warnings and reprs."""

import gc
import logging
import traceback
import warnings

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import AGE, COLUMNS, FRAME, PERSONS, SCHEMA, sources, write_arrow

from dpmcmc.accounting import Budget
from dpmcmc.enclave.tables import DuckDBQuery, from_table, read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema
from dpmcmc.schema_audit import audit_schema

pytestmark = pytest.mark.usefixtures("silence")

NAME, NUMBER = "Quenby Zorn", "123456.789"
CANARY = {
    "patient": NAME,
    "name": NAME,
    "age": float(NUMBER),
    "visits": float(NUMBER),
    "smoker": NAME,
    "ward": NAME,
}
WITH_CANARY = pd.concat([FRAME.astype(object), pd.DataFrame([CANARY], dtype=object)], ignore_index=True)
TEXTS = WITH_CANARY.map(lambda cell: None if pd.isna(cell) else str(cell))
TRACES = (NAME, "Quenby", "Zorn", NUMBER, "123456", "123,456", "1.23456")


def assert_no_trace(words: str) -> None:
    assert not [trace for trace in TRACES if trace in words], words


def everything_said(error: BaseException) -> str:
    """The message, the traceback with all that it chains to, and every error that hides behind this one."""
    said = ["".join(traceback.format_exception(error)), repr(error), str(vars(error))]
    behind = [error.__cause__, error.__context__]
    assert behind == [None, None], "another error can be reached from this one"
    return "\n".join(said)


@pytest.fixture
def silence(caplog, capfd):
    """No warning, log line or output of a test holds a trace."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    gc.collect()
    out, err = capfd.readouterr()
    assert_no_trace("\n".join([*(str(each.message) for each in caught), caplog.text, out, err]))


def check_refused(source, schema=SCHEMA) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        read_table(source, schema)
    assert_no_trace(everything_said(caught.value))
    return caught.value


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_unknown_categories_and_unreadable_cells_pass_without_a_word(schema, tmp_path):
    for source in sources(tmp_path, TEXTS).values():
        table = read_table(source, schema)
        assert_no_trace(repr(table) + str(table))
        data = from_table(source, schema=schema, budget=Budget(1.0, 1e-6), dataset=None)
        assert_no_trace(repr(data) + str(data.facts))
        with pytest.raises(InvalidArgument) as caught:
            from_table(source, schema=schema, budget=Budget(1.0, 1e-6), chunk_size=0)
        assert_no_trace(everything_said(caught.value))


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_an_audit_of_the_schema_tells_counts_alone(schema, tmp_path):
    tables = sources(tmp_path, TEXTS)
    for kind in ("csv", "pandas objects"):
        audit = audit_schema(tables[kind], schema, epsilon=0.5, budget=Budget(1.0, 1e-6))
        assert_no_trace(repr(audit) + str(audit))
    (tmp_path / "t.csv").write_text(HEADER + ROW + f"{NAME},{NUMBER}\n")
    with pytest.raises(InvalidArgument) as caught:
        audit_schema(tmp_path / "t.csv", schema, epsilon=0.5, budget=Budget(1.0, 1e-6))
    assert_no_trace(everything_said(caught.value))


HEADER = "patient,name,age,visits,smoker,ward\n"
ROW = f"{NAME},{NAME},{NUMBER},{NUMBER},{NAME},{NAME}\n"


@pytest.mark.parametrize(
    "content",
    [
        HEADER + ROW + f"{NAME},{NUMBER}\n",
        HEADER + ROW.strip() + f",{NAME}\n",
        HEADER + f'"{ROW}',
        ROW * 3,
        ROW.replace(",", ";"),
        HEADER.replace("name", "age") + ROW,
        (HEADER + ROW).encode("utf-16"),
        b"\x00\x01" + ROW.encode(),
    ],
    ids=[
        "too few fields", "too many fields", "a quote without an end", "no header", "semicolons",
        "a column twice", "utf-16", "binary",
    ],
)  # fmt: skip
def test_malformed_csv(content, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert "t.csv" in str(check_refused(path))


@pytest.mark.parametrize("suffix", ["parquet", "feather", "arrow"])
@pytest.mark.parametrize("damage", ["cut in half", "not at all that format", "bytes flipped", "empty"])
def test_broken_files(suffix, damage, tmp_path):
    path = tmp_path / f"t.{suffix}"
    table = pa.Table.from_pandas(TEXTS, preserve_index=False)
    if suffix == "parquet":
        pq.write_table(table, path, compression="none")
    else:
        write_arrow(table, path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut in half": content[: len(content) // 2],
            "not at all that format": (HEADER + ROW).encode(),
            "bytes flipped": content[:40] + bytes(byte ^ 0x5A for byte in content[40:-200]) + content[-200:],
            "empty": b"",
        }[damage]
    )
    assert f"t.{suffix}" in str(check_refused(path))


def test_one_broken_file_in_a_folder(tmp_path):
    pq.write_table(pa.Table.from_pandas(TEXTS, preserve_index=False), tmp_path / "0.parquet")
    (tmp_path / "1.parquet").write_text(ROW)
    assert "1.parquet" in str(check_refused(tmp_path))


def test_types_and_names_that_do_not_fit(tmp_path):
    check_refused(TEXTS.rename(columns={"age": NAME}))
    check_refused(TEXTS.assign(age=[[NAME]] * len(TEXTS)).drop(columns="ward"))
    check_refused(pa.table({"age": pa.array([{NAME: NUMBER}])}), Schema({"age": AGE}))
    check_refused(pa.table({"age": pa.array([pd.Timestamp("2020-01-01")])}), Schema({"age": AGE}))
    check_refused(pl.DataFrame({"age": [object()], "name": [NAME]}, schema={"age": pl.Object, "name": pl.String}))
    check_refused(pl.DataFrame({"age": pl.Series([object()], dtype=pl.Object)}), Schema({"age": AGE}))
    check_refused(CANARY)
    check_refused([NAME])
    check_refused(tmp_path)


QUERIES = {
    "a cast": "SELECT * REPLACE (CAST(name AS INTEGER) AS age) FROM people",
    "an error": "SELECT * REPLACE (error(name) AS age) FROM people",
    "a date": "SELECT * REPLACE (CAST(name AS DATE) AS age) FROM people",
    "no table": "SELECT * FROM somebody",
    "no column": "SELECT nme FROM people",
    "no SQL": "SELEC",
    "a file without a header": "SELECT * FROM read_csv('{file}', header=true)",
    "a file that is none": "SELECT * FROM read_csv('{file}', columns={{'age': 'INTEGER', 'ward': 'DATE'}})",
    "dates": "SELECT * REPLACE (DATE '2020-01-01' AS age) FROM people",
    "nothing": "CREATE TABLE other (a INTEGER)",
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries_that_fail(query, tmp_path):
    (tmp_path / "t.csv").write_text(ROW * 3)
    with duckdb.connect() as connection:
        connection.register("people", TEXTS)
        check_refused(DuckDBQuery(connection, QUERIES[query].format(file=tmp_path / "t.csv")))


def test_a_data_file_given_for_a_schema(tmp_path):
    for number, content in enumerate([HEADER + ROW, ROW, f"{NAME} = 1\n{NAME} = 2\n", f"a = 1\na = '{NAME}'\n"]):
        path = tmp_path / f"{number}.csv"
        path.write_text(content)
        with pytest.raises(InvalidArgument) as caught:
            read_table(FRAME, path)
        assert_no_trace(everything_said(caught.value))
    parquet = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pandas(TEXTS, preserve_index=False), parquet)
    with pytest.raises(InvalidArgument, match="UTF-8") as caught:
        read_table(FRAME, parquet)
    assert_no_trace(everything_said(caught.value))


def test_an_error_of_another_library_anywhere_is_replaced(monkeypatch):
    """Whatever breaks while cells are read, and says what it read, is replaced."""
    from dpmcmc.enclave.tables import columns

    def broken(*_):
        warnings.warn(NAME, stacklevel=1)
        raise ValueError(NAME, NUMBER)

    monkeypatch.setattr(columns, "numbers", broken)
    assert "column 'age' cannot be read" in str(check_refused(TEXTS))
    monkeypatch.undo()
    monkeypatch.setattr(columns, "read", broken)
    persons = Schema({"age": COLUMNS["age"]}, person="patient")
    assert "cannot be read" in str(check_refused(TEXTS, persons))
