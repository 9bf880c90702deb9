"""Parallel events: added place by place, written one way, refused where cells overlap or are too many."""

import copy
import json
import pickle
import subprocess
import sys
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    Certificate,
    Composed,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    NonPrivate,
    Parallel,
    Partition,
    PoissonGaussian,
    Selected,
    compose,
    repeat_and_select,
)
from dpmcmc.accounting.event import genuine
from dpmcmc.accounting.parallel import contains, dearest, remove
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

IDS = ["0123456789abcdef" * 2, "fedcba9876543210" * 2]
SHARDS = Partition((0, 10, 30, 60))
A, B, C = Gaussian(2.0), Gaussian(3.0) * 2, AcceptBit(4.0)
NOTHING = compose([])

ordinary = st.builds(
    lambda parts: compose(part * times for part, times in parts),
    st.lists(
        st.tuples(
            st.sampled_from([Gaussian(2.0), AcceptBit(3.0), FixedBatchGaussian(1, 3, 2.0), Approximation(1e-9)]),
            st.integers(0, 3),
        ),
        max_size=3,
    ),
)


@st.composite
def parallels(draw: st.DrawFn) -> Event:
    """A Parallel over eight positions of the table, or over two or three cells under one of two ids."""
    if draw(st.booleans()):
        partition = Partition((0, *sorted(draw(st.sets(st.integers(1, 7), max_size=3))), 8))
    else:
        which = draw(st.integers(0, 1))
        partition = Partition(tuple(range(which + 3)), IDS[which])
    return Parallel(partition, draw(st.dictionaries(st.integers(0, partition.size - 1), ordinary)))


events = st.one_of(ordinary, parallels())


def at(event: Event, where: tuple[int, int, int]) -> Event:
    """What was released of one neighbour, who stands in three places: the definition, place by place."""
    if not isinstance(event, Parallel):
        return event
    place = {("", 8): where[0], (IDS[0], 2): where[1], (IDS[1], 3): where[2]}
    number = 0
    for partition in event.partitions:
        cell = max(i for i, cut in enumerate(partition.cuts[:-1]) if cut <= place[partition.numbering])
        number = number * partition.size + cell
    return event.cells[number]


PLACES = [(first, second, third) for first in range(8) for second in range(2) for third in range(3)]


# --- the normal form --------------------------------------------------------------------------------------------------


@given(events, events, events)
def test_addition_is_place_by_place_associative_and_commutative(first: Event, second: Event, third: Event) -> None:
    total = first + second + third
    for where in PLACES:
        assert at(total, where) == at(first, where) + at(second, where) + at(third, where)
    assert total == first + (second + third) == third + (second + first) == compose([second, third, first])
    assert hash(total) == hash(compose([second, third, first]))
    assert repr(total) == repr(third + second + first)
    assert isinstance(total, Parallel) or not total.outermost


@given(events, st.integers(0, 4), st.integers(0, 4))
def test_repetition_is_place_by_place(event: Event, first: int, second: int) -> None:
    assert event * first + event * second == event * (first + second)
    assert event * first * second == event * (first * second) == (first * second) * event
    assert event * 3 == reduce(add, [event] * 3)
    assert event * 0 == NOTHING
    for where in PLACES:
        assert at(event * first, where) == at(event, where) * first


@given(events, events)
def test_json_round_trip(first: Event, second: Event) -> None:
    event = first + second
    again = Event.from_json(event.to_json())
    assert (again, type(again), hash(again)) == (event, type(event), hash(event))
    assert again.to_json() == event.to_json()
    assert event == pickle.loads(pickle.dumps(event)) == copy.deepcopy(event)  # noqa: S301


def test_ordinary_events_are_added_in_every_cell_also_in_those_without_a_name() -> None:
    total = Parallel(SHARDS, {0: A}) + B
    assert total == Parallel(SHARDS, {0: A + B, 1: B, 2: B}) == B + Parallel(SHARDS, {0: A})
    assert Parallel(SHARDS, {}) + B == B
    assert Parallel(SHARDS, {0: NOTHING}) + Parallel(SHARDS, {}) == NOTHING
    assert Composed({Gaussian(2.0): 1}) + Parallel(SHARDS, {}) == A


def test_the_same_partition_adds_cell_by_cell_and_cuts_are_refined() -> None:
    assert Parallel(SHARDS, {0: A}) + Parallel(SHARDS, {0: B, 2: C}) == Parallel(SHARDS, {0: A + B, 2: C})
    other = Parallel(Partition((0, 20, 60)), {0: C})
    assert Parallel(SHARDS, {0: A, 1: B}) + other == Parallel(
        Partition((0, 10, 20, 30, 60)), {0: A + C, 1: B + C, 2: B}
    )


