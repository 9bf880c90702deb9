"""Cells of places: a release that reads the records of some public cells alone. places.md has the proof.

What is asked of cells is asked of a table of their own: the slots of these cells, each once, or all slots with nobody
in the others. Everything after, gate, noise and numbering, is as for the whole table; only the price says which cells.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dpmcmc.accounting.event import BarkerTest, Event, FixedBatchGaussian, PoissonGaussian
from dpmcmc.accounting.parallel import Parallel
from dpmcmc.accounting.partition import Partition
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots, num_slots
from dpmcmc.enclave.refusals import batch_of_cells, not_these_cells, other_places, rows_may_move

_BATCHES = frozenset({FixedBatchGaussian, PoissonGaussian, BarkerTest})
"""Events of releases that draw from all slots, and are not asked of cells."""


@dataclass(frozen=True)
class Cells:
    """Some cells of a partition: public."""

    partition: Partition
    numbers: tuple[int, ...]
    """In order, each once."""

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """The places from the first of each pair up to the second, which is not among them; no two pairs overlap."""
        cuts = self.partition.cuts
        return [(cuts[number], cuts[number + 1]) for number in self.numbers]

    @property
    def size(self) -> int:
        """How many places there are."""
        return sum(end - first for first, end in self.intervals)

    def price(self, event: Event) -> Event:
        """Return what a release of these cells costs, if one of the whole table is the event."""
        if event.held & _BATCHES:
            raise batch_of_cells()
        return Parallel(self.partition, dict.fromkeys(self.numbers, event))


def genuine_cells(facts: Facts, stated: Any) -> Cells | None:
    """Return cells made anew from plain integers, if they are cells of these places; nothing else is believed."""
    if stated is None:
        return None
    if type(stated) is not Cells or type(stated.partition) is not Partition or type(stated.numbers) is not tuple:
        raise not_these_cells()
    cuts, places, numbers = stated.partition.cuts, stated.partition.places, stated.numbers
    if type(cuts) is not tuple or type(places) is not str or {type(one) for one in (*cuts, *numbers)} != {int}:
        raise not_these_cells()
    made = Cells(Partition(cuts, places), tuple(sorted(set(numbers))))
    if not numbers or made.numbers[0] < 0 or made.numbers[-1] >= made.partition.size:
        raise not_these_cells()
    if facts.places is None:
        raise rows_may_move()
    if made.partition.numbering != (facts.places, facts.size):
        raise other_places(facts.size)
    return made


def facts_of(facts: Facts, cells: Cells | None) -> Facts:
    """Return what the public knows of the records in cells."""
    return facts if cells is None else replace(facts, size=cells.size)


def is_copied(facts: Facts, cells: Cells) -> bool:
    """Say whether the slots of cells are copied, because a pass over all of them would take twice as long or longer."""
    return 2 * cells.size <= facts.size


def length_of(cells: Cells, num_devices: int) -> int:
    """Return how many slots copied cells have, rounded up to one of eight for each power of two: few shapes."""
    step = 1 << max(cells.size.bit_length() - 4, 0)
    return num_slots(-(-cells.size // step) * step, num_devices)


def shapes_of(facts: Facts, cells: Cells | None, whole: Any, num_devices: int) -> Any:
    """Return the shapes of the slots of cells, given those of all slots."""
    if cells is None or not is_copied(facts, cells):
        return whole
    length = length_of(cells, num_devices)

    def cut(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((length, *leaf.shape[1:]), leaf.dtype, sharding=leaf.sharding)

    return replace(whole, rows=jax.tree.map(cut, whole.rows), occupied=cut(whole.occupied))


def slots_of(facts: Facts, cells: Cells, whole: Slots, num_devices: int) -> Slots:
    """Return the slots of cells, on the host: each of them once, and in no other slot anybody."""
    occupied = np.asarray(whole.occupied)
    if is_copied(facts, cells):
        length = length_of(cells, num_devices)

        def taken(leaf: Any) -> np.ndarray:
            made, at = np.zeros((length, *leaf.shape[1:]), leaf.dtype), 0
            for first, end in cells.intervals:
                made[at : at + end - first] = np.asarray(leaf)[first:end]
                at += end - first
            return made

        return Slots(jax.tree.map(taken, whole.rows), taken(occupied), np.int32(1))
    is_in = np.zeros(occupied.shape, np.bool_)
    for first, end in cells.intervals:
        is_in[first:end] = occupied[first:end]
    return replace(whole, occupied=is_in)


def intervals_of(cells: Cells | None) -> np.ndarray:
    """Return the places of cells as an array, to recognise what was asked by; empty for all places."""
    return np.array([] if cells is None else cells.intervals, np.int64).reshape(-1, 2)
