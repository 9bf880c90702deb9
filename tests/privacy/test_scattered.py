"""Records in secret slots on a disk: uniformly drawn, those of the table in memory, and one slot apart for neighbours.

The seeds are fixed, so a failure is a change of the code; chi-square tests would raise one false alarm in a million.
"""

import os
import stat
from contextlib import suppress
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_cells import SAMPLES, shown
from test_streams import FORCE, FRAME, MODEL, SCHEMA, SUM, THETA, check_same, row
from toy import Book

from dpmcmc.accounting import Adjacency, Budget, Gaussian, Ledger, Parallel, delta
from dpmcmc.accounting.partition import Partition
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.enclave.core import vault
from dpmcmc.enclave.engines import LocalEngine
from dpmcmc.enclave.engines.streamed import Streamed
from dpmcmc.enclave.sources import FileSource, MemorySource, Scattered, scattered
from dpmcmc.enclave.sources.scattered import Draw
from dpmcmc.enclave.sources.unnamed import UnnamedFile
from dpmcmc.enclave.tables import read_table
from dpmcmc.errors import InvalidArgument, ResumeRefused, SourceChanged
from dpmcmc.schema import OCCUPIED, Column, Schema

FALSE_ALARM = 1e-6
NAMES = np.random.default_rng(8).integers(0, 900, len(FRAME))
OWNED = FRAME.assign(who=[f"p{name}" for name in NAMES])
PERSONS = Schema(SCHEMA.columns, person="who", max_rows_per_person=3)
HIDDEN = {"adjacency": "add_or_remove_one", "capacity": 3_000}


@pytest.fixture(autouse=True)
def many_buckets(monkeypatch):
    """Buckets of a few hundred rows, and chunks of as many: so that small tables have many of both."""
    monkeypatch.setattr(scattered, "_BYTES", 4_000)
    monkeypatch.setattr(scattered, "BLOCK", 256)


def seed(number):
    return number.to_bytes(32, "little")


def files(folder, frame=OWNED):
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=100)
    return folder / "*.parquet"


def thrown(folder, schema, capacity=None, number=1, frame=OWNED):
    return Scattered(FileSource(files(folder, frame), schema, persons=True), schema, folder, capacity, seed(number))


def slots(source, rows=500):
    chunks = list(source.chunks(rows))
    return {leaf: np.concatenate([chunk[leaf] for chunk in chunks]) for leaf in chunks[0]}


def as_sorted(leaves):
    """Records as a multiset."""
    rows = np.column_stack([leaves[leaf].reshape(len(leaves[leaf]), -1) for leaf in sorted(leaves)])
    return rows[np.lexsort(rows.T)]


# --- what stands in the slots -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("capacity", [None, 3_000])
def test_slots_hold_the_records_of_the_table_in_memory_each_once(schema, capacity, tmp_path):
    """Persons with more rows than count are among them: the same rows count."""
    source, expected = thrown(tmp_path, schema, capacity), read_table(OWNED, schema).records
    found, count = slots(source), len(expected["age"])
    occupied = found.pop(OCCUPIED)
    assert source.num_records == len(occupied) == (capacity or count)
    assert set(found) == set(source.record) == set(expected) == set(source.bounds)
    for leaf, kept in source.record.items():
        assert (kept.shape, kept.dtype) == (expected[leaf].shape[1:], expected[leaf].dtype)
        assert found[leaf].dtype == expected[leaf].dtype
        assert not np.any(found[leaf][~occupied])
    np.testing.assert_array_equal(
        as_sorted({leaf: values[occupied] for leaf, values in found.items()}), as_sorted(expected)
    )
    if schema is PERSONS:
        assert np.any(np.bincount(NAMES) > PERSONS.max_rows_per_person)
    check_same(slots(source, 77), slots(source, 2**20))
    assert source._num_buckets() >= 16


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_a_seed_decides_the_slots_and_of_persons_nothing_else(schema, tmp_path):
    one, same, other = (slots(thrown(tmp_path, schema, 3_000, number)) for number in (1, 1, 2))
    check_same(one, same)
    assert not np.array_equal(one["age"], other["age"])
    shuffled = slots(thrown(tmp_path, schema, 3_000, frame=OWNED.sample(frac=1, random_state=1)))
    assert np.array_equal(one["age"], shuffled["age"]) == (schema is PERSONS)


