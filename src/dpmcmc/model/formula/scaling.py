"""Scale the columns of a design to [-1, 1], by bounds alone, without changing what the design can express.

A power or an interaction of centred numbers, ((x - m) / h)^2 say, is far less entangled with its main effects than one
of the numbers themselves; but it is another model where the formula leaves a main effect out. So a block of columns is
made of centred numbers if what comes out on expanding is in the span of the other columns; otherwise it is the product
of the numbers as they are, scaled as a whole, and centred if the span allows it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.model.formula.columns import Record
from dpmcmc.model.formula.terms import Block, Monomial, Number

Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Powers: TypeAlias = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Span:
    """What the unscaled columns of a design can express.

    Attributes:
        places: where each column stands.
        num_levels: how many levels each category has.
    """

    places: Mapping[Monomial, int]
    num_levels: Mapping[str, int]

    def express(self, monomial: Monomial) -> Vector | None:
        """Return a product of numbers and indicators as a combination of the columns, or None."""
        powers, levels = monomial
        if monomial in self.places:
            unit: Vector = np.zeros(len(self.places))
            unit[self.places[monomial]] = 1.0
            return unit
        for name, level in sorted(levels):
            if level == 0:  # the first level is what the others leave over
                rest = levels - {(name, level)}
                others = [(powers, rest | {(name, other)}) for other in range(1, self.num_levels[name])]
                found = [self.express(part) for part in [(powers, rest), *others]]
                if all(part is not None for part in found):
                    whole, *parts = [part for part in found if part is not None]
                    return whole - sum(parts, start=np.zeros(len(self.places)))
        for name in sorted(set(self.num_levels) - {name for name, _ in levels}):
            every = [(powers, levels | {(name, level)}) for level in range(self.num_levels[name])]
            if all(part in self.places for part in every):
                total: Vector = np.zeros(len(self.places))
                total[[self.places[part] for part in every]] = 1.0
                return total
        return None


@dataclass(frozen=True)
class ScaledBlock:
    """A block of columns with its numbers scaled.

    Attributes:
        block: the block.
        evaluate: computes the product of the numbers, scaled, a number in [-1, 1].
        expansion: each column as a combination of the unscaled columns of the design.
        words: how it is scaled, for people; empty if it is not.
    """

    block: Block
    evaluate: Callable[[Record], jax.Array]
    expansion: tuple[Vector, ...]
    words: str

    def values(self, record: Record) -> jax.Array:
        """Return the columns of one record."""
        values = jnp.reshape(self.evaluate(record), (1,))
        for category, first in self.block.categories:
            values = jnp.ravel(values[:, None] * category.one_hot(record)[first:])
        return values


def scale(blocks: Sequence[Block], span: Span) -> list[ScaledBlock]:
    """Scale every block."""
    return [_scale(block, span) for block in blocks]


def unscaled(block: Block) -> Iterator[Monomial]:
    """Return the columns of a block as they are without scaling."""
    powers = frozenset(block.term.powers.items())
    return ((powers, levels) for levels in block.levels())


def _scale(block: Block, span: Span) -> ScaledBlock:
    term = block.term
    flags = [number for number in term.numbers.values() if number.is_flag]
    numbers = [(number, term.powers[name]) for name, number in term.numbers.items() if not number.is_flag]
    kept = frozenset((flag.name, 1) for flag in flags)
    lower, upper = _bounds(numbers)
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    whole = frozenset((number.name, power) for number, power in numbers) | kept
    ways: list[tuple[Callable[[Record], jax.Array], dict[Powers, float], str]] = []
    if not numbers:
        ways.append((lambda record: _product(flags, record), {kept: 1.0}, ""))
    elif len(numbers) == 1 and numbers[0][1] == 1:
        alone = len(term.parts) == 1
        words = f"({term.label} - {centre:g}) / {half:g}" if alone else f"centred at {centre:g}, over {half:g}"
        ways.append(_shifted(numbers, flags, centre, half, {whole: 1 / half, kept: -centre / half}, words))
    else:
        if not term.step:  # of centred columns the steps of a main effect would not be in one proportion any more
            each = [(Number(n.name, n.bounds, False, _standard(n)), power) for n, power in numbers]
            ways.append(_shifted(each, flags, 0.0, 1.0, _expand(numbers, kept), "a product of scaled columns"))
        words = f"centred at {centre:g}, over {half:g}"
        ways.append(_shifted(numbers, flags, centre, half, {whole: 1 / half, kept: -centre / half}, words))
    for evaluate, polynomial, words in ways:
        expansion = _expansion(block, polynomial, span)
        if expansion is not None:
            return ScaledBlock(block, evaluate, expansion, words)
    largest = max(abs(lower), abs(upper))
    evaluate, polynomial, words = _shifted(numbers, flags, 0.0, largest, {whole: 1 / largest}, f"over {largest:g}")
    expansion = _expansion(block, polynomial, span)
    assert expansion is not None, "a column spans itself"  # noqa: S101
    return ScaledBlock(block, evaluate, expansion, words)


def _expansion(block: Block, polynomial: Mapping[Powers, float], span: Span) -> tuple[Vector, ...] | None:
    """Return each column of a block as a combination of unscaled columns, or None if one of them is none."""
    columns: list[Vector] = []
    for levels in block.levels():
        total: Vector = np.zeros(len(span.places))
        for powers, coefficient in polynomial.items():
            expressed = span.express((powers, levels))
            if expressed is None:
                return None
            total = total + coefficient * expressed
        columns.append(total)
    return tuple(columns)


def _shifted(
    numbers: Sequence[tuple[Number, int]],
    flags: Sequence[Number],
    centre: float,
    half: float,
    polynomial: dict[Powers, float],
    words: str,
) -> tuple[Callable[[Record], jax.Array], dict[Powers, float], str]:
    def evaluate(record: Record) -> jax.Array:
        value = jnp.float32(1.0)
        for number, power in numbers:
            value = value * number.evaluate(record) ** power
        return (value - centre) / half * _product(flags, record)

    return evaluate, polynomial, words


def _product(flags: Sequence[Number], record: Record) -> jax.Array:
    value = jnp.float32(1.0)
    for flag in flags:
        value = value * flag.evaluate(record)
    return value


def _standard(number: Number) -> Callable[[Record], jax.Array]:
    return lambda record: (number.evaluate(record) - number.centre) / number.half


def _expand(numbers: Sequence[tuple[Number, int]], kept: Powers) -> dict[Powers, float]:
    """Expand the product of ((x - m) / h)^p into powers of the numbers themselves."""
    expanded: dict[Powers, float] = {}
    for chosen in product(*(range(power + 1) for _, power in numbers)):
        coefficient = prod(
            comb(power, own) * (-number.centre) ** (power - own) / number.half**power
            for (number, power), own in zip(numbers, chosen, strict=True)
        )
        powers = frozenset((number.name, own) for (number, _), own in zip(numbers, chosen, strict=True) if own)
        if coefficient:
            expanded[powers | kept] = coefficient
    return expanded


def _bounds(numbers: Sequence[tuple[Number, int]]) -> tuple[float, float]:
    """Return the bounds of a product of powers."""
    lower, upper = 1.0, 1.0
    for number, power in numbers:
        ends = [end**power for end in number.bounds]
        if power % 2 == 0 and number.bounds[0] < 0 < number.bounds[1]:
            ends.append(0.0)
        corners = [first * second for first in (lower, upper) for second in (min(ends), max(ends))]
        lower, upper = min(corners), max(corners)
    return lower, upper
