"""What a run that may be resumed keeps: in private the key of its noise, in public the results of its programs.

A run is a sequence of programs. The journal sees to it that at every place of the sequence one program at most is ever
executed, always with the same arguments, records and noise: however often a run is stopped and resumed, it releases
nothing that it would not have released in one go. journal.md has the proof.

The private part is a file of its own in the user's state folder, never in the run folder, and is removed when the run
is settled. What is in the run folder are releases: they may be published, and they may be lost, edited or damaged; then
they are made again, and are the same.
"""

import hmac
import io
import json
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event, compose, genuine
from dpmcmc.accounting.payer import Reservation
from dpmcmc.enclave.resume.machine import machine
from dpmcmc.enclave.resume.private_file import HOW_TO_MOVE, create_private, open_private, private_folder, write_durably
from dpmcmc.errors import DpmcmcError, InvalidArgument, LedgerUnavailable, ResumeRefused, UnknownRun

UNFINISHED = "unfinished"
"""The folder in a run folder that holds the results of programs until the run is finished."""

_TAG_BYTES = 32
_LAYOUT = """
CREATE TABLE run (key BLOB NOT NULL, memo TEXT NOT NULL, machine TEXT, records BLOB, places BLOB);
CREATE TABLE programs (place INTEGER PRIMARY KEY, identity BLOB NOT NULL, event TEXT NOT NULL, tag BLOB NOT NULL);
"""


