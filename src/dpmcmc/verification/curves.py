"""The curves delta(epsilon) of the accountants, in balls. docs/accounting.md has the formulas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpmcmc.accounting.accountants import Slack
from dpmcmc.accounting.event import AcceptBit, Event, Gaussian, LogisticBit, counts
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.verification import losses, renyi, spherical
from dpmcmc.verification.balls import Ball, ball, ends, least, sharp

Curve = Callable[[Ball], Ball]
"""From epsilon >= 0 to delta."""


@dataclass(frozen=True)
class Named:
    """A curve with the name of its accountant, and the one number that it is made of, where there is one."""

    accountant: str
    delta: Curve
    parameters: Mapping[str, Ball]


def gaussian_rho(event: Event) -> Ball:
    """Return the rho of zCDP of Gaussian releases, hidden ones included: the sum of count / (2 z^2)."""
    parts = [(part, times) for part, times in counts(event).items() if isinstance(part, Gaussian | AcceptBit)]
    return sum((ball(times) / (2 * ball(part.noise_multiplier) ** 2) for part, times in parts), start=ball(0))


def gaussian_delta(mean: Ball, epsilon: Ball) -> Ball:
    """Return (erfc(a) - e^epsilon erfc(b)) / 2, a = (epsilon - m) / (2 sqrt(m)), b = a + sqrt(m)."""

    def compute() -> Ball:
        root = mean.sqrt()
        start = (epsilon - mean) / (2 * root)
        return (start.erfc() - epsilon.exp() * (start + root).erfc()) / 2

    return sharp(compute) if mean > 0 else ball(0)


def exact(event: Event) -> Named | None:
    """Return the curve of composed Gaussians; None if another event is there."""
    if not event.held <= {Gaussian, AcceptBit}:
        return None
    mean = gaussian_rho(event)
    numbers = {"rho (Gaussian releases)": mean, "mu of Gaussian privacy": (2 * mean).sqrt()}
    return Named("exact", lambda epsilon: gaussian_delta(mean, epsilon), numbers)


def concentrated(event: Event) -> Named | None:
    """Return the curve of rho-zCDP; None if an event in it has no rho."""
    if not event.held <= {Gaussian, AcceptBit, LogisticBit, SphericalLaplace}:
        return None
    rho = gaussian_rho(event)
    for part, times in counts(event).items():
        if isinstance(part, LogisticBit):
            rho += times * ball(part.sensitivity) ** 2 / 8
        elif isinstance(part, SphericalLaplace):
            rho += times * spherical.rho(part)

    def delta(epsilon: Ball) -> Ball:
        above = (epsilon - rho).max(ball(0))
        return (-above * above / (4 * rho)).exp() if rho > 0 else ball(0)

    return Named("zcdp", delta, {"rho": rho})


def by_renyi(event: Event) -> Named | None:
    """Return the curve of Renyi divergences, at the orders of the accountant; None if an event has none."""
    found = renyi.composed(event)
    if found is None:
        return None
    found = {order: divergence for order, divergence in found.items() if divergence.is_finite()}
    orders = [ball(order) for order in found]
    slopes = [alpha - 1 for alpha in orders]
    constants = [
        slope * (r + (-1 / alpha).log1p()) - alpha.log()
        for alpha, slope, r in zip(orders, slopes, found.values(), strict=True)
    ]
    below, above = (np.array(side) for side in zip(*map(ends, constants), strict=True)) if found else ((), ())
    steep = np.array(list(found)) - 1

    def smallest(epsilon: Ball) -> Sequence[int]:
        """Return the numbers of the lines among which the lowest is at an epsilon: floats leave out the others."""
        with np.errstate(all="ignore"):
            fallen = steep * float(epsilon.mid())
            doubt = 1e-9 * (1 + np.abs(below) + np.abs(fallen)) + steep * float(epsilon.rad())
            return np.flatnonzero(~(below - fallen - doubt > np.nanmin(above - fallen + doubt))).tolist()

    def delta(epsilon: Ball) -> Ball:
        lines = smallest(epsilon) if constants else []
        return least([ball(0), *(constants[line] - slopes[line] * epsilon for line in lines)]).exp()

    return Named("rdp", delta, {})


def by_losses(event: Event, least: float) -> Named | None:
    """Return the curve of composed privacy loss distributions, sharp down to a delta; None if an event has none."""
    found = losses.composed(event, least)
    return None if found is None else Named("pld", found, {})


def asked(event: Event, least: float) -> list[Named]:
    """Return the curves among which the tightest accountant chooses, for an event without approximations.

    They are sharp down to a delta of `least`.
    """
    if not event.held:
        return [Named("exact", lambda _: ball(0), {"rho (Gaussian releases)": ball(0)})]
    first = exact(event)
    if first is not None and AcceptBit not in event.held:
        return [first]
    found = [first if first is not None else by_losses(event, least), by_renyi(event), concentrated(event)]
    return [one for one in found if one is not None]


def with_slack(curve: Curve, slack: Slack) -> Curve:
    """Return the curve of samplers that are so far from their ideal laws (docs/accounting.md)."""
    ratio, variation = ball(slack.log_ratio), ball(slack.total_variation)

    def delta(epsilon: Ball) -> Ball:
        found = curve((epsilon - 2 * ratio).max(ball(0)))
        missing = (2 * ratio - epsilon).max(ball(0))
        return ratio.exp() * found + epsilon.exp() * missing.expm1() + variation * (1 + epsilon.exp())

    return delta
