"""Records that are read chunk by chunk give the releases of a table in memory, bit for bit, at the same price.

Nothing here is drawn at random that could fail: noise is that of stated seeds, and compared with itself.
"""

import gc
import os
import weakref
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tables import sources
from toy import Book

from dpmcmc.accounting import Adjacency, Budget, Ledger, Parallel
from dpmcmc.enclave import (
    BarkerBit,
    BlockSum,
    Counts,
    CurvatureSum,
    ExactSum,
    GradientSum,
    Journal,
    LogRatio,
    NoisyCount,
    PenaltyTest,
    PrivateData,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core import compiled
from dpmcmc.enclave.core.audit import audit
from dpmcmc.enclave.core.cells import Cells
from dpmcmc.enclave.engines import LocalEngine, PartialProgram, passes
from dpmcmc.enclave.engines.packing import packed
from dpmcmc.enclave.engines.partial import as_integers, as_words
from dpmcmc.enclave.engines.steps import Inner, Segment, Steps, Together
from dpmcmc.enclave.sources import DuckDBSource, FileSource, MemorySource, Scratch
from dpmcmc.enclave.sources.picking import num_before
from dpmcmc.enclave.sources.preparation import Preparation
from dpmcmc.enclave.tables import DuckDBQuery, read_table
from dpmcmc.errors import BudgetExceeded, InvalidArgument, ReleaseRefused, ResumeRefused, RunRefused, SourceChanged
from dpmcmc.schema import Column, Schema

N, ROWS = 2_700, 1_024
SCHEMA = Schema(
    {
        "age": Column(kind="number", lower=0, upper=100),
        "dose": Column(kind="number", lower=-1, upper=1),
        "sick": Column(kind="boolean"),
    }
)
DRAWS = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "age": DRAWS.uniform(0, 100, N).astype(np.float32),
        "dose": DRAWS.uniform(-1, 1, N).astype(np.float32),
        "sick": DRAWS.integers(0, 2, N).astype(bool),
    }
)
RECORDS, BOUNDS = read_table(FRAME, SCHEMA).records, SCHEMA.bounds


def row(record):
    return jnp.stack([record["age"] / 100, record["dose"]])


def place_and_row(record):
    return jnp.concatenate([jnp.floor(record["age"] / 26)[None], row(record)])


class Logistic:
    temperature = 1.0

    def log_prior(self, theta):
        return 0 * jnp.sum(theta)  # what is public is rounded as XLA likes, in one program or in several

    def log_likelihood(self, theta, record):
        return jax.nn.log_sigmoid((2.0 * record["sick"] - 1.0) * (row(record) @ theta))


MODEL, THETA = Logistic(), jnp.array([0.3, -0.2])
SUM, FORCE = Sum(1.0, 3.0), GradientSum(1.0, 3.0)


def chunked(source=None, rows=ROWS, **options):
    engine = LocalEngine(MemorySource(FRAME, SCHEMA) if source is None else source, rows)
    return PrivateData.without_guarantee(engine, **options)


def in_memory(**options):
    return PrivateData.without_guarantee(RECORDS, bounds=BOUNDS, **options)


def check_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def everything(oracle, theta):
    """A release of each kind that can be streamed, all at once, and one that needs another's result."""
    force = oracle.force(FORCE, theta).value
    return {
        "sum": oracle.sum(SUM, lambda scale, record: scale * row(record), theta).value,
        "in blocks": oracle.sum(BlockSum(1.0, 3.0, 4, 1), place_and_row).value,
        "counts": oracle.sum(Counts(1.0, 3.0), lambda record: jnp.abs(row(record))).value,
        "no queries": oracle.sum(SUM, row).value,
        "of nobody": oracle.sum(SUM, lambda _: jnp.ones(1)).value,
        "force": force,
        "curvature": oracle.curvature(CurvatureSum(1.0, 3.0), theta, jnp.eye(2)).value,
        "count": oracle.sum(NoisyCount(0.7, 3.0), row).value,
        "ratio": oracle.log_posterior_ratio(LogRatio(1.0, 3.0), theta, 2 * theta).value,
        "decision": oracle.accept(PenaltyTest(1.0, 3.0), theta, 2 * theta),
        "after": oracle.force(FORCE, jnp.round(force)).value,
    }


