"""The tables of the ledger's book, and the triggers that make it append-only.

One table holds everything that ever happened, and a dataset's state is what its entries add up to. The database itself
refuses UPDATE, DELETE and TRUNCATE, a second registration of a dataset and a second settlement of a run: a mistake in
this library, or a hand at the database's prompt, cannot rewrite the past by accident.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    DDL,
    CheckConstraint,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
    func,
    insert,
    inspect,
    select,
    text,
)

SCHEMA_VERSION = 3
"""Raised by one when the tables change.

Books of older versions are read as they are, and are brought up to date, by added columns alone, before the first entry
is written to them; a book of a newer version is refused.

- 1: 0.1.0.
- 2: 0.2.0, with `secret_hash`, of the secret that it takes to settle a run below its price, and `composition`, how the
  events of a dataset are added up where it is not by the tightest composition.
- 3: 0.3.0, with `part_of`, the dataset that one is a part of: who does not read it would charge the whole without what
  its parts have spent.
"""

_METADATA = MetaData()

VERSIONS = Table(
    "dpmcmc_versions",
    _METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("made_at", Text, nullable=False),
)

ENTRIES = Table(
    "dpmcmc_entries",
    _METADATA,
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("dataset", Text, nullable=False, index=True),
    Column("run", Text),
    Column("event", Text),
    Column("epsilon", Double),
    Column("delta", Double),
    Column("adjacency", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("made_at", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("library_version", Text, nullable=False),
    Column("secret_hash", Text),
    Column("composition", Text),
    Column("part_of", Text),
    CheckConstraint("kind IN ('register', 'reserve', 'settle')", name="dpmcmc_known_kind"),
    CheckConstraint(
        "CASE kind WHEN 'register' THEN run IS NULL AND event IS NULL AND epsilon IS NOT NULL AND delta IS NOT NULL"
        " ELSE run IS NOT NULL AND event IS NOT NULL AND epsilon IS NULL AND delta IS NULL END",
        name="dpmcmc_fields_of_kind",
    ),
    UniqueConstraint("run", "kind", name="dpmcmc_one_settlement"),
    sqlite_autoincrement=True,  # numbers are never given out twice
)

_ADDED = {2: ("secret_hash", "composition"), 3: ("part_of",)}
"""The columns that a version added."""

_REGISTERED = ENTRIES.c.kind == "register"
Index(
    "dpmcmc_one_registration",
    ENTRIES.c.dataset,
    unique=True,
    sqlite_where=_REGISTERED,
    postgresql_where=_REGISTERED,
)

# SQLite's INSERT OR REPLACE removes the row it collides with and fires no DELETE trigger: refuse the collision first.
_COLLISIONS = {
    VERSIONS: "version = NEW.version",
    ENTRIES: "number = NEW.number OR run = NEW.run AND kind = NEW.kind"
    " OR NEW.kind = 'register' AND kind = 'register' AND dataset = NEW.dataset",
}
_REFUSAL = "the ledger is append-only"

event.listen(
    _METADATA,
    "before_create",
    DDL(
        "CREATE OR REPLACE FUNCTION dpmcmc_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END $$"
    ).execute_if(dialect="postgresql"),
)
for _table, _collision in _COLLISIONS.items():
    event.listen(
        _table,
        "after_create",
        DDL(
            f"CREATE TRIGGER {_table.name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {_table.name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION dpmcmc_append_only()"
        ).execute_if(dialect="postgresql"),
    )
    for _change, _condition in (
        ("UPDATE", ""),
        ("DELETE", ""),
        ("INSERT", f"WHEN EXISTS (SELECT 1 FROM {_table.name} WHERE {_collision})"),  # noqa: S608, constants alone
    ):
        event.listen(
            _table,
            "after_create",
            DDL(
                f"CREATE TRIGGER {_table.name}_no_{_change.lower()} BEFORE {_change} ON {_table.name} {_condition} "
                f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END"
            ).execute_if(dialect="sqlite"),
        )


def create_tables(connection: Connection) -> None:
    """Make the tables and triggers unless they are there; all of it in the caller's transaction."""
    lock_whole_book(connection)
    if find_version(connection) is None:
        _METADATA.create_all(connection)
        _note_version(connection)


def migrate(connection: Connection) -> None:
    """Bring older tables up to date, in the caller's writing transaction.

    Whoever comes first does it, and the others find it done: of two processes, one waits for the lock of the other and
    then looks. Columns are added, empty; no row is changed, and the triggers stay.
    """
    lock_whole_book(connection)
    missing = _missing(connection)
    for column in missing:
        connection.exec_driver_sql(f"ALTER TABLE {ENTRIES.name} ADD COLUMN {column} TEXT")
    if missing:
        _note_version(connection)


def columns(connection: Connection) -> list[Column[Any]]:
    """Return the columns that the book has; those of later versions are empty in it."""
    missing = _missing(connection)
    return [column for column in ENTRIES.c if column.name not in missing]


def has(connection: Connection, column: str) -> bool:
    """Say whether the book has a column that a version added."""
    return column not in _missing(connection)


def _missing(connection: Connection) -> list[str]:
    version = find_version(connection) or SCHEMA_VERSION
    return [column for added, columns in _ADDED.items() if added > version for column in columns]


def _note_version(connection: Connection) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(insert(VERSIONS).values(version=SCHEMA_VERSION, made_at=now))


def find_version(connection: Connection) -> int | None:
    """Return the version of the book's tables; None where there is no book."""
    if not inspect(connection).has_table(VERSIONS.name):
        return None
    return connection.execute(select(func.max(VERSIONS.c.version))).scalar_one()


def lock_whole_book(connection: Connection) -> None:
    """Keep other writers of new tables and datasets out until the transaction ends.

    SQLite's write transactions exclude each other already; PostgreSQL has no row to lock yet, so an advisory lock of a
    number that stands for this library is taken.
    """
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(b"dpmcmc", "big")
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
