"""The columns that a formula may name, as public code reads them from one record."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Column, Schema

Record: TypeAlias = Mapping[str, Any]
"""One record: a number for each column, the code of its level for a category."""

MOST_LEVELS = 200
"""An integer column with more values than this is not read as a category."""


@dataclass(frozen=True)
class Category:
    """A column with finitely many public levels.

    Attributes:
        name: the column.
        levels: its levels; the first is the reference.
        first: the stored value of the first level, the others follow in steps of one.
    """

    name: str
    levels: tuple[str, ...]
    first: int = 0
    column: str = ""
    """The column that it is a function of, should it be one, and"""
    lookup: tuple[int, ...] = ()
    """the place of the level for each value of that column from zero up."""

    def code(self, record: Record) -> jax.Array:
        """Return the place of a record's level among the levels."""
        if self.lookup:
            value = jnp.round(jnp.asarray(record[self.column])).astype(jnp.int32)
            return jnp.asarray(self.lookup, jnp.int32)[jnp.clip(value, 0, len(self.lookup) - 1)]
        return jnp.round(jnp.asarray(record[self.name])).astype(jnp.int32) - self.first

    def one_hot(self, record: Record) -> jax.Array:
        """Return a vector with a one at the level of the record, without one if it has none of them."""
        return (self.code(record) == jnp.arange(len(self.levels))).astype(jnp.float32)


class Columns:
    """The columns of a schema by name, with those that say where a value is missing."""

    def __init__(self, schema: Schema) -> None:
        self.known = dict(schema.columns)
        for name, column in schema.columns.items():
            if column.missing == "indicator":
                self.known.setdefault(f"{name}_missing", Column(kind="boolean"))

    def __getitem__(self, name: str) -> Column:
        if name not in self.known:
            small = {known.lower(): known for known in self.known}
            near = difflib.get_close_matches(name.lower(), small, n=1)
            hint = f". Did you mean {small[near[0]]!r}?" if near else ""
            raise InvalidArgument(
                f"the formula has {name!r}, which is not a column of the schema; it has {', '.join(self.known)}{hint}"
            )
        return self.known[name]

    def number(self, name: str, record: Record) -> jax.Array:
        """Return the value of a column, moved into its bounds: what lies outside counts as the bound."""
        lower, upper = self[name].bounds
        return jnp.clip(jnp.asarray(record[name], jnp.float32), lower, upper)

    def category(self, name: str) -> Category:
        """Return a column as a category: one in the schema, a boolean, or an integer with few values."""
        column = self[name]
        if column.kind == "category":
            return Category(name, tuple(column.levels))
        if column.kind == "boolean":
            return Category(name, ("False", "True"))
        lower, upper = column.bounds
        if column.kind == "number" or upper - lower >= MOST_LEVELS or not lower.is_integer():
            validation.refuse(
                "column",
                name,
                f"is {column.kind} from {lower:g} to {upper:g} and no category; expected a category, a boolean, or an "
                f"integer column with at most {MOST_LEVELS} values. State its categories in the schema",
            )
        return Category(name, tuple(str(level) for level in range(int(lower), int(upper) + 1)), int(lower))
