"""The profile of one step in balls: delta at an epsilon, when the record is there and when it is not.

docs/accounting.md has the formulas.
"""

from collections.abc import Callable

import numpy as np
from flint import arb

from dpmcmc.accounting import barker, pld
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import BarkerTest, Event, FixedBatchGaussian, Gaussian, LogisticBit, PoissonGaussian
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.verification import spherical
from dpmcmc.verification.balls import Ball, ball, upper_tail
from dpmcmc.verification.erfc import fast_erfc

Point = tuple[Ball, Ball]
"""An epsilon, and e^epsilon - 1."""

Profile = Callable[[Ball, Ball], Ball]
"""From a point to delta."""


_LARGE = 2.0**10
"""Where e^epsilon is larger, tails that it multiplies are computed with a relative error."""


def profiles(part: Event) -> tuple[Profile, Profile]:
    """Return the profiles of an event in both directions; the same object where they agree."""
    rate = ball(pld.rate_of(part))
    match part:
        case LogisticBit(sensitivity=sensitivity):
            both = _logistic(ball(sensitivity))
        case Gaussian(noise_multiplier=z):
            both = _full(ball(z))
        case FixedBatchGaussian(noise_multiplier=z):
            both = _sampled(_full(ball(z)), rate)
        case SphericalLaplace():
            sphere = spherical.profile(part)
            both = lambda epsilon, _: sphere(epsilon)  # noqa: E731
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
    half, scale, erfc = 1 / (arb(8).sqrt() * noise), noise / arb(2).sqrt(), fast_erfc()

    def profile(epsilon: Ball, growth: Ball) -> Ball:
        place = epsilon * scale
        if growth < _LARGE:
            return (erfc(place - half) - (1 + growth) * erfc(place + half)) / 2
        return ((place - half).erfc() - (1 + growth) * (place + half).erfc()) / 2

    return profile


def _sampled(full: Profile, rate: Ball) -> Profile:
    def profile(_: Ball, growth: Ball) -> Ball:
        larger = growth / rate
        return rate * full(larger.log1p(), larger)

    return profile


def _logistic(moved: Ball) -> Profile:
    whole = -(-moved).expm1()

    def profile(epsilon: Ball, _: Ball) -> Ball:
        return ((epsilon.min(moved) - moved) / 2).expm1() ** 2 / whole

    return profile


def _poisson_add(rate: Ball, noise: Ball) -> Profile:
    full = _full(noise)

    def profile(epsilon: Ball, growth: Ball) -> Ball:
        room = rate - (1 - rate) * growth
        if not room > 0:
            return room.max(ball(0)).union(ball(0))
        share = rate / room
        return room * full(epsilon + share.log(), (1 + growth) * share - 1)

    return profile


def _poisson_replace(rate: Ball, noise: Ball) -> Profile:
    opposite, erfc = rate**2 * (-(noise**-2)).exp(), fast_erfc()
    scale = 1 / (arb(2).sqrt() * noise)

    def profile(_: Ball, growth: Ball) -> Ball:
        half = (1 - rate) * growth / 2
        root = half + (half**2 + opposite * (1 + growth)).sqrt()
        threshold = noise**2 * (root / rate).log() + ball(0.5)
        tail = erfc if growth < _LARGE else type(growth).erfc
        near, far = rate * tail((threshold - 1) * scale), rate * tail((threshold + 1) * scale)
        return ((near - (1 + growth) * far) / 2 - half * tail(threshold * scale)).max(ball(0))

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

    def profile(epsilon: Ball, growth: Ball) -> Ball:
        last = len(nodes) - 1
        left = min(max(int(np.searchsorted(nodes, float(epsilon.mid()), side="right")) - 1, 0), last - 1)
        share = (growth.min(places[-1]) - places[left]) / (places[left + 1] - places[left])
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
