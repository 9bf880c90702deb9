"""Effects of groups: random intercepts and slopes over the levels of a category, or of several that are crossed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import jax
import jax.numpy as jnp

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Category, Columns, Record


@dataclass(frozen=True)
class GroupTerm:
    """A term with a bar, of one effect: ``(1|ward)``, ``(0 + age|ward)``, ``(1|region:ward)``.

    Attributes:
        factors: the columns behind the bar; of several each combination of their levels is a group.
        number: the column whose slope differs from group to group; None where the intercept does.
    """

    factors: tuple[str, ...]
    number: str | None = None

    @property
    def name(self) -> str:
        """The name of its parameters."""
        return f"{self.number or 1}|{':'.join(self.factors)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return self.factors if self.number is None else (*self.factors, self.number)


@dataclass(frozen=True)
class Groups:
    """The columns of a term with a bar, one for each group.

    Attributes:
        categories: of which the groups are levels, or combinations of levels.
        number: the column whose slope differs from group to group, scaled to [-1, 1]; None where the intercept does.
        centre: the middle of its bounds.
        half: half of their distance.
        known: the columns of the schema.
    """

    categories: tuple[Category, ...]
    number: str | None = None
    centre: float = 0.0
    half: float = 1.0
    known: Columns | None = None

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(":".join(levels) for levels in product(*(category.levels for category in self.categories)))

    @property
    def words(self) -> str:
        """What the effects are."""
        return "random intercepts" if self.number is None else f"random slopes of {self.number}"

    def one_hot(self, record: Record) -> jax.Array:
        """Return a vector with a one at the group of a record, without one if it is in none."""
        found = self.categories[0].one_hot(record)
        for category in self.categories[1:]:
            found = (found[:, None] * category.one_hot(record)).ravel()
        return found

    def place(self, record: Record) -> jax.Array:
        """Return the number of a record's group; -1 if it is in none."""
        found, is_in = jnp.int32(0), jnp.bool_(True)
        for category in self.categories:
            code, number = category.code(record), len(category.levels)
            found, is_in = found * number + code, is_in & (code >= 0) & (code < number)
        return jnp.where(is_in, found, -1)

    def multiplier(self, record: Record) -> jax.Array:
        """Return what the effect of a record's group is multiplied with: one, or the number of which it is a slope."""
        if self.number is None or self.known is None:
            return jnp.ones(())
        return jnp.clip((self.known.number(self.number, record) - self.centre) / self.half, -1.0, 1.0)

    def values(self, record: Record) -> jax.Array:
        """Return the columns of one record: what the effects of the groups are multiplied with."""
        return self.one_hot(record) if self.number is None else self.multiplier(record) * self.one_hot(record)

    def within(self, other: "Groups") -> list[list[int]] | None:
        """Return the groups in each one of another term whose groups these divide; None if it has no such."""
        names = [category.name for category in self.categories]
        coarse = [category.name for category in other.categories]
        if self.number != other.number or len(names) <= len(coarse) or not set(coarse) <= set(names):
            return None
        places = [names.index(name) for name in coarse]
        combinations = list(product(*(category.levels for category in self.categories)))
        return [
            [own for own, levels in enumerate(combinations) if tuple(levels[place] for place in places) == wanted]
            for wanted in product(*(category.levels for category in other.categories))
        ]


def read_groups(term: GroupTerm, columns: Columns) -> Groups:
    """Return the columns of a term with a bar.

    Raises:
        InvalidArgument: a column is none that such a term can have.
    """
    return of_number(term, tuple(columns.category(name) for name in term.factors), columns)


def of_number(term: GroupTerm, categories: tuple[Category, ...], columns: Columns) -> Groups:
    """Return the columns of a term with a bar, given the categories behind it."""
    if term.number is None:
        return Groups(categories)
    column = columns[term.number]
    if column.kind not in {"number", "integer", "boolean"}:
        raise InvalidArgument(
            f"({term.number}|{':'.join(term.factors)}) has a slope of {term.number!r}, whose kind is {column.kind!r}; "
            "expected a number, an integer or a boolean"
        )
    lower, upper = column.bounds
    if column.kind == "boolean":
        return Groups(categories, term.number, 0.0, 1.0, columns)
    return Groups(categories, term.number, (lower + upper) / 2, (upper - lower) / 2, columns)


def unit_of(name: str, half: float, persons: Mapping[str, Groups]) -> float:
    """Return what takes a parameter beside the coefficients to the scale of the results.

    Args:
        name: of the parameter.
        half: half the range of the response.
        persons: the effects of persons, whose standard deviations are such parameters.
    """
    own = persons.get(name.removesuffix("_sigma"))
    return half / own.half if own is not None else half if name == "sigma" else 1.0
