"""One cell that decides between an error and a result.

The attack: a cell that a library cannot read, a date beyond the year 9999, a text that is not UTF-8, one that is longer
than a buffer. A table with it was refused; read chunk by chunk it raised in the middle of a pass, after the charge. So
whoever sees the error knows one cell of one record, for nothing.

What must happen: the cell has no value, or lies beyond a bound, and the run goes on without a word, in memory and chunk
by chunk alike. What is wrong with a *file*, one that is cut short, is refused still (the control).

False alarms: none; records are compared bit by bit.
"""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpmcmc import Schema
from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.sources import FileSource
from dpmcmc.enclave.tables.flags import read_flags
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.errors import InvalidArgument

ROWS, AT = 2_000, 777
DATE = {"columns": {"v": {"kind": "date", "lower": "2000-01-01", "upper": "2030-01-01"}}}
NUMBER = {"columns": {"v": {"kind": "number", "lower": 0, "upper": 1}}}
WARD = {"columns": {"v": {"kind": "category", "categories": ["a", "b"], "missing": "category"}}}
AN_AGE = (datetime.date(2030, 1, 1) - datetime.date(2000, 1, 1)).days


def integers(kind, usual, odd):
    """A column of a temporal type, from its integers, with one odd one."""
    numbers = np.full(ROWS, usual, np.int32 if kind.bit_width == 32 else np.int64)
    numbers[AT] = odd
    return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(numbers.tobytes())])


def texts(kind, usual, odd):
    """A column of texts, of which one is not UTF-8."""
    cells = [usual] * ROWS
    cells[AT] = odd
    plain = pa.array(cells, pa.binary() if kind == pa.string() else pa.large_binary())
    return pa.Array.from_buffers(kind, ROWS, plain.buffers())


def decimals():
    cells = [decimal.Decimal("0.5")] * ROWS
    cells[AT] = decimal.Decimal("9" * 60)
    return pa.array(cells, pa.decimal256(70, 1))


