"""Reading and appending the entries of the ledger's book, inside a transaction that the caller holds."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert, select

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Event, compose
from dpmcmc.accounting.ledger.account import DatasetAccount, Entry, together
from dpmcmc.accounting.ledger.schema import ENTRIES, columns, has
from dpmcmc.errors import LedgerUnavailable, RunSettled, UnknownDataset, UnknownRun

REGISTER, RESERVE, SETTLE = "register", "reserve", "settle"
FILTER = "filter"


class Terms(NamedTuple):
    """What a dataset was granted."""

    budget: Budget
    adjacency: Adjacency
    adaptive: bool = False
    part_of: str | None = None

    @property
    def words(self) -> tuple[str, str]:
        """The grant, and how its total is kept."""
        part = "" if self.part_of is None else f", as a part of {self.part_of!r}"
        return f"{self.budget} under {self.adjacency.words}", f"{', kept by a filter' * self.adaptive}{part}"


def append(
    connection: Connection,
    kind: str,
    dataset: str,
    adjacency: Adjacency,
    *,
    who: str,
    description: str,
    budget: Budget | None = None,
    run: str | None = None,
    event: Event | None = None,
    secret_hash: str | None = None,
    composition: str | None = None,
    part_of: str | None = None,
) -> str:
    """Append an entry; return when it was made."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    entry: dict[str, object] = {
        "kind": kind,
        "dataset": dataset,
        "run": run,
        "event": event.to_json() if event else None,
        "epsilon": budget.epsilon if budget else None,
        "delta": budget.delta if budget else None,
        "adjacency": adjacency.value,
        "who": who,
        "made_at": when,
        "what": description,
        "library_version": version("dpmcmc"),
        "secret_hash": secret_hash,
        "composition": composition,
        "part_of": part_of,
    }
    connection.execute(insert(ENTRIES).values(entry))
    return when


def register(connection: Connection, dataset: str, granted: Terms, who: str) -> None:
    """Append the grant of a budget."""
    append(
        connection,
        REGISTER,
        dataset,
        granted.adjacency,
        who=who,
        description=f"budget granted{granted.words[1]}",
        budget=granted.budget,
        composition=FILTER if granted.adaptive else None,
        part_of=granted.part_of,
    )


def datasets(connection: Connection) -> list[str]:
    """Return the names of the registered datasets, the oldest first."""
    query = select(ENTRIES.c.dataset).where(ENTRIES.c.kind == REGISTER).order_by(ENTRIES.c.number)
    return list(connection.execute(query).scalars())


def parts(connection: Connection, dataset: str) -> list[str]:
    """Return the names of the parts of a dataset, the oldest first."""
    if not has(connection, "part_of"):
        return []
    query = select(ENTRIES.c.dataset).where(ENTRIES.c.part_of == dataset).order_by(ENTRIES.c.number)
    return list(connection.execute(query).scalars())


def terms(connection: Connection, dataset: str, *, lock: bool = False) -> Terms:
    """Return what a dataset was granted.

    With `lock`, keep its other writers out until the transaction ends: those of the whole that it is part of, and of
    all its parts, for they share one budget.
    """
    row = connection.execute(_registration(connection, dataset)).one_or_none()
    if row is None:
        raise UnknownDataset(f"dataset={dataset!r} is not in this ledger; register it with a budget first")
    kept, part_of = getattr(row, "composition", None), getattr(row, "part_of", None)
    if lock:  # SQLite has no row locks, and a writing transaction has locked the whole file by now
        connection.execute(_registration(connection, part_of or dataset).with_for_update()).one()
    if kept not in (None, FILTER):
        raise LedgerUnavailable(f"the ledger composes {dataset!r} by {kept!r}, which this version of dpmcmc cannot do")
    with _refusing_damage():
        return Terms(Budget(row.epsilon, row.delta), Adjacency(row.adjacency), kept == FILTER, part_of)


def _registration(connection: Connection, dataset: str) -> Any:
    return select(*columns(connection)).where(ENTRIES.c.kind == REGISTER, ENTRIES.c.dataset == dataset)


