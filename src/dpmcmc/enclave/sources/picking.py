"""The rows at some places of a table, one after the other: dense chunks, whatever lies between the places."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from dpmcmc.enclave.sources.chunking import num_rows, regrouped
from dpmcmc.enclave.sources.contract import changed
from dpmcmc.enclave.tables.columns import Leaves

Item = TypeVar("Item")

Intervals = Sequence[tuple[int, int]]
"""Places from the first of each pair up to the second, which is not among them; in their order, and none twice."""


def picked(source: Any, intervals: Intervals, rows: int, lead: int = 0) -> Iterator[Leaves]:
    """Return the rows of a source at some places, in chunks, of which the first begins with empty rows.

    Args:
        source: a `Source`; where it has a method of this name, that is used, since it reads less beside these places.
        intervals: the places.
        rows: how many rows a chunk has; the last may have fewer.
        lead: how many empty rows there are before the first.
    """
    if hasattr(source, "picked"):
        return source.picked(intervals, rows, lead)
    return regrouped(_parts(source, intervals, rows), rows, lead=lead)


def within(intervals: Intervals, start: int, end: int) -> list[tuple[int, int]]:
    """Return the places from `start` to `end`, counted from `start`."""
    inside: list[tuple[int, int]] = []
    for low, high in intervals[bisect_right(intervals, start, key=lambda each: each[1]) :]:
        if low >= end:
            break
        inside.append((max(low, start) - start, min(high, end) - start))
    return inside


def num_before(intervals: Intervals, end: int) -> int:
    """Return how many of the places come before one."""
    return sum(high - low for low, high in within(intervals, 0, end))


def after(intervals: Intervals, count: int) -> list[tuple[int, int]]:
    """Return the places without the given number of the first."""
    left: list[tuple[int, int]] = []
    for low, high in intervals:
        passed = min(count, high - low)
        count -= passed
        if low + passed < high:
            left.append((low + passed, high))
    return left


def pieces(
    items: Iterable[Item], intervals: Intervals, length: Callable[[Item], int], at: int = 0
) -> Iterator[tuple[Item, int, int]]:
    """Yield what lies at some places of items: the item, and its rows from one to before another.

    Args:
        items: chunks or batches, which stand one after the other. After the last place none is read.
        intervals: the places.
        length: how many rows an item has.
        at: the place of the first row of the first item.
    """
    left = deque(intervals)
    for item in items:
        end = at + length(item)
        while left and left[0][0] < end:
            low, high = left[0]
            if high > at:
                yield item, max(low, at) - at, min(high, end) - at
            if high > end:
                break
            left.popleft()
        if not left:
            return
        at = end


def _parts(source: Any, intervals: Intervals, rows: int) -> Iterator[Leaves]:
    """Return what chunks of a source hold of some places; what is between near ones is read, and left."""
    for run in _runs(intervals, rows, getattr(source, "apart", 0) // rows):
        first, end = run[0][0] // rows, run[-1][1]
        chunks, count = _chunks(source, rows, first, end), 0
        try:
            for chunk, low, high in pieces(chunks, run, num_rows, first * rows):
                count += high - low
                yield {leaf: values[low:high] for leaf, values in chunk.items()}
        finally:
            getattr(chunks, "close", lambda: None)()
        if count != sum(high - low for low, high in run):
            raise changed("source")


def _runs(intervals: Intervals, rows: int, gap: int) -> list[list[tuple[int, int]]]:
    """Return intervals in runs: those are together between whose chunks lie so many others at most."""
    runs: list[list[tuple[int, int]]] = []
    for low, high in intervals:
        if runs and low // rows - -(-runs[-1][-1][1] // rows) <= gap:
            runs[-1].append((low, high))
        else:
            runs.append([(low, high)])
    return runs


def _chunks(source: Any, rows: int, first: int, end: int) -> Iterator[Leaves]:
    """Return chunks of a source, from one on: where it can be told where to end, nothing is read after it."""
    if hasattr(source, "between"):
        return source.between(first * rows, min(-(-end // rows) * rows, source.num_records), rows)
    return source.chunks(rows, first)