@pytest.fixture(scope="module")
def expected():
    return in_memory().run(everything, THETA, model=MODEL, insecure_seed=11)


def test_every_sum_is_the_one_of_the_table_in_memory(expected):
    data = chunked()
    check_same(data.run(everything, THETA, model=MODEL, insecure_seed=11), expected)
    audit = data.audit(everything, THETA, model=MODEL)
    assert audit.event == in_memory().price(everything, THETA, model=MODEL)


def test_wherever_the_rows_come_from_the_bits_are_the_same(tmp_path):
    made = sources(tmp_path, FRAME)
    opened = [FileSource(made[kind], SCHEMA) for kind in ("csv", "parquet", "feather", "folder")]
    opened += [DuckDBSource(made["duckdb object"], SCHEMA), Scratch(opened[1], tmp_path)]

    def program(oracle, theta):
        return oracle.sum(SUM, lambda scale, record: scale * row(record), theta).value, oracle.sum(SUM, row).value

    expected = chunked().run(program, THETA, model=MODEL, insecure_seed=2)
    for source in opened:
        check_same(chunked(source).run(program, THETA, model=MODEL, insecure_seed=2), expected)
    check_same(in_memory().run(program, THETA, model=MODEL, insecure_seed=2), expected)


@pytest.mark.parametrize("rows", [512, 2_560, 3_072])
def test_chunks_of_any_length_hold_every_record_once(rows):
    def count(oracle):
        return oracle.sum(Sum(1.0, 0.01), lambda _: jnp.ones(1)).value

    (found,) = np.round(chunked(rows=rows).run(count, insecure_seed=1))
    assert found == N


# --- programs as steps ------------------------------------------------------------------------------------------------


class Counting(LocalEngine):
    """Says how many passes there were, of how many releases, and over which chunks."""

    def __init__(self, rows=ROWS):
        super().__init__(MemorySource(FRAME, SCHEMA), rows)
        self.passes = []

    def partial_sum(self, program, public, cells):
        found = super().partial_sum(program, public, cells)
        self.passes.append(len(found))
        return found


def nested(oracle, thetas):
    """Loops, chains, calls and loops in loops, around releases."""

    @jax.jit
    def step(theta, scale):
        force = jnp.round(oracle.force(FORCE, theta).value)
        return theta * 0.5, (force, scale * jnp.round(oracle.sum(SUM, row).value))

    def walk(theta):
        inner = jax.lax.scan(step, theta, jnp.arange(2.0), reverse=True)[1]
        return jax.lax.scan(lambda carry, _: (carry, jax.lax.scan(step, carry, jnp.ones(2))[1]), theta, None, length=2)[
            1
        ], inner

    return jax.vmap(walk)(thetas), jnp.round(oracle.sum(SUM, row).value)


def test_noise_is_numbered_as_in_one_compiled_program():
    """Every release of a program with loops in loops, and chains, draws what it draws in memory: the same numbers."""
    thetas, engine = jnp.stack([THETA, -THETA]), Counting()
    expected = in_memory().run(nested, thetas, model=MODEL, insecure_seed=8)
    check_same(PrivateData.without_guarantee(engine).run(nested, thetas, model=MODEL, insecure_seed=8), expected)
    drawn = [np.asarray(leaf).reshape(-1, 2) for leaf in jax.tree.leaves(expected)]
    assert len(np.unique(np.concatenate([drawn[0], drawn[2]]), axis=0)) == 12, "no two releases share noise"
    assert engine.passes == [1] + [2] * 6 or engine.passes == [2] * 6 + [1]


