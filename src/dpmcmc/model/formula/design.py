"""The design of a formula: its columns are known from the schema, and a row is computed from one record."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.scaling import ScaledBlock, Span, Vector, scale, unscaled
from dpmcmc.model.formula.terms import CONSTANT, Block, blocks, read_terms


class Step(NamedTuple):
    """One step of a monotonic effect: the level that it leads to, and what its share of the effect is called."""

    level: str
    share: str


Steps: TypeAlias = dict[str, Step]
"""Those of one effect, by the names of their columns."""

SHARE = "_share"
"""What follows the name of a monotonic effect in those of its shares."""


@dataclass(frozen=True)
class Design:
    """The columns of a formula, scaled.

    Attributes:
        blocks: the columns, term by term, the intercept first.
        constant: the constant as a combination of the unscaled columns; None if they do not span it.
    """

    blocks: tuple[ScaledBlock, ...]
    constant: Vector | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns. A slash becomes a division sign: files of draws have no slash in names."""
        return tuple(without_slash(name) for block in self.blocks for name in block.block.names())

    @cached_property
    def terms(self) -> tuple[tuple[str, ...], ...]:
        """For each column what its term is called: as it is read, and as it was written."""
        return tuple(
            (without_slash(block.block.term.label), without_slash(block.block.term.written.replace(" ", "")))
            for block in self.blocks
            for _ in block.block.names()
        )

    @cached_property
    def sds(self) -> dict[str, float]:
        """The default standard deviations of some columns' coefficients, in those of slopes."""
        own = {name: block.block.term.sd for block in self.blocks for name in block.block.names()}
        return {without_slash(name): sd for name, sd in own.items() if sd is not None}

    @cached_property
    def steps(self) -> dict[str, Steps]:
        """The columns of monotonic effects by what each effect is called, such as ``mo(grade):ward[b]``."""
        found: dict[str, Steps] = {}
        for name, block in zip(self.names, self.blocks_of_columns, strict=True):
            if block.block.term.step is not None:
                called, level = (without_slash(part) for part in block.block.term.step)
                effect = name.replace(f"{called}[{level}]", called, 1)
                share = name.replace(called, f"{called}{SHARE}", 1)
                found.setdefault(effect, {})[name] = Step(level, share)
        return found

    @property
    def blocks_of_columns(self) -> list[ScaledBlock]:
        """The block of each column."""
        return [block for block in self.blocks for _ in block.block.names()]

    @cached_property
    def to_unscaled(self) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        """The matrix that takes coefficients of the scaled columns to those of the unscaled ones."""
        return np.stack([column for block in self.blocks for column in block.expansion], axis=1)


def build_design(
    terms: Sequence[Sequence[str]], has_intercept: bool, columns: Columns
) -> tuple[Design, frozenset[str]]:
    """Return the design of some terms, and the columns that it reads."""
    read = [term for factors in terms for term in read_terms(factors, columns)]
    coded = blocks(read, has_intercept)
    span = _span(coded)
    design = Design(tuple(scale(coded, span)), span.express(CONSTANT))
    repeated = sorted({name for name in design.names if design.names.count(name) > 1})
    if repeated:
        raise InvalidArgument(f"the formula makes two columns of the name {', '.join(repeated)}; rename one of them")
    return design, frozenset[str]().union(*(term.columns for term in read))


def without_slash(name: str) -> str:
    """Return a name that a file of draws can have: with a division sign instead of a slash."""
    return name.replace("/", "∕")


def _span(coded: Sequence[Block]) -> Span:
    columns = [monomial for block in coded for monomial in unscaled(block)]
    num_levels = {category.name: len(category.levels) for block in coded for category in block.term.categories}
    return Span({monomial: place for place, monomial in enumerate(columns)}, num_levels)
