"""Public cuts of the places in which records stand.

A place is where a record stands in one placement: in the slots of one vault, say (docs/accounting.md). Neighbours
differ in what one place holds, hence in one cell of every partition.
"""

import math
import re
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, cast

from dpmcmc import validation
from dpmcmc.accounting import fields
from dpmcmc.errors import InvalidArgument

MOST_CELLS = 64
"""How many cells partitions of different places may have together."""


@dataclass(frozen=True, order=True)
class Partition:
    """Disjoint cells of places: cell i holds the places from cuts[i] up to cuts[i + 1], which is not in it.

    Attributes:
        cuts: 0, then ever larger places, and at last how many places there are.
        places: which places are cut: 32 random hexadecimal digits that stand for one way of placing records, such as
            the slots of one vault. Where a record stands under one id says nothing about where it stands under another.
            Empty for positions that whoever books them answers for: that they mean the same record in every run. No
            vault does; they mean nothing under add-or-remove-one.
    """

    cuts: tuple[int, ...]
    places: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.cuts, str) or not isinstance(self.cuts, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            validation.refuse("cuts", self.cuts, "must be a sequence of integers")
        cuts = tuple(fields.times("cuts", cut, at_least=0) for cut in self.cuts)
        if len(cuts) < 2 or cuts[0] != 0 or any(left >= right for left, right in pairwise(cuts)):
            raise InvalidArgument(
                "cuts must start with 0, grow, and end with the number of places: cells may not overlap or be empty"
            )
        object.__setattr__(self, "cuts", cuts)
        if self.places != "" and not (isinstance(self.places, str) and re.fullmatch("[0-9a-f]{32}", self.places)):  # pyright: ignore[reportUnnecessaryIsInstance]  # it may come from a file
            validation.refuse("places", self.places, "must be empty, or 32 hexadecimal digits drawn at random")

    @classmethod
    def with_random_id(cls, cells: int) -> "Partition":
        """Return a partition into cells that are not known by position: each is a place of its own."""
        return cls(tuple(range(validation.integer("cells", cells, at_least=1) + 1)), secrets.token_hex(16))

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.cuts) - 1

    @property
    def numbering(self) -> tuple[str, int]:
        """Which places are cut: tables of different lengths have no position in common."""
        return self.places, self.cuts[-1]

    def words(self, cell: int) -> str:
        """Say which places a cell holds."""
        first, last = self.cuts[cell], self.cuts[cell + 1] - 1
        where = f"place {first}" if first == last else f"places {first} to {last}"
        return f"{where} of {self.places[:8]}" if self.places else where

    def to_dict(self) -> dict[str, Any]:
        """Return the partition as plain values, ready for JSON."""
        return {"cuts": list(self.cuts), "places": self.places}

    @staticmethod
    def from_dict(plain: object) -> "Partition":
        """Build the partition that `to_dict` described."""
        values: Mapping[str, Any] = cast(Any, plain) if isinstance(plain, Mapping) else {}
        if set(values) != {"cuts", "places"} or not isinstance(values["cuts"], list):
            raise InvalidArgument("a partition has a list of 'cuts' and its 'places', and nothing else")
        return Partition(tuple(cast(list[int], values["cuts"])), values["places"])


def refine(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the coarsest partitions of which all given ones are unions: one for each way of numbering places.

    Cuts of the same places are taken together. Partitions of different places are not: a record may stand in any cell
    of each, so that their cells multiply, and soon there are too many (`are_too_many`).
    """
    cuts: dict[tuple[str, int], set[int]] = {}
    for partition in partitions:
        cuts.setdefault(partition.numbering, set()).update(partition.cuts)
    return tuple(Partition(tuple(sorted(cuts[which])), which[0]) for which in sorted(cuts))


def are_too_many(partitions: Sequence[Partition]) -> bool:
    """Say whether partitions of different places have more cells together than are told apart."""
    return len(partitions) > 1 and num_cells(partitions) > MOST_CELLS


def num_cells(partitions: Iterable[Partition]) -> int:
    """Return how many cells partitions have together: one from each."""
    return math.prod(partition.size for partition in partitions)


def locate(fine: Sequence[Partition], coarse: Sequence[Partition]) -> list[int]:
    """Return for each cell of `fine` the number of the cell of `coarse` that it is part of.

    Cells are numbered with that of the last partition running fastest. Every cut of `coarse` must be one of `fine`.
    """
    steps: dict[tuple[str, int], list[int]] = {}
    stride = 1
    for partition in reversed(coarse):
        finer = next(one for one in fine if one.numbering == partition.numbering)
        steps[partition.numbering] = [stride * (bisect_right(partition.cuts, cut) - 1) for cut in finer.cuts[:-1]]
        stride *= partition.size
    return [sum(cell) for cell in product(*(steps.get(one.numbering, [0] * one.size) for one in fine))]


def is_cut_from(fine: Sequence[Partition], coarse: Sequence[Partition]) -> bool:
    """Say whether every cut of `coarse` is one of `fine`."""
    known = {partition.numbering: set(partition.cuts) for partition in fine}
    return all(set(partition.cuts) <= known.get(partition.numbering, set()) for partition in coarse)