class Journal:
    """The journal of one run. Only one process at a time can hold it."""

    __slots__ = ("_begun", "_connection", "_key", "_machine", "_places", "_records", "folder", "is_over", "memo", "run")

    def __init__(self, folder: Path, run: str, connection: sqlite3.Connection) -> None:
        self.folder, self.run, self._connection = folder, run, connection
        columns = connection.execute("SELECT * FROM run").fetchone()
        if columns is None or len(columns) != 5:
            raise self._not_as_written()
        self._key, memo, self._machine, self._records, self._places = columns
        self.memo: dict[str, Any] = json.loads(memo)
        self._begun = [(identity, Event.from_json(event)) for identity, event in self._rows()]
        self.is_over = False

    @classmethod
    def create(cls, folder: Path, memo: dict[str, Any]) -> Self:
        """Begin the journal of a run whose folder is new; `memo` is kept in private, for whoever resumes it."""
        run = secrets.token_hex(16)
        if private_folder().is_relative_to(folder.resolve()):
            raise InvalidArgument(f"{HOW_TO_MOVE}: {str(private_folder())!r} is in the run folder")
        connection = create_private(_private(run))
        connection.executescript(f"BEGIN; {_LAYOUT}")
        row = (secrets.token_bytes(32), json.dumps(memo))
        connection.execute("INSERT INTO run (key, memo) VALUES (?, ?)", row)
        connection.execute("COMMIT")
        journal = cls(folder, run, connection)
        try:
            made = folder.parent / f".{folder.name}-{run}"
            (made / UNFINISHED).mkdir(parents=True)
            write_durably(made / UNFINISHED / "run", run.encode())
            made.rename(folder)
        except OSError as error:
            journal.forget()
            raise InvalidArgument(f"the run folder {str(folder)!r} cannot be made: {error.strerror}") from error
        return journal

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Take up the journal of a run that was begun, and is not settled."""
        run = _name_of_run(folder)
        if run is None:
            raise ResumeRefused(f"{str(folder)!r} is not an unfinished run: {UNFINISHED}/run is missing, or no name")
        if not has_private_part(folder):
            raise ResumeRefused(
                f"{str(folder)!r} cannot be resumed: the key of its noise is not there. It is kept in "
                f"{str(_private(run))!r}, for the user and on the machine that began the run, until it is settled. "
                "Without it the run cannot go on as it was paid for: its charge stands, what is in the folder may be "
                "used, and a new run is charged anew"
            )
        return cls(folder, run, open_private(_private(run)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({str(self.folder)!r})"

    @property
    def _secret(self) -> bytes:
        """What it takes to settle the run for less than was reserved. It is there before the run is charged."""
        return self._tag("settle")

    @property
    def num_begun(self) -> int:
        """How many programs of the run were begun."""
        return len(self._begun)

    @property
    def spent(self) -> Event:
        """What all programs that were begun release."""
        return genuine(compose([event for _, event in self._begun]), with_cells=True)  # an object of its own

    def recognise(self, leaves: Sequence[jax.Array], stated: str, placement: str) -> bytes:
        """Make sure that records, what is stated of them, and machine are those with which the run was begun.

        Return what tells these records from others; a secret.
        """
        here = {**machine(), "placement": placement}
        tag = self._tag("records", stated.encode(), *_written(leaves))
        if not self._begun:
            self._connection.execute("UPDATE run SET machine = ?, records = ?", (json.dumps(here), tag))
            self._machine, self._records = json.dumps(here), tag
            return tag
        before: dict[str, str] = json.loads(self._machine)
        changed = [name for name in here if here[name] != before.get(name)]
        if changed:
            what = ", ".join(f"{name}: {before.get(name, '')[:60]!r} then, {here[name][:60]!r} now" for name in changed)
            raise ResumeRefused(
                f"{str(self.folder)!r} was begun where results may be rounded differently, and would not give the "
                f"draws that were charged; resume it where it was begun ({what})"
            )
        if not hmac.compare_digest(tag, self._records):
            raise ResumeRefused(
                f"{str(self.folder)!r} was begun with other records, and the same noise on two tables would show how "
                "they differ; resume it with the table as it was, or make a new run, which is charged"
            )
        return tag

    def places(self, own: bytes) -> bytes:
        """Return the seed of places of the records that were recognised: of the first ones, what their vault has.

        So the same records, in the same order, stand where they stood, and others have places of another name.
        """
        whose = self._tag("placed", self._records)
        if self._places is None:
            self._connection.execute("UPDATE run SET places = ?", (whose + own,))
            self._places = whose + own
        is_same = hmac.compare_digest(self._places[:_TAG_BYTES], whose)
        return self._places[_TAG_BYTES:] if is_same else self._tag("places", self._records)

    def identify(self, place: int, text: str, arguments: Any, records: bytes) -> bytes:
        """Return what tells a program, its arguments, the records and the machine from any other; a secret.

        The records are those that the program will read: as `recognise` told them from others.
        """
        if not hmac.compare_digest(records, self._records):
            raise ResumeRefused(
                f"{str(self.folder)!r} was resumed with other records meanwhile, and the same noise on two tables "
                "would show how they differ; a run is resumed with one table at a time"
            )
        if getattr(jax.config, "jax_use_simplified_jaxpr_constants", False):  # its constants would not be in its text
            raise InvalidArgument("jax_use_simplified_jaxpr_constants=True must be off in runs that may be resumed")
        leaves, structure = jax.tree.flatten(arguments)
        described = (str(place), text, str(structure), self._machine)
        return self._tag("program", *(part.encode() for part in described), records, *_written(leaves))

    def begin(self, place: int, identity: bytes, event: Event) -> bytes:
        """Note that a program is executed, before it is, for good; return the key of its noise."""
        if place > self.num_begun:
            raise ResumeRefused(f"program {place} of a run comes before program {self.num_begun}")
        if place == self.num_begun:
            written = event.to_json()
            row = (place, identity, written, self._tag_of_row(place, identity, written))
            self._connection.execute("INSERT INTO programs VALUES (?, ?, ?, ?)", row)
            self._begun.append((identity, event))
        self._check(place, identity)
        return self._tag("noise", identity)

    def kept(self, place: int, identity: bytes) -> list[Any] | None:
        """Return the result of a program that was executed; None if there is none, or it is not as it was."""
        self._check(place, identity)
        if place >= self.num_begun:
            return None
        with suppress(OSError):
            written = self._result(place).read_bytes()
            payload, tag = written[:-_TAG_BYTES], written[-_TAG_BYTES:]
            if hmac.compare_digest(tag, self._tag("result", identity, payload)):
                with np.load(io.BytesIO(payload)) as arrays:
                    return [jnp.asarray(arrays[name]) for name in arrays.files]
        return None

    def keep(self, place: int, identity: bytes, results: Sequence[jax.Array]) -> None:
        """Keep the result of a program in the run folder. It is a release."""
        buffer = io.BytesIO()
        np.savez(buffer, *(np.asarray(result) for result in results))
        payload = buffer.getvalue()
        write_durably(self._result(place), payload + self._tag("result", identity, payload))

    def forget(self) -> None:
        """Remove the private part: the run is settled, and nothing can be executed in its name."""
        self.close()
        for ending in ("", "-journal"):
            Path(f"{_private(self.run)}{ending}").unlink(missing_ok=True)
        self.is_over = True

    def close(self) -> None:
        """Let others hold the journal."""
        self._connection.close()

    def _check(self, place: int, identity: bytes) -> None:
        if place < self.num_begun and not hmac.compare_digest(identity, self._begun[place][0]):
            raise ResumeRefused(
                f"{str(self.folder)!r} was begun with another program: its model, its settings, those of JAX or this "
                "library have changed since. Resume it with what it was begun with, or make a new run, which is charged"
            )

    def _rows(self) -> list[tuple[bytes, str]]:
        """Return the programs that were begun; refuse rows, or results without a row, that this run has not written."""
        try:
            rows = self._connection.execute(
                "SELECT place, identity, event, tag FROM programs ORDER BY place"
            ).fetchall()
            as_written = all(
                place == at and hmac.compare_digest(tag, self._tag_of_row(place, identity, event))
                for at, (place, identity, event, tag) in enumerate(rows)
            )
        except (sqlite3.Error, AttributeError, TypeError):  # another layout, or values of other types
            rows, as_written = [], False
        if not as_written or self._result(len(rows)).exists():
            raise self._not_as_written()
        return [(identity, event) for _, identity, event, _ in rows]

    def _not_as_written(self) -> ResumeRefused:
        self.close()
        return ResumeRefused(
            f"{str(self.folder)!r} cannot be resumed: its private file is not as this version of the library wrote "
            "it, so what it has released is not known. All that was reserved stays charged; what is in the folder "
            "may be used, and a new run is charged anew"
        )

    def _tag_of_row(self, place: int, identity: bytes, event: str) -> bytes:
        return self._tag("row", str(place).encode(), identity, event.encode())

    def _result(self, place: int) -> Path:
        return self.folder / UNFINISHED / f"{place:05}.npz"

    def _tag(self, purpose: str, *parts: Any) -> bytes:
        """Return HMAC-SHA-256 of the parts, each with its length: different purposes and parts give unrelated tags."""
        tag = hmac.new(self._key, digestmod="sha256")
        for part in (purpose.encode(), *parts):
            tag.update(len(part).to_bytes(8, "big"))
            tag.update(part)
        return tag.digest()


def has_private_part(folder: Path) -> bool:
    """Say whether there is a private part of the run in a folder: it was begun, and is not settled."""
    run = _name_of_run(folder)
    return run is not None and _private(run).exists()


def _name_of_run(folder: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        run = (folder / UNFINISHED / "run").read_text(encoding="utf-8")
        return run if run.isalnum() else None
    return None


def _private(run: str) -> Path:
    return private_folder() / f"{run}.db"


def reservation_of(
    journal: Journal, payer: Any, dataset: str, event: Event, description: str, adjacency: Adjacency
) -> Reservation:
    """Return the standing charge of a run, or make it if the run was stopped before it was charged."""
    reservation: Any = None
    secret = journal._secret  # pyright: ignore[reportPrivateUsage]
    try:
        reservation = payer.reservation(journal.run, secret=secret)
    except UnknownRun:
        if journal.num_begun:  # it was charged, or it could not have begun
            raise
    if reservation is None:
        terms = {"description": description, "adjacency": adjacency, "run": journal.run, "secret": secret}
        return _reserve(journal, lambda: payer.reserve(dataset, event, **terms))
    if reservation.adjacency is not adjacency:
        raise ResumeRefused(
            f"{str(journal.folder)!r} was charged under {reservation.adjacency.words}, and these records are stated "
            f"under {adjacency.words}, where the same event has other noise; resume it with the vault that began it"
        )
    if (reservation.dataset, reservation.event) != (dataset, event):
        raise ResumeRefused(
            f"{str(journal.folder)!r} was charged to {reservation.dataset!r} for another price than that of this run; "
            "resume it with the model and the settings it was begun with"
        )
    return reservation


def _reserve(journal: Journal, reserve: Callable[[], Reservation]) -> Reservation:
    try:
        return reserve()
    except LedgerUnavailable as error:  # it may have been charged, which the next attempt finds out
        raise LedgerUnavailable(f"{error}; the run is ready in {str(journal.folder)!r}: resume it") from error
    except DpmcmcError:
        journal.forget()
        raise


def _written(leaves: Sequence[Any]) -> list[Any]:
    """Return arrays as bytes that no other arrays are written as."""
    parts: list[Any] = []
    for leaf in leaves:
        array = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        plain = np.ascontiguousarray(np.asarray(array))
        parts += [f"{leaf.dtype}{leaf.shape}".encode(), plain.reshape(-1).view(np.uint8)]
    return parts
