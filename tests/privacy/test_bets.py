"""Bets on which table a release is of: no more coins than there may be, as much as can be seen, and no more.

What is random has a fixed seed. Of 100 bounds at 95 % more than 17 are wrong with a probability below 1e-5, if each
is wrong with a probability of 5 %.
"""

import math

import numpy as np
import pytest

from dpmcmc.accounting import Gaussian, noise_for
from dpmcmc.audits import bets, catalogue
from dpmcmc.audits.audit import attainable_of
from dpmcmc.audits.bounds import APART, lower_without_assumption
from dpmcmc.audits.histograms import BINS, EDGES, Histogram, masses
from dpmcmc.audits.pairs import ADD, REPLACE, Law

DELTA, RUNS = 1e-6, 100_000
MIDDLES = np.concatenate([EDGES[:1], (EDGES[1:] + EDGES[:-1]) / 2, EDGES[-1:]])
LAWS = {"all records": Law(Gaussian), "with": Law(Gaussian, 0.5, "first"), "without": Law(Gaussian, 0.5, "second")}
LAWS["both"] = Law(Gaussian, 0.5, "both")


def laws(distance, form=APART):
    """The chances of bins on two tables."""
    return [masses([(chance, distance * place) for chance, place in side], 1.0) for side in form]


def needed(first, second, delta):
    """The smallest epsilon that holds of two laws on bins, both ways, by bisection."""
    low, high = 0.0, 30.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        beyond = max(np.maximum(p - math.exp(middle) * q, 0).sum() for p, q in ((first, second), (second, first)))
        low, high = (middle, high) if beyond > delta else (low, middle)
    return high


def drawn(rng, law, runs):
    """So many releases of a law, counted."""
    counts = rng.multinomial(runs, law / law.sum())
    return Histogram(counts, np.array([np.sum(counts * MIDDLES**power) for power in range(5)]))


@pytest.mark.parametrize("name", LAWS)
def test_nobody_has_more_than_one_coin_on_average(name):
    """One release of each table, any stakes: the mean of what is left is at most what delta allows."""
    rng = np.random.default_rng(1)
    for distance in (0.2, 1.0, 3.0):
        first, second = laws(distance, LAWS[name].form)
        for delta in (1e-6, 1e-2):
            epsilon = needed(first, second, delta)
            stakes = [bets.best_stakes(first, second, 10**power, delta, 1e-6) for power in (2, 5, 8)]
            for _ in range(20):
                on_first = rng.random(BINS + 2) < rng.random()
                level = rng.random() * math.exp(-epsilon)
                stakes.append(bets.Stakes(level * rng.random(BINS + 2) * on_first, level * ~on_first))
            for one in stakes:
                scale = min(1.0, math.exp(-epsilon) / max(one.first.max(), one.second.max(), 1e-300))
                u, v, lost = scale * one.first, scale * one.second, math.exp(epsilon)
                left = (first @ (1 + u - lost * v)) * (second @ (1 + v - lost * u))
                assert left <= math.exp(delta * (u.max() + v.max())) * (1 + 1e-9)


def test_somebody_has_more_where_the_claim_is_too_low():
    """The control: at 0.8 of the epsilon that holds, the best stakes win on average."""
    first, second = laws(0.5)
    epsilon = 0.8 * needed(first, second, DELTA)
    stakes, lost = bets.best_stakes(first, second, 10**9, DELTA, 1e-6), math.exp(epsilon)
    left = (first @ (1 + stakes.first - lost * stakes.second)) * (second @ (1 + stakes.second - lost * stakes.first))
    assert left > math.exp(DELTA * (stakes.first.max() + stakes.second.max()))


@pytest.mark.parametrize("name", ["all records", "without"])
def test_bounds_are_wrong_as_seldom_as_they_say_and_near_what_can_be_seen(name):
    rng, form = np.random.default_rng(7), LAWS[name].form
    first, second = laws(0.6, form)
    holds = needed(first, second, DELTA)
    found = []
    for _ in range(100):
        chosen_on, counted = (
            tuple(drawn(rng, law, runs) for law in (first, second)) for runs in (RUNS // 20, RUNS - RUNS // 20)
        )
        found.append(lower_without_assumption(chosen_on, counted, DELTA, 0.05, form))
    assert sum(bound > holds for bound in found) <= 17
    best = bets.attainable(first, second, RUNS, DELTA, 0.05)
    assert 0.9 * best < np.median(found) < 1.1 * best


def test_what_is_seen_of_less_noise_lies_above_the_claim():
    """The control: two thirds of the noise, by the stakes that were made for what was seen."""
    rng = np.random.default_rng(3)
    first, second = laws(0.36)
    claimed = needed(*laws(0.24), DELTA)
    sides = [tuple(drawn(rng, law, runs) for law in (first, second)) for runs in (10**6, 10**7)]
    assert lower_without_assumption(sides[0], sides[1], DELTA, 1e-6) > claimed


def test_a_stake_on_a_set_is_solved_in_closed_form():
    rng = np.random.default_rng(5)
    first, second = (drawn(rng, law, RUNS) for law in laws(1.0))
    tails = bets.Tails(BINS // 2 + 300, BINS // 2 - 300)
    right, wrong, trials = tails.counts(first, second)
    for place in (100, 150, 200):
        level = float(bets.LEVELS[place])
        solved = bets.of_threshold(right, wrong, trials, DELTA, 1e-3)[place]
        assert tails.stakes(level).lower_bound(first, second, DELTA, 1e-3) == pytest.approx(solved, abs=1e-5)


def test_unequal_numbers_of_releases_and_none():
    rng = np.random.default_rng(6)
    first, second = laws(1.0)
    many, few, none = drawn(rng, first, RUNS), drawn(rng, second, RUNS // 3), Histogram()
    found = lower_without_assumption((many, few), (many, few), DELTA, 1e-3)
    assert 0 < found < needed(first, second, DELTA)
    assert lower_without_assumption((none, none), (many, few), DELTA, 1e-3) == 0
    assert lower_without_assumption((many, few), (none, none), DELTA, 1e-3) == 0


def test_what_can_be_seen_of_the_table():
    """At 3e8 runs and the confidence of the table 0.88 of epsilon one, of all that has normal noise."""
    error = 1e-6 / (2 * sum(1 for _ in catalogue.catalogue()))
    for pair in (
        catalogue.sums(1.0, DELTA, REPLACE, "exact", False),
        catalogue.poisson(1.0, DELTA, ADD, "exact"),
        catalogue.fixed_batches(1.0, DELTA, "exact"),
    ):
        assert 0.88 < attainable_of(pair, 1.0, 300_000_000, DELTA, error) < 0.93
    distance = 1 / noise_for(Gaussian, 1.0, DELTA)
    assert bets.attainable(*laws(distance), 10**13, DELTA, 1e-6) == pytest.approx(1.0, abs=2e-3)
    assert attainable_of(catalogue.barker_bits(1.0, DELTA, REPLACE), 1.0, 1000, DELTA, error) is None
