"""What a database driver's error means to the owner of a ledger, and what to do about it."""

import sqlite3
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout


class _Failure(NamedTuple):
    wrong: str
    remedy: str


_LOCKED = _Failure(
    "is locked by another process for longer than {timeout:g} s",
    "try again, or open the ledger with a longer timeout",
)
_DAMAGED = _Failure(
    "is damaged",
    "restore it from a backup: a new ledger would forget what was spent",
)
_UNREACHABLE = _Failure(
    "cannot be reached, or refused the connection",
    "check the server, and the user, password and database in the URL",
)
_LOST = _Failure(
    "was lost while it was in use",
    "check the server, and look at the history before trying again: the charge may have been written",
)
_FORBIDDEN = _Failure(
    "does not let this user read and write",
    "ask its owner for the rights",
)
_OTHER = _Failure(
    "could not be used",
    "check the database with its own tools",
)

# By the first letters of SQLite's extended result names, and of PostgreSQL's SQLSTATE codes.
_SQLITE = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_NOTADB": _Failure("is not an SQLite database", "check the file that the URL names; it was left as it is"),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_FULL": _Failure("has no room to grow: the disk is full", "free some space and try again"),
    "SQLITE_IOERR": _Failure("cannot be read or written on its disk", "check the disk, its free space and its quota"),
    "SQLITE_READONLY": _FORBIDDEN,
    "SQLITE_PERM": _FORBIDDEN,
    "SQLITE_CANTOPEN": _Failure("cannot be opened", "check that its folder exists and that this user may write there"),
}
_POSTGRES = {
    "55P03": _LOCKED,
    "40": _Failure("gave way to another transaction", "try again"),
    "42501": _FORBIDDEN,
    "25006": _FORBIDDEN,
    "53": _Failure("has no room: the server is out of disk, memory or connections", "make room and try again"),
    "08": _LOST,
    "57P": _LOST,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}


def explain(error: SQLAlchemyError, name: str, timeout: float) -> str:
    """Return what went wrong with the ledger `name`, and what to do; never a password, for drivers repeat none."""
    failure = _classify(error)
    cause = (str(error.orig) if isinstance(error, DBAPIError) else str(error)).strip().splitlines() or ["no message"]
    wrong = failure.wrong.format(timeout=timeout)
    charged = "" if failure is _LOST else "nothing was charged; "
    return f"the ledger {name} {wrong}; {charged}{failure.remedy} (the driver says: {cause[0]})"


def _classify(error: SQLAlchemyError) -> _Failure:
    if isinstance(error, PoolTimeout):
        return _LOCKED
    if not isinstance(error, DBAPIError):
        return _OTHER
    if isinstance(error.orig, sqlite3.Error):
        return _lookup(_SQLITE, getattr(error.orig, "sqlite_errorname", None))
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:  # the server has no codes to send before a connection stands or after it fell
        return _LOST if error.connection_invalidated else _UNREACHABLE
    return _lookup(_POSTGRES, state)


def _lookup(failures: dict[str, _Failure], code: str | None) -> _Failure:
    return next((failure for prefix, failure in failures.items() if (code or "").startswith(prefix)), _OTHER)
