"""Terms of a formula as products of numbers and categories, and how many columns each category needs in them.

Numbers are columns, or expressions that are no plain product of columns, such as log(income). `blocks` codes categories
as every design matrix does: by indicators of all levels but the first, and of all levels where that adds something that
the earlier terms do not span.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import TypeAlias

import jax

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.bases import read_basis
from dpmcmc.model.formula.columns import Category, Columns, Record
from dpmcmc.model.formula.dates import read_calendar
from dpmcmc.model.formula.expression import Bounds, Expression, read_expression
from dpmcmc.model.formula.parse import unquoted

Monomial: TypeAlias = tuple[frozenset[tuple[str, int]], frozenset[tuple[str, int]]]
"""A product of powers of numbers and of indicators of levels, each by its name."""

CONSTANT: Monomial = (frozenset(), frozenset())


@dataclass(frozen=True)
class Number:
    """A number of a record. A flag is zero or one, and stays so; others are scaled."""

    name: str
    bounds: Bounds
    is_flag: bool
    evaluate: Callable[[Record], jax.Array]

    @property
    def centre(self) -> float:
        """What is taken off."""
        return 0.0 if self.is_flag else (self.bounds[0] + self.bounds[1]) / 2

    @property
    def half(self) -> float:
        """What it is divided by."""
        return 1.0 if self.is_flag else (self.bounds[1] - self.bounds[0]) / 2


@dataclass(frozen=True)
class Term:
    """One term: numbers with their powers, categories, and how the two are written in order."""

    label: str
    written: str
    parts: tuple[str | Category, ...]
    powers: Mapping[str, int]
    numbers: Mapping[str, Number]
    columns: frozenset[str]
    sd: float | None = None
    """The default standard deviation of its coefficients in those of slopes, should it be another."""
    step: tuple[str, str] | None = None
    """How a monotonic effect is written and the level that this is a step of it to, should it be one, or a product."""

    @property
    def categories(self) -> tuple[Category, ...]:
        """The categories that are multiplied."""
        return tuple(part for part in self.parts if isinstance(part, Category))


@dataclass(frozen=True)
class Block:
    """Columns of the design: a product of numbers with the indicators of the levels of categories.

    Attributes:
        term: where it comes from.
        categories: the categories whose levels are told apart, each with the place of its first indicator: 0 or 1.
    """

    term: Term
    categories: tuple[tuple[Category, int], ...]

    def names(self) -> Iterator[str]:
        """Return the names of the columns, as in ``age:ward[b]``."""
        kept = {category.name for category, _ in self.categories}
        parts = [part for part in self.term.parts if not isinstance(part, Category) or part.name in kept]
        choices = [
            [f"{part.name}[{level}]" for level in part.levels[self._first(part) :]]
            if isinstance(part, Category)
            else [part]
            for part in parts
        ]
        for chosen in product(*choices):
            yield ":".join(chosen) or "intercept"

    def levels(self) -> Iterator[frozenset[tuple[str, int]]]:
        """Return for each column the levels that it is the indicator of."""
        choices = [
            [(category.name, level) for level in range(first, len(category.levels))]
            for category, first in self.categories
        ]
        return (frozenset(chosen) for chosen in product(*choices))

    def _first(self, category: Category) -> int:
        return next(first for other, first in self.categories if other.name == category.name)


def read_terms(factors: Sequence[str], columns: Columns) -> list[Term]:
    """Read the factors of a term: one term, or as many as splines and the like have columns."""
    bases = [read_basis(factor, columns) if _is_call(factor) else None for factor in factors]
    choices = [
        [(factor, 1.0)]
        if basis is None
        else list(zip(basis.columns, basis.sds or [1.0] * len(basis.columns), strict=True))
        for factor, basis in zip(factors, bases, strict=True)
    ]
    written = ":".join(factors)
    both = zip(factors, bases, strict=True)
    monotone = next(((factor, basis) for factor, basis in both if basis and basis.levels), None)
    if monotone is not None and sum(basis is not None for basis in bases) > 1:
        raise InvalidArgument(
            f"the formula has {written}; a monotonic effect mo(...) may be multiplied by numbers, booleans and "
            "categories alone. Write steps(x) or C(x), which may be multiplied by anything"
        )
    terms = [
        replace(_read_term([factor for factor, _ in chosen], columns), written=written, sd=prod(sd for _, sd in chosen))
        for chosen in product(*choices)
    ]
    if monotone is not None:
        called, levels = monotone[0].replace(" ", ""), monotone[1].levels
        return [replace(term, sd=None, step=(called, level)) for term, level in zip(terms, levels, strict=True)]
    has_own = any(basis is not None and basis.sds is not None for basis in bases)
    return terms if has_own else [replace(term, sd=None) for term in terms]


def _read_term(factors: Sequence[str | Expression], columns: Columns) -> Term:
    """Read the factors of a term, some of which may have been read already."""
    parts: list[str | Category] = []
    powers: dict[str, int] = {}
    numbers: dict[str, Number] = {}
    reads: set[str] = set()
    for factor in factors:
        category = _category(factor, columns) if isinstance(factor, str) else None
        if category is not None:
            parts.append(category)
            reads.add(category.column or category.name)
            continue
        expression = read_expression(factor, columns) if isinstance(factor, str) else factor
        reads |= expression.columns
        parts.append(expression.text)
        if expression.powers is None:
            text, is_flag = expression.text, expression.is_flag
            numbers[text] = Number(text, expression.bounds, is_flag, expression.evaluate)
            powers[text] = 1 if is_flag else powers.get(text, 0) + 1
            continue
        for name, power in expression.powers.items():
            is_flag = columns[name].kind == "boolean"
            numbers[name] = Number(name, columns[name].bounds, is_flag, _reader(columns, name))
            powers[name] = 1 if is_flag else powers.get(name, 0) + power
    categories = [part.name for part in parts if isinstance(part, Category)]
    if len(set(categories)) < len(categories):
        raise InvalidArgument(f"the formula has the term {':'.join(map(str, factors))}, which has a category twice")
    label = ":".join(part.name if isinstance(part, Category) else part for part in parts)
    return Term(label, label, tuple(parts), powers, numbers, frozenset(reads))


def _reader(columns: Columns, name: str) -> Callable[[Record], jax.Array]:
    return lambda record: columns.number(name, record)


def _is_call(factor: str) -> bool:
    """Return whether a factor may be a function of columns rather than a column."""
    return "(" in factor


def _category(factor: str, columns: Columns) -> Category | None:
    """Return a factor as a category, or None if it is a number."""
    calendar = read_calendar(factor, columns) if _is_call(factor) else None
    if calendar is not None:
        return calendar
    if factor.startswith("C(") and factor.endswith(")"):
        name = unquoted(factor[2:-1])
        if name not in columns.known and "," in name:
            validation.refuse(
                "factor",
                factor,
                "must be C(column): categories are coded by indicators against the first one; to compare with another "
                "category put that one first in the schema",
            )
        return columns.category(name)
    name = unquoted(factor)
    is_column = name in columns.known or factor.startswith("`") or factor.isidentifier()
    return columns.category(name) if is_column and columns[name].kind == "category" else None


def blocks(terms: Sequence[Term], has_intercept: bool) -> list[Block]:
    """Return the columns that the terms need, none of which the others span."""
    found: list[Block] = []
    spanned: dict[frozenset[tuple[str, int]], set[frozenset[str]]] = {}
    if has_intercept:
        found.append(Block(Term("intercept", "1", (), {}, {}, frozenset()), ()))
        spanned[frozenset()] = {frozenset()}
    for term in terms:
        own = spanned.setdefault(frozenset(term.powers.items()), set())
        names = [category.name for category in term.categories]
        subsets = [frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]
        new = [subset for subset in subsets if subset not in own]
        if not new:
            raise InvalidArgument(f"the formula has the term {term.written}, which earlier terms amount to already")
        own.update(new)
        for reduced, full in _merged([(subset, frozenset[str]()) for subset in new]):
            coded = [category for category in term.categories if category.name in reduced | full]
            found.append(Block(term, tuple((category, 0 if category.name in full else 1) for category in coded)))
    return found


_Coding: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The categories that are coded without their first level, and those with it."""


def _merged(codings: list[_Coding]) -> list[_Coding]:
    """Merge codings that differ in one category: without it, and with all of its levels but the first."""
    for place, (reduced, full) in enumerate(codings):
        for later in range(place + 1, len(codings)):
            longer, longer_full = codings[later]
            added = longer - reduced
            if full == longer_full and reduced < longer and len(added) == 1:
                merged = [*codings[:later], (reduced, full | added), *codings[later + 1 :]]
                return _merged(merged[:place] + merged[place + 1 :])
    return codings