@pytest.mark.parametrize("runs", [1, 2, 10, 50])
def test_runs_with_three_shards_each_have_two_cells_more(runs: int) -> None:
    cut = [Parallel(Partition((0, 10 + i, 500 + i, 9999)), {0: A, 1: B, 2: C}) for i in range(runs)]
    total = compose(cut)
    assert isinstance(total, Parallel)
    assert len(total.cells) == 2 * runs + 1


def test_different_placements_multiply() -> None:
    first, second = Partition.with_random_id(2), Partition.with_random_id(3)
    total = Parallel(first, {0: A}) + Parallel(second, {0: B, 2: C})
    assert isinstance(total, Parallel)
    assert sorted(map(repr, total.cells)) == sorted(map(repr, [A + B, A, A + C, B, NOTHING, C]))
    table = Parallel(SHARDS, {0: A}) + Parallel(Partition((0, 10, 61)), {1: B})  # positions of tables of two lengths
    assert isinstance(table, Parallel)
    assert len(table.cells) == 6
    assert A + B in table.cells


def test_of_more_than_64_cells_of_different_placements_the_dearest_of_each_are_added() -> None:
    four = [Parallel(Partition.with_random_id(4), {0: A}) for _ in range(4)]
    total = compose(four[:3])
    assert isinstance(total, Parallel)
    assert len(total.cells) == 64
    assert compose([*four[:3], four[0], C]) == total + four[0] + C  # known placements add no cells
    assert compose(four) == A * 4 == total + four[3]
    assert compose([*four, *four, C]) == A * 8 + C


def test_cells_that_cannot_be_compared_are_covered_together() -> None:
    bit = LogisticBit(0.1)
    mixed = [Parallel(Partition.with_random_id(9), {0: A * 2, 1: A + bit, 5: A}) for _ in range(2)]
    assert compose(mixed) == (A * 2 + bit) * 2
    alone = Parallel(mixed[0].partitions[0], {0: A, 1: bit * 2})
    assert compose([mixed[0], alone, mixed[1]]) == A * 3 + bit * 3 + (A * 2 + bit)  # of one placement, place by place


