"""Lower bounds on epsilon by bets on which of two tables a release is of.

Let P and Q be the laws of a release on two neighbouring tables. If it is (epsilon, delta)-private then E_P u <=
e^epsilon E_Q u + delta max(u) for every u >= 0, and the same with P and Q changed over. Let somebody who has one coin
multiply it by 1 + u(x) - e^epsilon v(x) at each release x of the first table, and by 1 + v(x) - e^epsilon u(x) at each
of the second, where the stakes u and v were stated before, and no x has both. Since 1 + x <= e^x they have at most
exp(n delta (max u + max v)) coins on average after n releases of each table, whatever P and Q are. By Markov's
inequality they have 1 / error times as many with a probability of at most `error`. The larger epsilon is, the fewer
coins are left; the epsilon at which there are just so many is a lower bound.

Who knows P and Q maximises the mean of the logarithm of what is left: u = (p - e^epsilon q) / (e^epsilon (p + q))
where that is positive, held to a cap, for delta is paid by the largest stake. A threshold is the case of one stake
above it and none below.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from dpmcmc.audits.histograms import BINS, Floats, Histogram

MOST_EPSILON = 30.0
"""Laws that are farther apart are taken to be so far."""

MOST_STAKED = 0.5
"""How much of what they have somebody may lose at once at the epsilon that they expect: they may find a larger one."""

CURSE = 1.0
"""By how many standard deviations counts are taken to be worse than they look: the best of many sets looks too good."""

_CAPS = MOST_STAKED * np.geomspace(1e-6, 1.0, 49)
LEVELS = np.geomspace(1e-6, MOST_STAKED, 241)
"""What may be staked on a set of releases."""


@dataclass(frozen=True)
class Stakes:
    """What is staked, bin by bin, on a release being of the first table, or of the second; in no bin on both."""

    first: Floats
    second: Floats

    def log_coins(self, first: Floats, second: Floats, epsilon: float, delta: float) -> float:
        """Return the logarithm of what is left of one coin by counts, or expected ones, less what delta allows."""
        lost, share = math.exp(epsilon), float(first.sum() / second.sum())  # of unequal numbers less is lost or more
        left = (
            _total(first, 1 + self.first - lost / share * self.second),
            _total(second, 1 + self.second - lost * share * self.first),
        )
        return sum(left) - delta * float(first.sum() * self.first.max() + second.sum() * self.second.max())

    def lower_bound(self, first: Histogram, second: Histogram, delta: float, error: float) -> float:
        """Return the epsilon that releases ask for, wrong with a probability of at most `error`."""
        counts, share = (first.counts.astype(np.float64), second.counts.astype(np.float64)), first.size / second.size
        largest = max(float(self.first.max()) * share, float(self.second.max()) / share, math.exp(-MOST_EPSILON))
        return _root(lambda epsilon: self.log_coins(*counts, epsilon, delta) + math.log(error), -math.log(largest))


def _total(counts: Floats, factors: Floats) -> float:
    seen = counts > 0
    return float(counts[seen] @ np.log(np.maximum(factors[seen], 1e-300)))


def _root(falling: Callable[[float], float], most: float, within: float = 1e-7) -> float:
    """Return where a falling function is zero: zero if it is negative there, `most` if it is positive there."""
    if most <= 0 or falling(0.0) <= 0:
        return 0.0
    return most if falling(most) > 0 else float(optimize.bisect(falling, 0.0, most, xtol=within))


def best_stakes(first: Floats, second: Floats, runs: int, delta: float, error: float) -> Stakes:
    """Return the best stakes under two laws, for so many releases of each: at the epsilon that they would show."""

    def stakes(epsilon: float) -> Stakes:
        return Stakes(_on(first, second, epsilon, delta), _on(second, first, epsilon, delta))

    def promised(epsilon: float) -> float:
        return stakes(epsilon).log_coins(runs * first, runs * second, epsilon, delta) + math.log(error)

    return stakes(_root(promised, MOST_EPSILON, within=1e-3))


def attainable(first: Floats, second: Floats, runs: int, delta: float, error: float) -> float:
    """Return the bound that the best stakes give if so many releases of each law fall as they do on average."""
    stakes = best_stakes(first, second, runs, delta, error)
    largest = max(float(stakes.first.max()), float(stakes.second.max()), math.exp(-MOST_EPSILON))
    counts = runs * first, runs * second
    return _root(lambda epsilon: stakes.log_coins(*counts, epsilon, delta) + math.log(error), -math.log(largest))


def _on(likely: Floats, unlikely: Floats, epsilon: float, delta: float) -> Floats:
    """Return the best stakes on one table, with the best cap."""
    lost = math.exp(epsilon)
    whole = np.maximum(likely - lost * unlikely, 0.0) / (lost * (likely + unlikely) + 1e-300)

    def grows(cap: float) -> float:
        stakes = np.minimum(whole, cap)
        return float(likely @ np.log1p(stakes) + unlikely @ np.log1p(-lost * stakes)) - delta * cap

    caps = np.array([0.0, *(_CAPS / lost)])
    return np.minimum(whole, caps[int(np.argmax([grows(float(cap)) for cap in caps]))])


@dataclass(frozen=True)
class Tails:
    """A set to bet on: above the edge `right` on the first table, below `left` on the second; None where on neither."""

    right: int | None
    left: int | None

    def counts(self, first: Histogram, second: Histogram) -> tuple[int, int, int]:
        """Return how often a guess was right, how often wrong, and of how many releases."""
        right = wrong = trials = 0
        if self.right is not None:
            right, wrong, trials = int(first.above[self.right]), int(second.above[self.right]), first.size
        if self.left is not None:
            right += second.size - int(second.above[self.left])
            wrong += first.size - int(first.above[self.left])
            trials += second.size
        return right, wrong, trials

    def stakes(self, level: float) -> Stakes:
        """Return one stake on all of it."""
        bins = np.arange(BINS + 2)
        on_first = bins > (BINS + 2 if self.right is None else self.right)
        on_second = bins <= (-1 if self.left is None else self.left)
        return Stakes(level * on_first.astype(np.float64), level * on_second.astype(np.float64))


def every_tail() -> Iterator[Tails]:
    """Yield one tail, either, or both at the same distance from the middle."""
    for edge in range(BINS // 2, BINS + 1, 4):
        yield from (Tails(edge, None), Tails(None, BINS - edge), Tails(edge, BINS - edge))
    yield from (Tails(edge, None) for edge in range(0, BINS // 2, 4))
    yield from (Tails(None, edge) for edge in range(BINS // 2, BINS, 4))


def stakes_on_tails(first: Histogram, second: Histogram, scale: float, delta: float, error: float) -> Stakes:
    """Return one stake on the tails that promise most by counts, if there were so many times as many releases."""
    best, found = 0.0, Tails(BINS, None).stakes(float(LEVELS[0]))
    chosen: tuple[Tails, float] | None = None
    for tails in every_tail():
        right, wrong, trials = tails.counts(first, second)
        likely = scale * max(right - CURSE * math.sqrt(right), 0.0)
        unlikely = scale * (wrong + CURSE * math.sqrt(wrong + 1))
        promised = of_threshold(likely, unlikely, scale * trials, delta, error)
        place = int(np.argmax(promised))
        if promised[place] > best:
            best, chosen = float(promised[place]), (tails, float(LEVELS[place]))
    return found if chosen is None else chosen[0].stakes(chosen[1])


def of_threshold(right: float, wrong: float, trials: float, delta: float, error: float) -> Floats:
    """Return the bounds that one stake on a set gives, for each size that it may have, given what falls into the set.

    With the stake s they have (1 + s)^right (1 - e^epsilon s)^wrong coins, which is solved for epsilon.
    """
    short = -math.log(error) - right * np.log1p(LEVELS) + trials * delta * LEVELS
    with np.errstate(over="ignore"):
        left = -np.expm1(np.minimum(short / max(wrong, 1e-9), 0.0)) / LEVELS
    return np.log(np.maximum(left, 1.0))
