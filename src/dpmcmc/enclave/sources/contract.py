"""What a source of records is, and what all kinds of them do."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import jax

from dpmcmc import validation
from dpmcmc.enclave.tables.columns import Leaves
from dpmcmc.errors import InvalidArgument, SourceChanged
from dpmcmc.schema import Schema


class Rows(Protocol):
    """Rows that can be read once, from the first to the last."""

    @property
    def num_records(self) -> int:
        """The number of rows. Whether the public may know it is for the caller to say."""
        ...

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The stated bounds of each leaf."""
        ...

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shape and type of one record, by leaf."""
        ...

    def chunks(self, rows: int, /) -> Iterator[Leaves]:
        """Return the rows in chunks of a given size; the last chunk may be shorter."""
        ...


@runtime_checkable
class Source(Rows, Protocol):
    """Records that are read chunk by chunk, in one order, as often as they are needed."""

    @property
    def identity(self) -> bytes:
        """What tells these records from others, so that a resumed run knows them again. It is private."""
        ...

    def confirm(self) -> None:
        """Raise `SourceChanged` if the records are not what they were: for who has not read to the end."""
        ...

    def chunks(self, rows: int, first: int = 0) -> Iterator[Leaves]:
        """Return the records in chunks of a given size; the last chunk may be shorter.

        Args:
            rows: how many rows a chunk has.
            first: the number of the first chunk that is wanted.

        Raises:
            SourceChanged: the rows are not those of before. It comes before the last chunk, or instead of any.
        """
        ...


def rows_before(rows: int, first: int) -> int:
    """Check the arguments of `Source.chunks`; return the number of rows that are passed over."""
    size = validation.integer("rows", rows, at_least=1)
    return size * validation.integer("first", first, at_least=0)


def refuse_persons(schema: Schema, *, persons: bool = False) -> None:
    """Refuse a schema that names persons, whose rows may lie anywhere, unless they are put together later."""
    if schema.person is not None and not persons:
        raise InvalidArgument(
            f"person={schema.person!r} cannot be read chunk by chunk: the rows of a person belong together and may lie "
            "anywhere. Open the table with PrivateData.from_table, which puts them together; or make one row of each "
            "person first, and leave person out of the schema"
        )


def changed(what: str) -> SourceChanged:
    """Return the error of a source that is not what it was."""
    return SourceChanged(
        f"{what} is not what it was when it was opened; expected the same rows, in the same order, in every pass. Let "
        "nobody write to it while it is read, and open it again: the pass that was under way gives no result"
    )