def test_what_can_be_asked_at_once_is_one_pass():
    engine = Counting()
    PrivateData.without_guarantee(engine).run(everything, THETA, model=MODEL, insecure_seed=1)
    assert engine.passes == [10, 1]


def test_a_program_is_divided_where_releases_need_each_other():
    data = in_memory()
    traced = jax.make_jaxpr(lambda theta: everything(_oracle(data), theta))(THETA)
    steps = Steps(traced, audit(traced, data.facts))
    asked = [step for step in steps.listed if isinstance(step, Together)]
    assert [len(step.equations) for step in asked] == [10, 1]
    assert sorted(number for step in asked for number in step.numbers) == list(range(11)) == list(range(steps.num_keys))
    assert any(isinstance(step, Segment) for step in steps.listed)
    assert not any(isinstance(step, Inner) for step in steps.listed)


def _oracle(data):
    from dpmcmc.enclave.oracle import Oracle

    return Oracle(data.facts, MODEL)


# --- shards -----------------------------------------------------------------------------------------------------------


def test_a_shard_of_a_stream_is_that_of_the_table_in_memory_and_reads_its_chunks_alone(monkeypatch):
    read = []
    honest = MemorySource.chunks
    monkeypatch.setattr(
        MemorySource, "chunks", lambda self, rows, first=0: read.append(first) or honest(self, rows, first)
    )
    cuts = (600, 700, 2_300)
    data, memory = chunked(rows=512), in_memory()
    for cells in ((1,), (0, 3), (0, 1, 2)):

        def program(oracle, cells=cells):
            return oracle.shard(oracle.partition(cuts), cells).sum(SUM, row).value

        read.clear()
        check_same(*(one.run(program, model=MODEL, insecure_seed=3) for one in (data, memory)))
        assert read == {(1,): [1], (0, 3): [0, 4], (0, 1, 2): [0]}[cells]
        assert isinstance(data.price(program, model=MODEL), Parallel)


