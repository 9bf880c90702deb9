"""Sources give, chunk by chunk, what a table in memory gives: the same leaves, bit for bit, in one order."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import AGE, CSV, FRAME, PERSONS, SCHEMA, WARD, sources, write_arrow

from dpmcmc.enclave.sources import DuckDBSource, FileSource, MemorySource, Scratch, Source
from dpmcmc.enclave.sources.preparation import Preparation
from dpmcmc.enclave.tables import DuckDBQuery, read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column, Schema

RNG = np.random.default_rng(3)
LARGE = FRAME.iloc[RNG.integers(0, len(FRAME), 1_000)].reset_index(drop=True)


def joined(chunks) -> dict[str, np.ndarray]:
    chunks = list(chunks)
    return {leaf: np.concatenate([chunk[leaf] for chunk in chunks]) for leaf in chunks[0]}


def check_bits(one, other) -> None:
    """Equal to the last bit, the sign of zero included."""
    assert list(one) == list(other)
    for leaf in one:
        assert one[leaf].dtype == other[leaf].dtype, leaf
        assert one[leaf].tobytes() == other[leaf].tobytes(), leaf


def check_source(source: Source, expected) -> None:
    """A source has so many rows, of the stated shape, in chunks of any length, from any chunk on."""
    count = len(next(iter(expected.values())))
    assert isinstance(source, Source)
    assert source.num_records == count
    assert list(source.bounds) == list(source.record) == list(expected)
    for leaf, kept in source.record.items():
        assert (kept.shape, kept.dtype) == (expected[leaf].shape[1:], expected[leaf].dtype)
    for rows in sorted({1, 2, 3, 7, 64, count, count + 5} if count < 50 else {7, 64, count, 10 * count}):
        chunks = list(source.chunks(rows))
        lengths = [len(chunk[leaf]) for chunk in chunks for leaf in chunk]
        assert len(chunks) == math.ceil(count / rows)
        assert set(lengths[: -len(expected)]) <= {rows}
        check_bits(joined(chunks), expected)
        for first in {1, len(chunks) // 2, len(chunks) - 1} & set(range(1, len(chunks))):
            rest = list(source.chunks(rows, first))
            assert len(rest) == len(chunks) - first
            check_bits(joined(rest), {leaf: values[first * rows :] for leaf, values in expected.items()})
        assert list(source.chunks(rows, len(chunks))) == list(source.chunks(rows, len(chunks) + 9)) == []


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "feather", "arrow", "folder"])
@pytest.mark.parametrize("frame", [FRAME, LARGE], ids=["few", "many"])
def test_every_kind_of_file_gives_the_leaves_of_the_table_in_memory(kind, frame, tmp_path):
    source = sources(tmp_path, frame)[kind]
    check_source(FileSource(source, SCHEMA), read_table(source, SCHEMA).records)


def test_duckdb_gives_the_leaves_of_the_table_in_memory(tmp_path):
    query = sources(tmp_path, LARGE)["duckdb object"]
    check_source(DuckDBSource(query, SCHEMA), read_table(query, SCHEMA).records)


def test_a_scratch_gives_the_leaves_of_its_source(tmp_path):
    source = FileSource(sources(tmp_path, LARGE)["parquet"], SCHEMA)
    with Scratch(source, tmp_path) as scratch:
        check_source(scratch, read_table(LARGE, SCHEMA).records)
        assert scratch.identity == source.identity


def test_blocks_of_the_scratch_file_and_chunks_need_not_agree(tmp_path, monkeypatch):
    monkeypatch.setattr("dpmcmc.enclave.sources.scratch._BLOCK", 13)
    source = FileSource(sources(tmp_path, LARGE)["folder"], SCHEMA)
    with Scratch(source) as scratch:
        check_source(scratch, read_table(LARGE, SCHEMA).records)


NASTY = pd.DataFrame(
    {
        "age": [31.5, 131.0, -4.0, None, math.inf, -math.inf, -0.0, 1e-300, 1e300, 120.0],
        "visits": [1, 99, -3, 2**53, 10, 0, -(2**40), 7, 3, 5],
        "smoker": [True, False, True, True, False, False, True, True, False, True],
        "ward": ["a", "b", None, "unknown", "c", "a", "", " b", "A", "b"],
        "note": ["x,y", 'say "hi"', "two\nlines", "", None, "\ufeff", "1", "a", "b", "c"],
    }
)


def test_one_nasty_table_is_the_same_rows_from_everywhere(tmp_path):
    """Missing, clamped and unknown cells are treated alike, wherever the rows come from."""
    made, expected = sources(tmp_path, NASTY), read_table(NASTY, SCHEMA).records
    found = {name: MemorySource(source, SCHEMA) for name, source in made.items()}
    found |= {
        f"{name}, in chunks": FileSource(made[name], SCHEMA)
        for name in ("csv", "tsv", "parquet", "feather", "arrow", "folder")
    }
    found |= {
        "pattern": FileSource(f"{made['folder']}/**/*.parquet", SCHEMA),
        "URL": FileSource(f"file://{made['parquet']}", SCHEMA),
        "list": FileSource([made["folder"] / "0.parquet", made["folder"] / "deeper" / "1.parquet"], SCHEMA),
        "query": DuckDBSource(made["duckdb object"], SCHEMA),
    }
    for source in found.values():
        check_source(source, expected)
        with Scratch(source, tmp_path) as scratch:
            check_source(scratch, expected)


def test_arrays_in_memory_cannot_be_written_to():
    source = MemorySource(LARGE, SCHEMA)
    check_source(source, read_table(LARGE, SCHEMA).records)
    chunk = next(source.chunks(10))
    with pytest.raises(ValueError, match="read-only"):
        chunk["age"][0] = 3
    assert source.identity == MemorySource(LARGE, SCHEMA).identity
    assert source.identity != MemorySource(LARGE[::-1], SCHEMA).identity


NUMBERS = [0.0, -0.0, 1.5, -1.5, 2.5, -0.4, 3e38, -3e38, math.inf, -math.inf, math.nan, None, 1e-45, -1e-45, 0.1, 99.99]
TEXTS = [
    "1", " 2.5 ", "", "x", "NaN", "-inf", "1e400", "-1e-400", "1_000", "١", "true", "FALSE", "+3", ".5", "5.", "0x10",
    "infinity", "nan(1)", "-0", "-0.4", "9" * 400, "1e-320", None, "0.1", "2.675", "123456789.123456789", "1,5", "-",
]  # fmt: skip
PLAIN = ["1", "", "2.675", "-0.0", "1e30", "0.1", "NaN", "-inf", None, "123456789.123456789", "1e-320", "-0.4"]
BOUNDS = [(-1.0, 2.0), (0.1, 99.99), (-1e-60, 1.0), (0.0, 1e-3), (-3.4e38, 3.4e38), (-16777217.0, 16777217.0)]


def arrays():
    """Columns of numbers, in every form in which a file may keep them."""
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        with np.errstate(over="ignore"):
            cells = [None if each is None else np.float64(each).astype(kind.to_pandas_dtype()) for each in NUMBERS]
        yield pa.array(cells, kind, from_pandas=False)
        yield pa.array([each for each in cells if each is not None], kind, from_pandas=False)
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64()):
        limits = np.iinfo(kind.to_pandas_dtype())
        yield pa.array([limits.min, limits.max, 0, 1, 2, None], kind)
        yield pa.array([limits.min, limits.max, limits.max - 1, 5], kind)
    yield pa.array([True, False, None])
    yield pa.array([None, None], pa.null())
    yield pa.array([1, None, 2], pa.decimal128(5, 2))
    for cells in (TEXTS, PLAIN):
        yield from (pa.array(cells, kind) for kind in (pa.string(), pa.large_string(), pa.string_view()))
        yield pa.array(cells, pa.string()).dictionary_encode()
        yield pa.array([None if each is None else each.encode() for each in cells], pa.binary())


def columns():
    for lower, upper in BOUNDS:
        yield Column(kind="number", lower=lower, upper=upper, missing="indicator", fill=upper)
        yield Column(kind="number", lower=lower, upper=upper)
    yield Column(kind="integer", lower=-3, upper=7)
    yield Column(kind="integer", lower=-1, upper=16777217, missing="indicator", fill=0)
    yield Column(kind="boolean")
    yield Column(kind="boolean", true=("1", "2.5", "ja"), false=("0", "x"), missing="indicator", fill=True)
    yield Column(kind="category", categories=("0", "1", "-128", "255", "x"), missing="category")
    yield Column(kind="category", categories=("NaN", "2", "5"))


@pytest.mark.parametrize("decimal", ["", ","])
def test_the_fast_ways_give_the_bits_of_the_plain_one(decimal):
    """All columns times all forms, whole and cut, so that offsets into Arrow's buffers are met as well."""
    for column in columns():
        schema = Schema({"x": column}, decimal=decimal)
        for array in arrays():
            if column.kind == "category" and pa.types.is_boolean(array.type):
                continue
            table = pa.table({"x": array})
            expected = read_table(table, schema).records
            for rows in (1, 3, len(array)):
                check_bits(joined(Preparation(schema).chunks(iter(table.to_batches()), rows)), expected)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.floats(width=64).map(repr), st.text("0123456789.eE+-_ naif,x", max_size=9)), min_size=1))
