"""Tables that people read: a DataFrame that keeps every digit and prints the few that mean something.

Numbers of a row are printed with as many decimals as give its standard deviation two digits: what lies below is not
known. No column is ever left out, and a table of parameters with names of usual length fits 80 characters.
"""

import math
from html import escape
from numbers import Integral, Real
from textwrap import wrap
from typing import Any

import pandas as pd

from dpmcmc.diagnostics.summary import SOURCES

WIDTH = 80
MOST_ROWS = 60
MOST_DECIMALS = 7
ESTIMATES = ("mean", "sd", "first", "second", "difference")
"""Columns that are printed with the decimals that their row's standard deviation gives; quantiles are as well."""

TITLE = "title"
"""Where the words above a table are kept, in its `attrs`."""


class SummaryTable(pd.DataFrame):
    """A DataFrame as any other, printed to be read; ``to_csv`` and the cells have all digits."""

    @property
    def _constructor(self) -> "type[SummaryTable]":  # what pandas makes of a part of it
        return SummaryTable

    @property
    def title(self) -> str:
        """What stands above the table when it is printed."""
        return str(self.attrs.get(TITLE, ""))

    def __repr__(self) -> str:
        shown = self.head(MOST_ROWS)
        columns = [_texts(shown.index.get_level_values(level), name) for level, name in enumerate(shown.index.names)]
        columns += [[str(name), *texts] for name, texts in _cells(shown).items()]
        lines = _lines(columns, num_left=shown.index.nlevels)
        left = len(self) - len(shown)
        return "\n".join([*wrap(self.title, WIDTH), *lines, *([f"... and {left} more"] if left else [])])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        shown = self.head(MOST_ROWS)
        texts = pd.DataFrame({str(name): each for name, each in _cells(shown).items()}, index=shown.index)
        left = len(self) - len(shown)
        more = f"<p>... and {left} more</p>" if left else ""
        title = f"<p>{escape(self.title)}</p>" if self.title else ""
        return f"<div>{title}{texts.to_html(border=0)}{more}</div>"


def titled(table: pd.DataFrame, title: str) -> SummaryTable:
    """Return a table with words above it."""
    made = SummaryTable(table)
    made.attrs[TITLE] = title
    return made


def _texts(values: Any, name: Any) -> list[str]:
    return ["" if name is None else str(name), *(_plain(value) for value in values)]


def _cells(table: pd.DataFrame) -> dict[Any, list[str]]:
    """Return the texts of each column."""
    spreads: list[Any] = list(table["sd"]) if "sd" in table else [math.nan] * len(table)
    decimals = [_decimals(spread) for spread in spreads]
    made: dict[Any, list[str]] = {}
    for place, name in enumerate(table.columns):
        values: list[Any] = list(table.iloc[:, place])
        made[name] = [_cell(str(name), value, digits) for value, digits in zip(values, decimals, strict=True)]
    return made


def _decimals(spread: Any) -> int | None:
    """Return the decimals with which a standard deviation has two digits."""
    if not isinstance(spread, Real) or not 0 < float(spread) < math.inf:
        return None
    return min(max(1 - math.floor(math.log10(float(spread))), 0), MOST_DECIMALS)


def _cell(column: str, value: Any, decimals: int | None) -> str:
    if isinstance(value, bool | str) or not isinstance(value, Real):
        return str(value)
    number = float(value)
    if math.isnan(number):
        return "-"
    if column in SOURCES or column.startswith("P("):
        return f"{100 * number:.0f}%" if column in SOURCES else f"{number:.3f}"
    if column == "r_hat":
        return f"{number:.2f}"
    if column == "ess_bulk" or isinstance(value, Integral):
        return f"{number:.0f}"
    estimates = column in ESTIMATES or column[:1] == "q"
    return f"{number:.{decimals}f}" if estimates and decimals is not None else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool | Integral) or not isinstance(value, Real):
        return str(value)
    return f"{float(value):.0f}" if 1000 <= abs(float(value)) < 1e15 else f"{float(value):.4g}"


def _lines(columns: list[list[str]], num_left: int) -> list[str]:
    """Set columns beside each other, two blanks apart if they fit so, else one."""
    widths = [max(map(len, column)) for column in columns]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
    return [
        gap.join(
            text.ljust(width) if place < num_left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in zip(*columns, strict=True)
    ]
