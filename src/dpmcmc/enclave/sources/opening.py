"""From what an owner names, a file, a folder, a pattern, a query, to what a vault holds: arrays, or a source.

What is decided here follows from public facts: what was asked for, the schema, the adjacency, how many rows there are,
where that is public, and how much memory the machine has.
"""

import os
from contextlib import suppress
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.enclave.sources.contract import Source
from dpmcmc.enclave.sources.duckdb import DuckDBSource
from dpmcmc.enclave.sources.files import FileSource
from dpmcmc.enclave.sources.memory import MemorySource
from dpmcmc.enclave.sources.places import find, is_pattern
from dpmcmc.enclave.sources.scattered import Scattered
from dpmcmc.enclave.sources.scratch import Scratch
from dpmcmc.enclave.tables.frames import query_of
from dpmcmc.enclave.tables.readers import read_table
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

_COPIES = 4
"""How often a table is in memory while it is read and put into its slots."""

_SHARE = 2
"""A table may take up so much of the machine's memory: one over this."""

_COUNTED = (".parquet", ".arrow", ".feather", ".ipc")
"""Files that say how many rows they have, or nearly all of which do."""


def is_plain(source: Any) -> bool:
    """Say whether a source is a file or a folder of this machine by its name, or a table in memory."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return "://" not in path and (not is_pattern(path) or os.path.exists(path))  # noqa: PTH110  # it may be a text
    return not _is_list(source)


def name_of(source: Any) -> str:
    """Return the name of a table for a ledger: of a file without its ending, of a folder, of a pattern its folder's."""
    parts = [part for part in PurePath(os.fspath(source)).parts if not is_pattern(part)]
    return PurePath(parts[-1]).stem if parts else ""


class Wishes(NamedTuple):
    """What the owner asked for, and stated, of how a table is held."""

    adjacency: Adjacency = Adjacency.REPLACE_ONE
    capacity: int | None = None
    in_memory: bool | None = None
    scratch: str | os.PathLike[str] | None = None
    rows_keep_place: bool = False


def contents(source: Any, schema: Schema, wishes: Wishes) -> tuple[Any, Any]:
    """Return records and their bounds, read into memory, or a source of them, whose bounds are its own.

    Args:
        source: as for `from_table`.
        schema: what is stated of its columns.
        wishes: what else is asked for and stated.
    """
    if wishes.scratch is not None and wishes.in_memory:
        raise InvalidArgument("scratch= holds rows that are not in memory; leave it out, or say in_memory=False")
    wanted = wishes.in_memory is False or wishes.scratch is not None
    if wanted:
        return _streamed(_opened(source, schema, persons=True), schema, wishes), None
    may_stream = wishes.in_memory is None
    if not is_plain(source):
        opened = _opened(source, schema, persons=True)
        if schema.person is None and (wishes.in_memory or _fits(opened, schema, wishes)):
            return _whole(opened), opened.bounds
        if may_stream:
            return _streamed(opened, schema, wishes), None
        raise InvalidArgument(
            "source is a pattern, a list or a URL, and the schema names persons, whose rows may lie anywhere; leave "
            "in_memory= out, or name one file, or one folder of Parquet files, of this machine"
        )
    if may_stream and _says_its_rows(source):
        with suppress(InvalidArgument):  # what cannot be read is refused below, as the owner named it
            opened = _opened(source, schema, persons=True)
            if not _fits(opened, schema, wishes):
                return _streamed(opened, schema, wishes), None
    table = read_table(source, schema)
    return table.records, table.bounds


def _streamed(opened: Source, schema: Schema, wishes: Wishes) -> Source:
    """Return a source of records that are read chunk by chunk: in secret slots, unless rows have places of their own.

    Rows that are staged anyway are put into secret slots too, if nobody has stated that they keep their place.
    """
    has_places = schema.person is None and wishes.adjacency is Adjacency.REPLACE_ONE
    if not has_places or (wishes.scratch is not None and not wishes.rows_keep_place):
        return Scattered(opened, schema, wishes.scratch, wishes.capacity)
    return opened if wishes.scratch is None else Scratch(opened, wishes.scratch)


def check_there(source: Any) -> None:
    """Refuse a pattern, list or URL that leads to no file: before a ledger grants its name anything."""
    if not is_plain(source):
        find(source)


def _opened(source: Any, schema: Schema, *, persons: bool = False) -> Source:
    query = query_of(source)
    if query is not None:
        return DuckDBSource(query, schema, persons=persons)
    return FileSource(source, schema, persons=persons) if is_files(source) else MemorySource(source, schema)


def is_files(source: Any) -> bool:
    """Say whether a source is named, and is no table in memory and no query."""
    return isinstance(source, str | os.PathLike) or _is_list(source)


def check_positions(schema: Schema, adjacency: Adjacency, what: str) -> None:
    """Refuse a table whose records have no fixed positions, where they are needed."""
    if adjacency is not Adjacency.REPLACE_ONE or schema.person is not None:
        raise InvalidArgument(
            f"{what} needs adjacency='replace_one' and a schema without persons: there records stand at their "
            "positions, and elsewhere one that is added, or a person of another name, would move others. Leave "
            f"{what.partition('=')[0]} out, or make one row of each person first and state replace_one"
        )


def _is_list(source: Any) -> bool:
    return isinstance(source, list | tuple) and query_of(source) is None


def _says_its_rows(source: Any) -> bool:
    """Say whether a file tells how many rows it has without being read: so much is known of its name."""
    if not isinstance(source, str | os.PathLike):
        return False
    return os.path.isdir(source) or os.fspath(source).lower().endswith(_COUNTED)  # noqa: PTH112  # it may be a text


def _fits(source: Source, schema: Schema, wishes: Wishes) -> bool:
    """Say whether the rows of a source may be read into the memory of this machine: by what is public alone.

    Of persons the public knows neither how many rows there are nor, before they are read, how many persons.
    """
    rows, places = source.num_records, schema.max_rows_per_person
    if wishes.adjacency is not Adjacency.REPLACE_ONE:
        rows = wishes.capacity or 0
    elif schema.person is not None:
        return True
    row = sum(leaf.dtype.itemsize * int(np.prod(leaf.shape)) for leaf in source.record.values())
    return _COPIES * row * places * rows * _SHARE <= memory()


def memory() -> int:
    """Return how many bytes of memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _whole(source: Source) -> dict[str, np.ndarray]:
    """Return all rows of a source."""
    chunks = list(source.chunks(max(source.num_records, 1)))
    empty = {name: np.zeros((0, *leaf.shape), leaf.dtype) for name, leaf in source.record.items()}
    return chunks[0] if chunks else empty
