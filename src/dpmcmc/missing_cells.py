"""Which cells of a row were missing: what the records of a table say of it beside their columns.

A missing cell is stored as a value within the bounds, as any other, so that every model can read it. That it was
missing is kept as well, as one bit, in further leaves of the record: a bit for each other leaf of a row, in the order
of the alphabet, `BITS` of them to a leaf, and set where the cell was missing. The names of these leaves say of how many
leaves they speak, so that a record that lost some of its columns is noticed. All this follows from the schema alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

BITS = 24
"""How many bits a leaf has: as many as a single-precision number keeps."""

_BEGINNING = "(missing cells "


class Place(NamedTuple):
    """Where it is said that a cell was missing: in which leaf of the record, and in which bit of it."""

    leaf: str
    bit: int


def is_hidden(leaf: str) -> bool:
    """Say whether a leaf holds such bits: models of rows pass it over."""
    return leaf.startswith(_BEGINNING)


def places(leaves: Iterable[str]) -> dict[str, Place]:
    """Return for each leaf of a row, those of bits aside, where it is said that it was missing."""
    names = sorted(name for name in leaves if not is_hidden(name))
    return {name: Place(_leaf(index // BITS, len(names)), index % BITS) for index, name in enumerate(names)}


def bounds(leaves: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return the leaves of bits that a row of such leaves has, with their bounds."""
    last = {place.leaf: place.bit for place in places(leaves).values()}
    return {leaf: (0.0, 2.0 ** (bit + 1) - 1) for leaf, bit in last.items()}


def _leaf(number: int, count: int) -> str:
    return f"{_BEGINNING}{number * BITS + 1}-{min((number + 1) * BITS, count)} of {count})"
