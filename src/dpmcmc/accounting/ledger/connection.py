"""How the ledger reaches its book: the URL, the connection, the transaction, and what can go wrong with each.

Both databases give the same promise. A writing transaction sees every charge that was ever admitted and keeps other
writers of the same dataset out until it ends, and once it has ended it survives kill -9 and loss of power.
"""

import os
import re
import sqlite3
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, QueuePool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from dpmcmc.accounting.ledger import schema
from dpmcmc.accounting.ledger.failures import explain
from dpmcmc.errors import InvalidArgument, LedgerUnavailable
from dpmcmc.validation import positive, refuse

_WRITE = "dpmcmc_write"
_DAY = 86_400.0
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # of two letters or more: C: is a drive


@dataclass(frozen=True)
class Book:
    """An open book. Every transaction has its own connection, so nothing is shared with a forked process."""

    name: str
    """The URL as it may be shown: no password, no options."""

    engine: Engine
    timeout: float
    only_process: int | None = None
    """The one process that may use the book, where it lives in memory."""

    @contextmanager
    def reading(self) -> Generator[Connection, None, None]:
        """Run the block in a transaction that reads."""
        with self.transaction(write=False) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Generator[Connection, None, None]:
        """Run the block in a transaction that is committed at its end, or rolled back by any exception.

        Tables of an older version are brought up to date first, in the same transaction.
        """
        with self.transaction(write=True) as connection:
            version = schema.find_version(connection)
            _check_version(self.name, version)
            if version != schema.SCHEMA_VERSION:
                self._migrate(connection)
            yield connection

    def _migrate(self, connection: Connection) -> None:
        try:
            schema.migrate(connection)
        except DBAPIError as error:
            raise LedgerUnavailable(
                f"{explain(error, self.name, self.timeout)}. Its tables are of an older version and get a new column "
                "before anything is written: let the owner of the tables run `dpmcmc ledger init` on it once"
            ) from error

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[Connection, None, None]:
        """Run the block in a transaction of tables as they are."""
        if self.only_process not in (None, os.getpid()):
            raise LedgerUnavailable(
                "an in-memory ledger belongs to the process that made it, and a copy would hand out its budget twice; "
                "share a sqlite:///FILE ledger between processes"
            )
        try:
            with self.engine.execution_options(**{_WRITE: write}).begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise LedgerUnavailable(explain(error, self.name, self.timeout)) from error


def open_book(url: str, timeout: float, *, create: bool = False) -> Book:
    """Open the book at `url`; with `create`, make it first unless it is there."""
    timeout = positive("timeout", timeout)
    if timeout > _DAY:
        refuse("timeout", timeout, f"must be at most {_DAY:g} s")
    parsed = _parse(url)
    if create:
        _create(_connect(parsed, timeout, create=True))
    book = _connect(parsed, timeout, create=False)
    _check(book)
    return book


def memory_book(timeout: float = 30.0) -> Book:
    """Make a book that lives and dies with this process; its one connection is handed from thread to thread."""
    engine = create_engine(
        "sqlite://",
        creator=lambda: _sqlite_connection("file::memory:", timeout),
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=timeout,
        hide_parameters=True,
    )
    event.listen(engine, "begin", _begin_sqlite)
    book = Book("in memory", engine, timeout, only_process=os.getpid())
    weakref.finalize(book, engine.dispose)
    _create(book)
    return book


def _create(book: Book) -> None:
    """Make the tables unless they are there; bring older ones up to date."""
    with book.transaction(write=True) as connection:
        schema.create_tables(connection)
    with book.writing():
        pass


def _parse(url: object) -> URL:
    """Return the parts of a URL of one of the two known kinds. No message repeats the URL: it may hold a password."""
    parsed = None
    with suppress(ArgumentError, ValueError):
        parsed = make_url(ledger_url(os.fspath(url))) if isinstance(url, str | os.PathLike) else None
    if parsed is None or "@" in (parsed.host or ""):
        raise InvalidArgument(
            "url must be a file, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE, "
            "with @ / : ? in the user or password written as %40 %2F %3A %3F"
        )
    if parsed.drivername == "sqlite":
        return _check_sqlite(parsed)
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    raise InvalidArgument(f"url={parsed.drivername + '://...'!r} must start with sqlite:/// or postgresql://")


