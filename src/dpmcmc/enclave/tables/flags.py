"""What is amiss with the cells of a table, as numbers that can be added up: for counts that are released with noise.

A cell is in order, or it is one of three: *missing* (blank), *unknown* (a text that is no value of the column: not
among its categories or words, no number), or *clamped* (a number outside the bounds). So a row has at most one flag a
column, and the norm of its flags is at most the root of the number of columns. A person has the mean of the flags of
all rows that the person owns, which by the triangle inequality is as short.
"""

from functools import partial
from typing import Any

import numpy as np

from dpmcmc.enclave.tables import cells, columns
from dpmcmc.enclave.tables.guard import without_values
from dpmcmc.enclave.tables.readers import arrow_tables, number_persons
from dpmcmc.schema import Column, Schema

MISSING, UNKNOWN, CLAMPED = "missing", "unknown", "clamped"


def flag_names(schema: Schema) -> list[tuple[str, str]]:
    """Return the flags of a row in their order: the column, and what may be amiss; numbers and dates may be clamped."""
    return [
        (name, problem)
        for name, column in schema.columns.items()
        for problem in (MISSING, UNKNOWN, *([CLAMPED] if column.kind in ("number", "integer", "date") else []))
    ]


def read_flags(source: Any, schema: Schema) -> np.ndarray:
    """Return the flags of every record, shape (records, flags): truth values of a row, or the means of a person's."""
    known: dict[str, int] = {}
    parts: list[np.ndarray] = []
    persons: list[np.ndarray] = []
    for table in arrow_tables(source, schema):
        made = {name: _flags(name, table.column(name), schema) for name in schema.columns}
        parts.append(np.stack([made[name][problem] for name, problem in flag_names(schema)], axis=1))
        if schema.person is not None:
            persons.append(number_persons(schema.person, table.column(schema.person), known))
    rows = np.concatenate(parts)
    return rows if schema.person is None else _means(rows, np.concatenate(persons), len(known))


def _flags(name: str, kept: Any, schema: Schema) -> dict[str, np.ndarray]:
    """Return where the cells of a column are missing, unknown or clamped; at most one of these each."""
    column, problem = schema.columns[name], f"column {name!r} cannot be read"
    values = without_values(problem, partial(columns.numbers, name, kept, column, schema.decimal))
    blank = np.isnan(without_values(problem, partial(columns.read, kept, _written)))
    return {
        MISSING: np.isnan(values) & blank,
        UNKNOWN: np.isnan(values) & ~blank,
        CLAMPED: without_values(problem, partial(_is_outside, values, column)),
    }


def _written(cell: Any) -> float:
    return np.nan if cells.text(cell) is None else 0.0


def _is_outside(values: np.ndarray, column: Column) -> np.ndarray:
    lower, upper = column.bounds
    rounded = np.rint(values) if column.kind == "integer" else values
    return (rounded < lower) | (rounded > upper)  # of a cell without a value neither


def _means(rows: np.ndarray, persons: np.ndarray, num_persons: int) -> np.ndarray:
    """Return the mean of each person's rows; rows of nobody do not count."""
    named = ~np.isnan(persons)
    owner = persons[named].astype(np.int64)
    totals = [np.bincount(owner, weights=flags, minlength=num_persons) for flags in rows[named].T]
    return (np.stack(totals, axis=1) / np.bincount(owner, minlength=num_persons)[:, None]).astype(np.float32)
