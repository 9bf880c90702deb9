"""A ledger that cannot be used says what is wrong and what to do, changes nothing, and never shows a password."""

import sqlite3
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest

import racers
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.ledger import Ledger, entries
from dpmcmc.errors import DpmcmcError, InvalidArgument, LedgerUnavailable
from racers import BUDGET, CHARGE, DATASET, run_apart
from servers import with_setting

PASSWORD = "hunter2"  # noqa: S105, no secret


@pytest.fixture
def url(new_url: str) -> str:
    Ledger.create(new_url).register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    return new_url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of an SQLite ledger with a dataset and enough entries to fill some pages."""
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(f"sqlite:///{path}")
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    for _ in range(3):
        ledger.reserve(DATASET, CHARGE * 0, description="x" * 5000)
    return path


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://ledger@host/book", "'mysql://...' must start with sqlite:/// or postgresql://"),
        ("postgresql+psycopg2://ledger@host/book", "must start with"),
        (f"postgres//ledger:{PASSWORD}@host/book", "must be a file, sqlite:///FILE or postgresql://"),
        ("", "must be a file, sqlite:///FILE"),
        (None, "must be a file, sqlite:///FILE"),
        (f"postgresql://ledger:{PASSWORD}@ss@host/book", "written as %40"),
        (f"postgresql://ledger:{PASSWORD}@host:{PASSWORD}/book", "must be a file, sqlite:///FILE"),
        (f"postgresql://ledger:{PASSWORD}@host/book?plugin=unheard_of", "options that the driver does not know"),
        (f"oracle://ledger:{PASSWORD}@host/book", "must start with"),
        ("sqlite://ledger.db", "three slashes"),
        ("sqlite://", "Ledger.in_memory()"),
        ("sqlite:///", "Ledger.in_memory()"),
        ("sqlite:///:memory:", "Ledger.in_memory()"),
        ("sqlite:///file:book?mode=memory&uri=true", "Ledger.in_memory()"),
        ("sqlite:///ledger.db?mode=ro", "no options after a question mark"),
    ],
)
@pytest.mark.parametrize("opened_by", [Ledger, Ledger.create])
def test_other_urls_are_refused(url, message: str, opened_by, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument, match=r"^url") as refusal:
        opened_by(url)
    assert message in str(refusal.value)
    assert_no_password(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), 1e6, "soon"])
def test_timeouts_out_of_range_are_refused(timeout, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^timeout="):
        Ledger.create(f"sqlite:///{tmp_path}/ledger.db", timeout=timeout)
    assert list(tmp_path.iterdir()) == []


def test_opening_makes_no_file(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerUnavailable, match=r"no ledger sqlite:///ledger\.db; make one with `dpmcmc ledger init`"):
        Ledger("sqlite:///ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_moved_away_is_not_replaced_by_an_empty_one(file: Path) -> None:
    ledger = Ledger(f"sqlite:///{file}")
    file.rename(file.with_suffix(".moved"))
    with pytest.raises(LedgerUnavailable, match="cannot be opened"):
        ledger.reserve(DATASET, CHARGE, description="run")
    assert not file.exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be opened; nothing was charged; check that its folder exists"):
        Ledger.create(f"sqlite:///{tmp_path}/missing/ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_locked_for_longer_than_the_timeout(url: str) -> None:
    ledger, other = Ledger(url, timeout=0.2), Ledger(url)
    reservation = ledger.reserve(DATASET, CHARGE, description="run")
    before = ledger.history()
    with other._book.writing() as connection:
        entries.terms(connection, DATASET, lock=True)
        with pytest.raises(LedgerUnavailable, match=r"locked by another process for longer than 0\.2 s; nothing was"):
            ledger.reserve(DATASET, CHARGE, description="another run")
        with pytest.raises(LedgerUnavailable, match="or open the ledger with a longer timeout"):
            reservation.settle()
        assert ledger.history() == before
    assert ledger.history() == before
    reservation.settle()


def test_locked_against_readers(file: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerUnavailable, match="locked by another process"):
            Ledger(f"sqlite:///{file}", timeout=0.2)


@pytest.mark.parametrize(
    "content", [b"These are notes, and no database.\n" * 100, b"SQLite format 3\0" + b"\xff" * 4080]
)
def test_a_file_that_is_no_database_is_left_as_it_is(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    for opened_by in (Ledger, Ledger.create):
        with pytest.raises(LedgerUnavailable, match=r"is not an SQLite database|is damaged"):
            opened_by(f"sqlite:///{file}")
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("statement", ["CREATE TABLE recipes (name TEXT)", "VACUUM"])
def test_a_database_without_a_ledger(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
    content = file.read_bytes()
    with pytest.raises(LedgerUnavailable, match="holds no ledger; make one with `dpmcmc ledger init`"):
        Ledger(f"sqlite:///{file}")
    assert file.read_bytes() == content


def test_a_damaged_file_is_refused_when_it_is_opened_and_when_it_is_used(file: Path) -> None:
    opened_before = Ledger(f"sqlite:///{file}")
    content = bytearray(file.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)  # all pages but the first, which holds the schema
    file.write_bytes(content)
    with pytest.raises(LedgerUnavailable, match=r"is damaged; .*restore it from a backup"):
        Ledger(f"sqlite:///{file}")
    with pytest.raises(LedgerUnavailable, match=r"is damaged; .*restore it from a backup"):
        opened_before.reserve(DATASET, CHARGE, description="run")
    assert file.read_bytes() == content


def test_damage_that_no_entry_shows_is_found_when_the_file_is_opened(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'ix_dpmcmc_entries_dataset'"
        ).fetchone()
    content = bytearray(file.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = bytes(4096)
    file.write_bytes(content)
    with pytest.raises(LedgerUnavailable, match="is damaged"):
        Ledger(f"sqlite:///{file}")
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    "event",
    ['{"kind": "Clairvoyance"}', '{"kind": "Gaussian", "noise_multiplier": -1.0}', "not JSON", '["Gaussian"]', "{}"],
)
def test_an_entry_that_cannot_be_read_blocks_its_dataset(event: str, url: str, execute) -> None:
    ledger = Ledger(url)
    ledger.register("others", BUDGET, Adjacency.REPLACE_ONE)
    values = f"'reserve', '{DATASET}', 'r', '{event}', 'replace_one', 'who', 'when', 'what', 'version'"
    columns = "kind, dataset, run, event, adjacency, who, made_at, what, library_version"
    execute(url, f"INSERT INTO dpmcmc_entries ({columns}) VALUES ({values})")  # noqa: S608, constants alone
    for attempt in (
        lambda: ledger.account(DATASET),
        lambda: ledger.reserve(DATASET, CHARGE, description="run"),
        lambda: ledger.reservation("r"),
        lambda: ledger.history(DATASET),
    ):
        with pytest.raises(LedgerUnavailable, match="this version of dpmcmc cannot read"):
            attempt()
    assert len(ledger.history("others")) == 1
    assert execute(url, "SELECT count(*) FROM dpmcmc_entries") == [(3,)]


def test_tables_of_another_version(url: str, execute) -> None:
    execute(url, "INSERT INTO dpmcmc_versions (version, made_at) VALUES (99, 'later')")
    for opened_by in (Ledger, Ledger.create):
        with pytest.raises(LedgerUnavailable, match="tables of version 99, this library knows version 3; install"):
            opened_by(url)


def test_tables_that_were_dropped(url: str, execute) -> None:
    ledger = Ledger(url)
    execute(url, "DROP TABLE dpmcmc_entries")
    with pytest.raises(LedgerUnavailable, match="could not be used; nothing was charged; check the database"):
        ledger.reserve(DATASET, CHARGE, description="run")


def test_a_full_disk(file: Path) -> None:
    url = f"sqlite:///{file}"
    before = Ledger(url).history()
    process, pipe = run_apart(racers.reserve_until_full, url, file.stat().st_size + 3 * 4096)
    charged, kind, message = pipe.recv()
    process.join(racers.PATIENCE)
    process.close()
    pipe.close()
    assert (kind, 0 < charged < 10) == ("LedgerUnavailable", True)
    assert "nothing was charged" in message
    assert "free" in message
    after = Ledger(url).history()
    assert after[: len(before)] == before
    assert len(after) == len(before) + charged
    Ledger(url).reserve(DATASET, CHARGE, description="with room again")


def test_a_server_that_cannot_be_reached() -> None:
    with pytest.raises(
        LedgerUnavailable, match=r"postgresql://ledger:\*\*\*@127\.0\.0\.1:1/book cannot be reached"
    ) as error:
        Ledger(f"postgresql://ledger:{PASSWORD}@127.0.0.1:1/book", timeout=2.0)
    assert_no_password(error.value)


def test_a_server_that_refuses(postgres) -> None:
    in_options = f"postgresql:///postgres?host={postgres.folder}&user=ledger_tests&password={PASSWORD}"
    for url in (postgres.url("postgres", password=PASSWORD), in_options):
        with pytest.raises(LedgerUnavailable, match=r"refused the connection; .*password auth.* failed") as error:
            Ledger(url)
        assert_no_password(error.value)
    with pytest.raises(LedgerUnavailable, match=r'refused the connection; .*"no_such_database" does not exist'):
        Ledger.create(postgres.url("no_such_database"))
    with pytest.raises(LedgerUnavailable, match="holds no ledger; make one"):
        Ledger(postgres.url("postgres"))


def test_a_connection_lost_before_the_commit(postgres) -> None:
    url = postgres.new_url()
    ledger = Ledger.create(url)
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    before = ledger.history()
    process, pipe = run_apart(racers.reserve_and_lose_the_connection, url)
    assert "was lost while it was in use; check the server, and look at the history" in pipe.recv()
    process.join(racers.PATIENCE)
    process.close()
    pipe.close()
    assert ledger.history() == before


def test_a_server_that_is_read_only(postgres) -> None:
    url = postgres.new_url()
    ledger = Ledger.create(url)
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    before = ledger.history()
    read_only = Ledger(with_setting(url, "default_transaction_read_only", "on"))
    with pytest.raises(LedgerUnavailable, match="does not let this user read and write; nothing was charged"):
        read_only.reserve(DATASET, CHARGE, description="run")
    assert ledger.history() == before


def test_a_missing_driver_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerUnavailable, match=r'pip install "dpmcmc\[postgres\]"') as error:
        Ledger(f"postgresql://ledger:{PASSWORD}@host/book")
    assert_no_password(error.value)


def test_the_password_is_in_no_repr(postgres) -> None:
    ledger = Ledger.create(postgres.new_url())
    ledger.register(DATASET, BUDGET, Adjacency.REPLACE_ONE)
    shown = (
        repr(ledger) + repr(ledger._book) + repr(ledger.reserve(DATASET, CHARGE, description="run")) + str(vars(ledger))
    )
    assert postgres.password not in shown
    assert repr(ledger) == "Ledger('postgresql://ledger_tests:***@/postgres')"


def assert_no_password(error: DpmcmcError) -> None:
    assert PASSWORD not in "".join(traceback.format_exception(error))
