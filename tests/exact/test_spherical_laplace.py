"""The price of spherical Laplace noise, held against integrals over space, other libraries and simulated losses."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpmcmc.accounting import Gaussian, SphericalLaplace, delta, epsilon, noise_for, rdp, zcdp
from dpmcmc.accounting.spherical_laplace import divergences, profile, rho

SIZES = [2, 3, 5, 6, 12, 40]
NOISES = [0.2, 1.0, 5.0]


def by_space(size: int, noise: float, of_loss) -> float:
    """Integrate a function of the privacy loss over space: radius and angle from the first centre, scale one."""
    apart, last = 1 / noise, size + 45 + 8 * math.sqrt(size)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    radius, angle = last * (nodes[:, None] + 1) / 2, math.pi * (nodes + 1) / 2
    loss = np.sqrt(radius**2 + 2 * radius * apart * np.cos(angle) + apart**2) - radius
    density = np.exp((size - 1) * np.log(radius) - radius) * np.sin(angle) ** (size - 2)
    return float(weights @ (density * of_loss(loss)) @ weights) / float(weights @ density @ weights)


@pytest.mark.parametrize("size", [2, 5, 12])
@pytest.mark.parametrize("noise", NOISES)
def test_the_profile_is_the_integral_over_space(size: int, noise: float) -> None:
    event = SphericalLaplace(size, noise)
    for share in (0.0, 0.5):
        at = share / noise
        own = float(profile(np.array([at]), event)[0])
        assert own == pytest.approx(
            by_space(size, noise, lambda loss, at=at: np.maximum(0.0, -np.expm1(at - loss))), rel=1e-4
        )


@pytest.mark.parametrize("size", [2, 5, 12])
def test_the_moments_are_the_integral_over_space(size: int) -> None:
    event = SphericalLaplace(size, 0.5)
    for order in (1.5, 4.0):
        moment = by_space(size, 0.5, lambda loss, order=order: np.exp((order - 1) * loss))
        own = float(divergences(np.array([order]), event)[0])
        assert own == pytest.approx(math.log(moment) / (order - 1), rel=1e-6)


def in_many_digits(size: int, noise: float, tilt: mpmath.mpf, share: float) -> mpmath.mpf:
    """Return the integral of sin^(d-2) (sin^2 + C) e^(tilt (cos - 1)) from zero to the angle of a share of the loss."""
    half, order = 1 / (2 * mpmath.mpf(noise)), mpmath.mpf(size) / 2
    constant = (size - 1) / half * mpmath.besselk(order, half) / mpmath.besselk(order - 1, half)
    last = mpmath.acos(mpmath.mpf(share))

    def density(angle: mpmath.mpf) -> mpmath.mpf:
        sine = mpmath.sin(angle)
        return sine ** (size - 2) * (sine**2 + constant) * mpmath.exp(tilt * (mpmath.cos(angle) - 1))

    return mpmath.quad(density, [last * place / 16 for place in range(17)])


def log_moment(size: int, noise: float, tilt: mpmath.mpf) -> mpmath.mpf:
    """Return ln of the integral of sin^(d-2) (sin^2 + C) e^(tilt cos) but for a constant: quadrature loses digits."""
    half, order = 1 / (2 * mpmath.mpf(noise)), mpmath.mpf(size) / 2
    constant = (size - 1) / half * mpmath.besselk(order, half) / mpmath.besselk(order - 1, half)
    shares = ((order, 1), (order - 1, constant))
    terms = [c * mpmath.gamma(v + 0.5) * (2 / tilt) ** v * mpmath.besseli(v, tilt) for v, c in shares]
    return mpmath.log(mpmath.fsum(terms))


@pytest.mark.parametrize(("size", "noise"), [(2, 0.02), (2, 300.0), (3, 1.0), (6, 1.0), (12, 300.0), (40, 0.02)])
def test_profile_and_moments_agree_with_many_digits(size: int, noise: float) -> None:
    event, half = SphericalLaplace(size, noise), 1 / (2 * mpmath.mpf(noise))
    with mpmath.workdps(30):
        whole = in_many_digits(size, noise, half, -1.0)
        for share in (0.1, 0.9):
            upper = in_many_digits(size, noise, half, share)
            lower = in_many_digits(size, noise, -half, share) * mpmath.exp(-2 * half)
            exact = float((upper - mpmath.exp(2 * half * share) * lower) / whole)
            own = float(profile(np.array([share * event.largest_loss]), event)[0])
            assert exact <= own * (1 + 1e-13)
            assert own <= exact * (1 + 1e-6) + 1e-11
        for order in (1.01, 30.0):
            moments = [log_moment(size, noise, tilt) for tilt in ((2 * mpmath.mpf(order) - 1) * half, half)]
            exact = float((moments[0] - moments[1]) / (mpmath.mpf(order) - 1))
            own = float(divergences(np.array([order]), event)[0])
            assert exact <= own * (1 + 1e-12)
            assert own <= exact * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("noise", [0.3, 1.0, 10.0])
def test_one_coordinate_is_the_laplace_mechanism(noise: float) -> None:
    peer = privacy_loss_distribution.from_laplace_mechanism(noise, value_discretization_interval=1e-5)
    event = SphericalLaplace(1, noise)
    for share in (0.0, 0.3, 0.9):
        at = share / noise
        assert delta(event, at, "pld") == pytest.approx(peer.get_delta_for_epsilon(at), rel=2e-3, abs=1e-9)
    composed = peer.self_compose(4)
    assert epsilon(event * 4, 1e-6, "pld") == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=2e-3)


@pytest.mark.parametrize("size", [1, *SIZES])
@pytest.mark.parametrize("noise", NOISES)
def test_delta_is_never_needed_beyond_the_largest_loss(size: int, noise: float) -> None:
    event = SphericalLaplace(size, noise)
    assert delta(event, event.largest_loss * 1.001, "pld") <= 1e-12
    assert epsilon(event, 1e-14) <= event.largest_loss * 1.001
    assert epsilon(event, 1e-6) < event.largest_loss


@pytest.mark.parametrize("size", SIZES)
def test_a_smaller_move_costs_less(size: int) -> None:
    """Neighbours that are nearer than the sensitivity are dominated, at every epsilon."""
    grid = np.linspace(0.0, 2.0, 50)
    nearer, farther = (profile(grid, SphericalLaplace(size, noise)) for noise in (0.8, 0.5))
    assert np.all(nearer <= farther)


@pytest.mark.parametrize("size", [2, 4, 10, 20])
@pytest.mark.parametrize("at", [0.5, 1.0, 4.0])
def test_in_few_dimensions_it_has_less_noise_than_a_gaussian(size: int, at: float) -> None:
    spherical = noise_for(lambda noise: SphericalLaplace(size, noise), at, 1e-6) * math.sqrt(size + 1)
    gaussian = noise_for(Gaussian, at, 1e-6)
    assert spherical < gaussian * {2: 0.45, 4: 0.57, 10: 0.76, 20: 0.87}[size]


@pytest.mark.parametrize("size", [2, 6, 30])
@pytest.mark.parametrize("noise", [0.1, 1.0, 20.0])
def test_rho_bounds_every_order(size: int, noise: float) -> None:
    event = SphericalLaplace(size, noise)
    orders = 1 + np.geomspace(1e-5, 1e5, 4001)
    assert np.all(divergences(orders, event) <= rho(event) * orders)
    assert rho(event) <= event.largest_loss**2 / 2
    assert zcdp.curve(event).rho == rho(event)
    assert rdp.curve(event) is not None


def test_compositions_with_gaussians_agree_with_simulated_losses() -> None:
    """delta = E(1 - e^(epsilon - loss))+ over a million simulated pairs of losses: within 6 standard errors."""
    rng, size, noise, z = np.random.default_rng(5), 6, 1.5, 4.0
    radius = rng.gamma(size, 1.0, 10**6)
    cosine = rng.standard_normal(10**6)
    cosine = cosine / np.sqrt(cosine**2 + rng.chisquare(size - 1, 10**6))
    apart = 1 / noise
    losses = np.sqrt(radius**2 + 2 * radius * apart * cosine + apart**2) - radius
    losses = losses + rng.normal(0.5 / z**2, 1 / z, 10**6)
    event = SphericalLaplace(size, noise) + Gaussian(z)
    for at in (0.2, 0.8):
        excess = np.maximum(0.0, -np.expm1(at - losses))
        assert abs(delta(event, at, "pld") - excess.mean()) < 6 * excess.std() / 1e3 + 1e-3 * excess.mean()
