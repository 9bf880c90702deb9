"""Run a mechanism very often on its worst pair, and say what of the claimed epsilon can be seen."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmcmc.accounting import epsilon as epsilon_of
from dpmcmc.accounting import noise_for
from dpmcmc.audits.bets import attainable
from dpmcmc.audits.bounds import lower_of_bits, lower_without_assumption, signal
from dpmcmc.audits.histograms import Histogram, masses
from dpmcmc.audits.pairs import Pair

CONFIDENCE_ERROR = 1e-6
"""The chance that any lower bound of a whole table is wrong."""

MOST_CHAINS = 100_000
"""How many runs are made at once."""

OFTEN, SELDOM, ENOUGH = 10, 40, 2_000_000
"""One in so many rounds of runs is to make the stakes on that the others settle: fewer, where there are enough."""


@dataclass
class Tally:
    """What was seen of runs on the two tables, chosen on and counted."""

    chosen_on: list[Histogram] = field(default_factory=lambda: [Histogram(), Histogram()])
    counted: list[Histogram] = field(default_factory=lambda: [Histogram(), Histogram()])
    true_bits: list[int] = field(default_factory=lambda: [0, 0])

    def take(self, side: int, values: Any, num_bits: int, to_choose: bool) -> None:
        """Count the runs of one table."""
        found = np.asarray(values)
        where = self.chosen_on if to_choose else self.counted
        where[side] += Histogram.of((found - num_bits / 2) / math.sqrt(num_bits / 4) if num_bits else found)
        if num_bits:
            self.true_bits[side] += int(found.sum())

    @property
    def runs(self) -> int:
        """How many runs of each table were made."""
        return min(chosen.size + counted.size for chosen, counted in zip(self.chosen_on, self.counted, strict=True))


@dataclass(frozen=True)
class Finding:
    """What an audit of one pair came to."""

    pair: Pair
    runs: int
    """How many runs of each table there were."""
    delta: float
    error: float
    """The chance that either lower bound is too high."""
    claimed: float
    lower_no_assumption: float
    lower_trade_off: float

    @property
    def is_broken(self) -> bool:
        """Whether a lower bound lies above the claim: then the mechanism is not what it says."""
        return max(self.lower_no_assumption, self.lower_trade_off) > self.claimed


def audit(
    pair: Pair, runs: int, *, delta: float, error: float = CONFIDENCE_ERROR, chains: int = MOST_CHAINS
) -> Finding:
    """Make `runs` runs on each table of a pair, many at once, and bound epsilon from below.

    Args:
        pair: what to run.
        runs: how often, on each table.
        delta: at which delta.
        error: the chance that either bound is too high.
        chains: how many runs to make at once.
    """
    return judge(pair, collect(pair, runs, chains), delta, error)


def collect(pair: Pair, runs: int, chains: int = MOST_CHAINS, stop: Callable[[], bool] = lambda: False) -> Tally:
    """Make the runs, many at once, and count them; `stop` is asked in between whether it is enough."""
    running = Running(pair, max(min(chains, runs // 10), 1))
    return running.go_on(runs, stop)


class Running:
    """Runs of a pair that can be gone on with, by programs that are compiled once."""

    def __init__(self, pair: Pair, chains: int) -> None:
        self.pair, self.tally, self.rounds = pair, Tally(), 0
        self._vaults, self._queries = (pair.vault(0), pair.vault(1)), pair.queries_of(chains)
        self._chains = chains

    def go_on(self, runs: int, stop: Callable[[], bool] = lambda: False) -> Tally:
        """Run the two tables in turn, until there are so many runs of each; some rounds are to choose on."""
        while self.rounds < 2 or (self.tally.runs < runs and not stop()):
            is_to_choose = self.rounds % (OFTEN if self.tally.chosen_on[0].size < ENOUGH else SELDOM) == 0
            for side, vault in enumerate(self._vaults):
                values = np.asarray(vault.run(self.pair.many, self._queries, model=self.pair.model))
                self.tally.take(side, values, self.pair.law.num_bits, is_to_choose)
            self.rounds += 1
        return self.tally


def judge(pair: Pair, tally: Tally, delta: float, error: float) -> Finding:
    """Return what a tally says of a pair, without assumption and under the claimed curve."""
    chosen_on, counted = (tally.chosen_on[0], tally.chosen_on[1]), (tally.counted[0], tally.counted[1])
    return Finding(
        pair,
        tally.runs,
        delta,
        error,
        float(epsilon_of(pair.price(), delta)),
        lower_without_assumption(chosen_on, counted, delta, error, pair.law.form),
        lower_under_hypothesis(pair, tally, delta, error),
    )


def attainable_of(pair: Pair, claimed: float, runs: int, delta: float, error: float) -> float | None:
    """Return what the best bets show without assumption of so many runs of the claimed law, if that is normal."""
    if pair.law.num_bits or not pair.law.is_normal:
        return None
    distance = 1 / noise_for(pair.law.event, claimed, delta)
    sides = [[(chance, distance * place) for chance, place in side] for side in pair.law.form]
    return attainable(masses(sides[0], 1.0), masses(sides[1], 1.0), runs, delta, error)


def lower_under_hypothesis(pair: Pair, tally: Tally, delta: float, error: float) -> float:
    """Return a lower bound on epsilon if the form of the claimed trade-off curve is right, whatever its noise.

    Of sums the noise multiplier is estimated, with its interval; of bits the chance of one, for a run of many.
    """
    law = pair.law
    if law.num_bits:
        tossed = tally.runs * law.num_bits
        return lower_of_bits((tally.true_bits[0], tally.true_bits[1]), tossed, law.num_bits, delta, error)
    first, second = (chosen + counted for chosen, counted in zip(tally.chosen_on, tally.counted, strict=True))
    least = max(signal(first, second, error / 2)[1], signal(second, first, error / 2)[1])
    multiplier = law.noise_multiplier(least)
    if not 0 < multiplier < 1e9:
        return 0.0 if multiplier else math.inf
    return float(epsilon_of(law.event(multiplier), delta))
