"""Parallel composition: different cells of places are queried, and a neighbour is in one of them.

`Parallel` is a function from places to events. Events are added place by place, and of the sums the dearest is the
price: the largest delta at every epsilon, the largest Renyi divergence at every order, the largest rho. A maximum is
taken last, of sums, and is never added to anything. docs/accounting.md has the proof.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, cast

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Approximation, Event, Gaussian, RatioApproximation, compose, counts
from dpmcmc.accounting.partition import (
    MOST_CELLS,
    Partition,
    are_too_many,
    is_cut_from,
    locate,
    num_cells,
    refine,
)
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

_MOST_WORDS = 3


@dataclass(frozen=True, init=False, repr=False)
class Parallel(Event):
    """Releases, each computed from the places of its own cell of a partition; a cell that is not named has none.

    Args:
        partition: public cuts of the places.
        cells: what was released of each cell, by its number.
    """

    outermost: ClassVar[bool] = True

    partitions: tuple[Partition, ...]
    """One for each way of numbering places, sorted; several come from adding events of different placements."""

    cells: tuple[Event, ...]
    """What was released of each cell; of several partitions with that of the last one running fastest."""

    def __init__(self, partition: Partition, cells: Mapping[int, Event]) -> None:
        if not isinstance(partition, Partition):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            validation.refuse("partition", partition, "must be a Partition")
        self._fill((partition,), cells.items())

    @classmethod
    def of_cells(cls, partitions: Sequence[Partition], cells: Iterable[tuple[int, Event]]) -> "Parallel":
        """Build it from partitions as `refine` returns them and the events of numbered cells."""
        made = cls.__new__(cls)
        made._fill(tuple(partitions), cells)
        return made

    def _fill(self, partitions: tuple[Partition, ...], cells: Iterable[tuple[int, Event]]) -> None:
        size, nothing = num_cells(partitions), compose([])
        filled: dict[int, Event] = {}
        known = {nothing: nothing}  # equal events become one object, by which they are told apart quickly
        seen: dict[int, tuple[Event, Event]] = {}
        for cell, event in cells:
            number = validation.integer("cell", cell, at_least=0)
            if number >= size:
                validation.refuse("cell", number, f"must be < {size}, the number of cells")
            if number in filled:
                validation.refuse(
                    "cell", number, "must be named once: cells are disjoint, what is asked of one adds up"
                )
            if id(event) not in seen:
                if not isinstance(event, Event) or event.outermost:  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
                    validation.refuse(
                        f"cells[{number}]", event, "must be an Event without cells of its own; add with +"
                    )
                whole = compose([event])
                seen[id(event)] = event, known.setdefault(whole, whole)
            filled[number] = seen[id(event)][1]
        stated = {event.required_adjacency for event in known} - {None}
        if not all(partition.places for partition in partitions):
            stated.add(Adjacency.REPLACE_ONE)
        if len(stated) > 1:
            raise AdjacencyMismatch(
                "cells have events under both replace_one and add_or_remove_one, or positions in the table, which "
                "are meaningful only under replace_one; one guarantee needs one adjacency"
            )
        self._set(partitions=partitions, cells=tuple(filled.get(number, nothing) for number in range(size)))

    @property
    def required_adjacency(self) -> Adjacency | None:
        """Replace-one where positions in the table are cut, since added records would move others; else the cells'."""
        if not all(partition.places for partition in self.partitions):
            return Adjacency.REPLACE_ONE
        return next((case.required_adjacency for case in self.cases if case.required_adjacency), None)

    @property
    def cases(self) -> tuple[Event, ...]:
        """The different events of the cells."""
        return self._different

    @cached_property
    def _different(self) -> tuple[Event, ...]:
        return tuple({id(event): event for event in self.cells}.values())

    @cached_property
    def held(self) -> frozenset[type[Event]]:
        """This kind, and those in its cells; nothing if nothing was released."""
        inside = frozenset[type[Event]]().union(*(case.held for case in self.cases))
        return inside | {Parallel} if inside else inside

    @cached_property
    def gaussian_rho(self) -> float:
        """The rho of zCDP of the Gaussians in the cell that has the most of it."""
        return max(case.gaussian_rho for case in self.cases)

    @property
    def order(self) -> tuple[Any, ...]:
        """By what it is sorted among other events: by how it is written."""
        return type(self).__name__, self.to_json()

    def join(self, others: Sequence[Event]) -> Event:
        """Return the composition with others, place by place; what has no cells is added in every cell."""
        kept = [event for event in (self, *others) if event.held]
        partitions = refine(partition for event in kept for partition in _split(event)[0])
        if not partitions:
            return compose(kept)
        if are_too_many(partitions):
            return compose(map(_covering, _by_placement(kept)))
        made: dict[tuple[int, ...], Event] = {}
        rows = list(aligned(partitions, kept))
        for row in rows:
            key = tuple(map(id, row))
            made[key] = made[key] if key in made else compose(row)
        return Parallel.of_cells(partitions, enumerate(made[tuple(map(id, row))] for row in rows))

    def __mul__(self, count: object) -> Event:
        repeats = validation.integer("count", count, at_least=0)
        made = {id(case): case * repeats for case in self.cases}
        whole = Parallel.of_cells(self.partitions, enumerate(made[id(event)] for event in self.cells))
        return whole if whole.held else compose([])

    __rmul__ = __mul__

    @cached_property
    def groups(self) -> tuple[tuple[Event, tuple[int, ...]], ...]:
        """The events, each with the numbers of the cells that it was released of; cells without any are left out."""
        places: dict[int, list[int]] = {}
        for number, event in enumerate(self.cells):
            if event.held:
                places.setdefault(id(event), []).append(number)
        return tuple((self.cells[numbers[0]], tuple(numbers)) for numbers in places.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        return {
            "kind": "Parallel",
            "partitions": [partition.to_dict() for partition in self.partitions],
            "cells": [{"event": event.to_dict(), "numbers": list(numbers)} for event, numbers in self.groups],
        }

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Event:
        """Build the event from its fields."""
        stated, items = cast(Any, values.get("partitions")), cast(Any, values.get("cells"))
        if set(values) != {"partitions", "cells"} or not isinstance(stated, list) or not isinstance(items, list):
            raise InvalidArgument("Parallel has a list of partitions and a list of cells, and nothing else")
        partitions = tuple(Partition.from_dict(one) for one in cast(list[Any], stated))
        if not partitions or refine(partitions) != partitions:
            raise InvalidArgument("the partitions of a Parallel must be sorted, one for each way of numbering places")
        if are_too_many(partitions):
            found = num_cells(partitions)
            raise InvalidArgument(f"the partitions of a Parallel have {found} cells together, more than {MOST_CELLS}")
        if not all(map(_is_group, cast(list[Any], items))):
            raise InvalidArgument("the cells of a Parallel have an 'event' and a list of 'numbers', and nothing else")
        groups = [(Event.from_dict(item["event"]), item["numbers"]) for item in cast(list[Any], items)]
        return cls.of_cells(partitions, [(number, event) for event, numbers in groups for number in numbers])

    def words(self, numbers: Sequence[int]) -> str:
        """Say which places cells hold."""
        said = [" and ".join(self._places(number)) for number in numbers[:_MOST_WORDS]]
        more = f" and {len(numbers) - _MOST_WORDS:,} cells more" if len(numbers) > _MOST_WORDS else ""
        return ", ".join(said) + more

    def _places(self, number: int) -> Iterable[str]:
        places: list[str] = []
        for partition in reversed(self.partitions):
            number, cell = divmod(number, partition.size)
            places.append(partition.words(cell))
        return reversed(places)

    def __repr__(self) -> str:
        return f"Parallel({'; '.join(f'{self.words(numbers)}: {event!r}' for event, numbers in self.groups)})"


def _by_placement(events: Sequence[Event]) -> Iterable[Event]:
    """Return events, those that cut the places of one placement alone added up place by place."""
    groups: dict[Any, list[Event]] = {}
    for number, event in enumerate(events):
        own = [partition.numbering for partition in _split(event)[0]]
        groups.setdefault(own[0] if len(own) == 1 else number, []).append(event)
    return map(compose, groups.values())


def _covering(event: Event) -> Event:
    """Return an event of all places that costs as much as any cell: the most expensive one, or what covers several."""
    cases = [counts(case) for case in dearest(event)]
    parts = {part for case in cases for part in case}
    return compose(part * max(case.get(part, 0) for case in cases) for part in parts)


def _is_group(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and set(cast(Any, item)) == {"event", "numbers"}
        and isinstance(item["event"], dict)
        and isinstance(item["numbers"], list)
    )


def _split(event: Event) -> tuple[tuple[Partition, ...], tuple[Event, ...]]:
    """Return partitions and cells: none, and one for all places, where the event is no `Parallel`."""
    return (event.partitions, event.cells) if isinstance(event, Parallel) else ((), (event,))


def aligned(partitions: Sequence[Partition], events: Sequence[Event]) -> Iterable[tuple[Event, ...]]:
    """Yield, for each cell of partitions that refine those of all events, what each event is there."""
    columns: list[list[Event]] = []
    for event in events:
        own, cells = _split(event)
        columns.append([cells[number] for number in locate(partitions, own)])
    return zip(*columns, strict=True)


def pairs(first: Event, second: Event) -> list[tuple[Event, Event]]:
    """Return what two events are in the same place, each pair once."""
    partitions = refine(partition for event in (first, second) for partition in _split(event)[0])
    rows = {(id(one), id(other)): (one, other) for one, other in aligned(partitions, [first, second])}
    return list(rows.values())


def contains(whole: Event, part: Event) -> bool:
    """Say whether all that happened in `part` happened in `whole`, as often at least, in every place.

    A `Parallel` is contained only in one that was cut where it is: ``contains(left, Parallel(partition, {cell:
    event}))`` says whether the query of a cell is covered by what is left of a reservation. What has no cells
    queries all places.
    """
    if not _is_cut(whole, part):
        return _is_within(part, whole)
    return is_cut_from(_split(whole)[0], _split(part)[0]) and all(_is_within(*pair) for pair in pairs(part, whole))


def _is_cut(*events: Event) -> bool:
    """Say whether any of some events has cells."""
    return any(isinstance(event, Parallel) for event in events)


def _is_within(part: Event, whole: Event) -> bool:
    allowed = counts(whole)
    return all(times <= allowed.get(one, 0) for one, times in counts(part).items())


def remove(whole: Event, part: Event) -> Event:
    """Return what is left of `whole` without `part`, which it must contain; of a `Parallel` cell by cell."""
    if not contains(whole, part):
        raise InvalidArgument("part must be contained in whole, in cells that whole has; nothing was removed")
    if not _is_cut(whole, part):
        return _difference(whole, part)
    left = {(id(one), id(other)): _difference(one, other) for one, other in pairs(whole, part)}
    partitions = _split(whole)[0]
    cells = [left[id(one), id(other)] for one, other in aligned(partitions, [whole, part])]
    return Parallel.of_cells(partitions, enumerate(cells))


def _difference(whole: Event, part: Event) -> Event:
    gone = counts(part)
    return compose(one * (times - gone.get(one, 0)) for one, times in counts(whole).items())


def apart(events: Iterable[Event]) -> Event:
    """Return what was released of several groups of persons of whom nobody is in two.

    A person's place is that of their group and, in it, their own: all cells of all groups are cells beside each other.
    """
    cases = list(dict.fromkeys(case for event in events for case in event.cases if case.held))
    if len(cases) <= 1:
        return compose(cases)
    return Parallel(Partition.with_random_id(len(cases)), dict(enumerate(cases)))


def dearest(event: Event) -> tuple[Event, ...]:
    """Return the cases of an event of which one is the most expensive: those that no other one covers.

    Cases that differ in Gaussian releases and samplers' distances alone are compared by their sums, with each of which
    every price grows. After many runs one cell is left, as a rule, to ask the accountants about.
    """
    if len(event.cases) == 1:
        return event.cases
    fronts: dict[frozenset[tuple[Event, int]], list[tuple[_Sums, Event]]] = {}
    for sums, others, case in sorted(map(_summed, event.cases), key=lambda item: item[0], reverse=True):
        front = fronts.setdefault(others, [])
        if not any(all(own <= larger for own, larger in zip(sums, kept, strict=True)) for kept, _ in front):
            front.append((sums, case))
    return tuple(case for front in fronts.values() for _, case in front)


class _Sums(NamedTuple):
    mean: float
    total_variation: float
    log_ratio: float


def _summed(event: Event) -> tuple[_Sums, frozenset[tuple[Event, int]], Event]:
    """Return what can be compared by sums, the parts that cannot, and the event itself."""
    parts = counts(event).items()
    sums = _Sums(
        math.fsum(times * part.gaussian_rho for part, times in parts if type(part) is Gaussian),
        math.fsum(times * part.total_variation for part, times in parts if type(part) is Approximation),
        math.fsum(times * part.log_ratio for part, times in parts if type(part) is RatioApproximation),
    )
    return sums, frozenset(item for item in parts if type(item[0]) not in _ADDED_UP), event


_ADDED_UP = (Gaussian, Approximation, RatioApproximation)
