"""Privacy loss distributions in balls: the accountant's own grid, every mass enclosed, composed without rounding.

The grid decides how tight a bound is and not whether it holds, so it is taken as the accountant chooses it. Masses
are those of "connect the dots" (Doroshenko et al. 2022). Compositions are powers of polynomials in whole numbers
(`laws`), with as many bits, and as much cut off on the way, as the delta that is asked about allows; all of that is in
the radius of the answer.
"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from dpmcmc.accounting import pld, schedule
from dpmcmc.accounting.event import (
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    counts,
)
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.verification import dots, laws
from dpmcmc.verification.balls import Ball, ball, largest, precision
from dpmcmc.verification.dots import Grid
from dpmcmc.verification.laws import Law
from dpmcmc.verification.profiles import profiles

_BITS, _SPARE, _GUARD = 34, 27, 12
"""How far below delta rounding stays, and what is cut off, in powers of two; and how many bits balls have more."""
SMALLEST = 1e-30
"""Enclosures are sharp down to this delta."""
_CONVEX = Gaussian, FixedBatchGaussian, PoissonGaussian
"""Kinds whose profiles are convex functions of e^epsilon."""
_SUPPORTED = {Gaussian, FixedBatchGaussian, LogisticBit, BarkerTest, PoissonGaussian, SphericalLaplace}


@lru_cache(maxsize=64)
def composed(event: Event, least: float) -> Callable[[Ball], Ball] | None:
    """Return the curve of the composition, sharp down to a delta: the larger of both directions.

    It is None if an event has no profile.
    """
    parts = schedule.shortened(schedule.hidden_as_gaussian(counts(event)))
    if not {type(part) for part in parts} <= _SUPPORTED:
        return None
    if pld.is_hopeless(parts):
        return lambda _: ball(1)
    spacing = pld.interval_of(parts)
    least = max(least, SMALLEST)
    bits = _bits(parts, spacing, least)
    spare = 1 << bits + math.floor(math.log2(least)) - _SPARE
    with precision(bits + _GUARD + max(-math.floor(math.log2(spacing)), 0)):
        grid = Grid(ball(spacing), bits)
        pairs = [(_steps(part, grid, spare // (times * len(parts))), times) for part, times in parts.items()]
        is_same = all(remove is add for (remove, add), _ in pairs)
        sides = (0,) if is_same else (0, 1)
        directions = [laws.product([(step[side], times) for step, times in pairs], spare) for side in sides]

    def delta(epsilon: Ball) -> Ball:
        with precision(bits + _GUARD):
            return largest([ball(0), *(one.delta(epsilon, grid.interval) for one in directions)]).min(ball(1))

    return delta


def _bits(parts: Mapping[Event, int], spacing: float, least: float) -> int:
    """Return how many bits let the rounding of all masses of all steps stay far below a delta."""
    cells = sum(times * (pld.reach_of(part) / spacing + 1) for part, times in parts.items())
    return _BITS + math.ceil(math.log2(cells) - math.log2(least))


def _steps(part: Event, grid: Grid, spare: int) -> tuple[Law, Law]:
    """Return the losses of one step when the record is there, and when it is not."""
    forward, backward = profiles(part)
    last = math.ceil(pld.reach_of(part) / float(grid.interval))
    # the others are convex up to rounding alone, and their losses end soon
    negligible = ball(spare) / 2 ** (grid.bits + 3) if isinstance(part, _CONVEX) else None
    there = dots.half(forward, grid, last, negligible)
    if backward is forward:
        both = dots.law(there, there, grid, spare)
        return both, both
    gone = dots.half(backward, grid, last, negligible)
    return dots.law(there, gone, grid, spare), dots.law(gone, there, grid, spare)
