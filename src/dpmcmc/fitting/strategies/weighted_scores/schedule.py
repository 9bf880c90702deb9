"""The rows that each release of a weighted fit reads: all rows every time, or blocks in the pilot and all at the end.

Blocks are at public random positions, one in each stretch of the table, so that a sorted table does not mislead the
pilot. The two sets of blocks are disjoint: neighbours differ in at most one of them, so each can use the whole budget
of the pilot, and the larger cost counts (`Parallel`). The last releases read every row, including those of the blocks:
the posterior depends on a sum over all records, not on the blocks.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

GRID = 32768
"""Parts that a table is cut into, at most. Runs that draw other blocks cut at the same places."""

FEWEST, WIDTHS = 160, (4, 2, 1)
"""A block is as many parts as leave this number of blocks, if possible: fewer would be read in less time, but where a
table is sorted by its outcome a set of k blocks may see a share of the outcomes that is 1 / 2k off."""

LEAST_ROWS = 4
"""Of a block."""


@dataclass(frozen=True)
class Rows:
    """The rows that a release reads: all of them, or those of some cells of a public partition of their places."""

    share: float = 1.0
    """What of all places they are."""
    cuts: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()

    def of(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """Return the program restricted to these rows."""
        return OfCells(program, self.cuts, self.cells) if self.cells else program


EVERY_ROW = Rows()


@dataclass(frozen=True)
class OfCells:
    """A program that reads the rows of some cells: ``program(oracle, *arguments)``."""

    program: Callable[..., Any]
    cuts: tuple[int, ...]
    cells: tuple[int, ...]

    def __call__(self, oracle: Any, *arguments: Any) -> Any:
        """Ask them."""
        return self.program(oracle.shard(oracle.partition(self.cuts), self.cells), *arguments)


@dataclass(frozen=True)
class Shares:
    """Shares of the budget (mean privacy loss) by release."""

    histograms: tuple[float, float]
    """Of the response and of the columns."""
    pilot: float
    """The steps of the pilot together."""
    num_steps: int
    refinement: float
    """The steps after them together."""
    num_refinements: int
    final: float
    """The last releases together."""
    num_final: int
    look: float
    """Each of the two looks at residuals."""
    other: float
    """Scores with other bounds, at the end."""
    slope: float
    """What of the last releases' share their slope has, at least."""
    spacing: int = 1
    """The slope of the last release is that of one record of so many, at public places that are spread evenly."""


@dataclass(frozen=True)
class Schedule:
    """The rows that the pilot reads; the last releases read all of them."""

    shares: Shares
    pilot: Rows = EVERY_ROW
    """Of histograms and pilot."""
    refinement: Rows = EVERY_ROW
    """Of the steps after it, of the looks at residuals and of scores with other bounds."""

    @property
    def has_blocks(self) -> bool:
        """Whether the pilot reads blocks of rows."""
        return self.pilot is not EVERY_ROW

    @property
    def reads(self) -> float:
        """How many times the rows are read, those of blocks more often than the others: the mean over all."""
        pilot = 1 + self.shares.num_steps
        refinement = self.shares.num_refinements + 2 * (self.shares.look > 0) + 1
        return pilot * self.pilot.share + refinement * self.refinement.share + self.shares.num_final

    def words(self, num_rows: int) -> str:
        """Say which rows are read, and how often."""
        if not self.has_blocks:
            return f"All rows are read {self.reads:.0f} times"
        pilot, refinement = (
            f"{rows.share * num_rows:,.0f} in {len(rows.cells):,} blocks" for rows in (self.pilot, self.refinement)
        )
        times = {1: "once", 2: "twice"}[self.shares.num_final]
        return (
            f"All rows are read {times}. Before that, {pilot} and {refinement} at public random positions are a pilot: "
            f"{self.reads:.2g} reads per row on average"
        )


def blocks(num_places: int, shares: Sequence[float], seed: int) -> list[Rows]:
    """Return disjoint sets of blocks at random positions, each of them with one block in each of equal stretches.

    Args:
        num_places: the number of places.
        shares: the approximate shares of the places in each set; at most a half together.
        seed: the seed of the positions, which are public.
    """
    size = max(len(shares) + 1, min(GRID, num_places // LEAST_ROWS))
    owner = [-1] * size
    for number in sorted(range(len(shares)), key=lambda each: -shares[each]):
        width = next((one for one in WIDTHS if shares[number] * size >= one * FEWEST), 1)
        count, num_spans = max(1, round(shares[number] * size / width)), size // width
        random = _random_numbers(f"{seed} {number}", count)
        for stretch in range(count):
            spans = range(stretch * num_spans // count, (stretch + 1) * num_spans // count)
            parts = [slice(span * width, (span + 1) * width) for span in spans]
            free = [part for part in parts if max(owner[part]) < 0]
            if free:
                owner[free[random[stretch] % len(free)]] = [number] * width
    first = [place for place in range(size) if place == 0 or owner[place] != owner[place - 1]]
    cuts = tuple(place * num_places // size for place in first)
    lengths = [after - before for before, after in zip(cuts, (*cuts[1:], num_places), strict=True)]

    def rows(number: int) -> Rows:
        cells = tuple(cell for cell, place in enumerate(first) if owner[place] == number)
        return Rows(sum(lengths[cell] for cell in cells) / num_places, cuts[1:], cells)

    return [rows(number) for number in range(len(shares))]


def _random_numbers(seed: str, count: int) -> list[int]:
    """Return numbers of 64 bits that are the same wherever a run is resumed."""
    digest = hashlib.shake_256(seed.encode()).digest(8 * count)
    return [int.from_bytes(digest[8 * place : 8 * place + 8]) for place in range(count)]
