"""The response of a formula: checked against the schema, and read from a record as the family needs it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Category, Columns, Record
from dpmcmc.model.formula.families import FAMILIES
from dpmcmc.model.missing import is_missing
from dpmcmc.schema import MISSING_CATEGORY, Column


@dataclass(frozen=True)
class Response:
    """A response.

    Attributes:
        name: its column.
        kind: what its column holds, as the schema says.
        bounds: the bounds of its column.
        classes: its classes, where it has some; the first one is "no" for a binary response.
        centre: what is taken off, before it is
        half: divided by this; 0 and 1 for all that is no number.
        trials: the column with the number of trials, or that number.
        most_trials: the largest number of trials; 1 where there are none.
        read: reads it from a record.
        read_trials: reads the number of trials.
        required: the columns without which a row says nothing: its own and that of the trials, less those in which
            missing is a category like any other.
    """

    name: str
    kind: str
    bounds: tuple[float, float]
    classes: tuple[str, ...]
    centre: float
    half: float
    trials: str | int | None
    most_trials: float
    read: Callable[[Record], jax.Array]
    read_trials: Callable[[Record], jax.Array]
    required: tuple[str, ...]

    def is_there(self, record: Record) -> jax.Array:
        """Say whether a row of a table has a response. Records that say nothing of missing cells have one."""
        missing = jnp.bool_(False)
        for name in self.required:
            missing = missing | is_missing(name, record)
        return ~missing

    def stored(self, value: jax.Array) -> jax.Array:
        """Return drawn responses as a table holds them: within the bounds, and whole where they must be."""
        if self.kind == "category":
            return value.astype(jnp.int32)
        lower, upper = self.bounds
        shifted = value + lower if self.classes and self.kind == "integer" else self.centre + self.half * value
        kept = jnp.clip(shifted, lower, upper)
        return kept.astype(jnp.float32) if self.kind == "number" else jnp.round(kept).astype(jnp.float32)


def read_response(name: str, trials: str | None, family: str, columns: Columns, *, has_constant: bool) -> Response:
    """Check a response and return how it is read. A number is centred if the design has the constant in it."""
    column, needed = columns[name], FAMILIES[family].response
    problem = _PROBLEMS[needed](column)
    if problem:
        raise InvalidArgument(f"the response {name!r} is {_words(column)}; family={family!r} needs {problem}")
    if (trials is not None) != (needed == "proportion"):
        validation.refuse(
            "family",
            family,
            "has no trials; leave out '| trials(...)' or choose binomial"
            if trials
            else "needs the number of trials: write 'y | trials(n) ~ ...', n a column of integers or a number",
        )
    lower, upper = column.bounds
    centre, half = 0.0, 1.0
    if needed == "number":
        centre, half = ((lower + upper) / 2, (upper - lower) / 2) if has_constant else (0.0, max(-lower, upper))
    category = columns.category(name) if needed in {"classes", "order"} or column.kind == "category" else None
    number, most, read_trials = _trials(trials, columns)

    def read(record: Record) -> jax.Array:
        if category is not None:
            code = jnp.clip(category.code(record), 0, len(category.levels) - 1)
            return code.astype(jnp.float32) if needed == "binary" else code
        value = columns.number(name, record)
        if needed == "number":
            return (value - centre) / half
        return jnp.minimum(value, read_trials(record)) if needed == "proportion" else value

    classes = _classes(column, category)
    parts = (name, number) if isinstance(number, str) else (name,)
    required = tuple(part for part in parts if columns[part].missing != "category")
    return Response(name, column.kind, (lower, upper), classes, centre, half, number, most, read, read_trials, required)


def _classes(column: Column, category: Category | None) -> tuple[str, ...]:
    if category is not None:
        return category.levels
    return ("False", "True") if column.kind == "boolean" else ()


def _trials(trials: str | None, columns: Columns) -> tuple[str | int | None, float, Callable[[Record], jax.Array]]:
    if trials is None:
        return None, 1.0, lambda _: jnp.float32(1.0)
    if trials.isdigit():
        number = validation.integer("trials", int(trials), at_least=1)
        return number, float(number), lambda _: jnp.float32(number)
    column = columns[trials]
    if column.kind != "integer" or column.bounds[0] < 0:
        raise InvalidArgument(
            f"trials({trials}) is {_words(column)}; expected a number, or an integer column with lower >= 0"
        )
    return trials, column.bounds[1], lambda record: columns.number(trials, record)


def _words(column: Column) -> str:
    if column.kind == "category":
        return f"a category with {len(column.levels)} levels"
    if column.kind == "boolean":
        return "a boolean"
    lower, upper = column.bounds
    return f"{'an integer' if column.kind == 'integer' else 'a number'} between {lower:g} and {upper:g}"


def _number(column: Column) -> str:
    return "" if column.kind in {"number", "integer"} else "a number or an integer"


def _binary(column: Column) -> str:
    fits = column.kind == "boolean" or (column.kind == "category" and len(column.levels) == 2)
    return "" if fits else "a boolean or a category with two levels"


def _count(column: Column) -> str:
    fits = column.kind == "integer" and column.bounds[0] >= 0
    return "" if fits else "an integer with lower >= 0"


def _some_classes(column: Column) -> str:
    return "" if column.kind == "category" else "a category"


def _order(column: Column) -> str:
    if column.kind == "category" and MISSING_CATEGORY not in column.levels:
        return ""
    fits = column.kind == "integer" and math.isfinite(column.bounds[1] - column.bounds[0])
    return "" if fits else "a category without a level for missing values, its levels in order, or an integer"


_PROBLEMS: Mapping[str, Callable[[Column], str]] = {
    "number": _number,
    "binary": _binary,
    "count": _count,
    "proportion": _count,
    "classes": _some_classes,
    "order": _order,
}