def test_texts_are_the_numbers_that_python_reads(texts):
    schema = Schema({"x": Column(kind="number", lower=-1e6, upper=1e6, missing="indicator", fill=3.0)})
    table = pa.table({"x": texts})
    for rows in (1, len(texts)):  # a text on its own decides for itself how it is read
        check_bits(
            joined(Preparation(schema).chunks(iter(table.to_batches()), rows)), read_table(table, schema).records
        )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1), st.sampled_from(BOUNDS), st.booleans())
def test_single_precision_needs_no_double(values, bounds, whole):
    lower, upper = (math.floor(bounds[0]), math.ceil(bounds[1])) if whole else bounds
    schema = Schema({"x": Column(kind="integer" if whole else "number", lower=lower, upper=upper)})
    table = pa.table({"x": pa.array(np.array(values, np.float32))})
    check_bits(joined(Preparation(schema).chunks(iter(table.to_batches()), 5)), read_table(table, schema).records)


def test_many_columns_and_their_missing_bits(tmp_path):
    columns = {f"c{number}": AGE for number in range(30)}
    values = RNG.normal(60, 50, (500, 30)).astype(np.float32)
    values[RNG.random(values.shape) < 0.1] = np.nan
    frame = pd.DataFrame(values, columns=list(columns))
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "t.parquet", row_group_size=77)
    check_source(FileSource(tmp_path / "t.parquet", Schema(columns)), read_table(frame, Schema(columns)).records)


