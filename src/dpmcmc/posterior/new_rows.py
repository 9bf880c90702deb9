"""Rows to predict for: public ones, or whoever asks may see them; so errors name rows and cells.

Cells are read as the schema states, as those of the private table were: texts and categories as they are, numbers moved
into their bounds, missing cells as the column says. What must not be said of a private table is said here.
"""

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from dpmcmc.enclave.tables import cells, columns, files, frames
from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import FormulaModel
from dpmcmc.schema import Column, Schema

MOST_NAMED = 5
"""Cells that an error names."""


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows as a model reads them.

    Attributes:
        records: an array for each column of the formula but the response, one entry a row.
        frame: the columns that were read, as they came.
    """

    records: dict[str, np.ndarray]
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)


def needed(model: FormulaModel, schema: Schema) -> list[str]:
    """Return the columns that a row must have: those of the formula but the response, in the order of the schema."""
    owners = {f"{name}_missing": name for name, column in schema.columns.items() if column.missing == "indicator"}
    named = {owners.get(name, name) for name in model.predictor_columns}
    return [name for name in schema.columns if name in named]


def read_rows(source: Any, model: FormulaModel, schema: Schema, also: Sequence[str] = ()) -> NewRows:
    """Read rows of any kind: a mapping, a list of mappings, a DataFrame, an Arrow table, or the path of a file.

    Args:
        source: the rows.
        model: says which columns are needed; others are passed over.
        schema: says how they are read.
        also: further columns to be read where the rows have them.

    Raises:
        InvalidArgument: a column is missing, a category is unknown, or a cell is blank that may not be.
    """
    wanted = needed(model, schema)
    names, table, frame = _table(source, [*wanted, *also], schema.delimiter)
    index = frame.index
    missing = [name for name in wanted if name not in names]
    if missing and (names or len(index) > 0):
        has = ", ".join(names) if names else "none"
        one = len(names) == 1 and isinstance(source, str | os.PathLike)
        marks = f". Fields are separated by {schema.delimiter or ','!r}, as in the schema" if one else ""
        raise InvalidArgument(
            f"the rows have no column {', '.join(missing)}; the formula needs it. They have {has}{marks}"
        )
    if len(index) == 0:
        raise InvalidArgument("there are no rows; expected at least one")
    records: dict[str, np.ndarray] = {}
    outside: list[str] = []
    for name in (*wanted, *(name for name in also if name in names)):
        column = schema.columns[name]
        values = _numbers(name, table.column(name), column, schema.decimal, index)
        records |= columns.leaves(name, values, column)
        outside += _outside(name, values, column)
    if outside:
        said = f"{'; '.join(outside)}; what is outside counts as the bound, as it did in the fit"
        warnings.warn(said, UserWarning, stacklevel=_outer_frame())
    return NewRows(records, frame)


def read_other_columns(source: Any, wanted: Sequence[str], schema: Schema) -> pd.DataFrame:
    """Read columns of such rows as they are, whether the schema knows them or not.

    Raises:
        InvalidArgument: one of them is not there.
    """
    names, table, frame = _table(source, list(dict.fromkeys(wanted)), schema.delimiter)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InvalidArgument(f"the rows have no column {', '.join(missing)}; they have {', '.join(names)}")
    return table.to_pandas().set_axis(frame.index, axis=0)


def _table(source: Any, wanted: Sequence[str], delimiter: str) -> tuple[list[str], Any, pd.DataFrame]:
    """Return the names of all columns, the wanted ones as an Arrow table, and as they came."""
    if isinstance(source, str | os.PathLike):
        paths = files.paths_of(Path(cast(str, source)))
        names = files.column_names(paths[0], delimiter)
        kept = [name for name in wanted if name in names]
        table = arrow().concat_tables([files.read_columns(path, kept, delimiter) for path in paths])
        return names, table, _as_pandas(table, len(table))
    if isinstance(source, Mapping | list | pd.Series):
        source = _frame(source)
    frame = frames.frame_of(source)
    if frame is None:
        raise InvalidArgument(
            f"the rows are a {type(source).__name__}; expected a mapping from columns to values, a DataFrame of pandas "
            "or polars, a Table of pyarrow, or the path of a CSV or Parquet file"
        )
    repeated = [name for name in wanted if frame.names.count(name) > 1]
    if repeated:
        raise InvalidArgument(f"the rows have the column {', '.join(repeated)} more than once; expected each once")
    kept = [name for name in wanted if name in frame.names]
    table = frames.read_frame(frame, kept)
    if isinstance(source, pd.DataFrame):  # not by way of texts, which cut off mixed dates
        own: dict[str, Any] = {name: source.iloc[:, frame.names.index(name)] for name in kept}
        return frame.names, table, pd.DataFrame(own, index=source.index)
    return frame.names, table, _as_pandas(table, len(source))


def _as_pandas(table: Any, height: int) -> pd.DataFrame:
    return table.to_pandas() if len(table.column_names) else pd.DataFrame(index=range(height))


def _frame(source: Any) -> pd.DataFrame:
    """Return a mapping of columns, one of single values, or a list of rows as a DataFrame."""
    if isinstance(source, pd.Series):
        return source.to_frame().T
    if isinstance(source, Mapping):
        given = cast(Mapping[str, Any], source)
        source = given if any(np.ndim(value) for value in given.values()) else [dict(given)]
    try:
        return pd.DataFrame(source)
    except ValueError as error:
        raise InvalidArgument(f"the rows cannot be read: {error}") from error


def _numbers(name: str, kept: Any, column: Column, decimal: str, index: pd.Index) -> np.ndarray:
    """Return a column as numbers and codes, with NaN where a cell is blank and may be; others are refused."""
    values = columns.numbers(name, kept, column, decimal)
    blank = np.isnan(columns.read(kept, lambda cell: np.nan if cells.text(cell) is None else 0.0))
    unknown = np.isnan(values) & ~blank
    if unknown.any():
        raise InvalidArgument(
            f"the rows have {_named(kept, unknown, index)} for {name!r}; expected {_expected(column)}"
        )
    if blank.any() and column.missing in ("none", "integrate"):
        rows = ", ".join(str(row) for row in index[blank][:MOST_NAMED])
        why = "nothing of missing values there" if column.missing == "none" else "to integrate over it, in fits alone"
        raise InvalidArgument(
            f"the rows have no {name!r} in row {rows}; the schema says {why}: fill it in, or state another missing= in "
            "the schema before the fit"
        )
    return values


def _outside(name: str, values: np.ndarray, column: Column) -> list[str]:
    """Say how many rows are outside the bounds, if some are."""
    lower, upper = column.bounds
    found = int(np.sum((values < lower) | (values > upper)))
    return [f"{found} of {len(values)} rows have {name!r} outside {column.range_in_words}"] if found else []


def _outer_frame() -> int:
    """Return how many calls above `read_rows` the caller outside this package is: where a warning belongs."""
    frame, level = sys._getframe(1), 1  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dpmcmc."):
        frame, level = frame.f_back, level + 1
    return level


def _named(kept: Any, where: np.ndarray, index: pd.Index) -> str:
    """Name a few cells and their rows."""
    found = dict(zip((str(kept[int(place)].as_py()) for place in np.flatnonzero(where)), index[where], strict=True))
    return ", ".join(f"{cell!r} (row {row})" for cell, row in list(found.items())[:MOST_NAMED])


def _expected(column: Column) -> str:
    if column.kind == "category":
        return f"one of {', '.join(column.categories)}"
    if column.kind == "boolean":
        return f"{column.words_for(True)} or {column.words_for(False)}"
    return f"a day, as in {column.format or '2024-02-29'}" if column.kind == "date" else "a number"
