"""Tables in memory: pandas, polars, pyarrow, or the answer to a DuckDB query, as an Arrow table."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpmcmc.enclave.tables import cells
from dpmcmc.enclave.tables.arrow import arrow, library
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.errors import InvalidArgument


@dataclass(frozen=True)
class DuckDBQuery:
    """A query, and the connection that answers it.

    A row of the answer must come from one person's rows alone: no join, window, limit or aggregate over others. And
    under replace-one the number of rows is public, so the query must not choose rows by their values.
    """

    connection: Any = field(repr=False)
    query: str


class Frame(NamedTuple):
    """A table in memory: what it is called, the names of its columns, and how some of them become an Arrow table."""

    what: str
    names: list[str]
    read: Callable[[list[str]], Any]


def frame_of(source: Any) -> Frame | None:
    """Return a table in memory as what can be read, or None if it is none."""
    if isinstance(source, pd.DataFrame):
        return _pandas(source)
    query = query_of(source)
    if query is not None:
        return _duckdb(query)
    polars, pyarrow = sys.modules.get("polars"), sys.modules.get("pyarrow")
    if polars is not None and isinstance(source, polars.DataFrame):
        return _polars(source, polars.Object)
    if pyarrow is not None and isinstance(source, pyarrow.Table):
        return Frame("the pyarrow Table", list(source.column_names), source.select)
    return None


def query_of(source: Any) -> DuckDBQuery | None:
    """Return a query with its connection, if that is what a source is: a `DuckDBQuery`, or the pair of them."""
    if isinstance(source, tuple) and len(source) == 2 and isinstance(source[1], str) and not isinstance(source[0], str):
        return DuckDBQuery(*source)
    return source if isinstance(source, DuckDBQuery) else None


def read_frame(frame: Frame, names: list[str]) -> Any:
    """Return columns of a table in memory, whose names were checked, as an Arrow table."""
    arrow()
    return without_values(
        f"{frame.what} cannot be read; expected columns of numbers, booleans, texts or categories",
        lambda: frame.read(names),
    )


def _pandas(frame: pd.DataFrame) -> Frame:
    names = [str(name) for name in frame.columns]

    def read(wanted: list[str]) -> Any:
        columns = [_pandas_column(frame.iloc[:, names.index(name)]) for name in wanted]
        return arrow().table(columns, names=wanted)

    return Frame("the pandas DataFrame", names, read)


def _pandas_column(series: Any) -> Any:
    """Return a column as Arrow. Columns of Python objects become texts, cell by cell, so that no type is guessed."""
    kind = series.dtype.categories.dtype if isinstance(series.dtype, pd.CategoricalDtype) else series.dtype
    is_python_text = isinstance(kind, pd.StringDtype) and kind.storage == "python"  # of any letters, also of halves
    if is_python_text or (kind.kind == "O" and isinstance(kind, np.dtype)):
        return arrow().array([cells.as_text(cell) for cell in series.astype(object)], arrow().string())
    return arrow().array(series, from_pandas=True)


def _polars(frame: Any, python_object: Any) -> Frame:
    def read(names: list[str]) -> Any:
        for name in names:
            if frame.schema[name] == python_object:  # would become the addresses of the objects
                raise InvalidArgument(f"column {name!r} holds Python objects; convert it to numbers or texts")
        return frame.select(names).to_arrow()

    return Frame("the polars DataFrame", list(frame.columns), read)


QUERY_FAILED = (
    "source, a DuckDB query, failed; DuckDB's own words are withheld, because they quote cells: try the query on "
    "synthetic rows. Tables in memory must be registered with the connection"
)


def answer_of(source: DuckDBQuery) -> Any:
    """Return the relation that answers a query; nothing is read yet."""
    duckdb = library("duckdb")
    if not isinstance(source.connection, duckdb.DuckDBPyConnection):
        raise InvalidArgument(
            f"source has a {type(source.connection).__name__} for a connection; expected that of duckdb.connect()"
        )
    answer = without_values(QUERY_FAILED, lambda: source.connection.sql(source.query))
    if answer is None:
        raise InvalidArgument("source, a DuckDB query, answers nothing; expected a SELECT")
    return answer


def columns_of(answer: Any, names: list[str]) -> Any:
    """Return some columns of a relation, as a relation."""
    return answer.select(*(library("duckdb").ColumnExpression(name) for name in names))


def _duckdb(source: DuckDBQuery) -> Frame:
    answer = answer_of(source)

    def read(names: list[str]) -> Any:
        return without_values(QUERY_FAILED, lambda: columns_of(answer, names).to_arrow_table())

    return Frame("the answer to the DuckDB query", list(answer.columns), read)
