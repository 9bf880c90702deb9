"""Files that outlive a process: private ones, for this user's eyes alone, and durable ones."""

import os
import sqlite3
from pathlib import Path

from dpmcmc.errors import InvalidArgument, ResumeRefused

_WHERE = "DPMCMC_STATE"
HOW_TO_MOVE = f"set {_WHERE} to a folder of yours that nobody else reads and that is never published"


def private_folder() -> Path:
    """Return the folder of private files, which is made where there is none: this user's alone."""
    stated = os.environ.get(_WHERE)
    try:
        folder = (Path(stated) if stated else _state_home() / "dpmcmc").resolve() / "runs"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except (OSError, RuntimeError) as error:
        raise InvalidArgument(f"{HOW_TO_MOVE}: the folder for private files cannot be made ({error})") from error
    return folder


def _state_home() -> Path:
    stated = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    return Path(stated) if stated else Path.home() / ".local" / "state"


def create_private(file: Path) -> sqlite3.Connection:
    """Make a private database that nobody else can open, while it is open or afterwards."""
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    sync_folder(file.parent)
    return open_private(file)


def open_private(file: Path) -> sqlite3.Connection:
    """Open a private database; another process that opens it too is refused."""
    connection = sqlite3.connect(file, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # a lock that is taken is kept until the file is closed
        connection.execute("PRAGMA synchronous = EXTRA")  # what is noted must be there after a loss of power
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        connection.close()
        if getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            raise ResumeRefused("the run is in use by another process; let it finish, or end it") from error
        raise ResumeRefused(f"the private file of the run, {str(file)!r}, cannot be used: {error}") from error
    return connection


def write_durably(file: Path, content: bytes) -> None:
    """Write a file so that whoever looks for it, also after a crash, finds all of it or nothing."""
    temporary = file.with_suffix(".new")
    with temporary.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    temporary.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system has a way to."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
