"""What sources must not do: read other rows than before, keep what others can read, quote a cell, or take memory.

False alarms: none but of memory, which is compared with limits that are half of what a table in memory would take.
"""

import gc
import os
import stat
import subprocess
import sys
import textwrap
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tables import AGE, FRAME, SCHEMA, sources, write_arrow

from dpmcmc.enclave.sources import DuckDBSource, FileSource, MemorySource, Scratch
from dpmcmc.enclave.sources.ahead import AHEAD, read_ahead
from dpmcmc.enclave.sources.unnamed import UnnamedFile
from dpmcmc.enclave.tables import DuckDBQuery, read_table
from dpmcmc.errors import InvalidArgument, SourceChanged
from dpmcmc.schema import Schema

AGES = Schema({"age": AGE})
ROWS = 400


def ages(first: float = 1.0, rows: int = ROWS) -> pa.Table:
    return pa.table({"age": np.r_[first, np.arange(1.0, rows) % 100]})


def write(path, table: pa.Table) -> None:
    writers = {
        ".csv": lambda: table.to_pandas().to_csv(path, index=False),
        ".parquet": lambda: pq.write_table(table, path, row_group_size=50),
        ".arrow": lambda: write_arrow(table, path, pa.ipc.new_stream),
        ".feather": lambda: write_arrow(table, path),
    }
    writers[path.suffix]()


def released(source) -> list[float]:
    """What a pass over all rows would release: it exists only if no chunk raised."""
    return [float(sum(chunk["age"].sum() for chunk in source.chunks(64)))]


def num_open() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


# --- rows that change -------------------------------------------------------------------------------------------------


def rewritten(path):
    write(path, ages(first=7.0))


def with_a_row_more(path):
    write(path, ages(rows=ROWS + 1))


def with_a_row_less(path):
    write(path, ages(rows=ROWS - 1))


def with_the_time_of_before(path):
    """Other rows, as many bytes, and the time of the last change set back."""
    before = path.stat()
    write(path, ages(first=7.0))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def replaced_by_another(path):
    other = path.with_name(f"other{path.suffix}")
    write(other, ages(first=7.0))
    other.replace(path)


def removed(path):
    path.unlink()


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


