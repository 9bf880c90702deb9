"""Spherical Laplace noise in balls: its profile by rigorous integrals, its divergences by Bessel functions.

`accounting.spherical_laplace` has the formulas, and the margins that it adds for its own rounding: they are added here
too, so that what is enclosed is what it states.
"""

from collections.abc import Callable

import numpy as np
from flint import acb, arb

from dpmcmc.accounting import spherical_laplace
from dpmcmc.accounting.spherical_laplace import SphericalLaplace
from dpmcmc.verification.balls import Ball, ball, largest, least

_AT_THE_END = 2.0**-100
"""The profile where an epsilon cannot be told from the largest loss is at most this, and not below zero."""

_LARGE = 8
"""A loss beyond which one pole is so much less probable than the other that they are integrated apart."""


def profile(event: SphericalLaplace) -> Callable[[Ball], Ball]:
    """Return delta at an epsilon: P(loss > epsilon) - e^epsilon P(loss < -epsilon)."""
    most = 1 / ball(event.noise_multiplier)
    if event.num_coordinates == 1:
        return lambda epsilon: (-((epsilon - most) / 2).expm1()).max(ball(0))
    constant, power, half = _constant(event), event.num_coordinates - 2, most / 2
    rounding = spherical_laplace.ROUNDING + 8 * np.finfo(np.float64).eps * (1 + most)

    def near(at: Ball, sign: int) -> Ball:
        """Return how probable an angle theta is to a pole, or to the other one, up to a factor."""
        return at.sin() ** power * (at.sin() ** 2 + constant) * ((sign * at.cos() - 1) * half).exp()

    def both(at: Ball, _: bool) -> Ball:
        return near(at, 1) + acb(0, 1) * near(at, -1)

    def between(low: Ball, high: Ball) -> tuple[Ball, Ball]:
        """Integrate over angles to both poles: at once where both are about as probable."""
        if most < _LARGE:
            found = acb.integral(both, acb(low), acb(high))
            return found.real, found.imag
        return apart(low, high, 1), apart(low, high, -1)

    def apart(low: Ball, high: Ball, sign: int) -> Ball:
        return acb.integral(lambda at, _: near(at, sign), acb(low), acb(high)).real

    right = arb.pi() / 2
    hemisphere = between(ball(0), right)
    whole = hemisphere[0] + hemisphere[1]
    last = [(right, hemisphere)]  # a grid goes from zero on: each point's integral goes on from that of the one before

    def within(angle: Ball) -> tuple[Ball, Ball]:
        if not most < _LARGE:  # differences would be too rough for what e^epsilon multiplies
            return between(ball(0), angle)
        before, masses = last[0]
        less = between(angle, before)
        last[0] = angle, ((masses[0] - less[0]).max(ball(0)), (masses[1] - less[1]).max(ball(0)))
        return last[0][1]

    def delta(epsilon: Ball) -> Ball:
        if epsilon >= most:
            return ball(0)
        if not epsilon < most:
            return ball(0).union(ball(_AT_THE_END))
        masses = within((epsilon / most).acos())
        upper, lower = masses[0] / whole, masses[1] / whole
        return (upper - (epsilon.exp() * lower).min(upper) + rounding * upper).max(ball(0)).min(ball(1))

    return delta


def divergences(orders: list[float], event: SphericalLaplace) -> list[Ball]:
    """Return the Renyi divergences at some orders."""
    most, moment = 1 / ball(event.noise_multiplier), _log_moment(event)
    start = moment(ball(1))

    def at(order: float) -> Ball:
        alpha = ball(order)
        found = (moment(alpha) - start) / (alpha - 1) + spherical_laplace.ROUNDING * alpha / (alpha - 1)
        return least([found.max(ball(0)), alpha * most**2 / 2, most])

    return [at(order) for order in orders]


def rho(event: SphericalLaplace) -> Ball:
    """Return the rho of zCDP, at the accountant's orders."""
    orders = [float(order) for order in spherical_laplace.RHO_ORDERS]
    found = divergences(orders, event)
    between = [high / ball(low) for high, low in zip(found[1:], orders[:-1], strict=True)]
    return largest([found[0], *between, 1 / ball(event.noise_multiplier) / ball(orders[-1])])


def _constant(event: SphericalLaplace) -> Ball:
    """Return C of the density: (d - 1) / a  K_(d/2)(a) / K_(d/2-1)(a)."""
    half, size = 1 / (2 * ball(event.noise_multiplier)), ball(event.num_coordinates)
    return (size - 1) / half * half.bessel_k(size / 2) / half.bessel_k(size / 2 - 1)


def _log_moment(event: SphericalLaplace) -> Callable[[Ball], Ball]:
    """Return ln M((2 alpha - 1) a) as a function of alpha, up to a constant."""
    most, size = 1 / ball(event.noise_multiplier), ball(event.num_coordinates)
    if event.num_coordinates == 1:

        def of_laplace(alpha: Ball) -> Ball:
            both = alpha * ((alpha - 1) * most).exp() + (alpha - 1) * (-alpha * most).exp()
            return (both / (2 * alpha - 1)).log()

        return of_laplace
    constant = _constant(event)

    def poisson(order: Ball, at: Ball) -> Ball:
        return (order + ball(0.5)).gamma() * (2 / at) ** order * at.bessel_i(order)

    def of_sphere(alpha: Ball) -> Ball:
        at = (2 * alpha - 1) * most / 2
        return (poisson(size / 2, at) + constant * poisson(size / 2 - 1, at)).log()

    return of_sphere
