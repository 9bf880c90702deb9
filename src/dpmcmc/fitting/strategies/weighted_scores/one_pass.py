"""How many rows lead the way of a fit that reads all rows once, and how good it would be: from public facts.

A pilot on few rows is far from the root of all of them, and one step from there misses it by what is not linear: the
square of the distance. So the blocks are as many as make that small beside the noise, if they can be.
"""

from dataclasses import replace

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.fitting.strategies.weighted_scores.budget import (
    HISTOGRAM_SHARES,
    PILOT_STEPS,
    REFINEMENTS,
    SEEN_SLOPE,
    UNSEEN,
    Split,
)
from dpmcmc.fitting.strategies.weighted_scores.schedule import Rows, Schedule, Shares, blocks

WAY = 0.18
"""What of the budget leads the way, of each of the two sets of blocks."""

LOOK = 0.02
"""What of that each look at residuals takes."""

MOST_FINAL = 2
"""How many last releases there are if all rows may be read more often than once."""

LEAST_SLOPE = 0.06
"""What of the last release's share its slope has at least."""

PILOT_BLOCKS = np.geomspace(1 / 64, 1 / 6, 25)
MORE_BLOCKS = np.geomspace(1 / 32, 1 / 3, 25)
"""Shares of the rows that blocks may be."""

PILOT_ERROR = 0.5
"""By how many standard deviations of a posterior of the pilot's rows its noise may move the pilot, all steps joined."""

LEAST_ROWS = 10_000
"""Rows of a pilot at least, from whose noisy histograms it starts."""

BEND = 0.6
"""By how much a step of one standard deviation in each parameter misses its end, in roots of (parameters / records)."""

SMALL = 0.3
"""What is not linear may be so much of the noise."""


def chosen(split: Split, budget: Budget, size: int, seed: int, *, passes: int | None, is_in_memory: bool) -> Split:
    """Return how a budget is divided, given how often all rows may be read; what is better unless stated.

    Args:
        split: if all rows are read every time.
        budget: the budget.
        size: how many places there are.
        seed: of the positions of blocks, which are public.
        passes: how often all rows may be read.
        is_in_memory: rows that are not are read once if that will do.
    """
    if passes is not None and passes >= split.schedule.reads:
        return split
    once = of_blocks(split, budget, size, seed, min(passes or 1 + is_in_memory, MOST_FINAL))
    error = predicted_error(once, budget, size)
    enough = predicted_error(split, budget, size) if is_in_memory else 1.0
    return once if passes or error <= min(enough, 1.0) else split


def of_blocks(split: Split, budget: Budget, size: int, seed: int, num_final: int) -> Split:
    """Return how a budget is divided if blocks at random positions lead the way, to so many last releases."""
    return _with(split, num_final, *blocks(size, _sizes(split, budget, size, num_final), seed))


def _with(split: Split, num_final: int, pilot: Rows, refinement: Rows) -> Split:
    look = LOOK if split.has_residuals else 0.0
    steps = WAY - sum(HISTOGRAM_SHARES)
    shares = Shares(HISTOGRAM_SHARES, steps, PILOT_STEPS - 1, WAY - 2 * look, 1 - WAY, num_final, look, LEAST_SLOPE)
    return replace(split, blocks=Schedule(shares, pilot, refinement))


def _sizes(split: Split, budget: Budget, size: int, num_final: int) -> tuple[float, float]:
    """Return the shares of the rows that the two sets of blocks are: as few as will do, or as many as there may be."""

    def leads(share: float) -> bool:
        return _is_led(_with(split, num_final, Rows(share), Rows(share)), budget, size)

    def is_near(share: float) -> bool:
        found = _with(split, num_final, Rows(share), Rows(share))
        return missed(found, budget, size) < SMALL * found.error(budget, size)

    pilot = next(filter(leads, PILOT_BLOCKS), PILOT_BLOCKS[-1])
    least = min(2 * pilot, MORE_BLOCKS[-1])
    more = next(filter(is_near, MORE_BLOCKS), MORE_BLOCKS[-1])
    return float(pilot), float(max(least, more))


def _is_led(split: Split, budget: Budget, size: float) -> bool:
    """Return whether the pilot's blocks are enough for a pilot that arrives."""
    of_scores, of_slopes = split.pilot(budget, size)
    rows = size * split.schedule.pilot.share
    return (
        split.noise_error(budget, rows, of_scores) <= PILOT_ERROR
        and rows >= LEAST_ROWS
        and split.slope_noise(budget, rows, of_slopes) <= SEEN_SLOPE
    )


def missed(split: Split, budget: Budget, size: float) -> float:
    """Return by how many standard deviations of the posterior the last step misses its end, about."""
    share = split.schedule.refinement.share
    rows, of_scores = size * share, split.refinement(budget, size)[0]
    squared = 1 / share - 1 + split.noise_error(budget, rows, of_scores / REFINEMENTS) ** 2 / share
    if split.schedule.shares.num_final > 1:  # the first of them is what the last one starts from
        squared = 0.0
    return BEND * squared * float(np.sqrt(split.dimension / size))


def predicted_error(split: Split, budget: Budget, size: float) -> float:
    """Return by how many of its own standard deviations a posterior of usual records is off, at best."""
    error = split.error(budget, size)
    if not split.schedule.has_blocks:
        return error
    return float(np.hypot(error, missed(split, budget, size))) if _is_led(split, budget, size) else UNSEEN


def remedy(split: Split, budget: Budget, size: float) -> str:
    """Say what would make a useless run useful."""
    every_time = replace(split, blocks=None)
    error = every_time.error(budget, size)
    if split.blocks is None or not error <= 1:
        return every_time.remedy(budget, size)
    return f"passes={every_time.schedule.reads:.0f} or more would make it about {error:.2g}"