CHANGES = [
    rewritten,
    with_a_row_more,
    with_a_row_less,
    with_the_time_of_before,
    replaced_by_another,
    removed,
    cut_off,
]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_changed_between_two_passes_is_refused(change, suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    write(path, ages())
    source = FileSource(path, AGES)
    assert released(source) == released(source) == released(MemorySource(ages(), AGES))
    change(path)
    for _ in range(2):
        handed_out = []
        with pytest.raises(SourceChanged, match=r"is not what it was .* gives no result"):
            handed_out.extend(source.chunks(64))
        assert handed_out == []
        with pytest.raises(SourceChanged):
            released(source)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_file_that_changes_during_a_pass_gives_no_last_chunk(change, tmp_path):
    """The rows that were read before may be those of before; the pass has no end, so nothing follows from it."""
    path = tmp_path / "t.csv"
    write(path, ages())
    source = FileSource(path, AGES)
    chunks, prepared = source.chunks(8), []
    prepared.append(next(chunks))
    change(path)
    with pytest.raises(SourceChanged):
        prepared.extend(chunks)
    assert sum(len(chunk["age"]) for chunk in prepared) < ROWS


def test_a_pass_that_is_resumed_by_number_looks_at_the_files_too(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, ages())
    source = FileSource(path, AGES)
    rewritten(path)
    with pytest.raises(SourceChanged):
        list(source.chunks(64, first=3))


def test_one_file_of_many(tmp_path):
    for number in range(4):
        write(tmp_path / f"{number}.parquet", ages())
    source = FileSource(tmp_path, AGES)
    write(tmp_path / "4.parquet", ages())  # is no part of what was opened
    assert source.num_records == 4 * ROWS
    assert len(released(source)) == 1
    rewritten(tmp_path / "3.parquet")
    with pytest.raises(SourceChanged, match=r"3\.parquet"):
        list(source.chunks(10 * ROWS))


def test_an_identity_is_that_of_the_rows_and_of_what_is_stated_of_them(tmp_path):
    write(tmp_path / "a.parquet", ages())
    one = FileSource(tmp_path / "a.parquet", AGES).identity
    assert one == FileSource(tmp_path / "a.parquet", AGES).identity
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert one == FileSource(tmp_path / "b.parquet", AGES).identity
    wider = Schema({"age": AGE.__class__(kind="number", lower=0, upper=121, missing="indicator", fill=40)})
    assert one != FileSource(tmp_path / "b.parquet", wider).identity
    with_the_time_of_before(tmp_path / "b.parquet")
    assert one != FileSource(tmp_path / "b.parquet", AGES).identity


def test_an_answer_that_changes_is_refused():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i % 100 AS age, i AS place FROM range(1000) AS r(i)")
    source = DuckDBSource(DuckDBQuery(connection, "SELECT age FROM people ORDER BY place"), AGES)
    assert released(source) == released(source)
    connection.execute("UPDATE people SET age = 7 WHERE place = 999")
    with pytest.raises(SourceChanged, match="gave a different answer than before"):
        released(source)
    connection.execute("UPDATE people SET age = 99 WHERE place = 999")
    assert len(released(source)) == 1
    for more in ("INSERT INTO people VALUES (1, 5000)", "DELETE FROM people WHERE place >= 998"):
        connection.execute(more)
        with pytest.raises(SourceChanged):
            released(source)


def test_an_answer_in_no_order_is_refused_when_it_is_opened():
    query = DuckDBQuery(duckdb.connect(), "SELECT 100 * random() AS age FROM range(1000)")
    with pytest.raises(SourceChanged, match="ORDER BY"):
        DuckDBSource(query, AGES)


# --- the private scratch file -----------------------------------------------------------------------------------------


def test_nobody_else_can_reach_a_scratch_file(tmp_path):
    with Scratch(MemorySource(ages(), AGES), tmp_path) as scratch:
        assert list(tmp_path.iterdir()) == []
        status = os.fstat(scratch._file.fileno())
        assert status.st_nlink == 0
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert status.st_size == 3 * 4 * ROWS  # the age, its indicator, the bit of missing cells
        assert not os.get_inheritable(scratch._file.fileno())
        assert "age" in repr(scratch)
        assert str(ROWS) not in repr(scratch)
    with pytest.raises(InvalidArgument, match="was closed"):
        scratch.chunks(5)


def test_a_file_that_changes_while_it_is_copied_leaves_no_scratch(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    write(path, ages())
    source, write_before = FileSource(path, AGES), UnnamedFile.append
    opened = num_open()

    def change_and_write(self, values):
        if path.exists():
            path.unlink()
        return write_before(self, values)

    monkeypatch.setattr("dpmcmc.enclave.sources.scratch._BLOCK", 16)
    monkeypatch.setattr(UnnamedFile, "append", change_and_write)
    with pytest.raises(SourceChanged):
        Scratch(source, tmp_path)
    gc.collect()
    assert num_open() == opened


def test_a_scratch_outlives_the_file_that_it_was_made_from(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, ages())
    with Scratch(FileSource(path, AGES)) as scratch:
        before = released(scratch)
        path.unlink()
        assert released(scratch) == before == released(MemorySource(ages(), AGES))


def test_a_disk_that_is_too_small_and_a_folder_that_is_not_there(tmp_path, monkeypatch):
    source = MemorySource(ages(), AGES)
    with pytest.raises(InvalidArgument, match=r"cannot hold a scratch file.*No such file"):
        Scratch(source, tmp_path / "nowhere")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    with pytest.raises(InvalidArgument, match=r"there is not enough space. Make space there"):
        Scratch(source, tmp_path)


def test_a_disk_that_fills_up_while_rows_are_staged(tmp_path, monkeypatch):
    """Somebody else takes the space after it was looked for: the system refuses, in words, and nothing is left."""
    opened = []

    def full(**_):
        opened.append(Path("/dev/full").open("wb+", buffering=0))  # noqa: SIM115
        return opened[0]

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(InvalidArgument, match=r"No space left on device\. Make space there"):
        Scratch(MemorySource(ages(), AGES), tmp_path)
    assert opened[0].closed


def test_passes_over_one_scratch_do_not_disturb_each_other(tmp_path):
    with Scratch(MemorySource(ages(), AGES), tmp_path) as scratch:
        first, second = scratch.chunks(7), scratch.chunks(11, first=2)
        rows = [[], []]
        for _ in range(20):
            for one, kept in zip((first, second), rows, strict=True):
                kept.append(next(one)["age"])
        expected = read_table(ages(), AGES).records["age"]
        assert np.array_equal(np.concatenate(rows[0]), expected[:140])
        assert np.array_equal(np.concatenate(rows[1]), expected[22 : 22 + 220])
        first.close()
        second.close()


# --- the thread that reads ahead --------------------------------------------------------------------------------------


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dpmcmc read ahead"]


def test_items_are_made_elsewhere_and_only_some_ahead():
    made, threads = [], set()

    def items():
        for number in range(50):
            made.append(number)
            threads.add(threading.get_ident())
            yield number

    reading = read_ahead(items())
    for number, item in enumerate(reading):
        assert item == number
        assert len(made) <= number + AHEAD + 2
    assert len(made) == 50
    assert threading.get_ident() not in threads
    assert not alive()


def test_an_error_comes_where_the_items_are_used():
    def items():
        yield 1
        raise InvalidArgument("the third")

    reading = read_ahead(items())
    assert next(reading) == 1
    with pytest.raises(InvalidArgument, match="the third"):
        next(reading)
    assert not alive()


def test_whoever_stops_early_leaves_no_thread_and_no_open_file(tmp_path):
    made = sources(tmp_path, pd.concat([FRAME] * 500, ignore_index=True))
    opened = num_open()
    for kind in ("csv", "parquet", "arrow", "folder"):
        source = FileSource(made[kind], SCHEMA)
        chunks = source.chunks(10)
        next(chunks)
        chunks.close()
        next(source.chunks(10))  # let go of without a word
    query = DuckDBSource(made["duckdb object"], SCHEMA)
    next(query.chunks(10))
    gc.collect()
    assert not alive()
    assert num_open() == opened


# --- words ------------------------------------------------------------------------------------------------------------

NAME = "Quenby Zorn"


def said(build) -> str:
    """All that an error says, with whatever it chains to."""
    with pytest.raises(InvalidArgument) as caught:
        build()
    error = caught.value
    assert [error.__cause__, error.__context__] == [None, None], "another error can be reached from this one"
    return "".join(traceback.format_exception(error)) + repr(vars(error))


def read_all(*source) -> None:
    list(FileSource(*source).chunks(3))


def test_errors_quote_no_cell(tmp_path):
    (tmp_path / "ragged.csv").write_text(f"age\n1\n2,{NAME}\n")
    (tmp_path / "quote.csv").write_text(f'age,name\n1,"{NAME}\n2,a\n')
    (tmp_path / "header.csv").write_text(f"{NAME},12\n")
    write(tmp_path / "whole.parquet", pa.table({"age": [NAME] * 300}))
    broken = bytearray((tmp_path / "whole.parquet").read_bytes())
    broken[10:60] = b"\xff" * 50
    (tmp_path / "broken.parquet").write_bytes(broken)
    (tmp_path / "none.parquet").write_text(NAME)
    names = Schema({"age": AGE, "name": AGE.__class__(kind="category", categories=("a", "b"))})
    for file, schema in [
        ("ragged.csv", AGES),
        ("quote.csv", names),
        ("header.csv", AGES),
        ("broken.parquet", AGES),
        ("none.parquet", AGES),
    ]:
        words = said(lambda file=file, schema=schema: read_all(tmp_path / file, schema))
        assert file in words
        assert "Zorn" not in words
    connection = duckdb.connect()
    connection.register("t", pa.table({"age": ["1", NAME]}))
    for query in ("SELECT CAST(age AS DOUBLE) AS age FROM t", "SELECT nothing FROM t"):
        words = said(lambda query=query: DuckDBSource(DuckDBQuery(connection, query), AGES))
        assert "withheld" in words
        assert "Zorn" not in words


# --- finding files ----------------------------------------------------------------------------------------------------


def test_files_are_found_in_the_order_of_their_names(tmp_path):
    for name in ("b/1", "a/2", "a/10", "a-/3", "c"):
        path = tmp_path / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        write(path, ages(first=float(len(name)), rows=2))
    for hidden in ("_old.parquet", ".x.parquet", "_logs/1.parquet"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_text("no Parquet")

    def shown(source) -> list[str]:
        return [os.path.relpath(place.shown, tmp_path) for place in FileSource(source, AGES)._places]

    everything = ["a/10.parquet", "a/2.parquet", "a-/3.parquet", "b/1.parquet", "c.parquet"]
    assert shown(tmp_path) == shown(f"{tmp_path}/**/*.parquet") == shown(str(tmp_path) + "/") == everything
    assert shown(f"{tmp_path}/*.parquet") == ["c.parquet"]
    assert shown(f"{tmp_path}/a*/*.parquet") == everything[:3]
    assert shown(f"{tmp_path}/a/[0-9].parquet") == ["a/2.parquet"]
    assert shown([tmp_path / "c.parquet", tmp_path / "a"]) == ["c.parquet", "a/10.parquet", "a/2.parquet"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([], "must be a path, a folder, a pattern or a URL"),
        ([3], "must be a path, a folder, a pattern or a URL"),
        ("nowhere.parquet", "no such file or folder"),
        ("*.feather", "matches no file"),
        (["t.csv", "./t.csv"], "is named more than once"),
        (["t.csv", "*.csv"], "is named more than once"),
        ("t.txt", r"must end in one of \.csv"),
        ("empty", "is a folder without files"),
        ("mixed", "files of several kinds"),
        (["t.csv", "numbers.parquet"], "keeps column 'age' as numbers, and a file before it as texts"),
        ("other.parquet", "has no column age"),
        ("unknown://x/y.parquet", "cannot be reached"),
    ],
    ids=str,
)
def test_what_cannot_be_a_source_is_refused(source, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.csv", "numbers.parquet", "mixed/a.csv", "mixed/b.arrow"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, ages())
    (tmp_path / "empty").mkdir()
    (tmp_path / "t.txt").write_text("age\n1\n")
    pq.write_table(pa.table({"height": [1.0]}), tmp_path / "other.parquet")
    with pytest.raises(InvalidArgument, match=words):
        FileSource(source, AGES)


def test_a_password_in_a_url_is_not_said():
    words = said(lambda: FileSource("unknown://user:secret@host/t.parquet", AGES))
    assert "secret@" not in words.split("InvalidArgument")[-1]


# --- memory -----------------------------------------------------------------------------------------------------------

MEASURE = """
    import sys
    import duckdb, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pyarrow.csv as pc
    from pathlib import Path
    from dpmcmc.enclave.sources import DuckDBSource, FileSource, Scratch
    from dpmcmc.enclave.tables import DuckDBQuery, read_table
    from dpmcmc.schema import Column, Schema

    folder, small, large = Path(sys.argv[1]), 500_000, 4_500_000
    names = [f"c{i}" for i in range(8)]
    schema = Schema({name: Column(kind="number", lower=0, upper=9) for name in names})

    def peak():  # of this program alone: what `resource` says begins with what the process had that started it
        found = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
        return int(found[0].split()[1]) / 1024

    def write(rows):
        block = pa.table({name: np.arange(50_000) % 10 / 1 for name in names})
        files = [folder / f"{rows}.{kind}" for kind in ("parquet", "arrow", "csv")]
        with (
            pq.ParquetWriter(files[0], block.schema) as parquet,
            pa.OSFile(str(files[1]), "wb") as sink,
            pa.ipc.new_file(sink, block.schema) as arrow,
            pc.CSVWriter(files[2], block.schema) as text,
        ):
            for _ in range(rows // 50_000):
                parquet.write_table(block, row_group_size=50_000)
                arrow.write_table(block)
                text.write_table(block)
        return files

    def read(rows):
        files = write(rows)
        found = [FileSource(file, schema) for file in files]
        query = f"SELECT * FROM read_parquet('{files[0]}')"
        connection = duckdb.connect(config={"memory_limit": "40MB", "threads": 1})
        connection.execute("SET enable_progress_bar = false")  # it is printed where queries take long
        found.append(DuckDBSource(DuckDBQuery(connection, query), schema))
        with Scratch(found[0], folder) as scratch:
            for source in (*found, scratch):
                assert sum(len(chunk["c0"]) for chunk in source.chunks(65_536)) == rows

    read(small)
    before = peak()
    read(large)
    flat = peak()
    read_table(folder / f"{large}.parquet", schema)
    print(flat - before, peak() - flat)
"""


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    """Nine times the rows, all kinds of sources: less than half of what the rows more would take when prepared.

    The smaller table is large enough to fill all buffers but for what threads read ahead on a busy machine, whatever
    the number of rows: 0 to 42 MB in six runs.

    The negative control reads the same rows into memory.
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURE), str(tmp_path)], capture_output=True, text=True, check=True
    )
    flat, whole = map(float, done.stdout.split()[-2:])  # DuckDB shows its progress where it is slow
    prepared = 4_000_000 * 4 * 9 / 2**20  # single precision, eight columns and the bits of missing cells
    assert flat < prepared / 2
    assert whole > prepared
