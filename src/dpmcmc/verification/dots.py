"""Connect the dots (Doroshenko et al. 2022) in whole numbers: from a profile in balls to the losses of one step.

The masses at 1, 2 ... intervals h of the chords between a profile's values f are

    (f(x - h) - 2 f(x) + f(x + h)) / (e^h - 1) + f(x - h) - f(x),

and those beyond x all together (f(x) - f(x + h)) / (1 - e^-h) + f(x + h) less the mass of an infinite loss. So a
profile is rounded once, and what is negligible is never computed one by one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from flint import arb, fmpz

from dpmcmc.verification.balls import Ball, ball
from dpmcmc.verification.laws import Law
from dpmcmc.verification.profiles import Point, Profile


class Grid:
    """Epsilons at whole multiples of an interval, with e^epsilon - 1, made once for all steps.

    Attributes:
        interval: the interval h.
        bits: how small a unit is in which masses are counted.
        fine: how small a unit is in which profiles are.
    """

    def __init__(self, interval: Ball, bits: int) -> None:
        self.interval, self.bits = interval, bits
        self.slope = 1 / interval.expm1()
        self.fine = bits + max(math.ceil(math.log2(float(self.slope.upper()))), 0) + 4
        self.unit = arb(2) ** self.fine
        self.steep = whole(self.slope * self.unit)
        self._points: list[Point] = []
        self._shrinking: list[fmpz] = [fmpz(1) << self.fine]

    def point(self, place: int) -> Point:
        """Return one point."""
        epsilon = self.interval * place
        return epsilon, epsilon.expm1()

    def points(self, size: int) -> list[Point]:
        """Return the first ones."""
        self._points += [self.point(place) for place in range(len(self._points), size)]
        return self._points[:size]

    def shrinking(self, size: int) -> list[fmpz]:
        """Return e^-epsilon at the first ones, in fine units, rounded."""
        known = len(self._shrinking)
        self._shrinking += [whole(self.unit / (1 + growth)) for _, growth in self.points(size)[known:]]
        return self._shrinking[:size]


@dataclass(frozen=True)
class Half:
    """The losses above zero in one direction.

    Attributes:
        masses: at 0 (where it is zero), 1, 2 ... intervals, in fine units.
        off: how far they are from the true ones, all together, at most.
        last: the place of the largest finite loss.
        infinity: the mass of an infinite loss.
    """

    masses: list[fmpz]
    off: int
    last: int
    infinity: Ball


def half(profile: Profile, grid: Grid, last: int, negligible: Ball | None) -> Half | None:
    """Return the losses above zero of a profile; None if it has no finite value somewhere.

    Args:
        profile: falling, and convex as a function of e^epsilon.
        grid: where it is taken.
        last: the last place of the grid; what lies beyond counts as infinite.
        negligible: how much may be cut off at the upper end; nothing is unless stated.
    """
    infinity = profile(*grid.point(last))
    rise = grid.slope + 1

    def beyond(place: int) -> Ball:
        here, there = profile(*grid.point(place)), profile(*grid.point(place + 1))
        return ((here - there) * rise + there - infinity).max(ball(0))

    stop = last if negligible is None else _first(lambda place: bool(beyond(place) < negligible), last)
    values = _until_zero(profile, grid.points(min(stop + 2, last + 1)))
    radii = sum((value.rad() for value in values), start=ball(0)) * grid.unit
    cut = beyond(stop) * grid.unit if stop < last else ball(0)
    if not (radii + cut + infinity).is_finite():
        return None
    found = [whole(value.mid() * grid.unit) for value in values]
    found += [fmpz(0) if len(values) < min(stop + 2, last + 1) else found[-1]] * (stop + 2 - len(found))
    drops = [found[place] - found[place + 1] for place in range(stop + 1)]
    masses = [fmpz(0)]
    for drop, following in pairwise(drops):
        masses.append(max(((drop - following) * grid.steep >> grid.fine) + drop, fmpz(0)))
    # a mass is the difference of two falls, divided by e^h - 1, each of two values; and is rounded twice
    off = (radii + len(found)) * 2 * (2 * grid.slope + 1) + 3 * len(masses) + cut
    return Half(masses, int(whole(off.upper())) + 1, last, infinity)


def law(above: Half | None, below: Half | None, grid: Grid, spare: int) -> Law:
    """Return the losses of a step from those above zero, and those that are above zero with the pair exchanged.

    A loss of -x is a loss of x with the pair exchanged, e^-x times as likely.
    """
    if above is None or below is None:
        return Law.unknown(grid.bits)
    shrinking = grid.shrinking(len(below.masses))
    falling = [mass * factor >> grid.fine for mass, factor in zip(below.masses, shrinking, strict=True)]
    infinity = above.infinity
    zero = whole((1 - infinity).mid() * grid.unit) - sum(falling, start=fmpz(0)) - sum(above.masses, start=fmpz(0))
    masses = [*falling[:0:-1], max(zero, fmpz(0)), *above.masses[1:]]
    # the mass at zero is what the others leave, and so off by as much as they are
    off = 2 * (above.off + below.off + 2 * len(falling)) + 2 + int(whole((infinity.rad() * grid.unit).upper()))
    return Law.of(1 - len(falling), masses, off, infinity, grid.fine - grid.bits, grid.bits, spare)


def whole(number: Ball) -> fmpz:
    """Return a whole number at most one away from all in a ball, which is narrow."""
    return number.mid().floor().unique_fmpz()


def _until_zero(profile: Profile, points: list[Point]) -> list[Ball]:
    """Return a falling profile's values up to the first that is zero."""
    values: list[Ball] = []
    for point in points:
        values.append(profile(*point))
        if values[-1].is_zero():
            break
    return values


def _first(is_small: Callable[[int], bool], last: int) -> int:
    """Return the first place from which on something is small, or `last`."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle > 0 and is_small(middle) else (middle + 1, high)
    return low