COLUMNS = {
    "days": (lambda: integers(pa.date32(), 11_000, 10**7), DATE, AN_AGE),
    "days before": (lambda: integers(pa.date32(), 11_000, -(2**31)), DATE, 0),
    "milliseconds of days": (lambda: integers(pa.date64(), 11_000 * 86_400_000, 10**16 + 1), DATE, AN_AGE),
    "times": (lambda: integers(pa.timestamp("ms"), 10**12, 2**62), DATE, AN_AGE),
    "times in Paris": (lambda: integers(pa.timestamp("ms", "Europe/Paris"), 10**12, 2**62), DATE, AN_AGE),
    "times of a day": (lambda: integers(pa.time64("us"), 10, 2**62), DATE, None),
    "a text": (lambda: texts(pa.string(), b"0.5", b"\xff"), NUMBER, None),
    "a long text": (lambda: texts(pa.large_string(), b"a", b"\xff\xfe"), WARD, 2),
    "a text in a dictionary": (lambda: texts(pa.string(), b"a", b"\xff").dictionary_encode(), WARD, 2),
    "a decimal": (decimals, NUMBER, 1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_cell_of_parquet(name, tmp_path):
    column, schema, expected = COLUMNS[name]
    pq.write_table(pa.table({"v": column()}), tmp_path / "t.parquet")
    held = read_table(tmp_path / "t.parquet", schema).records
    (streamed,) = FileSource(tmp_path / "t.parquet", schema).chunks(ROWS)
    for leaf, values in held.items():
        np.testing.assert_array_equal(streamed[leaf], values)
    assert len(np.unique(np.delete(held["v"], AT))) == 1
    if expected is not None:
        assert held["v"][AT] == expected
    data = PrivateData.from_table(tmp_path / "t.parquet", schema=schema, budget=Budget(1.0, 1e-6), in_memory=False)
    data.run(lambda oracle: oracle.sum(Sum(1.0, 50.0), lambda row: row["v"] * 0.0).value)
    assert read_flags(tmp_path / "t.parquet", Schema.read(schema))[:, :2].sum() in (0, 1, ROWS)


@pytest.mark.parametrize(
    "cell", [b"\xff", b"y" * 3_000_000, b"\x00", b"1" * 5_000], ids=["no text", "long", "nil", "1"]
)
@pytest.mark.parametrize("where", ["v", "note"])
def test_a_cell_of_csv(cell, where, tmp_path):
    """Also in a column that the schema does not name."""
    lines = [b"0.5,x"] * ROWS
    lines[AT] = cell + b",x" if where == "v" else b"0.5," + cell
    (tmp_path / "t.csv").write_bytes(b"v,note\n" + b"\n".join(lines) + b"\n")
    held = read_table(tmp_path / "t.csv", NUMBER).records
    (streamed,) = FileSource(tmp_path / "t.csv", NUMBER).chunks(ROWS)
    for leaf, values in held.items():
        np.testing.assert_array_equal(streamed[leaf], values)
    assert set(np.delete(held["v"], AT)) == {0.5}


def test_a_cell_of_a_frame_that_is_half_a_letter():
    frame = pd.DataFrame({"v": pd.array(["a", "\ud800", "b"], dtype=pd.StringDtype("python"))})
    assert read_table(frame, WARD).records["v"].tolist() == [0, 2, 1]


class Nowhere(datetime.tzinfo):
    def utcoffset(self, _):
        raise ValueError("of a cell")


class Word(str):
    def strip(self, _=None):
        raise ValueError("of a cell")

    def encode(self, *_):
        raise ValueError("of a cell")


OBJECTS = {
    "a duration": np.timedelta64(5, "D"),
    "a time of nowhere": datetime.datetime(2020, 1, 1, tzinfo=Nowhere()),
    "a text of a class of its own": Word("\u00e4"),
    "a signal": decimal.Decimal("sNaN"),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("schema", [NUMBER, WARD, DATE], ids=["number", "category", "date"])
def test_a_cell_of_a_frame_of_python_objects(name, schema):
    frame = pd.DataFrame({"v": pd.Series(["a", OBJECTS[name], "a"], dtype=object)})
    missing = read_table(frame.assign(v=pd.Series(["a", None, "a"], dtype=object)), schema).records
    for leaf, values in read_table(frame, schema).records.items():
        np.testing.assert_array_equal(values, missing[leaf])


def test_ordinary_dates_are_what_they_were(tmp_path):
    """By the calendar of Python, for days, times and times of a place, before and after 1970."""
    times = [
        datetime.datetime(2001, 3, 1, 23, 59),
        datetime.datetime(1969, 12, 31, 0, 1),
        None,
        datetime.datetime(2029, 1, 1),
    ]
    schema = {"columns": {"v": {"kind": "date", "lower": "1960-01-01", "upper": "2030-01-01"}}}
    first = datetime.date(1960, 1, 1).toordinal()
    for kind in (
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.timestamp("s", "Pacific/Auckland"),
        pa.date32(),
        pa.date64(),
    ):
        dates = times if pa.types.is_timestamp(kind) else [time and time.date() for time in times]
        column = pa.array(dates, kind)
        pq.write_table(pa.table({"v": column}), tmp_path / "t.parquet")
        found = read_table(tmp_path / "t.parquet", schema).records["v"]
        for place in (0, 1, 3):
            assert found[place] == column[place].as_py().toordinal() - first


def test_a_file_that_is_cut_short_is_refused(tmp_path):
    pq.write_table(pa.table({"v": texts(pa.string(), b"0.5", b"0.25")}), tmp_path / "t.parquet", compression="none")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(InvalidArgument, match="a whole Parquet file"):
        read_table(tmp_path / "t.parquet", NUMBER)


@pytest.mark.parametrize("where", ["v", "note"])
def test_a_quote_without_an_end_takes_no_lines(where, tmp_path):
    """G7: it made one cell of all lines after it, and the number of records, which is public, told where it stood."""
    lines = ["0.5,x"] * ROWS
    lines[AT] = '"oops,x' if where == "v" else '0.5,"oops'
    (tmp_path / "t.csv").write_text("v,note\n" + "\n".join(lines) + "\n")
    for opened in (read_table, FileSource):
        with pytest.raises(InvalidArgument, match=r"t\.csv' has an odd number of quotes"):
            opened(tmp_path / "t.csv", NUMBER)
    lines[AT] = '0.5,"no, ""oops"""'
    (tmp_path / "t.csv").write_text("v,note\n" + "\n".join(lines) + "\n")
    assert FileSource(tmp_path / "t.csv", NUMBER).num_records == ROWS


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_under_two_names_is_not_read_twice(link, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"v": [0.5]}), folder / "a.parquet")
    getattr(folder / "b.parquet", link)(folder / "a.parquet")
    for opened in (read_table, FileSource):
        with pytest.raises(InvalidArgument, match="named more than once"):
            opened(folder, NUMBER)
    (folder / "b.parquet").unlink()
    assert FileSource(folder, NUMBER).num_records == 1
