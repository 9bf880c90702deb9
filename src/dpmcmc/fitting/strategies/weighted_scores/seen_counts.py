"""Denoising of counts: bins that stand out of their noise, by themselves or pooled with neighbours."""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.spread import Spread

SEEN, MOST = 4.0, 0.7
"""Counts below this number of noise standard deviations are not used; and the share of the records to be covered."""


def shares_of(counts: Floats, sd: float, lengths: Floats | None = None) -> Floats:
    """Return the shares of bins whose counts stand out of their noise.

    If most of the records are in bins that do not, neighbouring bins are pooled, as many as needed; if none stands
    out then, all bins are used.

    Args:
        counts: the counts of the bins.
        sd: the standard deviation of their noise.
        lengths: how pooled bins share their count (default: evenly).
    """
    number = len(counts)
    lengths = np.ones(number) if lengths is None else lengths
    believed = np.zeros(number)
    for width in (2**power for power in range(number.bit_length())):
        padding = np.zeros(-number % width)
        together, long = (np.append(each, padding).reshape(-1, width).sum(axis=1) for each in (counts, lengths))
        per_length = np.where(together > SEEN * np.sqrt(width) * sd, together / long, 0.0)
        believed = np.repeat(per_length, width)[:number] * lengths
        if believed.sum() > MOST * counts.sum():
            break
    return believed / believed.sum() if believed.any() else lengths / lengths.sum()


def shares_of_number(counts: Floats, sd: float, size: float, *, is_product: bool) -> Floats:
    """Return the shares of bins of a number, of which a product with a level has more than it shows."""
    shares = shares_with_rest(counts, sd)
    return beside_one(shares, sd / size) if is_product else shares


def shares_with_rest(counts: Floats, sd: float) -> Floats:
    """Return the shares of bins whose counts stand out, and of what is left, should it stand out by itself.

    Where most records are in one bin, no other bin of the rest may stand out: a product with a level is zero in the
    rows of all others.

    Args:
        counts: the counts of the bins.
        sd: the standard deviation of their noise.
    """
    shares = shares_of(counts, sd)
    rest = shares == 0
    left, seen = float(counts[rest].sum()), float(counts[~rest].sum())
    if left <= SEEN * np.sqrt(rest.sum()) * sd or seen <= 0:
        return shares
    found = shares * seen
    found[rest] = left * shares_of(counts[rest], sd)
    return found / found.sum()


def beside_one(shares: Floats, sd: float) -> Floats:
    """Return shares of bins of which one alone is seen, with half as much beside it as would have been seen.

    A product with a level of a few hundred rows has them in many bins. Without them its scale would be that of a bin,
    far too small, and these rows would be so long beside it that all rows had hardly any weight.

    Args:
        shares: the shares of bins.
        sd: the standard deviation of their noise.
    """
    if np.count_nonzero(shares) != 1:
        return shares
    hidden = min(SEEN * np.sqrt(len(shares) - 1) * sd / 2, 0.5)
    return np.where(shares > 0, 1 - hidden, hidden / (len(shares) - 1))


def of_times(middles: Floats, counts: Floats, ends: Floats, sd: float) -> Spread:
    """Return the histogram of times to an event: those with one first, then as many bins of those without.

    Few have one, as a rule, in many bins. Their number is the sum of all, and when they were is said by bins together,
    which share them as if the hazard were constant there.

    Args:
        middles: of the bins, logarithms of times.
        counts: of the bins.
        ends: how many have an event at the lower bound of times, and at the upper one.
        sd: of the noise of each.
    """
    half = len(counts) // 2
    own = counts.copy()
    own[[0, half - 1]] += ends
    lengths = np.exp(middles[:half] - middles[half - 1])
    parts = [max(float(part.sum()), np.sqrt(half) * sd / 2) * shares_of(part, sd, lengths) for part in np.split(own, 2)]
    total = sum(float(part.sum()) for part in parts)
    return Spread(middles, np.concatenate(parts) / total, np.sqrt(half) * sd / total)
