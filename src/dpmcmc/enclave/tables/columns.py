"""Columns of an Arrow table as arrays of numbers, cell by cell.

Each cell of a column becomes the value of one fixed, public function (`cells`, then `stored`) at that cell. No type is
guessed from the cells, so what a row becomes depends on no other row. Only the *type* under which a column is kept can
be refused: it belongs to the file, not to a row.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from dpmcmc import missing_cells
from dpmcmc.enclave.tables import cells
from dpmcmc.enclave.tables.arrow import arrow
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column

Leaves = dict[str, np.ndarray]


def leaves(name: str, values: np.ndarray, column: Column) -> Leaves:
    """Return the leaves of a column: its values with missing ones replaced and, if it has one, its indicator."""
    missing = np.isnan(values)
    made = {name: stored(values, missing, column)}
    if column.missing == "indicator":
        made[f"{name}_missing"] = missing.astype(np.float32)
    return made


def missing_bits(rows: Leaves, missing: Mapping[str, np.ndarray]) -> Leaves:
    """Return the leaves that say which cells of the rows were missing.

    Args:
        rows: all other leaves.
        missing: for each column where its cells are missing.
    """
    leaves: Leaves = {}
    for name, (leaf, bit) in missing_cells.places(rows).items():
        bits = leaves.setdefault(leaf, np.zeros(len(rows[name]), np.int32))
        if name in missing:
            bits |= missing[name].astype(np.int32) << bit
    return leaves


def stored(values: np.ndarray, missing: np.ndarray, column: Column) -> np.ndarray:
    """Return values within the bounds of the column: single precision, or the integer codes of categories."""
    filled = np.where(missing, column.stand_in, values)
    rounded = np.rint(filled) if column.kind in ("integer", "date") else filled
    clamped = np.clip(rounded, *column.bounds) + 0.0  # zero has one sign
    return clamped.astype(np.int32 if column.kind == "category" else np.float32)


def pad(column: Column) -> Mapping[str, float]:
    """Return what stands in places of a person that hold no row: values within the bounds, as any other."""
    return {"": column.stand_in, **({"_missing": 0.0} if column.missing == "indicator" else {})}


def numbers(name: str, kept: Any, column: Column, decimal: str = "") -> np.ndarray:
    """Return an Arrow column as numbers, or as codes of its categories; NaN where a cell is missing.

    Args:
        name: the column, for messages.
        kept: the Arrow column.
        column: what is stated of it.
        decimal: the decimal mark of numbers in texts, a point unless it is a comma.
    """
    if column.kind == "date" and isinstance(column.lower, date):
        kind = kept.type.value_type if arrow(".types").is_dictionary(kept.type) else kept.type
        if arrow(".types").is_temporal(kind):
            return _days(kept.cast(kind), column.lower)
        return read(kept, cells.days_since(column.lower, column.format))
    kind = value_type(name, kept.type)
    types = arrow(".types")
    if column.kind == "category":
        if types.is_boolean(kind):
            raise InvalidArgument(f"column {name!r} holds booleans and is stated as a category; state kind='boolean'")
        codes = {category: code for code, category in enumerate(column.categories)}
        return read(kept, cells.one_of(codes))
    if column.kind == "boolean":
        return read(kept, cells.truth(column.words))
    if types.is_dictionary(kept.type) or not (types.is_integer(kind) or types.is_floating(kind)):
        return read(kept, cells.number_with_comma if decimal == "," else cells.number)
    return kept.cast(arrow().float64(), safe=False).to_numpy()


def read(kept: Any, reading: cells.Reading) -> np.ndarray:
    """Return the reading of every cell of an Arrow column; each distinct cell is read once."""
    return np.concatenate([np.empty(0), *(_chunk(chunk, reading) for chunk in kept.chunks)])


def _chunk(chunk: Any, reading: cells.Reading) -> np.ndarray:
    encoded = chunk.dictionary_encode()
    distinct = [np.nan if cell is None else reading(cell) for cell in _cells(encoded.dictionary)]
    table = np.array([*distinct, np.nan], dtype=np.float64)
    places = encoded.indices.cast(arrow().int64()).fill_null(len(distinct))  # a null is the last entry, NaN
    return table[places.to_numpy(zero_copy_only=False)]


def _cells(values: Any) -> list[Any]:
    """Return cells as Python has them; of a text that is not UTF-8 its bytes, of times beyond a calendar a number."""
    types, pyarrow = arrow(".types"), arrow()
    if types.is_temporal(values.type):
        return [_time(cell) for cell in values]
    if not (types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type)):
        return values.to_pylist()
    return [cells.decoded(cell) for cell in values.cast(pyarrow.large_binary()).to_pylist()]


def _time(cell: Any) -> Any:
    try:
        return cell.as_py()
    except (ValueError, OverflowError, ArithmeticError):
        return cell.value


_A_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_EPOCH = date(1970, 1, 1).toordinal()
_CALENDAR = date.min.toordinal() - _EPOCH + 2, date.max.toordinal() - _EPOCH - 2


def _days(kept: Any, first: date) -> np.ndarray:
    """Return dates and times as days since the first one, by integers: of any cell, also beyond the year 9999."""
    types, pyarrow, kind = arrow(".types"), arrow(), kept.type
    if not (types.is_date(kind) or types.is_timestamp(kind)):  # times of a day, and how long something took
        return np.full(len(kept), np.nan)
    a_day = 1 if types.is_date32(kind) else _A_DAY[getattr(kind, "unit", "ms")]
    whole = kept.cast(pyarrow.int32() if types.is_date32(kind) else pyarrow.int64())
    missing = whole.is_null().to_numpy()
    numbers = whole.fill_null(0).cast(pyarrow.int64()).to_numpy()
    if getattr(kind, "tz", None):  # what day it was there
        most = np.iinfo(np.int64).max
        inside = np.clip(numbers, max(_CALENDAR[0] * a_day, -most), min(_CALENDAR[1] * a_day, most))
        there = arrow(".compute").local_timestamp(pyarrow.array(inside).cast(pyarrow.timestamp(kind.unit, kind.tz)))
        numbers = there.cast(pyarrow.int64()).to_numpy()
    days = numbers // a_day - (first.toordinal() - _EPOCH)
    return np.where(missing, np.nan, days.astype(np.float64))


def value_type(name: str, kept: Any) -> Any:
    """Return the type of the cells of an Arrow column, after refusing those that hold no number, truth value or text.

    Args:
        name: the column, for the message.
        kept: the Arrow type.
    """
    types = arrow(".types")
    kind = kept.value_type if types.is_dictionary(kept) else kept
    if types.is_temporal(kind):
        raise InvalidArgument(
            f"column {name!r} holds dates or times; state kind='date' with lower and upper, or add a column with "
            "a number, such as the age in years, and state that one"
        )
    known = ("boolean", "integer", "floating", "decimal", "string", "large_string", "string_view")
    binary = ("binary", "large_binary", "binary_view", "fixed_size_binary", "null")
    if not any(getattr(types, f"is_{each}")(kind) for each in (*known, *binary)):
        raise InvalidArgument(
            f"column {name!r} has a type that is neither a number, a boolean nor text; convert it to one of "
            "them, or leave it out of the schema"
        )
    return kind