def test_adjacencies() -> None:
    added = PoissonGaussian(0.1, 2.0, Adjacency.ADD_OR_REMOVE_ONE)
    slots = Partition((0, 10, 60), IDS[0])
    assert Parallel(SHARDS, {0: A}).required_adjacency is Adjacency.REPLACE_ONE  # positions mean nothing otherwise
    assert Parallel(slots, {0: A}).required_adjacency is None
    assert Parallel(slots, {0: A, 1: added}).required_adjacency is Adjacency.ADD_OR_REMOVE_ONE
    for build in (
        lambda: Parallel(SHARDS, {0: added}),
        lambda: Parallel(slots, {0: added, 1: FixedBatchGaussian(1, 3, 2.0)}),
        lambda: Parallel(slots, {0: added}) + Parallel(SHARDS, {0: A}),
        lambda: Certificate(Parallel(SHARDS, {0: A}), Adjacency.ADD_OR_REMOVE_ONE, 1e-6),
    ):
        with pytest.raises(AdjacencyMismatch):
            build()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Partition((0, 40, 30, 60)), "may not overlap"),
        (lambda: Partition((0, 30, 30, 60)), "may not overlap or be empty"),
        (lambda: Partition((5, 60)), "must start with 0"),
        (lambda: Partition((0,)), "must start with 0"),
        (lambda: Partition(()), "must start with 0"),
        (lambda: Partition((0, 1.5)), r"^cuts=1\.5 must be an integer"),
        (lambda: Partition((0, True)), r"^cuts=True must be an integer"),
        (lambda: Partition((0, -1)), r"^cuts=-1 must be >= 0"),
        (lambda: Partition((0, 2**63)), r"^cuts must be at most"),
        (lambda: Partition("012"), r"^cuts='012' must be a sequence"),
        (lambda: Partition(3), r"^cuts=3 must be a sequence"),
        (lambda: Partition((0, 9), "my own"), r"^places='my own' must be empty, or 32 hexadecimal"),
        (lambda: Partition((0, 9), None), r"^places=None must be empty"),
        (lambda: Partition.with_random_id(0), r"^cells=0 must be >= 1"),
        (lambda: Parallel((0, 9), {}), r"must be a Partition"),
        (lambda: Parallel(SHARDS, {3: A}), r"^cell=3 must be < 3"),
        (lambda: Parallel(SHARDS, {-1: A}), r"^cell=-1 must be >= 0"),
        (lambda: Parallel(SHARDS, {True: A}), r"^cell=True must be an integer"),
        (lambda: Parallel(SHARDS, {"0": A}), r"^cell='0' must be an integer"),
        (lambda: Parallel(SHARDS, {0: 1.0}), r"^cells\[0\]=1\.0 must be an Event"),
        (lambda: Parallel(SHARDS, {0: Parallel(SHARDS, {0: A})}), r"^cells\[0\].*without cells of its own"),
        (lambda: Parallel.of_cells([SHARDS], [(0, A), (0, B)]), r"^cell=0 must be named once: cells are disjoint"),
        (lambda: Parallel(SHARDS, {0: A}) * -1, r"^count=-1 must be >= 0"),
        (lambda: Composed({Parallel(SHARDS, {0: A}): 2}), "only elementary events"),
        (lambda: Selected((Parallel(SHARDS, {0: A}),), 0.5, 0.0), "candidates hold a Parallel"),
        (lambda: repeat_and_select([Parallel(SHARDS, {0: A})], 2.0), "candidates hold a Parallel"),
    ],
)
def test_bad_arguments_are_refused(build: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()  # type: ignore[operator]


def written(**changes: object) -> str:
    plain = {**(Parallel(SHARDS, {0: A, 2: A}) + Parallel(Partition((0, 1, 2), IDS[0]), {0: B})).to_dict(), **changes}
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"extra": 1}, "has a list of partitions"),
        ({"cells": None}, "has a list of partitions"),
        ({"cells": {}}, "has a list of partitions"),
        ({"cells": [1]}, "'event' and a list of 'numbers'"),
        ({"cells": [{"event": A.to_dict(), "numbers": 0}]}, "'event' and a list of 'numbers'"),
        ({"cells": [{"event": A.to_dict(), "numbers": [0, 0]}]}, "cell=0 must be named once"),
        ({"cells": [{"event": A.to_dict(), "numbers": [6]}]}, "cell=6 must be < 6"),
        ({"cells": [{"event": A.to_dict(), "numbers": [[0]]}]}, r"cell=\[0\] must be an integer"),
        ({"cells": [{"event": {"kind": "X"}, "numbers": [0]}]}, "kind='X'"),
        ({"cells": [{"event": Parallel(SHARDS, {}).to_dict(), "numbers": [0]}]}, "without cells of its own"),
        ({"partitions": []}, "must be sorted, one for each"),
        ({"partitions": [1]}, "a partition has a list of 'cuts'"),
        ({"partitions": [{"cuts": [0, 1]}]}, "a partition has a list of 'cuts'"),
        ({"partitions": [{"cuts": "01", "places": ""}]}, "a partition has a list of 'cuts'"),
        ({"partitions": [{"cuts": [0, 1], "places": {}}]}, "places="),
        ({"partitions": [SHARDS.to_dict(), SHARDS.to_dict()]}, "must be sorted, one for each"),
        ({"partitions": [{"cuts": [0, 1, 2], "places": IDS[0]}, SHARDS.to_dict()]}, "must be sorted, one for each"),
        ({"partitions": [{"cuts": list(range(10)), "places": one} for one in IDS]}, "81 cells together, more than 64"),
    ],
)
def test_bad_json_is_refused(changes: dict[str, object], message: str) -> None:
    assert Event.from_json(written()).outermost
    with pytest.raises(InvalidArgument, match=message):
        Event.from_json(written(**changes))


@pytest.mark.parametrize("event", [Parallel(SHARDS, {0: A}), repeat_and_select([A], 2.0)], ids=["cells", "selection"])
def test_events_are_read_whatever_was_imported_before(event: Event) -> None:
    program = "import sys; from dpmcmc.accounting import Event; print(Event.from_json(sys.argv[1]).to_json())"
    done = subprocess.run([sys.executable, "-c", program, event.to_json()], capture_output=True, text=True, check=True)
    assert Event.from_json(done.stdout) == event


def test_a_composition_written_around_it_is_read_in_normal_form() -> None:
    inside = Parallel(SHARDS, {0: A})
    parts = [{"event": inside.to_dict(), "count": 2}, {"event": C.to_dict(), "count": 1}]
    assert Event.from_json(json.dumps({"kind": "Composed", "parts": parts})) == inside * 2 + C