def ledger_url(stated: str) -> str:
    """Return the URL of a ledger: a path is that of an SQLite file. What may be a slip in a URL is left as it is."""
    is_path = stated and not _SCHEME.match(stated) and "//" not in stated and "@" not in stated
    return f"sqlite:///{stated}" if is_path else stated


def _check_sqlite(parsed: URL) -> URL:
    if parsed.host or parsed.username:
        raise InvalidArgument("url of an SQLite ledger has three slashes before its file: sqlite:///ledger.db")
    if not parsed.database or parsed.database.startswith((":memory:", "file:")):
        raise InvalidArgument(
            "url of an SQLite ledger must name a file, as in sqlite:///ledger.db; "
            "Ledger.in_memory() makes a ledger for this process alone"
        )
    if parsed.query:
        raise InvalidArgument("url of an SQLite ledger has no options after a question mark: sqlite:///ledger.db")
    return parsed


def _connect(parsed: URL, timeout: float, *, create: bool) -> Book:
    if parsed.drivername == "sqlite":
        return _sqlite_book(parsed, timeout, create=create)
    return _postgres_book(parsed, timeout)


def _sqlite_book(parsed: URL, timeout: float, *, create: bool) -> Book:
    file = Path(str(parsed.database))
    name = f"sqlite:///{parsed.database}"
    if not create and not file.exists():
        raise LedgerUnavailable(f"there is no ledger {name}; make one with `dpmcmc ledger init` or Ledger.create(url)")
    # The mode keeps SQLite from making an empty file in place of one that was moved away while the ledger was open.
    address = f"{file.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
    engine = create_engine(
        "sqlite://",
        creator=lambda: _sqlite_connection(address, timeout),
        poolclass=NullPool,
        hide_parameters=True,
    )
    event.listen(engine, "begin", _begin_sqlite)
    return Book(name, engine, timeout)


def _sqlite_connection(address: str, timeout: float) -> sqlite3.Connection:
    # Without an isolation level the driver leaves BEGIN and COMMIT to us; the pool keeps two threads apart.
    connection = sqlite3.connect(address, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True)
    try:
        # FULL is not enough where the journal is a file: only EXTRA makes its removal, which is the commit, durable.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE takes the write lock before the first read, so that what is checked is still true when it is appended.
    write = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN DEFERRED")


def _postgres_book(parsed: URL, timeout: float) -> Book:
    name = parsed.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
    seconds = ceil(timeout)
    limits = {"connect_timeout": seconds, "tcp_user_timeout": 1000 * seconds, "keepalives_idle": seconds}
    try:
        # Read committed whatever the server's default: a snapshot older than the row lock would miss charges.
        engine = create_engine(
            parsed, poolclass=NullPool, isolation_level="READ COMMITTED", hide_parameters=True, connect_args=limits
        )
    except ImportError as error:
        raise LedgerUnavailable(
            f'the ledger {name} needs the PostgreSQL driver psycopg: pip install "dpmcmc[postgres]"'
        ) from error
    except ArgumentError:
        raise InvalidArgument(f"url={name!r} has options that the driver does not know") from None
    event.listen(engine, "begin", _begin_postgres(timeout))
    return Book(name, engine, timeout)


def _begin_postgres(timeout: float) -> Callable[[Connection], None]:
    settings = text("SELECT set_config('lock_timeout', :limit, true), set_config('synchronous_commit', 'on', true)")
    values: dict[str, Any] = {"limit": f"{ceil(1000 * timeout)}ms"}

    def begin(connection: Connection) -> None:
        connection.execute(settings, values)

    return begin


def _check(book: Book) -> None:
    """Refuse a book that is no ledger, is of another version, or is damaged."""
    with book.reading() as connection:
        version = schema.find_version(connection)
        damaged = book.engine.dialect.name == "sqlite" and (
            connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok"
        )
    _check_version(book.name, version)
    if damaged:
        raise LedgerUnavailable(
            f"the ledger {book.name} is damaged; restore it from a backup: a new ledger would forget what was spent"
        )


def _check_version(name: str, version: int | None) -> None:
    if version is None:
        raise LedgerUnavailable(
            f"the database {name} holds no ledger; make one with `dpmcmc ledger init` or Ledger.create(url)"
        )
    if not 1 <= version <= schema.SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"the ledger {name} has tables of version {version}, this library knows version "
            f"{schema.SCHEMA_VERSION}; install the dpmcmc that wrote it, or a newer one"
        )
