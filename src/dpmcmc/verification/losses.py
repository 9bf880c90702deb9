"""Privacy loss distributions in balls: the accountant's own grid, every mass enclosed, composed without rounding.

The grid decides how tight a bound is and not whether it holds, so it is taken as the accountant chooses it. Masses
are those of "connect the dots" (Doroshenko et al. 2022). Compositions are powers of polynomials in balls, whose
coefficients hold the products of all masses. What is cut off on the way, less than 1e-40 a product, is in the radius
of the answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from flint import arb, arb_poly

from dpmcmc.accounting import barker, pld, schedule
from dpmcmc.accounting.adjacency import Adjacency
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
from dpmcmc.verification import spherical
from dpmcmc.verification.balls import Ball, ball, largest, precision, upper_tail

BITS = 128
_CUT = 1e-40
_NEAR = 4
"""Of how many losses beside epsilon each is asked whether it is larger."""
_COST = 10.0
_COSTS: dict[type[Event], float] = {SphericalLaplace: 300.0, LogisticBit: 1.0, BarkerTest: 2.0}
"""How much a value of a profile takes, where a coefficient of a product takes one."""
_SUPPORTED = {Gaussian, FixedBatchGaussian, LogisticBit, BarkerTest, PoissonGaussian, SphericalLaplace}

Profile = Callable[[Ball], Ball]


@dataclass(frozen=True)
class Losses:
    """Masses at whole multiples of an interval from `first` on, that of an infinite loss, and what was cut off."""

    first: int
    masses: arb_poly
    infinity: Ball
    lost: Ball
    _sums: list[list[Ball]] = field(default_factory=list, repr=False, compare=False)

    def times(self, other: "Losses") -> "Losses":
        """Return the law of the sum of two independent losses."""
        infinity = self.infinity + other.infinity - self.infinity * other.infinity
        first, masses, lost = _trimmed(self.first + other.first, self.masses * other.masses)
        return Losses(first, masses, infinity, self.lost + other.lost + lost)

    def delta(self, epsilon: Ball, interval: Ball) -> Ball:
        """Return the mass of an infinite loss plus E[(1 - e^(epsilon - loss))_+]: near epsilon one by one."""
        start = min(max(int(float((epsilon / interval).floor().mid())) - 1 - self.first, 0), len(self.masses))
        rest = min(start + _NEAR, len(self.masses))
        total = self.infinity
        for place in range(start, rest):
            shrink = (epsilon - (self.first + place) * interval).exp()
            total += (1 - shrink).max(ball(0)) * self.masses[place]
        beyond, weighted = self._sums_from(interval)
        return total + beyond[rest] - epsilon.exp() * weighted[rest] + self.lost * arb(0.5, 0.5)

    def _sums_from(self, interval: Ball) -> tuple[list[Ball], list[Ball]]:
        """Return, for each place, the sums from it on of the masses, and of the masses times e^-loss."""
        if not self._sums:
            beyond, weighted = [ball(0)], [ball(0)]
            falling, step = (-interval * (self.first + len(self.masses))).exp(), interval.exp()
            for mass in reversed(self.masses.coeffs()):
                falling *= step
                beyond.append(beyond[-1] + mass)
                weighted.append(weighted[-1] + falling * mass)
            self._sums[:] = beyond[::-1], weighted[::-1]
        return self._sums[0], self._sums[1]


def _trimmed(first: int, masses: arb_poly) -> tuple[int, arb_poly, Ball]:
    """Cut negligible masses off at both ends; return what was cut."""
    found, lost = masses.coeffs(), ball(0)
    start, stop = 0, len(found)
    while start < stop and lost + found[start].abs_upper() < _CUT:
        lost, start = lost + found[start].abs_upper(), start + 1
    while start < stop and lost + found[stop - 1].abs_upper() < 2 * _CUT:
        lost, stop = lost + found[stop - 1].abs_upper(), stop - 1
    return first + start, arb_poly(found[start:stop]), lost


def work(event: Event) -> float:
    """Return about how much there is to compute of a composition: coefficients of products, and what takes as long."""
    parts = schedule.shortened(schedule.hidden_as_gaussian(counts(event)))
    if not parts or not {type(part) for part in parts} <= _SUPPORTED or pld.is_hopeless(parts):
        return 0.0
    spacing = pld.interval_of(parts)
    cells = {part: pld.reach_of(part) / spacing for part in parts}
    profiles = sum(_COSTS.get(type(part), _COST) * length for part, length in cells.items())
    products = len(parts) + sum(1.5 * math.log2(times) for times in set(parts.values()))
    sides = 2 if any(isinstance(part, PoissonGaussian) for part in parts) else 1
    reaches = zip(cells.values(), parts.values(), strict=True)
    longest = max(min(times * length, 2 * pld.LARGEST_GRID) for length, times in reaches)
    return sides * (profiles + products * longest)


@lru_cache(maxsize=16)
def composed(event: Event) -> Callable[[Ball], Ball] | None:
    """Return the curve of the composition: the larger of both directions; None if an event has no profile."""
    parts = schedule.shortened(schedule.hidden_as_gaussian(counts(event)))
    if not {type(part) for part in parts} <= _SUPPORTED:
        return None
    if pld.is_hopeless(parts):
        return lambda _: ball(1)
    spacing = pld.interval_of(parts)
    with precision(BITS):
        interval = ball(spacing)
        pairs = [(_steps(part, spacing), times) for part, times in parts.items()]
        is_same = all(remove is add for (remove, add), _ in pairs)
        directions = [
            _product([(step[side], times) for step, times in pairs]) for side in ((0,) if is_same else (0, 1))
        ]

    def delta(epsilon: Ball) -> Ball:
        with precision(BITS):
            return largest([one.delta(epsilon, interval) for one in directions])

    return delta


def _product(steps: list[tuple[Losses, int]]) -> Losses:
    """Return the law of the sum of all losses, each taken so many times: all powers by the same squares.

    Steps of one count are multiplied once; then, from the highest bit of the counts down, the product is squared, and
    multiplied by the steps whose counts have the bit.
    """
    of_count: dict[int, Losses] = {}
    for step, times in steps:
        of_count[times] = of_count[times].times(step) if times in of_count else step
    result: Losses | None = None
    for bit in reversed(range(max(of_count).bit_length())):
        result = None if result is None else result.times(result)
        for step in [step for times, step in of_count.items() if times >> bit & 1]:
            result = step if result is None else result.times(step)
    assert result is not None  # noqa: S101  # for no count is zero
    return result


def _steps(part: Event, spacing: float) -> tuple[Losses, Losses]:
    """Return the losses of one step when the record is there, and when it is not."""
    forward, backward = _profiles(part)
    last = int(np.ceil(pld.reach_of(part) / spacing))
    grid = [ball(spacing) * place for place in range(last + 1)]
    falling = [forward(epsilon) for epsilon in grid]
    other = falling if backward is forward else [backward(epsilon) for epsilon in grid]
    remove = _connect(ball(spacing), falling, other)
    return remove, remove if backward is forward else _connect(ball(spacing), other, falling)


def _connect(interval: Ball, forward: list[Ball], backward: list[Ball]) -> Losses:
    """Return the least masses on the grid whose profile lies above the given one."""
    above, below = _masses_above(interval, forward), _masses_above(interval, backward)
    size = len(forward)
    masses = [(-interval * place).exp() * below[place] for place in range(size - 1, 0, -1)] + above
    masses[size - 1] = (1 - forward[-1] - sum(masses, start=ball(0))).max(ball(0))
    first, kept, lost = _trimmed(1 - size, arb_poly(masses))
    return Losses(first, kept, forward[-1], lost)


def _masses_above(interval: Ball, profile: list[Ball]) -> list[Ball]:
    low, held = profile[0].min(ball(1)), [profile[0].min(ball(1))]
    for value in profile[1:]:
        low = low.min(value.max(ball(0)))
        held.append(low)
    drops = [held[place] - held[place + 1] for place in range(len(held) - 1)]
    up, down = -(-interval).expm1(), interval.expm1()
    masses = [ball(0)] + [drop / up for drop in drops]
    for place in range(1, len(drops)):
        masses[place] -= drops[place] / down
    return [mass.max(ball(0)) for mass in masses]


def _profiles(part: Event) -> tuple[Profile, Profile]:
    rate = ball(pld.rate_of(part))
    match part:
        case LogisticBit(sensitivity=sensitivity):
            both = _logistic(ball(sensitivity))
        case Gaussian(noise_multiplier=z):
            both = _full(ball(z))
        case FixedBatchGaussian(noise_multiplier=z):
            both = _sampled(_full(ball(z)), rate)
        case SphericalLaplace():
            both = spherical.profile(part)
        case BarkerTest():
            both = _sampled(_barker(part), rate)
        case PoissonGaussian(noise_over_clip=noise, adjacency=Adjacency.REPLACE_ONE):
            both = _poisson_replace(rate, ball(noise))
        case PoissonGaussian(noise_over_clip=noise):
            return _sampled(_full(ball(noise)), rate), _poisson_add(rate, ball(noise))
        case _:
            raise TypeError(type(part).__name__)
    return both, both


def _full(noise: Ball) -> Profile:
    def profile(epsilon: Ball) -> Ball:
        return upper_tail(epsilon * noise - 1 / (2 * noise)) - epsilon.exp() * upper_tail(
            epsilon * noise + 1 / (2 * noise)
        )

    return profile


def _sampled(full: Profile, rate: Ball) -> Profile:
    return lambda epsilon: rate * full((epsilon.expm1() / rate).log1p())


def _logistic(moved: Ball) -> Profile:
    def profile(epsilon: Ball) -> Ball:
        return ((epsilon.min(moved) - moved) / 2).expm1() ** 2 / -(-moved).expm1()

    return profile


def _poisson_add(rate: Ball, noise: Ball) -> Profile:
    def profile(epsilon: Ball) -> Ball:
        room = 1 - (1 - rate) * epsilon.exp()
        return room * _full(noise)(epsilon + (rate / room).log()) if room > 0 else ball(0)

    return profile


def _poisson_replace(rate: Ball, noise: Ball) -> Profile:
    def profile(epsilon: Ball) -> Ball:
        half = (1 - rate) * epsilon.expm1() / 2
        root = half + (half**2 + rate**2 * (epsilon - noise**-2).exp()).sqrt()
        threshold = noise**2 * (root / rate).log() + ball(0.5)
        near, far = rate * upper_tail((threshold - 1) / noise), rate * upper_tail((threshold + 1) / noise)
        return (near - epsilon.exp() * far - 2 * half * upper_tail(threshold / noise)).max(ball(0))

    return profile


def _barker(event: BarkerTest) -> Profile:
    """Return the accountant's interpolation, from above, of the profile of the worst pair at its nodes."""
    nodes, _, worst = barker.profile_nodes(event)
    gap, first, second = barker.worst_pairs(event)
    low, values = ball(1), list[Ball]()
    for node, at in zip(nodes, worst, strict=True):
        found = _hockey_stick(ball(node), ball(gap[at]), ball(first[at]), ball(second[at])) * (1 + ball(barker.SLACK))
        low = low.min(found)
        values.append(low)
    places = [ball(node).expm1() for node in nodes]

    def profile(epsilon: Ball) -> Ball:
        place = epsilon.min(ball(float(nodes[-1])))
        left = int(np.clip(np.searchsorted(nodes, float(place.mid()), side="right") - 1, 0, len(nodes) - 2))
        share = (place.expm1() - places[left]) / (places[left + 1] - places[left])
        return values[left] + share * (values[left + 1] - values[left])

    return profile


def _hockey_stick(epsilon: Ball, gap: Ball, first: Ball, second: Ball) -> Ball:
    """Return the divergence of N(gap, first) and N(0, second), whose loss is a quadratic with a near and a far root."""
    square, slope = (first - second) / (2 * first * second), gap / first
    constant = (second / first).log() / 2 - gap**2 / (2 * first) - epsilon
    if square == 0:
        return _beyond(-constant / slope, 1, epsilon, gap, first, second)
    inside = slope**2 - 4 * square * constant
    if not inside > 0:
        return ball(0) if inside < 0 else ball(0).union(ball(1))
    root = inside.sqrt()
    near, far = -2 * constant / (slope + root), (-slope - root) / (2 * square)
    side = -1 if square > 0 else 1
    found = _beyond(near, 1, epsilon, gap, first, second) - side * _beyond(far, side, epsilon, gap, first, second)
    return found.max(ball(0)).min(ball(1))


def _beyond(point: Ball, side: int, epsilon: Ball, gap: Ball, first: Ball, second: Ball) -> Ball:
    return upper_tail(side * (point - gap) / first.sqrt()) - epsilon.exp() * upper_tail(side * point / second.sqrt())