def test_numbers_of_numpy_are_numbers() -> None:
    partition = Partition((0, np.int64(10), np.int32(30), 60))  # type: ignore[arg-type]
    assert partition == SHARDS
    assert Parallel(partition, {np.int64(1): A}).to_json() == Parallel(SHARDS, {1: A}).to_json()  # type: ignore[dict-item]


def test_whoever_is_given_an_event_by_a_caller_takes_none_with_cells() -> None:
    assert genuine(A + C) == A + C
    for event in (Parallel(SHARDS, {0: A}), Parallel(SHARDS, {}), Parallel(SHARDS, {0: A}) + C):
        with pytest.raises(InvalidArgument, match="event is a Parallel"):
            genuine(event)


# --- what is left of a reservation ------------------------------------------------------------------------------------


@given(parallels(), ordinary, ordinary)
def test_what_was_added_is_contained_and_can_be_removed(event: Event, more: Event, other: Event) -> None:
    for part in (event, event * 2, more, event + more):
        whole = part + event + other
        if whole.outermost or not part.outermost:
            assert contains(whole, part)
            assert remove(whole, part) + part == whole


def test_a_reservation_pays_for_programs_that_ask_one_cell() -> None:
    left: Event = Parallel(SHARDS, {0: A * 2, 1: B}) + C
    for cell, event, fits in [
        (0, A, True),
        (1, A, False),  # paid in another cell
        (0, A, True),
        (0, A, False),  # spent
        (1, Gaussian(3.0), True),  # half of what is there
        (1, C, True),
        (1, C, False),
        (2, C, True),
        (2, A, False),  # nothing was reserved there
    ]:
        asked = Parallel(SHARDS, {cell: event})
        assert contains(left, asked) is fits
        if fits:
            left = remove(left, asked)
        else:
            with pytest.raises(InvalidArgument, match="nothing was removed"):
                remove(left, asked)
    assert left == Parallel(SHARDS, {0: C, 1: Gaussian(3.0)})


def test_what_has_no_cells_is_asked_of_all_places() -> None:
    left = Parallel(SHARDS, {0: A, 1: A})
    assert not contains(left, A)
    assert contains(left + A, A)
    assert remove(left + A, A) == left
    assert contains(left, NOTHING)


def test_other_cuts_than_those_reserved_are_not_covered() -> None:
    for asked in (
        Parallel(Partition((0, 20, 60)), {0: A}),
        Parallel(Partition((0, 10, 30, 61)), {0: A}),
        Parallel(Partition((0, 10, 30, 60), IDS[0]), {0: A}),
    ):
        assert not contains(Parallel(SHARDS, {0: A, 1: A, 2: A}), asked)
        assert not contains(A, asked)
    assert contains(Parallel(SHARDS, {0: A, 1: A}), Parallel(Partition((0, 30, 60)), {0: A}))  # a union of cells


# --- words ------------------------------------------------------------------------------------------------------------


def test_a_certificate_says_what_was_released_where() -> None:
    blocks = Parallel(Partition(tuple(range(0, 110, 10))), {i: A if i % 2 else LogisticBit(0.1) for i in range(10)})
    words = str(Certificate(blocks + C, "replace_one", 1e-6, unit="person"))
    where = "places 10 to 19, places 30 to 39, places 50 to 59 and 2 cells more"
    assert f"{where}: 1 x Gaussian(noise_multiplier=2.0)" in words
    assert f"{where}: 1 x AcceptBit(noise_multiplier=4.0)" in words
    assert "every person has one place" in words
    product = Parallel(SHARDS, {0: A}) + Parallel(Partition((0, 1, 2), IDS[0]), {1: B})
    assert "places 0 to 9 and place 1 of 01234567: Gaussian" in repr(product)
    assert "in one place" not in str(Certificate(A, "replace_one", 1e-6))


def test_of_many_cells_those_that_others_cover_are_left_out() -> None:
    slack = Approximation(1e-12)
    cells = [A, A * 2, A + slack, A * 2 + C, A * 3 + C, slack * 2, NOTHING, Gaussian(1.0), NonPrivate()]
    kept = dearest(Parallel(Partition(tuple(range(10))), dict(enumerate(cells))))
    assert set(kept) == {Gaussian(1.0), A + slack, slack * 2, A * 3 + C, NonPrivate()}
    assert dearest(A) == (A,)
