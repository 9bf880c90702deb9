"""A first draft of a schema from a file that its owner declares public.

Bounds and categories that are read off private rows tell about those rows: the highest income is somebody's. So this
is for public files alone, such as an earlier release or synthetic rows, and nothing else in this package calls it.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpmcmc.column import WORDS
from dpmcmc.enclave.tables import cells, columns, files
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.enclave.tables.readers import check_names
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column, Schema

MOST_CATEGORIES = 50
"""With more different texts than these a column is taken for names or keys."""

NOTHING = {"na", "n/a", "nan", "null", ".", "?"}
"""Texts that mean a missing value, in small letters; so does "none", among numbers and truth values."""


def schema_of_public_data(
    path: Path, person: str | None = None, max_rows_per_person: int = 1, delimiter: str = "", decimal: str = ""
) -> tuple[Schema, dict[str, str]]:
    """Guess the schema of a public file; return it with the columns that were left out and why.

    The other arguments are those of `Schema`.
    """
    paths = files.paths_of(path)
    names = files.column_names(paths[0], delimiter)
    check_names(f"source={str(path)!r}", names, [*names, *([] if person is None else [person])])
    for other in paths:
        check_names(f"source={str(other)!r}", files.column_names(other, delimiter), names)
    tables = [files.read_columns(each, names, delimiter) for each in paths]
    found: dict[str, Column] = {}
    left_out: dict[str, str] = {}
    for name in names:
        if name == person:
            continue
        guess = _column(name, [table.column(name) for table in tables], decimal)
        if isinstance(guess, Column):
            found[name] = guess
        else:
            left_out[name] = guess
    if not found:
        raise InvalidArgument(f"source={str(path)!r} has no column that a schema could state")
    return Schema(found, person, max_rows_per_person, delimiter, decimal), left_out


def _column(name: str, parts: list[Any], decimal: str) -> Column | str:
    """Return a column that holds all the cells, or why there is none."""
    texts: set[str] = set()
    missing = False

    def note(cell: Any) -> float:
        written = cells.text(cell)
        if written is None or written.lower() in NOTHING:
            return math.nan
        texts.add(written)
        return 0.0

    for part in parts:
        try:
            columns.value_type(name, part.type)
        except InvalidArgument as refusal:
            return str(refusal)
        noted = without_values(f"column {name!r} cannot be read", lambda part=part: columns.read(part, note))
        missing |= bool(np.isnan(noted).any())
    number = cells.number_with_comma if decimal == "," else cells.number
    none = {each for each in texts if each.lower() == "none"}
    are_words = all(each.lower() in WORDS for each in texts - none)
    are_numbers = all(math.isfinite(number(each)) for each in texts - none)
    if are_words or are_numbers:  # else it is a category, as of an insurance
        texts, missing = texts - none, missing or bool(none)
    if len(texts) < 2:
        return "it holds fewer than two different values"
    if are_words:
        return _boolean(missing)
    if are_numbers:
        return _number([number(each) for each in texts], missing)
    if len(texts) <= MOST_CATEGORIES:
        return Column(kind="category", categories=tuple(sorted(texts)), missing="category" if missing else "none")
    return f"it holds more than {MOST_CATEGORIES} different texts: names or keys?"


def _boolean(missing: bool) -> Column:
    return Column(kind="boolean", missing="indicator", fill=False) if missing else Column(kind="boolean")


def _number(values: list[float], missing: bool) -> Column | str:
    """Return a column of numbers, with bounds of two significant digits around all of them."""
    unit = 10.0 ** (math.floor(math.log10(max(abs(value) for value in values))) - 1)
    whole = all(value.is_integer() for value in values)
    unit = max(unit, 1.0) if whole else unit
    lower = float(f"{math.floor(min(values) / unit) * unit:.12g}")
    upper = float(f"{math.ceil(max(values) / unit) * unit:.12g}")
    kind = "integer" if whole else "number"
    try:
        bare = Column(kind=kind, lower=lower, upper=upper)
        return Column(kind=kind, lower=lower, upper=upper, missing="indicator", fill=bare.stand_in) if missing else bare
    except InvalidArgument as refusal:
        return str(refusal)