class Far:
    """Three thousand million rows, of which those that are asked for are made."""

    num_records, bounds = 3 * 10**9, {"x": (0.0, 1.0)}
    record, identity = {"x": jax.ShapeDtypeStruct((), np.float32)}, b"far"

    def chunks(self, rows, first=0):
        for number in range(first, -(-self.num_records // rows)):
            places = np.arange(number * rows, min((number + 1) * rows, self.num_records))
            yield {"x": (places % 7 == 0).astype(np.float32)}

    def confirm(self):
        pass


def test_rows_are_numbered_beyond_32_bits():
    data, first = PrivateData.without_guarantee(LocalEngine(Far(), 2**13)), 2**31 + 5

    def program(oracle):
        shard = oracle.shard(oracle.partition((first, first + 20_000)), 1)
        return shard.sum(Sum(1.0, 0.01), lambda record: record["x"]).value

    (found,) = np.round(data.run(program, insecure_seed=1))
    assert found == np.sum(np.arange(first, first + 20_000) % 7 == 0)


# --- packing ----------------------------------------------------------------------------------------------------------


def cells_of(vault, cuts, numbers):
    return Cells(vault.partition(cuts), tuple(numbers))


def test_one_length_of_chunks_for_all_rows_and_for_many_and_a_shorter_one_for_few():
    engine = LocalEngine(Far())
    vault = PrivateData.without_guarantee(engine)
    cuts = [place + more for place in range(10**8, 10**9, 10**8) for more in (0, 9_000)]
    blocks, rest = cells_of(vault, cuts, range(1, 18, 2)), cells_of(vault, cuts, range(0, 19, 2))
    assert engine.rows(rest) == engine.rows(blocks) == engine.rows(None) == 2**16
    assert engine.rows(cells_of(vault, cuts, [1])) == 2**14
    assert engine.rows(cells_of(vault, [5], [0])) == 512


BLOCKS = [place for first in range(40, N, 90) for place in (first, first + 7)]
"""Thirty blocks of seven rows."""


def test_rows_of_blocks_are_packed_each_once_in_its_place(tmp_path):
    """Chunks of a pass are as many as hold the rows, whatever lies between them; nothing else is prepared or counts."""
    made = sources(tmp_path, FRAME)
    opened = [FileSource(made[kind], SCHEMA) for kind in ("csv", "parquet", "feather", "folder")]
    opened += [MemorySource(FRAME, SCHEMA), DuckDBSource(made["duckdb object"], SCHEMA), Scratch(opened[1], tmp_path)]
    vault = in_memory()
    for numbers, num_chunks in ((range(1, 60, 2), 1), (range(0, 61, 2), 5), ([3], 1), (range(61), 6)):
        cells = cells_of(vault, BLOCKS, numbers)
        places = np.concatenate([np.arange(*interval) for interval in cells.intervals])
        assert len(places) > 1
        for source in opened:
            chunks = list(LocalEngine(source, 512).chunks(cells))
            assert len(chunks) == num_chunks == -(-cells.size // 512)
            occupied = np.concatenate([each for _, each in chunks])
            np.testing.assert_array_equal(np.flatnonzero(occupied), np.arange(cells.size))
            for number, name in enumerate(sorted(RECORDS)):
                found = np.concatenate([leaves[number] for leaves, _ in chunks])[: cells.size]
                np.testing.assert_array_equal(found, RECORDS[name][places])


@pytest.mark.parametrize("length", [512, 1_024, 1_536])
def test_a_part_of_the_table_has_its_rows_in_the_slots_that_they_have_in_the_whole(length):
    """So partitions on other machines round what they round as one machine does."""
    source, cells = MemorySource(FRAME, SCHEMA), cells_of(in_memory(), BLOCKS, range(0, 61, 2))
    whole = list(LocalEngine(source, 512).chunks(cells))
    found = [np.zeros_like(leaf) for leaf in np.concatenate([leaves[0] for leaves, _ in whole]).reshape(len(whole), -1)]
    counted, number = np.zeros((len(whole), 512), int), 0
    for start in range(0, N, length):
        parts = list(packed(source, 512, cells.intervals, start, min(start + length, N)))
        number = num_before(cells.intervals, start) // 512
        for at, (leaves, occupied) in enumerate(parts, number):
            found[at][occupied] = leaves[0][occupied]
            counted[at] += occupied
    for at, (leaves, occupied) in enumerate(whole):
        np.testing.assert_array_equal(counted[at], occupied)
        np.testing.assert_array_equal(found[at], leaves[0])


def test_of_files_the_row_groups_that_hold_the_rows_are_read_and_these_rows_are_prepared(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    read, prepared = [], []
    honest_read, honest_write = pq.ParquetFile.read_row_group, Preparation._write
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, i, **given: read.append(i) or honest_read(self, i, **given)
    )
    monkeypatch.setattr(
        Preparation,
        "_write",
        lambda self, batch, into: prepared.append(batch.num_rows) or honest_write(self, batch, into),
    )
    engine, cells = (
        LocalEngine(FileSource(tmp_path / "t.parquet", SCHEMA), 512),
        cells_of(in_memory(), BLOCKS, [1, 9, 19]),
    )
    assert cells.intervals == [(40, 47), (400, 407), (850, 857)]
    for _ in range(2):
        assert len(list(engine.chunks(cells))) == 1
        assert (read, prepared) == ([0, 4, 8], [7, 7, 7])
    assert len(list(engine.chunks(None))) == 6
    assert (len(read), sum(prepared)) == (3 + 27, 21 + N)


# --- what is refused --------------------------------------------------------------------------------------------------

NOT_SUMS = {
    "a coin": lambda oracle: oracle.accept(BarkerBit(1.0), THETA, 2 * THETA),
    "a batch": lambda oracle: oracle.force(SubsampledGradientSum.poisson(1.0, 9.0, rate=0.1), THETA).value,
    "an exact sum": lambda oracle: oracle.sum(ExactSum(), row).value,
}


@pytest.mark.parametrize("name", NOT_SUMS)
def test_what_is_no_sum_is_refused_before_anything_is_charged(name):
    book = Book()
    data = PrivateData(LocalEngine(MemorySource(FRAME, SCHEMA)), ledger=book, dataset="people")
    for ask in (data.price, data.run):
        with pytest.raises(ReleaseRefused, match="cannot be asked of records that are read chunk by chunk"):
            ask(NOT_SUMS[name], model=MODEL)
    assert book.reserved == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adjacency": "add_or_remove_one", "capacity": N}, "stand at their positions in the table"),
        ({"schema": Schema({"age": Column(kind="number", lower=0, upper=1)}, person="p")}, "stand at their positions"),
        ({"devices": jax.devices()}, "devices= spreads records that are in memory"),
        ({"bounds": {"age": (0, 1)}}, "bounds must be left out"),
        ({"capacity": 3}, "capacity must be left out"),
    ],
)
def test_what_a_stream_cannot_be_is_refused(options, words):
    with pytest.raises(InvalidArgument, match=words):
        chunked(**options)


def test_a_source_without_a_row_is_refused(tmp_path):
    FRAME[:0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidArgument, match="has no row"):
        PrivateData.without_guarantee(FileSource(tmp_path / "t.parquet", SCHEMA))


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_the_program_of_a_chunk_is_read_before_anything_is_charged(monkeypatch):
    monkeypatch.setattr("dpmcmc.enclave.engines.partial.check_compiled", lambda text: compiled._unreadable(text))
    passes.KEPT.clear()
    book = Book()
    data = PrivateData(LocalEngine(MemorySource(FRAME, SCHEMA)), ledger=book, dataset="people")
    with pytest.raises(RunRefused):
        data.run(lambda oracle: oracle.sum(SUM, row).value)
    assert book.reserved == []


def test_integers_beyond_the_bound_count_as_zero_in_every_chunk(monkeypatch):
    """Whatever rounds a contribution: an adversary in its place adds nothing beyond the clip, a record at a time."""
    honest = quantise.vector

    def huge(contribution, lattice, axis=-1, aim=None):
        made = honest(contribution, lattice, axis, aim)
        return jnp.where(contribution > 0.5, jnp.int32(2**30), made)

    monkeypatch.setattr(quantise, "vector", huge)
    passes.KEPT.clear()
    data = chunked(accelerate=False)
    (found,) = data.run(lambda oracle: oracle.sum(Sum(1.0, 0.01), lambda record: record["dose"]).value, insecure_seed=1)
    dose = np.asarray(RECORDS["dose"], float)
    assert found == pytest.approx(np.sum(np.where(dose > 0.5, 0, dose)), abs=0.5)


def test_a_program_that_was_sent_gives_the_same_integers_and_is_looked_at_again():
    data, sent = Sent(), []
    data.sent = sent

    def program(oracle, theta):
        return oracle.sum(SUM, lambda scale, record: scale * row(record), theta).value, oracle.sum(SUM, row).value

    expected = chunked().run(program, THETA, model=MODEL, insecure_seed=6)
    check_same(PrivateData.without_guarantee(data).run(program, THETA, model=MODEL, insecure_seed=6), expected)
    (written,) = sent
    for leaf in (RECORDS["age"], RECORDS["dose"]):
        assert np.ascontiguousarray(leaf[:4]).tobytes() not in written
    with pytest.raises(RunRefused, match="no operation of the gate"):
        _ = PartialProgram.from_bytes(_without_gate(), (0,)).compiled


class Sent(LocalEngine):
    """Three workers that read the program from bytes, each with its own chunks, in any order."""

    def __init__(self):
        super().__init__(MemorySource(FRAME, SCHEMA), ROWS)
        self.sent = []

    def partial_sum(self, program, public, cells):
        self.sent.append(program.to_bytes())
        there = PartialProgram.from_bytes(self.sent[-1], program.reads)
        parts = [as_integers(there(*chunk, [np.asarray(one) for one in public])) for chunk in self.chunks(cells)]
        return [sum(column[::-1], start=np.zeros_like(column[0])) for column in zip(*parts, strict=True)]


def _without_gate():
    def function(rows, occupied, once, public):  # noqa: ARG001
        return [jnp.sum(rows[0]).astype(jnp.int32), once.astype(jnp.uint32)]

    shape = jax.ShapeDtypeStruct((), np.float32)
    return PartialProgram.of(function, (0,), [shape], 512, []).to_bytes()


def test_words_of_the_host_are_those_of_the_program():
    exact = np.array([0, 1, -1, 2**31, -(2**31) - 1, 2**62 - 1, -(2**62)], np.int64)
    (found,) = as_integers(as_words(exact))
    np.testing.assert_array_equal(found, exact)
    assert isinstance(as_words(exact), Wide)


def test_programs_that_differ_in_numbers_share_what_is_compiled():
    passes.KEPT.clear()
    data = chunked()
    for noise in (3.0, 5.0):
        for leaf in ("age", "dose"):
            data.run(lambda oracle, z=noise, name=leaf: oracle.sum(Sum(z, z), lambda record: record[name] / z).value)
    assert len(passes.KEPT) == 1


# --- what is paid, and what is resumed --------------------------------------------------------------------------------


def bought(path, tmp_path, **options):
    return PrivateData.from_table(
        path, schema=SCHEMA, in_memory=False, ledger=f"sqlite:///{tmp_path}/book.db", dataset="people", **options
    )


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A folder of Parquet files, with a ledger beside it."""
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    (tmp_path / "lake").mkdir()
    for number in range(3):
        FRAME[number * 900 : (number + 1) * 900].to_parquet(tmp_path / "lake" / f"{number}.parquet")
    Ledger.create(f"sqlite:///{tmp_path}/book.db").register("people", Budget(2.0, 1e-6), Adjacency.REPLACE_ONE)
    return tmp_path / "lake"


def look(oracle):
    return oracle.sum(Sum(1.0, 9.0), row).value


def test_a_lake_is_paid_for_as_a_table_is_and_its_certificate_says_how_it_was_read(lake, tmp_path):
    data = bought(lake / "*.parquet", tmp_path)
    assert "streamed=" in repr(data)
    with data.reserve(data.price(look) * 2) as paid:
        first, second = paid.run(look), paid.run(look)
        with pytest.raises(BudgetExceeded):
            paid.run(look)
    assert not np.array_equal(first, second)
    certificate = data.certificate(paid.spent, 1e-6, paid.paths)
    assert certificate.paths == ("reference", "streamed")
    assert data.account.spent == paid.spent


CHANGES = {
    "truncated": lambda file: file.write_bytes(file.read_bytes()[:-100]),
    "swapped": lambda file: FRAME[::-1][:900].to_parquet(file),
    "gone": lambda file: file.unlink(),
    "longer": lambda file: FRAME[:901].to_parquet(file),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_between_passes_gives_nothing_and_the_charge_stands(change, lake, tmp_path):
    data = bought(lake, tmp_path)
    price = data.price(look)
    data.run(look)
    before = data.account.spent
    CHANGES[change](lake / "1.parquet")
    with pytest.raises((SourceChanged, InvalidArgument), match="is not what it was"):
        data.run(look)
    assert data.account.spent == before + price


def test_a_run_that_was_stopped_by_a_change_goes_on_when_the_file_is_back(lake, tmp_path):
    """Known by the identity of the source: the same noise on the same rows. The charge stood all the time."""
    file = lake / "1.parquet"
    kept, stamp = file.read_bytes(), file.stat()
    data = bought(lake, tmp_path)
    price = data.price(look) * 2
    with (
        suppress(SourceChanged),
        Journal.create(tmp_path / "run", {}) as journal,
        data.reserve_resumable(price, journal) as paid,
    ):
        first = np.asarray(paid.run(look))
        CHANGES["swapped"](file)
        paid.run(look)
        pytest.fail("other rows were read")
    assert bought(lake, tmp_path).account.spent == price
    file.write_bytes(kept)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with Journal.open(tmp_path / "run") as journal, bought(lake, tmp_path).reserve_resumable(price, journal) as paid:
        np.testing.assert_array_equal(paid.run(look), first)
        assert paid.run(look).shape == first.shape
    assert Ledger(f"sqlite:///{tmp_path}/book.db").account("people").spent == price


def test_a_stopped_run_is_resumed_on_the_same_rows_alone(lake, tmp_path):
    data = bought(lake, tmp_path)
    price = data.price(look) * 2
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "run", {}) as journal:  # noqa: SIM117
        with data.reserve_resumable(price, journal) as paid:
            expected = np.asarray(paid.run(look))
            raise KeyboardInterrupt
    with Journal.open(tmp_path / "run") as journal, bought(lake, tmp_path).reserve_resumable(price, journal) as paid:
        np.testing.assert_array_equal(paid.run(look), expected)
        paid.run(look)
    assert Ledger(f"sqlite:///{tmp_path}/book.db").account("people").spent == price


def test_other_rows_are_not_taken_for_those_of_a_run(lake, tmp_path):
    data = bought(lake, tmp_path)
    price = data.price(look) * 2
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "run", {}) as journal:  # noqa: SIM117
        with data.reserve_resumable(price, journal) as paid:
            paid.run(look)
            raise KeyboardInterrupt
    CHANGES["swapped"](lake / "1.parquet")
    with Journal.open(tmp_path / "run") as journal, pytest.raises(ResumeRefused, match="begun with other records"):  # noqa: SIM117
        with bought(lake, tmp_path).reserve_resumable(price, journal):
            pytest.fail("it went on")


# --- opening ----------------------------------------------------------------------------------------------------------


def opened(source, **options):
    return PrivateData.from_table(source, schema=SCHEMA, budget=Budget(1.0, 1e-6), **options)


def is_streamed(data):
    return "streamed=" in repr(data)


def test_what_is_held_in_memory_follows_from_public_facts(lake, tmp_path, monkeypatch):
    made = sources(tmp_path, FRAME)
    query = DuckDBQuery(made["duckdb object"].connection, made["duckdb object"].query + " ORDER BY ALL")
    for source in (lake, lake / "*.parquet", [lake / "0.parquet", lake / "1.parquet"], FRAME, made["csv"], query):
        assert not is_streamed(opened(source))
        assert is_streamed(opened(source, in_memory=False))
    monkeypatch.setattr("dpmcmc.enclave.sources.opening.memory", lambda: 1_000)
    for source in (lake, f"file://{lake}", made["parquet"]):
        assert is_streamed(opened(source))
        assert not is_streamed(opened(source, in_memory=True))
    assert is_streamed(opened(lake, scratch=tmp_path))


def test_a_pattern_in_memory_has_the_records_of_its_files(lake):
    def program(oracle):
        return oracle.sum(SUM, row).value

    seeded = PrivateData.without_guarantee
    held = opened(lake / "*.parquet", in_memory=True)
    check_same(
        seeded({name: held._slots.rows[name][:N] for name in RECORDS}, bounds=BOUNDS).run(program, insecure_seed=1),
        in_memory().run(program, insecure_seed=1),
    )


REFUSED = {
    "an empty folder": (lambda tmp: _folder(tmp / "empty"), {}, "is a folder without"),
    "a pattern without a match": (lambda tmp: tmp / "lake" / "*.arrow", {}, "matches no file"),
    "an empty list": (lambda _: [], {}, "must be a path"),
    "no such file": (lambda tmp: tmp / "nowhere.parquet", {"in_memory": False}, "no such file"),
    "files that differ": (lambda tmp: _differing(tmp), {}, "keeps column 'age' as texts"),
    "more rows than slots": (
        lambda tmp: tmp / "lake",
        {"adjacency": "add_or_remove_one", "capacity": 9, "in_memory": False},
        "capacity=9 is less than",
    ),
    "scratch of what is held": (lambda tmp: tmp / "lake", {"in_memory": True, "scratch": "."}, "scratch= holds rows"),
    "scratch nowhere": (lambda tmp: tmp / "lake", {"scratch": "/nowhere"}, "cannot hold a scratch file"),
}


def _folder(path):
    path.mkdir()
    return path


def _differing(tmp):
    FRAME[:9].assign(age="old").to_parquet(tmp / "lake" / "9.parquet")
    return tmp / "lake" / "*.parquet"


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_words_before_anything_is_granted_or_charged(name, tmp_path):
    source, options, words = REFUSED[name]
    with pytest.raises(InvalidArgument, match=words):
        opened(source(tmp_path), **options)


def test_a_pattern_without_a_match_is_granted_nothing(tmp_path):
    with pytest.raises(InvalidArgument, match="matches no file"):
        PrivateData.from_table(
            tmp_path / "*.parquet", schema=SCHEMA, ledger=f"sqlite:///{tmp_path}/b.db", budget=Budget(1.0, 1e-6)
        )
    assert not (tmp_path / "b.db").exists()


def test_a_disk_without_room_for_scratch_is_refused(lake, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with pytest.raises(InvalidArgument, match="there is not enough space"):
        opened(lake, scratch=tmp_path)


def test_what_is_kept_of_programs_holds_no_engine_and_no_rows():
    """A vault that is gone is gone: executables are kept, and nothing that leads to its records."""
    passes.KEPT.clear()
    source = MemorySource(FRAME, SCHEMA)
    gone = weakref.ref(source)
    chunked(source).run(lambda oracle: oracle.sum(SUM, row).value, insecure_seed=1)
    del source
    gc.collect()
    assert passes.KEPT
    assert gone() is None


def test_cells_that_have_room_are_read_once(lake, monkeypatch):
    """Blocks that lead the way are asked several times; files are confirmed each time."""
    asked = []
    honest = FileSource.picked
    monkeypatch.setattr(FileSource, "picked", lambda self, *given: asked.append(given[0]) or honest(self, *given))
    source, memory = FileSource(lake, SCHEMA), in_memory()

    def program(oracle):
        shard = oracle.shard(oracle.partition((100, 2_400)), (0, 2))
        return shard.sum(SUM, row).value

    for room, times in ((2**28, 1), (1_000, 2)):
        monkeypatch.setattr("dpmcmc.enclave.engines.local._room", lambda room=room: room)
        data = chunked(source, rows=512)
        for seed in (3, 4):
            check_same(*(one.run(program, model=MODEL, insecure_seed=seed) for one in (data, memory)))
        assert asked == [[(0, 100), (2_400, N)]] * times
        asked.clear()
    CHANGES["swapped"](lake / "1.parquet")
    with pytest.raises(SourceChanged):
        data.run(program, model=MODEL, insecure_seed=3)


def test_what_lies_between_near_places_is_read_through(monkeypatch):
    """A query is asked from its first row on, once; where a source can begin anywhere, it begins where places are."""
    begun = []
    honest = MemorySource.chunks
    monkeypatch.setattr(
        MemorySource, "chunks", lambda self, rows, first=0: begun.append(first) or honest(self, rows, first)
    )
    source, cells = MemorySource(FRAME, SCHEMA), cells_of(in_memory(), (100, 2_400), (0, 2))
    for apart, found in ((0, [0, 4]), (2**62, [0])):
        monkeypatch.setattr(MemorySource, "apart", apart, raising=False)
        assert len(list(LocalEngine(source, 512).chunks(cells))) == 1
        assert begun == found
        begun.clear()