def account(connection: Connection, dataset: str, *, lock: bool = False) -> DatasetAccount:
    """Add up the entries of a dataset, with those of its parts, or of what it is part of; `lock` as for `terms`."""
    granted = terms(connection, dataset, lock=lock)
    own_parts = parts(connection, dataset)
    charged = {name: _charged(connection, name) for name in (dataset, *own_parts)}
    if granted.part_of is not None:
        charged[granted.part_of] = _charged(connection, granted.part_of)
    whole = granted.part_of or dataset
    spent = together(charged[whole][0], [event for name, (event, _) in charged.items() if name != whole])
    standing = tuple(run for _, runs in charged.values() for run in runs)
    budget, adjacency, adaptive, part_of = granted
    return DatasetAccount(dataset, budget, adjacency, spent, standing, adaptive, part_of, tuple(own_parts))


def _charged(connection: Connection, dataset: str) -> tuple[Event, Sequence[str]]:
    """Return what was charged to a dataset itself, and the runs that have reserved and not settled."""
    charges = (
        select(ENTRIES.c.kind, ENTRIES.c.run, ENTRIES.c.event)
        .where(ENTRIES.c.kind != REGISTER, ENTRIES.c.dataset == dataset)
        .order_by(ENTRIES.c.number)
    )
    standing: dict[str, str] = {}
    settled: Counter[str] = Counter()
    with _refusing_damage():
        for kind, run, event in connection.execute(charges):
            if kind == RESERVE:
                standing[run] = event
            else:
                del standing[run]
                settled[event] += 1
        total = settled + Counter(standing.values())
        return compose(Event.from_json(event) * times for event, times in total.items()), tuple(standing)


def standing_reservation(connection: Connection, run: str) -> tuple[Entry, Event]:
    """Return the entry of a run that has reserved and not settled, and the event that it reserved."""
    row = _standing(connection, run)
    with _refusing_damage():
        return _entry(row), Event.from_json(row.event)


def stands(connection: Connection, run: str, event: Event, written: str) -> bool:
    """Say whether a run has reserved this event, and not settled; `written` is how it is written now."""
    row = _standing(connection, run)
    with _refusing_damage():  # read only where another version wrote it, for a run looks at every release
        return row.event == written or Event.from_json(row.event) == event


def _standing(connection: Connection, run: str) -> Row[Any]:
    rows = {row.kind: row for row in connection.execute(select(*columns(connection)).where(ENTRIES.c.run == run))}
    if RESERVE not in rows:
        raise UnknownRun(f"run={run!r} has no reservation in this ledger; the history lists all runs")
    if SETTLE in rows:
        settled = _entry(rows[SETTLE])
        raise RunSettled(
            f"run={run!r} is settled already, by {settled.who!r} at {settled.when}; to release more, make a new "
            "reservation",
            settled.event,
        )
    return rows[RESERVE]


def secret_hash(connection: Connection, run: str) -> str | None:
    """Return the hash of the secret that it takes to settle a run below its price; None if nothing does."""
    if not has(connection, "secret_hash"):
        return None
    query = select(ENTRIES.c.secret_hash).where(ENTRIES.c.run == run, ENTRIES.c.kind == RESERVE)
    return connection.execute(query).scalar_one()


def history(connection: Connection, dataset: str | None) -> list[Entry]:
    """Return the entries, of one dataset or of all, the oldest first."""
    query = select(*columns(connection)).order_by(ENTRIES.c.number)
    if dataset is not None:
        terms(connection, dataset)
        query = query.where(ENTRIES.c.dataset == dataset)
    return [_entry(row) for row in connection.execute(query)]


def _entry(row: Row[Any]) -> Entry:
    with _refusing_damage():
        return Entry(
            number=row.number,
            kind=row.kind,
            dataset=row.dataset,
            adjacency=Adjacency(row.adjacency),
            who=row.who,
            when=row.made_at,
            description=row.what,
            library_version=row.library_version,
            budget=Budget(row.epsilon, row.delta) if row.kind == REGISTER else None,
            run=row.run,
            event=None if row.event is None else Event.from_json(row.event),
            part_of=getattr(row, "part_of", None),
        )


@contextmanager
def _refusing_damage() -> Generator[None, None, None]:
    """Turn what cannot be read into `LedgerUnavailable`: an entry that is left out may have cost anything."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LedgerUnavailable(
            f"the ledger has an entry that this version of dpmcmc cannot read ({error}); "
            "install the version that wrote it, or restore the ledger from a backup"
        ) from error