def test_rows_of_nobody_are_in_no_slot_and_a_table_without_rows_has_slots(tmp_path):
    half = OWNED.assign(who=OWNED["who"].where(np.arange(len(OWNED)) % 2 == 0))
    found = slots(thrown(tmp_path, PERSONS, frame=half))
    assert len(found["age"]) == half["who"].nunique()
    for schema in (SCHEMA, PERSONS):
        empty = slots(thrown(tmp_path, schema, 1_000, frame=OWNED[:0]))
        assert len(empty["age"]) == 1_000
        assert not np.any(empty[OCCUPIED])


# --- the law of the places --------------------------------------------------------------------------------------------


def drawn(places_of, num_records, num_slots, draws=600):
    """Say whether all injections are equally likely, by a chi-square test over seeds."""
    injections = {places: number for number, places in enumerate(permutations(range(num_slots), num_records))}
    found = [injections[tuple(places_of(seed(number)))] for number in range(draws)]
    assert draws / len(injections) >= 20
    return stats.chisquare(np.bincount(found, minlength=len(injections))).pvalue > FALSE_ALARM


def places_of(table, schema, capacity):
    """Return a function from a seed to the slots of the records, in the order of their first column."""

    class Source:
        num_records = len(next(iter(table.values())))
        record = {leaf: np.zeros(values.shape[1:], values.dtype) for leaf, values in table.items()}  # noqa: RUF012

        def chunks(self, _):
            yield from (
                {leaf: values[at : at + 2] for leaf, values in table.items()} for at in range(0, self.num_records, 2)
            )

    def found(of_seed):
        held = slots(Scattered(Source(), schema, None, capacity, of_seed))
        order = np.argsort(held["x"].reshape(len(held[OCCUPIED]), -1)[:, 0])
        return [place for place in order.tolist() if held[OCCUPIED][place]]

    return found


X = {"x": Column(kind="number", lower=0, upper=9)}
NUMBERED = Schema(X)
NAMED = Schema(X, person="who", max_rows_per_person=2)
BITS = "(missing cells 1-1 of 1)"


def table(values, names=None):
    leaves = {"x": np.array(values, np.float32), BITS: np.zeros(len(values), np.int32)}
    if names is not None:
        leaves["(person)"] = np.array([[ord(name), 0, 0, 1] for name in names], np.uint32)
    return leaves


LAWS = {
    "rows": (table([1, 2, 3]), NUMBERED, None, 3),
    "rows, and nobody": (table([1, 2]), NUMBERED, 4, 2),
    "one row, and nobody": (table([1]), NUMBERED, 5, 1),
    "persons": (table([1, 3, 2, 1, 3], "abcab"), NAMED, None, 3),
    "persons, one under another name": (table([1, 3, 2, 1, 3], "qbcqb"), NAMED, None, 3),
    "persons, and nobody": (table([1, 2, 1, 1], "abaa"), NAMED, 4, 2),
    "persons, one less": (table([1, 1, 1], "aaa"), NAMED, 5, 1),
}


@pytest.mark.parametrize("name", LAWS)
def test_all_ways_of_placing_records_are_equally_likely(name, monkeypatch):
    """Whatever the records are, and however many: so neighbours can be coupled, one slot apart."""
    held, schema, capacity, count = LAWS[name]
    monkeypatch.setattr(Scattered, "_num_buckets", lambda _: 2)
    assert drawn(places_of(held, schema, capacity), count, capacity or count)


MUTANTS = {
    "buckets in the order of the rows": ("of_items", lambda *given: np.arange(given[1], sum(given[1:])) % 2),
    "no shuffling inside": ("slots_in", lambda *given: np.arange(given[2])),
    "the same shuffling in all": ("slots_in", lambda self, _, *given: honest_slots(self, 0, *given)),
}
honest_slots = Draw.slots_in


@pytest.mark.parametrize("name", MUTANTS)
def test_places_that_are_not_uniform_are_caught(name, monkeypatch):
    """Negative controls. (Buckets that are not equally likely are none: items need but be alike and independent.)"""
    where, mutant = MUTANTS[name]
    monkeypatch.setattr(Draw, where, mutant)
    monkeypatch.setattr(Scattered, "_num_buckets", lambda _: 2)
    assert not drawn(places_of(table([1, 2]), NUMBERED, 4), 2, 4)


