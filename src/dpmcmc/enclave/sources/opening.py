"""From what an owner names, a file, a folder, a pattern, a query, to what a vault holds: arrays, or a source.

What is decided here follows from public facts: what was asked for, the schema, the adjacency, how many rows there are,
where that is public, and how much memory the machine has.
"""

import os
from contextlib import suppress
from pathlib import PurePath
from typing import Any

import numpy as np

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.enclave.sources.contract import Source
from dpmcmc.enclave.sources.duckdb import DuckDBSource
from dpmcmc.enclave.sources.files import FileSource
from dpmcmc.enclave.sources.memory import MemorySource
from dpmcmc.enclave.sources.places import find, is_pattern
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


def contents(
    source: Any,
    schema: Schema,
    adjacency: Adjacency,
    in_memory: bool | None,
    scratch: str | os.PathLike[str] | None,
) -> tuple[Any, Any]:
    """Return records and their bounds, read into memory, or a source of them, whose bounds are its own.

    Args:
        source: as for `from_table`.
        schema: what is stated of its columns.
        adjacency: which data sets are neighbours.
        in_memory: whether all rows are read into memory; decided here, if None.
        scratch: a folder in which prepared rows are staged.
    """
    may_stream = _may_stream(schema, adjacency)
    if in_memory is False:
        check_streamed(schema, adjacency, "in_memory=False")
    if scratch is not None and (in_memory or not may_stream):
        raise InvalidArgument("scratch= stages rows that are read chunk by chunk; leave it out, or say in_memory=False")
    wanted = in_memory is False or scratch is not None
    if may_stream and (wanted or not is_plain(source)):
        opened = _opened(source, schema)
        if wanted or (in_memory is None and not _fits(opened)):
            return (opened if scratch is None else Scratch(opened, scratch)), None
        return _whole(opened), opened.bounds
    if may_stream and in_memory is None and _says_its_rows(source):
        with suppress(InvalidArgument):  # what cannot be read is refused below, as the owner named it
            opened = _opened(source, schema)
            if not _fits(opened):
                return opened, None
    if not is_plain(source):
        if schema.person is not None:
            raise InvalidArgument(
                "source is a pattern, a list or a URL, and the schema names persons, whose rows may lie anywhere; name "
                "one file, or one folder of Parquet files, of this machine"
            )
        opened = _opened(source, schema)
        return _whole(opened), opened.bounds
    table = read_table(source, schema)
    return table.records, table.bounds


def check_there(source: Any) -> None:
    """Refuse a pattern, list or URL that leads to no file: before a ledger grants its name anything."""
    if not is_plain(source):
        find(source)


def _opened(source: Any, schema: Schema) -> Source:
    query = query_of(source)
    if query is not None:
        return DuckDBSource(query, schema)
    return FileSource(source, schema) if is_files(source) else MemorySource(source, schema)


def is_files(source: Any) -> bool:
    """Say whether a source is named, and is no table in memory and no query."""
    return isinstance(source, str | os.PathLike) or _is_list(source)


def check_streamed(schema: Schema, adjacency: Adjacency, what: str) -> None:
    """Refuse a table whose records have no fixed positions, where they are needed."""
    if not _may_stream(schema, adjacency):
        raise InvalidArgument(
            f"{what} needs adjacency='replace_one' and a schema without persons: read chunk by chunk, records "
            "stand at their positions, and elsewhere one that is added, or a person of another name, would move "
            f"others. Leave {what.partition('=')[0]} out, or make one row of each person first and state replace_one"
        )


def _may_stream(schema: Schema, adjacency: Adjacency) -> bool:
    return adjacency is Adjacency.REPLACE_ONE and schema.person is None


def _is_list(source: Any) -> bool:
    return isinstance(source, list | tuple) and query_of(source) is None


def _says_its_rows(source: Any) -> bool:
    """Say whether a file tells how many rows it has without being read: so much is known of its name."""
    if not isinstance(source, str | os.PathLike):
        return False
    return os.path.isdir(source) or os.fspath(source).lower().endswith(_COUNTED)  # noqa: PTH112  # it may be a text


def _fits(source: Source) -> bool:
    """Say whether the rows of a source may be read into the memory of this machine."""
    row = sum(leaf.dtype.itemsize * int(np.prod(leaf.shape)) for leaf in source.record.values())
    return _COPIES * row * source.num_records * _SHARE <= memory()


def memory() -> int:
    """Return how many bytes of memory the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _whole(source: Source) -> dict[str, np.ndarray]:
    """Return all rows of a source."""
    chunks = list(source.chunks(max(source.num_records, 1)))
    empty = {name: np.zeros((0, *leaf.shape), leaf.dtype) for name, leaf in source.record.items()}
    return chunks[0] if chunks else empty
