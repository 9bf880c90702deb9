"""From any table to records: the columns that the schema states, cell by cell, and for each person one record."""

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpmcmc import missing_cells
from dpmcmc.enclave.tables import cells, columns, files, frames
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.enclave.tables.persons import IDENTITY_BYTES, IDENTITY_WORDS, by_person, identity
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column, Schema


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Records that were read, and the public facts that the vault needs of them. The records are private.

    Attributes:
        records: an array for each leaf, with one row per record.
        bounds: the stated bounds of each leaf.
        rows_per_person: how many rows of a person count; None where every row is a person's only one.
    """

    records: dict[str, np.ndarray]
    bounds: dict[str, tuple[float, float]]
    rows_per_person: int | None

    def __repr__(self) -> str:
        return f"Table({', '.join(self.bounds)}; rows_per_person={self.rows_per_person})"


def read_table(source: Any, schema: Any) -> Table:
    """Read the columns that a schema states, and no others.

    Args:
        source: the path of a file (CSV, TSV, Parquet, Feather, Arrow) or of a folder of Parquet files; a DataFrame of
            pandas or polars; a Table of pyarrow; a `DuckDBQuery`, or the pair of a DuckDB connection and a query.
        schema: a `Schema`, what one is made of, or the path of a TOML file.
    """
    stated = Schema.read(schema)
    known: dict[str, int] = {}
    parts: list[columns.Leaves] = []
    persons: list[np.ndarray] = []
    for table in arrow_tables(source, stated):
        parts.append(_leaves(table, stated))
        if stated.person is not None:
            persons.append(number_persons(stated.person, table.column(stated.person), known))
    rows = {leaf: np.concatenate([part[leaf] for part in parts]) for leaf in parts[0]}
    if stated.person is None:
        return Table(rows, stated.bounds, None)
    k = stated.max_rows_per_person
    return Table(by_person(rows, np.concatenate(persons), list(known), k, padding_of(stated)), stated.bounds, k)


def check_names(what: str, found: list[str], wanted: list[str]) -> None:
    """Refuse a table that lacks a column or has it twice. Its own names are not said: they may be a row."""
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InvalidArgument(
            f"{what} has no column {', '.join(missing)}; the schema names it. Correct the schema, or the table: the "
            "first line of a CSV file holds the names, separated by commas unless the schema states a delimiter"
        )
    twice = [name for name in wanted if found.count(name) > 1]
    if twice:
        raise InvalidArgument(f"{what} has the column {', '.join(twice)} more than once; expected each once")


def arrow_tables(source: Any, schema: Schema) -> Iterator[Any]:
    """Return a source as Arrow tables that hold just the columns of a schema; every file of a folder is one."""
    names = schema.read_columns
    if isinstance(source, str | os.PathLike):
        paths = files.paths_of(Path(source))
        for path in paths:
            check_names(f"source={str(path)!r}", files.column_names(path, schema.delimiter), names)
        yield from (files.read_columns(path, names, schema.delimiter) for path in paths)
        return
    frame = frames.frame_of(source)
    if frame is None:
        raise InvalidArgument(
            f"source is a {type(source).__module__}.{type(source).__name__}; expected a path, a DataFrame of pandas or "
            "polars, a Table of pyarrow, or a DuckDB connection and a query"
        )
    check_names(frame.what, frame.names, names)
    yield frames.read_frame(frame, names)


def _leaves(table: Any, schema: Schema) -> columns.Leaves:
    """Return the leaves of all columns of one Arrow table."""
    made: columns.Leaves = {}
    missing: dict[str, np.ndarray] = {}
    for name, column in schema.columns.items():
        read = partial(_column, name, table.column(name), column, schema.decimal)
        leaves, missing[name] = without_values(f"column {name!r} cannot be read", read)
        made |= leaves
    return made | columns.missing_bits(made, missing)


def _column(name: str, kept: Any, column: Column, decimal: str) -> tuple[columns.Leaves, np.ndarray]:
    """Return the leaves of one Arrow column, and where its cells are missing."""
    values = columns.numbers(name, kept, column, decimal)
    return columns.leaves(name, values, column), np.isnan(values)


def number_persons(name: str, kept: Any, known: dict[str, int]) -> np.ndarray:
    """Return the number of each row's person, NaN for nobody; persons are numbered in `known` as they turn up."""

    def person(cell: Any) -> float:
        written = cells.text(cell)
        return math.nan if written is None else known.setdefault(written, len(known))

    columns.value_type(name, kept.type)
    return without_values(f"column {name!r} cannot be read", partial(columns.read, kept, person))


def identities(name: str, kept: Any) -> np.ndarray:
    """Return the identity of each row's person, in words; zeros for nobody."""
    known: dict[str, int] = {}
    numbers = number_persons(name, kept, known)
    each = b"".join([*map(identity, known), bytes(IDENTITY_BYTES)])
    words = np.frombuffer(each, np.uint32).reshape(-1, IDENTITY_WORDS)
    return words[np.where(np.isnan(numbers), len(known), numbers).astype(np.int64)]


def padding_of(schema: Schema) -> Mapping[str, float]:
    """Return what stands in the places of a person that hold no row, by leaf."""
    stated = schema.columns.items()
    padding = {name + end: value for name, column in stated for end, value in columns.pad(column).items()}
    return padding | dict.fromkeys(missing_cells.bounds(padding), 0.0)