def test_no_bucket_is_likelier_and_persons_do_not_follow_each_other():
    draw = Draw(seed(4), 16)
    items = draw.of_items(0, 40_000)
    assert stats.chisquare(np.bincount(items, minlength=16)).pvalue > FALSE_ALARM
    pairs = np.bincount(items[:-1].astype(int) * 16 + items[1:], minlength=256)
    assert stats.chisquare(pairs).pvalue > FALSE_ALARM
    np.testing.assert_array_equal(items[700:1_500], draw.of_items(700, 800))
    names = np.arange(40_000, dtype=np.uint32).reshape(-1, 4)
    assert stats.chisquare(np.bincount(draw.of_persons(names), minlength=16)).pvalue > FALSE_ALARM
    assert not np.array_equal(draw.of_persons(names), Draw(seed(5), 16).of_persons(names))


# --- the vault --------------------------------------------------------------------------------------------------------


def seeded(source, **facts):
    return PrivateData.without_guarantee(LocalEngine(source, 512), schema=source._schema, **facts)


def in_the_same_slots(source, monkeypatch, **facts):
    """The table in memory, with its records in the slots in which they stand on the disk."""
    found, expected = slots(source), read_table(OWNED, source._schema).records
    keys = [
        np.column_stack([each[leaf].reshape(len(each[leaf]), -1) for leaf in sorted(expected)])
        for each in (found, expected)
    ]
    on_disk = np.flatnonzero(found[OCCUPIED])
    own = np.empty(len(keys[1]), np.int64)
    own[np.lexsort(keys[1].T)] = on_disk[np.lexsort(keys[0][on_disk].T)]
    monkeypatch.setattr(vault, "draw_places", lambda *_: own)
    monkeypatch.setattr(vault.Vault, "_is_as_given", False)
    made = PrivateData.without_guarantee(expected, bounds=source.bounds, schema=source._schema, **facts)
    monkeypatch.undo()
    return made


@pytest.mark.parametrize("facts", [{}, HIDDEN], ids=["replace", "add or remove"])
def test_releases_are_those_of_the_table_in_memory_bit_for_bit(facts, tmp_path, monkeypatch):
    source = thrown(tmp_path, SCHEMA, facts.get("capacity"))
    streamed, memory = seeded(source, **facts), in_the_same_slots(source, monkeypatch, **facts)

    def program(oracle, theta):
        shards = [oracle.shard(oracle.partition((600, 1_700)), cells) for cells in ((0,), (1, 2))]
        return oracle.force(FORCE, theta).value, [one.sum(SUM, row).value for one in (oracle, *shards)]

    given = program, THETA
    check_same(*(data.run(*given, model=MODEL, insecure_seed=3) for data in (streamed, memory)))
    assert isinstance(streamed.price(*given, model=MODEL), type(memory.price(*given, model=MODEL)))


def of_persons(record):
    return jnp.sum(record["dose"] * record["present"])[None]


@pytest.mark.parametrize("facts", [{}, HIDDEN], ids=["replace", "add or remove"])
def test_releases_of_persons_are_those_of_the_table_in_memory_bit_for_bit(facts, tmp_path, monkeypatch):
    source = thrown(tmp_path, PERSONS, facts.get("capacity"))
    streamed, memory = seeded(source, **facts), in_the_same_slots(source, monkeypatch, **facts)
    assert streamed.unit == memory.unit == PERSONS.unit
    assert streamed.facts.size == memory.facts.size

    def program(oracle):
        half = oracle.shard(oracle.partition((400,)), 1)
        return [each.sum(Sum(1.0, 3.0), of_persons).value for each in (oracle, half)]

    check_same(*(data.run(program, insecure_seed=5) for data in (streamed, memory)))


def opened(source, schema=SCHEMA, **options):
    return PrivateData.from_table(source, schema=schema, budget=Budget(1.0, 1e-6), **options)


def test_what_is_scattered_follows_from_public_facts_and_is_said(tmp_path, monkeypatch):
    lake = files(tmp_path)
    hidden, persons = opened(lake, **HIDDEN, in_memory=False), opened(lake, PERSONS)
    shuffled = opened(lake, scratch=tmp_path)
    in_order = opened(lake, scratch=tmp_path, rows_keep_place=True)
    for data in (hidden, persons, shuffled, in_order):
        assert "streamed=" in repr(data)
        assert ("scattered" in repr(data)) == (data is not in_order)
        assert any("decides where rows stand" in words for words in data.assumptions) == (data is in_order)
        assert len(data.partition([40]).cuts) == 3, "slots that nobody knows may be cut"
    assert "2700" not in repr(hidden)
    assert persons.facts.size == OWNED["who"].nunique()
    assert opened(lake, **HIDDEN).is_in_memory
    monkeypatch.setattr("dpmcmc.enclave.sources.opening.memory", lambda: 3_000 * 16 * 4 * 2)
    assert opened(lake, **HIDDEN).is_in_memory, "by the capacity, whatever the number of rows"
    monkeypatch.setattr("dpmcmc.enclave.sources.opening.memory", lambda: 3_000 * 16 * 4 * 2 - 1)
    assert not opened(lake, **HIDDEN).is_in_memory
    assert opened(tmp_path, PERSONS).is_in_memory, "how many rows there are is secret where they belong to persons"


