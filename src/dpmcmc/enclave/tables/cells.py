"""What one cell of a table stands for: functions of that cell and of public words, and of nothing else.

A cell that is not a value of its column is missing, which is NaN here. Nothing is reported, counted or raised: that
would tell something about a row.
"""

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

Reading = Callable[[Any], float]
"""What a cell is stored as: a number, or NaN where the cell is missing."""


A_NUMBER = "\f"
"""A space, at the end of a text that was a number: its point is a decimal point, whatever the mark in texts is."""


def decoded(cell: Any) -> Any:
    """Return bytes as the text that they are; anything else, and bytes that are no text, as it is."""
    try:
        return cell.decode("utf-8") if isinstance(cell, bytes) else cell
    except UnicodeDecodeError:
        return cell


def text(cell: Any) -> str | None:
    """Return a cell as text without spaces around it, a whole number without a point; None if it is missing."""
    cell = decoded(cell)
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, str):
        cell = str.__str__(cell)  # of a class of its own, whose methods may be any
        return (cell if cell.isascii() else cell.encode("utf-8", "ignore").decode("utf-8")).strip() or None
    if type(cell).__name__ in ("bool", "bool_"):
        return "true" if cell else "false"
    if isinstance(cell, Integral | Real | Decimal):
        return _digits(cell)
    if isinstance(cell, date) and cell == cell:  # pandas' missing one is not
        return f"{cell.isoformat()[:10]}T"  # as no text of a day alone is written
    return None


def as_text(cell: Any) -> str | None:
    """Return a cell of a column of Python objects as text; behind a number that is not whole stands `A_NUMBER`.

    A Python object may raise anything when it is asked: then the cell is missing.
    """
    try:
        written = text(cell)
    except Exception:
        return None
    return f"{written}{A_NUMBER}" if written and "." in written and not isinstance(cell, str | bytes) else written


def _digits(cell: Any) -> str | None:
    try:
        if isinstance(cell, Integral):
            return str(int(cell))
        value = float(cell)
    except (ValueError, OverflowError):  # too long to be written down
        return None
    if math.isnan(value):
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def number(cell: Any) -> float:
    """Return a cell as a number; texts are read as Python reads them, and true and false are 1 and 0."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return {"true": 1.0, "false": 0.0}.get((text(cell) or "").lower(), math.nan)


def number_with_comma(cell: Any) -> float:
    """Return a cell as a number, where a comma is the decimal mark of texts, and a point is no part of a number."""
    if not isinstance(cell, str | bytes) or (isinstance(cell, str) and cell.endswith(A_NUMBER)):
        return number(cell)
    written = text(cell) or ""
    return math.nan if "." in written else number(written.replace(",", "."))


def days_since(first: date, written_as: str = "") -> Reading:
    """Return the reading of a column of dates: days since the first one, of a date, a time or a text.

    Args:
        first: the day that is zero.
        written_as: how texts write a day, for `datetime.strptime`; unless stated, they begin like 2024-02-29.
    """

    def days(cell: Any) -> float:
        if isinstance(cell, date):  # a datetime is one too
            return float(cell.toordinal() - first.toordinal())
        written = text(cell) or ""
        try:
            day = _day(written, written_as) if written_as and written[10:] != "T" else date.fromisoformat(written[:10])
            return float(day.toordinal() - first.toordinal())
        except (ValueError, OverflowError):
            return math.nan

    return days


def _day(written: str, written_as: str) -> date:
    return datetime.strptime(written, written_as)


def truth(words: Mapping[str, float]) -> Reading:
    """Return the reading of a boolean column, from what each word means in small letters; any other is missing."""

    def boolean(cell: Any) -> float:
        written = text(cell)
        return math.nan if written is None else words.get(written.lower(), math.nan)

    return boolean


def one_of(codes: Mapping[str, int]) -> Reading:
    """Return the reading of a categorical column: the code of a listed category; any other text is missing."""

    def category(cell: Any) -> float:
        written = text(cell)
        return math.nan if written is None else codes.get(written, math.nan)

    return category
