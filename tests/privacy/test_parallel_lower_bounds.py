"""What is asked of disjoint cells costs what the dearest cell costs: attacks reach that price, and none exceeds it.

An attack is the best test between two tables that differ at one place, on the whole transcript. Its true and false
positive rates P and Q give the lower bound P - e^epsilon Q on delta(epsilon). Rates are exact in the first part. In the
second they are counted in transcripts of releases that really were computed from tables, each question chosen by the
answers before; there the bounds on rates hold together with probability 1 - 1e-5 in a test (Hoeffding), and the seed is
fixed. The third part shows that wrong prices are caught: those that charge too little by an attack, those that charge
too much because no attack reaches them.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from test_accounting_lower_bounds import EPSILONS, gaussian_attack, logistic_bit_attack, respects

from dpmcmc.accounting import (
    ACCOUNTANTS,
    Event,
    Gaussian,
    LogisticBit,
    Parallel,
    Partition,
    compose,
    delta,
)
from dpmcmc.errors import InvalidArgument, UnsupportedEvent

Array = NDArray[np.float64]
NUM_PLACES = 12
CLOSE = 1e-6
"""Relative: how close the best test comes to the curve that it attains, in floating point."""


class Asked(NamedTuple):
    """A noisy sum over the places from `first` up to `last`, of values in [-1/2, 1/2]: the sensitivity is one."""

    first: int
    last: int
    noise: float


Runs = Sequence[Sequence[Asked]]
"""The releases of each run, in the order in which they are made."""


def event_of_run(run: Sequence[Asked]) -> Event:
    """What the library is told: cuts of the positions, and what was asked of each cell between them."""
    cuts = sorted({0, NUM_PLACES, *(cut for asked in run for cut in asked[:2])})
    cells = {cut: compose(Gaussian(one.noise) for one in run if one.first <= cut < one.last) for cut in cuts[:-1]}
    return Parallel(Partition(tuple(cuts)), {cuts.index(cut): event for cut, event in cells.items()})


def event_of(runs: Runs) -> Event:
    return compose(map(event_of_run, runs))


def parts_at(runs: Runs, place: int) -> list[tuple[float, int]]:
    """What was asked of one place: the definition, without cells."""
    return [(one.noise, 1) for run in runs for one in run if one.first <= place < one.last]


def best_attack(runs: Runs, at: float) -> float:
    """The best of the best tests over all neighbours."""
    return max(gaussian_attack(parts_at(runs, place), at) for place in range(NUM_PLACES))


THREE_SHARDS = [[Asked(0, 2, 3.0), Asked(2, 5, 1.2), Asked(5, 12, 2.0)]]
CASES: dict[str, Runs] = {
    "three shards": THREE_SHARDS,
    "a shard asked several times": [[Asked(0, 2, 3.0)] * 9 + [Asked(2, 5, 1.2), Asked(5, 12, 2.0)]],
    "the same cuts again": THREE_SHARDS * 2,
    "two sets of cuts": [[Asked(0, 4, 9.0), Asked(4, 12, 2.0)], [Asked(0, 8, 2.0), Asked(8, 12, 9.0)]],
    "three sets of cuts": [
        [Asked(0, 1, 1.0), Asked(1, 12, 4.0)],
        [Asked(0, 6, 2.0), Asked(6, 12, 1.5)],
        [Asked(3, 7, 2.0), Asked(7, 12, 2.5)],
    ],
    "a run over all places": [*THREE_SHARDS, [Asked(0, 12, 1.5)]],
}


# --- exact rates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", CASES.values(), ids=CASES)
@pytest.mark.parametrize("at", EPSILONS)
def test_the_worst_place_reaches_the_price_and_none_exceeds_it(runs: Runs, at: float) -> None:
    event = event_of(runs)
    for place in range(NUM_PLACES):
        attack = gaussian_attack(parts_at(runs, place), at)
        for accountant in ("tight", "exact", "zcdp", "rdp", "pld", "moments"):
            assert respects(delta(event, at, accountant), attack), (place, accountant)
    assert delta(event, at) <= best_attack(runs, at) * (1 + CLOSE) + 1e-14


@pytest.mark.parametrize("at", EPSILONS)
def test_cells_that_are_asked_in_other_ways(at: float) -> None:
    """Of a neighbour in the first cell a Gaussian tells, of one in the second decisions do: which is worse varies."""
    event = Parallel(Partition((0, 5, 12)), {0: Gaussian(3.0), 1: LogisticBit(0.6)}) * 3
    attacks = (gaussian_attack([(3.0, 3)], at), logistic_bit_attack(0.6, 3, at))
    for accountant in ("tight", *ACCOUNTANTS):
        try:
            bound = delta(event, at, accountant)
        except UnsupportedEvent:
            assert accountant in {"exact", "moments", "barker_2019"}
            continue
        assert respects(bound, max(attacks)), accountant


@pytest.mark.parametrize("at", EPSILONS)
def test_who_stands_in_secret_slots_of_two_vaults_may_stand_in_the_worst_of_both(at: float) -> None:
    """The adversary may know the slots that were drawn: the price is of every pair of them, here the dear one twice."""
    first, second = Partition((0, 3, 9), "a" * 32), Partition((0, 5, 9), "b" * 32)
    noises = [[2.0, 9.0], [5.0, 1.5]]
    event = compose(
        Parallel(partition, {cell: Gaussian(noise) for cell, noise in enumerate(own)})
        for partition, own in zip((first, second), noises, strict=True)
    )
    attacks = [gaussian_attack([(one, 1), (other, 1)], at) for one, other in product(*noises)]
    assert all(respects(delta(event, at), attack) for attack in attacks)
    assert delta(event, at) <= max(attacks) * (1 + CLOSE) + 1e-14


# --- counted rates: releases that were computed, each question chosen by the answers before ---------------------------

SAMPLES = 200_000
ALARM = 1e-5


def transcripts(rng: np.random.Generator, runs: Runs, table: Array, draw: bool, seen: Array | None = None) -> Array:
    """Answers to the questions of all runs, a row each, or their means given answers that were `seen`.

    A question is a vector of two weights of norm one on the sums of the table's two columns: it turns with all answers
    before, also with those about other cells and other runs.
    """
    questions = [asked for run in runs for asked in run]
    angle, columns = np.zeros(SAMPLES), []
    for number, (first, last, noise) in enumerate(questions):
        sums = table[first:last].sum(axis=0)
        means = np.cos(angle) * sums[0] + np.sin(angle) * sums[1]
        columns.append(means + noise * rng.normal(size=SAMPLES) if draw else means)
        angle = angle + (columns[-1] if seen is None else seen[:, number])
    return np.stack(columns, axis=1)


def losses(rng: np.random.Generator, runs: Runs, one: Array, other: Array) -> Array:
    """The privacy loss of each transcript of `one` against `other`: what the best test looks at."""
    noises = np.array([asked.noise for run in runs for asked in run])
    answers = transcripts(rng, runs, one, draw=True)
    mine, theirs = (transcripts(rng, runs, table, draw=False, seen=answers) for table in (one, other))
    return (((answers - theirs) ** 2 - (answers - mine) ** 2) / (2 * noises**2)).sum(axis=1)


def neighbours(rng: np.random.Generator, place: int) -> tuple[Array, Array]:
    """Two tables that differ by one in the first column, at one place."""
    one = rng.uniform(-0.5, 0.5, size=(NUM_PLACES, 2)) / math.sqrt(2)
    other = one.copy()
    one[place], other[place] = (0.5, 0.0), (-0.5, 0.0)
    return one, other


class Observed(NamedTuple):
    """What was counted of the gain P - e^epsilon Q of the best test, and how far the truth may be from it."""

    gain: float
    margin: float


def observe(runs: Runs, place: int, at: float, seed: int) -> Observed:
    rng = np.random.default_rng(seed)
    one, other = neighbours(rng, place)
    hits = np.mean(losses(rng, runs, one, other) > at)
    false_alarms = np.mean(-losses(rng, runs, other, one) > at)
    rate_margin = math.sqrt(math.log(4 * NUM_PLACES / ALARM) / (2 * SAMPLES))
    return Observed(float(hits - math.exp(at) * false_alarms), rate_margin * (1 + math.exp(at)))


@pytest.mark.parametrize("name", ["three shards", "two sets of cuts"])
@pytest.mark.parametrize("at", [0.0, 0.5])
def test_no_neighbour_is_told_apart_better_than_the_price_says(name: str, at: float) -> None:
    runs, claimed = CASES[name], delta(event_of(CASES[name]), at)
    for place in range(NUM_PLACES):
        seen = observe(runs, place, at, seed=place)
        assert seen.gain - seen.margin <= claimed, place


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_the_observed_trade_off_reaches_the_price_of_the_worst_cell(at: float) -> None:
    """The first question, which is about the worst cell, is along the column in which neighbours differ."""
    runs = [[Asked(2, 5, 1.2)], [Asked(0, 2, 3.0)], [Asked(5, 12, 2.0)]]
    claimed = delta(event_of(runs), at)
    seen = observe(runs, 3, at, seed=99)
    assert claimed > 0.1
    assert abs(seen.gain - claimed) <= seen.margin
    assert seen.margin < 0.2 * claimed


# --- wrong prices are caught ------------------------------------------------------------------------------------------

Price = Callable[[Runs, float], float]


def is_exceeded(price: Price, runs: Runs) -> bool:
    """Whether an attack shows more than was charged."""
    return any(not respects(price(runs, at), best_attack(runs, at)) for at in EPSILONS)


def is_reached(price: Price, runs: Runs) -> bool:
    """Whether attacks show all that was charged, to a hundredth."""
    return all(price(runs, at) <= best_attack(runs, at) * 1.01 + 1e-12 for at in EPSILONS)


def right(runs: Runs, at: float) -> float:
    return delta(event_of(runs), at)


def largest_release(runs: Runs, at: float) -> float:
    """Take the largest of all releases, as if no two concerned the same place."""
    return max(delta(Gaussian(one.noise), at) for run in runs for one in run)


def by_number(runs: Runs, at: float) -> float:
    """Add the cells of two partitions by their numbers, without refining the cuts."""
    cells = zip(*runs, strict=True)
    return max(delta(compose(Gaussian(one.noise) for one in cell), at) for cell in cells)


def summed(runs: Runs, at: float) -> float:
    """Add up everything, whatever it concerns."""
    return delta(compose(Gaussian(one.noise) for run in runs for one in run), at)


def composed_maxima(runs: Runs, at: float) -> float:
    """Compose the dearest cell of each run."""
    return delta(compose(Gaussian(min(one.noise for one in run)) for run in runs), at)


OVERLAPPING = [[Asked(0, 6, 2.0), Asked(3, 12, 2.0)]]


@pytest.mark.parametrize("runs", CASES.values(), ids=CASES)
def test_the_right_price_is_reached_and_not_exceeded(runs: Runs) -> None:
    assert is_reached(right, runs)
    assert not is_exceeded(right, runs)


def test_overlapping_cells_are_caught() -> None:
    assert is_exceeded(largest_release, OVERLAPPING)
    assert not is_exceeded(right, OVERLAPPING)  # what is asked twice is a cell of its own
    assert not is_exceeded(largest_release, THREE_SHARDS)
    with pytest.raises(InvalidArgument, match="may not overlap"):
        Partition((0, 6, 3, 12))


def test_two_partitions_added_by_the_numbers_of_their_cells_are_caught() -> None:
    assert is_exceeded(by_number, CASES["two sets of cuts"])  # places 4 to 7 are in the dear cell of both
    assert not is_exceeded(by_number, CASES["the same cuts again"])
    assert is_reached(by_number, CASES["the same cuts again"])


@pytest.mark.parametrize("name", ["three shards", "two sets of cuts", "three sets of cuts"])
def test_a_sum_instead_of_a_refinement_is_caught(name: str) -> None:
    assert not is_exceeded(summed, CASES[name])
    assert not is_reached(summed, CASES[name])


def test_a_maximum_composed_with_a_maximum_is_caught() -> None:
    """The dear cell of each run is the cheap one of the other: nobody is in both dear ones."""
    runs = [[Asked(0, 6, 1.0), Asked(6, 12, 9.0)], [Asked(0, 6, 9.0), Asked(6, 12, 1.0)]]
    assert is_reached(right, runs)
    assert not is_reached(composed_maxima, runs)


def test_the_cell_that_is_dearest_at_one_epsilon_is_caught() -> None:
    """Which cell is dearest after one run is not which is after twenty: the maximum is taken last."""
    cells = {0: Gaussian(10.0), 1: LogisticBit(0.9)}
    dearest = max(cells.values(), key=lambda cell: delta(cell, 1.0))
    assert dearest == Gaussian(10.0)
    attack = logistic_bit_attack(0.9, 20, 1.0)
    assert not respects(delta(dearest * 20, 1.0), attack)
    assert respects(delta(Parallel(Partition((0, 6, 12)), cells) * 20, 1.0), attack)


def test_counted_rates_catch_overlapping_cells() -> None:
    """The negative control of the counted rates: a neighbour in both cells is told apart better than one is charged."""
    runs = [[Asked(3, 12, 1.0), Asked(0, 6, 1.0)]]
    seen = observe(runs, 4, 0.5, seed=0)
    assert seen.gain - seen.margin > largest_release(runs, 0.5)
    assert seen.gain - seen.margin <= right(runs, 0.5)