@pytest.mark.parametrize("at_once", [0, 2**26], ids=["pieces", "at once"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_uneven_row_groups_and_a_category_in_one_of_them_alone(dictionary, at_once, tmp_path, monkeypatch):
    monkeypatch.setattr("dpmcmc.enclave.sources.formats._AT_ONCE", at_once)
    monkeypatch.setattr("dpmcmc.enclave.sources.formats._CELLS", 30)
    table = pa.Table.from_pandas(LARGE.assign(ward="a"), preserve_index=False)
    wards = ["a"] * 400 + ["c", None, "new"] + ["b"] * 597
    ward = pa.array(wards).dictionary_encode() if dictionary else pa.array(wards)
    table = table.set_column(table.column_names.index("ward"), "ward", ward)
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        for start, end in [(0, 1), (1, 400), (400, 403), (403, 403), (403, 1000)]:
            writer.write_table(table[start:end])
    numbers = Schema({name: SCHEMA.columns[name] for name in ("age", "visits", "smoker")})
    for schema in (SCHEMA, numbers):
        path = tmp_path / "t.parquet"
        check_source(FileSource(path, schema), read_table(path, schema).records)


def test_arrow_batches_of_uneven_sizes(tmp_path):
    table = pa.Table.from_pandas(LARGE, preserve_index=False)
    pieces = pa.concat_tables([table[:1], table[1:500], table[500:]])
    for name, new in (("t.arrow", pa.ipc.new_stream), ("t.ipc", pa.ipc.new_file)):
        write_arrow(pieces, tmp_path / name, new)
        check_source(FileSource(tmp_path / name, SCHEMA), read_table(LARGE, SCHEMA).records)


@pytest.mark.parametrize(
    "text",
    [
        'age,ward,note\n1,a,"x,\ny"\n"2","b","say ""hi"""\n,,\n"",c,z\n',
        "\ufeffage,ward\n1,a\n\n2,b\n",
        "age,ward\r\n1,a\r\n2, b \r\n",
        "age,ward\n",
        "ward,note,age\n" + "".join(f'"{"abcx"[age % 4]}","{age},\n""x",{age % 150}\n' for age in range(150_000)),
        "age,ward\n1,a",
    ],
    ids=["quotes", "byte order mark", "other line ends", "no row", "many blocks", "no last line end"],
)
def test_texts_with_quotes_blanks_and_line_ends(text, tmp_path):
    (tmp_path / "t.csv").write_bytes(text.encode())
    schema = Schema({"age": AGE, "ward": WARD})
    expected, source = read_table(tmp_path / "t.csv", schema).records, FileSource(tmp_path / "t.csv", schema)
    assert source.num_records == len(expected["age"])
    if source.num_records:
        check_bits(joined(source.chunks(1_000)), expected)
        check_bits(joined(source.chunks(10**6)), expected)
    assert list(source.chunks(5, 100_000)) == []


def test_one_column_of_text_keeps_its_empty_lines(tmp_path):
    (tmp_path / "t.csv").write_text("age\n1\n\n3\n")
    schema = Schema({"age": AGE})
    check_source(FileSource(tmp_path / "t.csv", schema), read_table(tmp_path / "t.csv", schema).records)


def test_delimiters_and_decimal_commas(tmp_path):
    (tmp_path / "t.csv").write_text("age;ward\n1,5;a\n1.5;b\n7;c\n")
    schema = Schema({"age": AGE, "ward": WARD}, delimiter=";", decimal=",")
    check_source(FileSource(tmp_path / "t.csv", schema), read_table(tmp_path / "t.csv", schema).records)


@pytest.mark.parametrize(
    ("rows", "first", "words"), [(0, 0, "rows=0"), (-1, 0, "rows=-1"), (1.5, 0, "rows=1.5"), (1, -1, "first=-1")]
)
def test_chunks_of_no_rows(rows, first, words, tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    source = FileSource(tmp_path / "t.csv", SCHEMA)
    with Scratch(source) as scratch:
        for each in (source, scratch, DuckDBSource(sources(tmp_path)["duckdb object"], SCHEMA)):
            with pytest.raises(InvalidArgument, match=words):
                each.chunks(rows, first)


def test_persons_are_refused_with_what_to_do(tmp_path):
    made = sources(tmp_path)
    for build in (
        lambda: FileSource(made["csv"], PERSONS),
        lambda: DuckDBSource(DuckDBQuery(None, ""), PERSONS),
        lambda: MemorySource(FRAME, PERSONS),
    ):
        with pytest.raises(InvalidArgument, match=r"person='patient' cannot be read chunk by chunk.*from_table"):
            build()
