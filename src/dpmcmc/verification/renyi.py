"""Renyi divergences in balls, at the orders at which the accountant takes them.

Where the accountant searches for a worst case by numbers (the threshold of an accept bit, the mean of a Barker test),
the search is repeated and the divergence at what it found is enclosed; both have the accountant's margin of 1e-6 added.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from flint import arb, arb_mat, ctx, fmpz

from dpmcmc.accounting import barker, decisions, rdp, schedule
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import (
    AcceptBit,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    RatioApproximation,
    counts,
)
from dpmcmc.accounting.selection import Selected
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.verification import spherical
from dpmcmc.verification.balls import Ball, ball, least, upper_tail

ORDERS = [float(order) for order in rdp.ORDERS]
WHOLE = [int(order) for order in rdp.WHOLE]
INFINITE = arb("inf")

Divergences = list[Ball]


def composed(event: Event) -> dict[float, Ball] | None:
    """Return the divergence at each order; None if an event in the composition has no bound."""
    total = [ball(0) for _ in ORDERS]
    for part, times in schedule.shortened(counts(event)).items():
        if type(part) not in _CURVES:
            return None
        total = [have + times * more for have, more in zip(total, _elementary(part), strict=True)]
    return dict(zip(ORDERS, total, strict=True))


@lru_cache(maxsize=256)
def _elementary(part: Event) -> tuple[Ball, ...]:
    return tuple(_CURVES[type(part)](part))


def _gaussian(event: Event) -> Divergences:
    assert isinstance(event, Gaussian)  # noqa: S101
    return [ball(alpha) / (2 * ball(event.noise_multiplier) ** 2) for alpha in ORDERS]


def _accept_bit(event: Event) -> Divergences:
    assert isinstance(event, AcceptBit)  # noqa: S101
    shift, orders = 1 / event.noise_multiplier, np.array(ORDERS)
    spread = orders * shift
    searched = (spread >= decisions.NARROW) & (spread <= decisions.WIDE)
    worst = np.zeros_like(orders)
    if searched.any():
        worst[searched] = decisions.worst_threshold(orders[searched], shift)[0]
    return [_accept_bit_at(alpha, event, z, bool(s)) for alpha, z, s in zip(ORDERS, worst, searched, strict=True)]


def _accept_bit_at(alpha: float, event: AcceptBit, threshold: float, searched: bool) -> Ball:
    order, shift, margin = ball(alpha), 1 / ball(event.noise_multiplier), ball(decisions.SLACK)
    whole = order * shift**2 / 2
    if searched:
        return least([whole, _threshold_divergence(order, ball(threshold), shift) * (1 + margin)])
    if alpha / event.noise_multiplier > decisions.WIDE:
        return whole
    return least([whole, 2 / arb.pi() * whole * (1 + margin + (order * shift) ** 2)])


def _threshold_divergence(order: Ball, threshold: Ball, shift: Ball) -> Ball:
    """Return D_alpha of the decisions of a threshold on two normal draws, `shift` apart."""
    total = ball(0)
    for sign in (-1, 1):
        first, second = upper_tail(sign * (threshold + shift)), upper_tail(sign * threshold)
        total += (order * (first / second).log() + second.log()).exp()
    return total.log() / (order - 1)


def _logistic_bit(event: Event) -> Divergences:
    assert isinstance(event, LogisticBit)  # noqa: S101
    moved = ball(event.sensitivity)
    return [least([ball(a) * moved**2 / 8, moved, _logistic_at(ball(a), moved)]) for a in ORDERS]


def _logistic_at(order: Ball, moved: Ball) -> Ball:
    """Return the divergence at the log-odds that are worst, in closed form (`decisions.logistic_bit`)."""
    growth = order * moved
    above = (-moved).exp() * (1 - (-growth).exp() * (order * moved.exp() - order + 1))
    below = (order - 1) - order * (-moved).exp() + (-growth).exp()
    if not (above > 0 and below > 0):
        return INFINITE
    x = above / below
    shrunk = (-growth).exp() + x  # (1 + x e^growth) e^-growth
    moment = (order - 1) * (1 + x).log() + growth + shrunk.log() - order * (1 + x * moved.exp()).log()
    return moment / (order - 1)


def _poisson(event: Event) -> Divergences:
    assert isinstance(event, PoissonGaussian)  # noqa: S101
    noise = ball(event.noise_over_clip)
    if event.adjacency is Adjacency.REPLACE_ONE:
        return [2 * ball(alpha) / noise**2 for alpha in ORDERS]
    whole = [ball(alpha) / (2 * noise**2) for alpha in ORDERS]
    if event.rate == 1:
        return whole
    odds, square = ball(event.rate) / (1 - ball(event.rate)), 2 * noise**2
    sums = _chosen([odds**k * (ball(k * k - k) / square).exp() for k in range(WHOLE[-1] + 1)])
    missed = (-ball(event.rate)).log1p()
    sampled = _between([(total.log() + a * missed) / (a - 1) for a, total in zip(WHOLE, sums, strict=True)])
    return [least(list(pair)) for pair in zip(whole, sampled, strict=True)]


def _chosen(terms: list[Ball]) -> Divergences:
    """Return, for each whole order a, the sum over j of terms[j] times the number of choices of j out of a."""
    finite = next((place for place, term in enumerate(terms) if not term.is_finite()), len(terms))
    column = arb_mat(len(terms), 1, [*terms[:finite], *[ball(0)] * (len(terms) - finite)])
    sums = (_choices(ctx.prec) * column).entries()
    return [total if order < finite else INFINITE for order, total in zip(WHOLE, sums, strict=True)]


@lru_cache(maxsize=1)
def _choices(_: int) -> arb_mat:
    """Return the numbers of choices of 0, 1, 2 ... out of each whole order, at the precision that is set."""
    size = WHOLE[-1] + 1
    return arb_mat(len(WHOLE), size, [fmpz.bin_uiui(order, j) for order in WHOLE for j in range(size)])


def _fixed_batch(event: Event) -> Divergences:
    assert isinstance(event, FixedBatchGaussian)  # noqa: S101
    square = 2 * ball(event.noise_multiplier) ** 2
    rate = ball(event.batch_size) / event.population
    sampled = _subsampled(rate, lambda j: ball(j) / square)
    return [least([ball(alpha) / square, one]) for alpha, one in zip(ORDERS, sampled, strict=True)]


def _subsampled(rate: Ball, base: Callable[[int], Ball]) -> Divergences:
    """Amplify by sampling without replacement (Wang, Balle and Kasiviswanathan 2019, Theorem 9)."""
    pair = base(2).exp()
    terms = {2: rate**2 * least([4 * (pair - 1), 2 * pair])}
    terms |= {j: 2 * rate**j * ((j - 1) * base(j)).exp() for j in range(3, WHOLE[-1] + 1)}

    sums = _chosen([ball(1), ball(0), *terms.values()])
    return _between([total.log() / (a - 1) for a, total in zip(WHOLE, sums, strict=True)])


def _barker(event: Event) -> Divergences:
    assert isinstance(event, BarkerTest)  # noqa: S101
    gap, first, second = barker.worst_pairs(event)

    def at(order: int) -> Ball:
        blend = order * second + (1 - order) * first
        with np.errstate(all="ignore"):
            value = np.log(second / first) / 2 + np.log(second / blend) / (2 * (order - 1)) + order * gap**2 / blend / 2
        worst = int(np.argmax(np.where(blend > 0, value, np.inf)))
        found = _normal_divergence(order, ball(gap[worst]), ball(first[worst]), ball(second[worst]))
        return least([found * (1 + ball(barker.SLACK)), _barker_closed(order, event)])

    return _subsampled(ball(event.batch_size) / event.population, at)


def _normal_divergence(order: int, gap: Ball, first: Ball, second: Ball) -> Ball:
    blend = order * second + (1 - order) * first
    if not blend > 0:
        return INFINITE
    return (second / first).log() / 2 + (second / blend).log() / (2 * (order - 1)) + order * gap**2 / (2 * blend)


def _barker_closed(order: int, event: BarkerTest) -> Ball:
    size, kappa = event.batch_size, ball(event.clip_fraction)
    lowest, change = ball(event.variance) - kappa, 4 * kappa * (size - 1) / ball(size) ** 2
    left = 1 - (order - 1) * change / lowest
    if not left > 0:
        return INFINITE
    shift = 2 * order * kappa / size / (lowest * left)
    return -(change / lowest).log1p() / 2 - left.log() / (2 * (order - 1)) + shift


def _spherical(event: Event) -> Divergences:
    assert isinstance(event, SphericalLaplace)  # noqa: S101
    return spherical.divergences(ORDERS, event)


def _ratio(event: Event) -> Divergences:
    assert isinstance(event, RatioApproximation)  # noqa: S101
    return [ball(event.log_ratio) * (2 * ball(alpha) - 1) / (ball(alpha) - 1) for alpha in ORDERS]


def _selected(event: Event) -> Divergences:
    """Return the curve of the best of many runs (Papernot and Steinke 2022, Theorem 2)."""
    assert isinstance(event, Selected)  # noqa: S101
    curves = [composed(candidate) for candidate in event.candidates]
    base = [INFINITE] * len(ORDERS)
    if all(curve is not None for curve in curves):
        tables = [list(curve.values()) for curve in curves if curve is not None]
        base = [_largest(column) for column in zip(*tables, strict=True)]
    halting, shape = ball(event.halting), ball(event.shape)
    second = least(
        [(1 - 1 / ball(a)) * r - halting.log() / ball(a) for a, r in zip(ORDERS, base, strict=True) if r.is_finite()]
    )
    mean = _mean_runs(halting, shape)
    bound = [r + (1 + shape) * second + mean.log() / (ball(a) - 1) for a, r in zip(ORDERS, base, strict=True)]
    for place in range(len(bound) - 2, -1, -1):
        bound[place] = least([bound[place], bound[place + 1]])
    return bound


def _mean_runs(halting: Ball, shape: Ball) -> Ball:
    if halting == 1:
        return ball(1)
    share = -(shape * halting.log()).expm1() / shape if shape > 0 else -halting.log()
    return (1 - halting) / (halting * share)


def _largest(values: tuple[Ball, ...]) -> Ball:
    found = values[0]
    for value in values[1:]:
        found = found.max(value)
    return found


def _between(divergences: Divergences) -> Divergences:
    """Extend from whole orders to all by the convexity of (alpha - 1) epsilon(alpha)."""
    known = [(ball(1), ball(0))]
    known += [(ball(a), (a - 1) * r) for a, r in zip(WHOLE, divergences, strict=True) if r.is_finite()]
    places = np.array([float(place) for place, _ in known])
    found: Divergences = []
    for alpha in ORDERS:
        if len(known) == 1 or alpha > places[-1]:
            found.append(INFINITE)
            continue
        left = min(int(np.searchsorted(places, alpha, side="right")) - 1, len(known) - 2)
        (low, start), (high, stop) = known[left], known[left + 1]
        found.append((start + (stop - start) * (ball(alpha) - low) / (high - low)) / (ball(alpha) - 1))
    return found


_CURVES: dict[type[Event], Callable[[Event], Divergences]] = {
    Gaussian: _gaussian,
    AcceptBit: _accept_bit,
    LogisticBit: _logistic_bit,
    PoissonGaussian: _poisson,
    FixedBatchGaussian: _fixed_batch,
    BarkerTest: _barker,
    RatioApproximation: _ratio,
    Selected: _selected,
    SphericalLaplace: _spherical,
}
