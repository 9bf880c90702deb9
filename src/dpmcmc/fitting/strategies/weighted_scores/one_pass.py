"""The size of the pilot's blocks in a fit that reads all rows once, and its expected error, from public facts.

A pilot on few rows is far from the root of all rows, and one Newton step from there has an error of the order of the
squared distance. So there are enough blocks to make this small relative to the noise, if possible.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.fitting.strategies.weighted_scores.budget import (
    HISTOGRAM_SHARES,
    PILOT_STEPS,
    REFINEMENTS,
    SLOPE_NOISE_OF_ONE,
    UNSEEN,
    USUAL_SLOPE,
    Split,
)
from dpmcmc.fitting.strategies.weighted_scores.schedule import Rows, Schedule, Shares, blocks
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.spacing import SPACINGS

WAY = 0.18
"""Share of the budget for the pilot, in each of the two sets of blocks."""

LOOK, OTHER = 0.02, 0.03
"""Shares of each release of residuals, and of scores with other bounds at the end."""

MOST_FINAL = 2
"""How many last releases there are if all rows may be read more often than once."""

SLOPES = (0.06, 0.15, 0.3)
"""Candidate smallest shares of the slope in the last releases. Its noise matters if the last step is long."""

STEEP = 50.0
"""Rows with up to so many times the usual slope keep their weight if the last slope is of few rows."""

PILOT_BLOCKS = np.geomspace(1 / 512, 1 / 6, 40)
MORE_BLOCKS = np.geomspace(1 / 64, 1 / 3, 30)
"""Shares of the rows that blocks may be."""

LEAST_ROWS, MANY_ROWS, SHARE_OF_FEW = 10_000, 200_000, 1 / 64
"""Rows of a pilot at least, from whose noisy histograms it starts; less than this share of all only if it has many."""

BEND = 0.6
"""By how much a step of one standard deviation in each parameter misses its end, in roots of (parameters / records)."""

SMALL = 0.3
"""Largest error from nonlinearity, relative to the noise."""


def chosen(split: Split, budget: Budget, size: int, seed: int, *, passes: int | None, is_in_memory: bool) -> Split:
    """Return how a budget is divided, given how often all rows may be read.

    If that is not stated, rows in memory are read in every step, and others once, if once will do.

    Args:
        split: if all rows are read every time.
        budget: the budget.
        size: how many places there are.
        seed: of the positions of blocks, which are public.
        passes: how often all rows may be read.
        is_in_memory: whether reading again costs little.
    """
    every_time = split.with_short_pilot(budget, size)
    if is_in_memory if passes is None else passes >= split.schedule.reads:
        return every_time
    once = of_blocks(split, budget, size, seed, min(passes or 1, MOST_FINAL))
    return once if passes or predicted_error(once, budget, size) <= 1.0 else every_time


def of_blocks(split: Split, budget: Budget, size: int, seed: int, num_final: int) -> Split:
    """Return how a budget is divided between a pilot on blocks at random positions and a number of last releases."""
    candidates = [_with(split, num_final, slope, *_sizes(split, budget, size, num_final, slope)) for slope in SLOPES]
    best = min(candidates, key=lambda each: predicted_error(each, budget, size))  # line 1
    best = _with_spacing(best, budget, size).schedule
    rows = blocks(size, (best.pilot.share, best.refinement.share), seed)  # line 2
    return replace(split, blocks=replace(best, pilot=rows[0], refinement=rows[1]))


def _with(split: Split, num_final: int, slope: float, pilot: Rows, refinement: Rows) -> Split:
    look = LOOK if split.has_residuals else 0.0
    steps = WAY - sum(HISTOGRAM_SHARES)
    rest = WAY - 2 * look - OTHER
    shares = Shares(HISTOGRAM_SHARES, steps, PILOT_STEPS - 1, rest, REFINEMENTS, 1 - WAY, num_final, look, OTHER, slope)
    return replace(split, blocks=Schedule(shares, pilot, refinement))


def _with_spacing(split: Split, budget: Budget, size: float) -> Split:
    """Return the split with the last slope of few rows: of as few as change the result by little.

    The predicted error is at most that of many passes. And slopes of rare kinds of rows stay within their bound, which
    is the lower the more noise there is: rows beyond it would have less weight.
    """
    schedule = split.schedule
    if schedule.shares.num_final > 1:
        return split
    most = split.with_short_pilot(budget, size).error(budget, size)

    def is_enough(found: Split) -> bool:
        rows, (_, share) = size / found.schedule.shares.spacing, found.final(budget, size)
        noise = found.slope_noise(budget, rows, share) * STEEP / USUAL_SLOPE
        return noise <= SLOPE_NOISE_OF_ONE and predicted_error(found, budget, size) <= most

    each = (replace(schedule, shares=replace(schedule.shares, spacing=spacing)) for spacing in SPACINGS)
    return next(filter(is_enough, (replace(split, blocks=blocks) for blocks in each)), split)


def _sizes(split: Split, budget: Budget, size: int, num_final: int, slope: float) -> tuple[Rows, Rows]:
    """Return how many rows the two sets of blocks have: as few as will do, or as many as there may be."""

    def leads(share: float) -> bool:
        return _is_led(_with(split, num_final, slope, Rows(share), Rows(share)), budget, size)

    def is_near(share: float) -> bool:
        found = _with(split, num_final, slope, Rows(share), Rows(share))
        return missed(found, budget, size) < SMALL * found.error(budget, size)

    pilot = _first(leads, PILOT_BLOCKS)
    least = min(2 * pilot, float(MORE_BLOCKS[-1]))
    more = _first(is_near, MORE_BLOCKS)
    return Rows(pilot), Rows(max(least, more))


def _first(is_enough: Callable[[float], bool], shares: Floats) -> float:
    """Return the first of ever larger shares that is enough; the last if none is."""
    return float(shares[min(bisect_left(shares, True, key=is_enough), len(shares) - 1)])


def _is_led(split: Split, budget: Budget, size: float) -> bool:
    """Return whether the pilot's blocks have enough rows for it to converge."""
    share = split.schedule.pilot.share
    least = LEAST_ROWS if share >= SHARE_OF_FEW else MANY_ROWS
    return size * share >= least and split.leads(budget, size)


def missed(split: Split, budget: Budget, size: float) -> float:
    """Return by how many standard deviations of the posterior the last step misses its end, about.

    For answers are not linear, and for the slope has noise. With more releases than one the last step is a short one.
    """
    share, shares = split.schedule.refinement.share, split.schedule.shares
    if shares.num_final > 1:
        return 0.0
    of_scores = split.refinement(budget, size)[0] / REFINEMENTS
    squared = 1 / share - 1 + split.noise_error(budget, size * share, of_scores) ** 2 / share
    bends = BEND * squared * np.sqrt(split.dimension / size)
    slopes = split.last_slope(budget, size) * np.sqrt(squared / 2)
    return float(np.hypot(bends, slopes))


def predicted_error(split: Split, budget: Budget, size: float) -> float:
    """Return a lower bound on the error for usual records, in posterior standard deviations."""
    error = split.error(budget, size)
    if not split.schedule.has_blocks:
        return error
    return float(np.hypot(error, missed(split, budget, size))) if _is_led(split, budget, size) else UNSEEN


def remedy(split: Split, budget: Budget, size: float) -> str:
    """Say what would help if the expected error is too large."""
    every_time = replace(split, blocks=None)
    error = every_time.error(budget, size)
    if split.blocks is None or not error <= 1:
        return every_time.remedy(budget, size)
    return f"passes={every_time.schedule.reads:.0f} or more would make it about {error:.2g}"