REFUSED = {
    "another capacity": ({"capacity": 2_999, "adjacency": "add_or_remove_one"}, "those with which the records were"),
    "a number of records that is secret": ({}, "those with which the records were"),
    "persons": ({**HIDDEN, "schema": PERSONS}, "those with which the records were"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_slots_are_of_the_vault_that_they_were_made_for(name, tmp_path):
    options, words = REFUSED[name]
    with pytest.raises(InvalidArgument, match=words):
        PrivateData.without_guarantee(thrown(tmp_path, SCHEMA, 3_000), **options)


def test_persons_that_were_not_put_together_are_refused(tmp_path):
    lake = files(tmp_path)
    with pytest.raises(InvalidArgument, match="stand at their positions"):
        PrivateData.without_guarantee(FileSource(lake, PERSONS, persons=True), schema=PERSONS)
    for source, schema in ((FileSource(lake, SCHEMA), PERSONS), (FileSource(lake, PERSONS, persons=True), SCHEMA)):
        with pytest.raises(InvalidArgument, match="whose persons are to be put together"):
            Scattered(source, schema)
    with pytest.raises(InvalidArgument, match="cannot be read chunk by chunk"):
        opened(OWNED, PERSONS, in_memory=False)


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
def test_more_records_than_slots_are_refused_without_their_number(schema, tmp_path):
    with pytest.raises(InvalidArgument, match="capacity=50 is less than the number of records") as caught:
        opened(files(tmp_path), schema, adjacency="add_or_remove_one", capacity=50, in_memory=False)
    assert not any(str(count) in str(caught.value) for count in (len(OWNED), OWNED["who"].nunique()))


# --- neighbours -------------------------------------------------------------------------------------------------------


def moved_by(one, other, schema, tmp_path, **facts):
    """By how many clips a sum moves, exactly: the noise is the same. The records of both stand where the seed says."""

    def program(oracle):
        answer = oracle.sum(Sum(1.0, 50.0), (lambda record: record["dose"][None]) if schema is SCHEMA else of_persons)
        return answer.value, answer.variance

    found = []
    for name, frame in (("one", one), ("other", other)):
        (tmp_path / name).mkdir()
        data = seeded(thrown(tmp_path / name, schema, facts.get("capacity"), frame=frame), **facts)
        found.append(data.run(program, insecure_seed=2))
    clip = np.sqrt(found[0][1]) / 50.0 / data.facts.clips_moved
    return float(np.abs(found[0][0] - found[1][0])[0] / clip)


EXTREME = {"age": 50.0, "dose": 1.0, "sick": True}


def test_one_row_more_moves_a_sum_by_no_more_than_its_clip(tmp_path):
    for place in (0, 1_000, len(OWNED)):
        (tmp_path / str(place)).mkdir()
        more = pd.concat([OWNED[:place], pd.DataFrame([{**EXTREME, "who": "new"}]).astype(OWNED.dtypes), OWNED[place:]])
        assert 0.9 < moved_by(OWNED, more, SCHEMA, tmp_path / str(place), **HIDDEN) <= 1 + 1e-5


def test_a_person_replaced_or_renamed_moves_a_sum_by_no_more_than_two_clips(tmp_path):
    often = pd.DataFrame([{**EXTREME, "who": "a new name"}] * 9)
    base = pd.concat([OWNED, often.assign(who="z", dose=-1.0)], ignore_index=True)
    others = {
        "renamed": (base.assign(who=base["who"].where(base["who"] != "z", "another")), 0.0, 1e-5),
        "replaced": (pd.concat([OWNED, often], ignore_index=True), 1.9, 2 + 1e-5),
        "a row of theirs": (base.assign(dose=base["dose"].where(base.index != 0, 1.0)), 0.0, 2 + 1e-5),
    }
    for name, (other, least, most) in others.items():
        (tmp_path / name).mkdir()
        assert least <= moved_by(base, other.astype(base.dtypes), PERSONS, tmp_path / name) <= most, name
    (tmp_path / "gone").mkdir()
    assert 0.9 < moved_by(base, OWNED, PERSONS, tmp_path / "gone", **HIDDEN) <= 1 + 1e-5


CUTS, NOISE, PLACEMENTS = tuple(range(100, 1_000, 100)), 1.0, 5
SIGNS = (-1.0) ** np.arange(len(CUTS) + 1)


def transcripts(values, number):
    """What all cells answer, many times over, from several placements of the same rows, shape (times, cells)."""
    table, facts = pd.DataFrame({"x": values}), {"adjacency": "add_or_remove_one", "capacity": 1_000}

    def program(oracle, turns):
        shards = [oracle.shard(oracle.partition(CUTS), cell) for cell in range(len(SIGNS))]

        def once(turn):
            asked = [one.sum(Sum(1.0, NOISE), lambda turn, row: row["x"][None] - 1 + 0 * turn, turn) for one in shards]
            return jnp.stack([answer.value[0] for answer in asked])

        return jax.vmap(once)(turns)

    found = []
    for again in range(PLACEMENTS):
        own = 100 * number + again
        source = Scattered(MemorySource(table, NUMBERED), NUMBERED, None, facts["capacity"], seed(own))
        turns = np.zeros(SAMPLES // PLACEMENTS, np.float32)
        found.append(np.asarray(seeded(source, **facts).run(program, turns, insecure_seed=own), float))
    return np.concatenate(found)


def attacks():
    """Two tables, one with a row more, which stands first: the best that scores of all cells show, at epsilon 1.

    The rows are sorted, and those at the cuts are what an attacker would choose: if the row more moved them, every
    cell would change, by twice the clip, in a direction that is known.
    """
    rows = np.ones(950, np.float32)
    rows[[cut - 1 for cut in CUTS]] = 1 + SIGNS[:-1]
    without, with_it = transcripts(rows, 1), transcripts(np.concatenate([[2.0], rows]), 2)
    scores = [np.ones_like(SIGNS), SIGNS, -SIGNS, np.eye(len(SIGNS))[0]]
    return max(
        shown(with_it @ score / np.linalg.norm(score), without @ score / np.linalg.norm(score), 1.0) for score in scores
    )


PRICE = Parallel(Partition((0, *CUTS, 1_000)), dict.fromkeys(range(len(SIGNS)), Gaussian(NOISE)))


def test_no_attack_on_shards_of_secret_slots_exceeds_the_price():
    assert attacks() <= delta(PRICE, 1.0)


def test_an_attack_finds_rows_that_stand_in_their_order(monkeypatch):
    """Negative control: without the secret places a row more moves a row over every cut."""
    monkeypatch.setattr(Draw, "of_items", lambda *given: np.zeros(given[2], np.uint16))
    monkeypatch.setattr(Draw, "slots_in", lambda *given: np.arange(given[2]))
    assert attacks() > 5 * delta(PRICE, 1.0)


# --- scratch, and what is paid ----------------------------------------------------------------------------------------


def test_nobody_else_can_reach_the_files_and_that_of_the_rows_is_gone(tmp_path, monkeypatch):
    opened, made = [], UnnamedFile.__init__
    monkeypatch.setattr(UnnamedFile, "__init__", lambda self, *given: made(self, *given) or opened.append(self))
    lake = files(tmp_path)
    before = sorted(tmp_path.iterdir())
    source = Scattered(FileSource(lake, PERSONS, persons=True), PERSONS, tmp_path)
    assert sorted(tmp_path.iterdir()) == before
    rows, records = opened
    assert rows.is_closed
    status = os.fstat(records.fileno())
    assert (status.st_nlink, stat.S_IMODE(status.st_mode)) == (0, 0o600)
    width = 3 * (4 + 4 + 4 + 4 + 4) + 4 + 1  # columns, missing cells, presence; a seed; whether anybody is there
    assert status.st_size == source.num_records * width
    assert not os.get_inheritable(records.fileno())
    source.close()
    assert records.is_closed


@pytest.mark.parametrize("options", [HIDDEN, {"schema": PERSONS}], ids=["rows", "persons"])
def test_a_disk_without_room_is_refused_before_anything_is_charged(options, tmp_path, monkeypatch):
    book = Book()
    kept = {"schema": SCHEMA, "ledger": book, "dataset": "people", "scratch": tmp_path, **options}
    lake = files(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=len(OWNED) * 20))
        with pytest.raises(InvalidArgument, match="there is not enough space"):
            PrivateData.from_table(lake, **kept)
    taken = []

    def full(**_):
        taken.append(Path("/dev/full").open("wb+", buffering=0))  # noqa: SIM115
        return taken[0]

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(InvalidArgument, match=r"No space left on device\. Make space there"):
        PrivateData.from_table(lake, **kept)
    assert taken[0].closed
    assert book.reserved == []


def test_a_file_that_changes_while_it_is_scattered_gives_nothing(tmp_path, monkeypatch):
    lake, honest = files(tmp_path), UnnamedFile.append

    def change_and_write(self, values):
        (tmp_path / "2.parquet").write_bytes(b"")
        return honest(self, values)

    monkeypatch.setattr(UnnamedFile, "append", change_and_write)
    with pytest.raises(SourceChanged):
        Scattered(FileSource(lake, SCHEMA), SCHEMA, tmp_path)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    book = Ledger.create(f"sqlite:///{tmp_path}/book.db")
    book.register("hidden", Budget(2.0, 1e-6), Adjacency.ADD_OR_REMOVE_ONE)
    book.register("persons", Budget(2.0, 1e-6), Adjacency.REPLACE_ONE)
    (tmp_path / "lake").mkdir()
    return files(tmp_path / "lake")


KINDS = {
    "hidden": ({"schema": SCHEMA, **HIDDEN}, row),
    "persons": ({"schema": PERSONS}, of_persons),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_run_finds_its_records_where_they_stood_and_other_rows_are_refused(kind, lake, tmp_path):
    """Two vaults have their slots from two seeds; who takes the run up has those of the run, and pays nothing."""
    options, contribution = KINDS[kind]

    def bought():
        return PrivateData.from_table(
            lake, ledger=f"sqlite:///{tmp_path}/book.db", dataset=kind, in_memory=False, scratch=tmp_path, **options
        )

    def look(oracle):
        shard = oracle.shard(oracle.partition((500,)), 1)
        return shard.sum(Sum(1.0, 9.0), contribution).value

    data = bought()
    price, places = data.price(look) * 2, data.facts.places
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "run", {}) as journal:  # noqa: SIM117
        with data.reserve_resumable(price, journal) as paid:
            expected = np.asarray(paid.run(look))
            raise KeyboardInterrupt
    again = bought()
    assert again.facts.places != places
    with Journal.open(tmp_path / "run") as journal, again.reserve_resumable(again.price(look) * 2, journal) as paid:
        assert again.facts.places == places
        np.testing.assert_array_equal(paid.run(look), expected)
        with suppress(KeyboardInterrupt):
            raise KeyboardInterrupt
        assert paid.run(look).shape == expected.shape
    certificate = data.certificate(paid.spent, 1e-6, paid.paths)
    assert certificate.paths == ("reference", "scattered", "streamed")
    account = Ledger(f"sqlite:///{tmp_path}/book.db").account(kind)
    assert account.spent == paid.spent
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "second", {}) as journal:  # noqa: SIM117
        with data.reserve_resumable(price, journal) as paid:
            paid.run(look)
            raise KeyboardInterrupt
    OWNED[::-1][:900].to_parquet(tmp_path / "lake" / "1.parquet")
    with Journal.open(tmp_path / "second") as journal, pytest.raises(ResumeRefused, match="begun with other records"):  # noqa: SIM117
        with bought().reserve_resumable(price, journal):
            pytest.fail("it went on")


def test_placing_again_leaves_other_vaults_of_the_same_slots_alone(tmp_path):
    """What was put elsewhere is another file: a vault that asks cells finds in them whom it found before."""
    source = thrown(tmp_path, SCHEMA, 3_000)
    place = Streamed(LocalEngine(source, 512))
    moved = place.standing(seed(9))
    assert place.standing(seed(1)) is place
    assert (place.seed, moved.seed) == (seed(1), seed(9))
    check_same(slots(place.engine.scattered), slots(source))
    assert not np.array_equal(slots(moved.engine.scattered)["age"], slots(source)["age"])
    (tmp_path / "0.parquet").unlink()
    with pytest.raises(SourceChanged):
        place.standing(seed(8))
