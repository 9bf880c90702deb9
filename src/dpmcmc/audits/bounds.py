"""Lower bounds on epsilon from what was counted: what an attacker saw, with a stated confidence."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from dpmcmc.audits.bets import best_stakes, stakes_on_tails
from dpmcmc.audits.histograms import Histogram, Places, masses

LAW_SHARE = 0.9
"""How much of the chance of error stakes have that are made under a law; those made by counts have the rest."""

APART: tuple[Places, Places] = (((1.0, 0.5),), ((1.0, -0.5),))
"""The form of two laws that are the same noise around two places."""


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return an interval for a chance that fails on either side with a probability of at most `error`."""
    lower = 0.0 if successes == 0 else float(stats.beta.ppf(error, successes, trials - successes + 1))
    upper = 1.0 if successes == trials else float(stats.beta.isf(error, successes + 1, trials - successes))
    return lower, upper


def lower_without_assumption(
    chosen_on: tuple[Histogram, Histogram],
    counted: tuple[Histogram, Histogram],
    delta: float,
    error: float,
    form: tuple[Places, Places] = APART,
) -> float:
    """Return a lower bound on epsilon at `delta`: bets that are made on some releases, and settled on others.

    Some stakes are made under normal noise around places of a form, fitted to the first releases: far out, where stakes
    are best, they are too few to be asked one by one. Other stakes are made by their counts, for whatever has another
    law. That the former are made under a law assumes nothing of the releases by which they are settled; the chances of
    error add up.
    """
    if not all(each.size for each in (*chosen_on, *counted)):
        return 0.0
    scale = counted[0].size / chosen_on[0].size
    by_law = best_stakes(*fitted(*chosen_on, form), counted[0].size, delta, LAW_SHARE * error)
    by_counts = stakes_on_tails(*chosen_on, scale, delta, (1 - LAW_SHARE) * error)
    return max(
        by_law.lower_bound(*counted, delta, LAW_SHARE * error),
        by_counts.lower_bound(*counted, delta, (1 - LAW_SHARE) * error),
    )


def fitted(
    first: Histogram, second: Histogram, form: tuple[Places, Places]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the chances of bins under a form that has the means of releases, and their variance within tables."""
    means = [sum(chance * place for chance, place in side) for side in form]
    spreads = [
        sum(chance * (place - mean) ** 2 for chance, place in side) for side, mean in zip(form, means, strict=True)
    ]
    times = (first.mean - second.mean) / (means[0] - means[1])
    middle = (first.mean + second.mean - times * sum(means)) / 2
    variance = (first.central(2) + second.central(2)) / 2
    deviation = math.sqrt(max(variance - times**2 * sum(spreads) / 2, variance / 100, 1e-12))
    moved = [[(chance, middle + times * place) for chance, place in side] for side in form]
    return masses(moved[0], deviation), masses(moved[1], deviation)


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
