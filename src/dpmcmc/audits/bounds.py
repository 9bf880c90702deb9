"""Lower bounds on epsilon from what was counted: what an attacker saw, with a stated confidence.

Let P and Q be the laws of a release on two neighbouring tables. If it is (epsilon, delta)-private then P(S) <=
e^epsilon Q(S) + delta and Q(S) <= e^epsilon P(S) + delta for every set S. So counts in one S, chosen before they were
made, bound epsilon from below without any assumption. Two tails at once have twice the counts: with R the right tail
and L the left one, P(R) + Q(L) <= e^epsilon (Q(R) + P(L)) + 2 delta.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Counts = NDArray[np.int64]

FARTHEST, BINS = 9.0, 3600
"""Releases are counted in bins of 1/200 standard deviation, out to nine of them; what lies beyond is in the last."""

CURSE = 1.0
"""By how many standard deviations counts are taken to be worse than they look: the best of many sets looks too good."""

NORMAL_SHARE = 0.9
"""How much of the chance of error a set has that is chosen under a normal law; one chosen by counts has the rest."""


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return an interval for a chance that fails on either side with a probability of at most `error`."""
    lower = 0.0 if successes == 0 else float(stats.beta.ppf(error, successes, trials - successes + 1))
    upper = 1.0 if successes == trials else float(stats.beta.isf(error, successes + 1, trials - successes))
    return lower, upper


def epsilon_from_rates(often: float, seldom: float, delta: float) -> float:
    """Return ln((often - delta) / seldom), at least zero: the epsilon that two chances of one set ask for."""
    return max(math.log((often - delta) / seldom), 0.0) if often > delta and seldom > 0 else 0.0


@dataclass(frozen=True)
class Histogram:
    """How often the releases of one table fell where, and their first four moments about zero."""

    counts: Counts = field(default_factory=lambda: np.zeros(BINS + 2, np.int64))
    moments: NDArray[np.float64] = field(default_factory=lambda: np.zeros(5))

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> "Histogram":
        """Count releases, in deviations of their noise from the middle of the pair; NaN is in the first bin."""
        wide = np.nan_to_num(np.asarray(values, np.float64).ravel(), nan=-FARTHEST, posinf=1e3, neginf=-1e3)
        places = np.clip(np.floor((wide + FARTHEST) * (BINS / (2 * FARTHEST))), -1, BINS).astype(np.int64) + 1
        square = wide * wide
        sums = [wide.size, wide.sum(), square.sum(), (square * wide).sum(), (square * square).sum()]
        return cls(np.bincount(places, minlength=BINS + 2), np.array(sums, np.float64))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(self.counts + other.counts, self.moments + other.moments)

    @property
    def size(self) -> int:
        """How many releases were counted."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.moments[1] / self.moments[0])

    @cached_property
    def above(self) -> Counts:
        """How many lie at or above each edge between bins."""
        return np.cumsum(self.counts[::-1])[::-1][1:]

    def as_normal(self, variance: float) -> "Expected":
        """Return what a normal law with the mean of these releases would have, on average."""
        edges = np.linspace(-FARTHEST, FARTHEST, BINS + 1)
        return Expected(self.size * stats.norm.sf((edges - self.mean) / math.sqrt(variance)), self.size)

    def central(self, order: int) -> float:
        """Return a central moment, up to the fourth."""
        raw = self.moments / self.moments[0]
        signs = [math.comb(order, k) * (-raw[1]) ** (order - k) * raw[k] for k in range(order + 1)]
        return float(sum(signs))


@dataclass(frozen=True)
class Expected:
    """How many releases of a law lie at or above each edge between bins, on average."""

    above: NDArray[np.float64]
    size: int


@dataclass(frozen=True)
class Tails:
    """A set to test: above `right`, below `left`, or both; numbers of edges between bins, None where there is none."""

    right: int | None
    left: int | None

    def rates(self, first: "Histogram | Expected", second: "Histogram | Expected") -> tuple[Any, Any, int]:
        """Return how often a guess was right, how often wrong, and of how many releases."""
        right = wrong = trials = 0
        if self.right is not None:
            right, wrong = first.above[self.right], second.above[self.right]
            trials = min(first.size, second.size)
        if self.left is not None:
            right = right + second.size - second.above[self.left]
            wrong = wrong + first.size - first.above[self.left]
            trials += min(first.size, second.size)
        return right, wrong, trials

    @property
    def num_sides(self) -> int:
        """How many inequalities are added up."""
        return (self.right is not None) + (self.left is not None)


def _every_tail() -> Iterator[Tails]:
    for edge in range(BINS // 2, BINS + 1, 4):
        yield from (Tails(edge, None), Tails(None, BINS - edge), Tails(edge, BINS - edge))
    yield from (Tails(edge, None) for edge in range(0, BINS // 2, 4))
    yield from (Tails(None, edge) for edge in range(BINS // 2, BINS, 4))


def lower_for(tails: Tails, first: Histogram, second: Histogram, delta: float, error: float) -> float:
    """Return the epsilon that the counts of one set ask for, wrong with a probability of at most `error`.

    Of two tails the counts are sums of coins of two chances: their tails beyond the mean are at most those of a
    binomial with the mean chance (Hoeffding 1956), so the same interval holds.
    """
    right, wrong, trials = tails.rates(first, second)
    often, seldom = clopper_pearson(int(right), trials, error / 2)[0], clopper_pearson(int(wrong), trials, error / 2)[1]
    return epsilon_from_rates(often, seldom, delta)  # of two tails both sides are halved, by the number of trials


def choose_tails(
    first: Histogram | Expected, second: Histogram | Expected, curse: float, delta: float, error: float, scale: float
) -> Tails:
    """Return the set that promises most, by releases that are not looked at again or a law in their place.

    `scale` is how many times as many releases the bound will be made of: a rarer set is then worth it.
    """
    quantile = float(stats.norm.isf(error / 2))

    def promised(tails: Tails) -> float:
        right, wrong, trials = tails.rates(first, second)
        likely = max(right - curse * math.sqrt(right), 0.0) * scale
        unlikely = (wrong + curse * math.sqrt(wrong + 1)) * scale
        least = likely - quantile * math.sqrt(likely)
        most = unlikely + quantile * math.sqrt(unlikely) + quantile**2 / 2
        return epsilon_from_rates(max(least, 0.0) / (scale * trials), most / (scale * trials), delta)

    return max(_every_tail(), key=promised)


def lower_without_assumption(
    chosen_on: tuple[Histogram, Histogram], counted: tuple[Histogram, Histogram], delta: float, error: float
) -> float:
    """Return a lower bound on epsilon at `delta`: two sets chosen on some releases, and counted on others.

    One is chosen by a normal law with the mean and the variance of these releases: far out, where sets are best, they
    are too few to choose by. The other is chosen by counts, for whatever is not normal. That the first is chosen under
    a law assumes nothing of what is then counted; the chances of error add up.
    """
    scale = counted[0].size / max(chosen_on[0].size, 1)
    bounds: list[float] = []
    variance = max((chosen_on[0].central(2) + chosen_on[1].central(2)) / 2, 1e-12)
    normal = (chosen_on[0].as_normal(variance), chosen_on[1].as_normal(variance))
    for sides, curse, share in ((normal, 0.0, NORMAL_SHARE), (chosen_on, CURSE, 1 - NORMAL_SHARE)):
        tails = choose_tails(*sides, curse, delta, share * error, scale)
        bounds.append(lower_for(tails, *counted, delta, share * error))
    return max(bounds)


def signal(first: Histogram, second: Histogram, error: float) -> tuple[float, float]:
    """Return the difference of the means over the standard deviation within tables, and a lower bound on it.

    The deviation is the releases' own, so that noise which is too small shows. The interval is that of the mean and
    the variance of independent numbers, of which there are so many that both are normal.
    """
    variance = max((first.central(2) + second.central(2)) / 2, 1e-12)  # of no noise at all: very little
    fourth = (first.central(4) + second.central(4)) / 2
    ratio = (first.mean - second.mean) / math.sqrt(variance)
    each = min(first.size, second.size)
    spread = math.sqrt(2 / each + ratio**2 / 4 * max(fourth / variance**2 - 1, 0.0) / (2 * each))
    return ratio, ratio - float(stats.norm.isf(error)) * spread


def lower_of_bits(accepted: tuple[int, int], tossed: int, times: int, delta: float, error: float) -> float:
    """Return a lower bound on the epsilon at `delta` of so many independent bits, from how often each was true.

    The chances that are least apart within two exact intervals stand for all others: bits that are farther apart can
    be turned into these. The bits of a run are then two binomial laws, whose divergence is computed and not simulated.
    """
    (low_first, up_first), (low_second, up_second) = (clopper_pearson(k, tossed, error / 2) for k in accepted)
    if low_first <= up_second:
        low_first, up_second = 1 - up_first, 1 - low_second  # perhaps the other one is true more often
    if low_first <= up_second:
        return 0.0
    return binomial_epsilon(low_first, up_second, times, delta)


def binomial_epsilon(first: float, second: float, times: int, delta: float) -> float:
    """Return the epsilon at `delta` of the number of heads in `times` tosses of two coins, `first` the likelier."""
    heads = np.arange(times + 1)
    laws = [stats.binom.pmf(heads, times, chance) for chance in (first, second)]

    def excess(p: NDArray[np.float64], q: NDArray[np.float64]) -> Callable[[float], float]:
        return lambda epsilon: float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) - delta

    found = [0.0]
    for beyond in (excess(laws[0], laws[1]), excess(laws[1], laws[0])):
        if beyond(0.0) > 0:
            most = times * max(math.log(first / second), math.log((1 - second) / (1 - first))) + 1e-9
            found.append(float(optimize.brentq(beyond, 0.0, most)) if beyond(most) <= 0 else most)
    return max(found)
