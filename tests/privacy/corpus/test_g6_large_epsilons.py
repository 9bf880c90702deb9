"""An accountant that promises too little where e^epsilon is beyond what a number can hold.

The attack: an event with a privacy loss above 709. e^epsilon overflowed, what came of it was not a number, and the
composed curve went on with it: three releases were priced at epsilon 2129.87 whose delta there is 0.917. And Renyi
divergences of many coordinates were up to 0.44 % too small, where Bessel functions have no digits left.

What must happen: delta is what integration of the law of the loss gives, or a little more; divergences are no smaller
than with sixty digits; what cannot be priced costs infinity, or is refused by name.

False alarms: none; numbers are integrated on a fine grid, and compared with digits to spare.
"""

import math

import mpmath
import numpy as np
import pytest

from dpmcmc.accounting import Budget, Ledger, epsilon
from dpmcmc.accounting.event import Gaussian, RatioApproximation
from dpmcmc.accounting.pld import _step
from dpmcmc.accounting.spherical_laplace import SphericalLaplace, _constant, divergences, profile
from dpmcmc.errors import BudgetExceeded, InvalidArgument


def law(event):
    """The privacy losses of a release, and their probabilities: of many narrow cells of the angle."""
    half, size = event.largest_loss / 2, event.num_coordinates
    angles = (np.arange(400_000) + 0.5) * math.pi / 400_000
    logs = (size - 2) * np.log(np.sin(angles)) + np.log(np.sin(angles) ** 2 + _constant(event)) + half * np.cos(angles)
    masses = np.exp(logs - logs.max())
    return 2 * half * np.cos(angles), masses / masses.sum()


@pytest.mark.parametrize("size", [2, 3, 20, 400])
@pytest.mark.parametrize("noise", [0.0005, 0.0014, 0.01, 0.3])
def test_a_profile_is_the_expectation_above_epsilon(size, noise):
    event = SphericalLaplace(size, noise)
    losses, masses = law(event)
    grid = np.linspace(0, event.largest_loss, 101)[:-1]
    expected = np.array([masses @ np.maximum(-np.expm1(np.minimum(at - losses, 0.0)), 0.0) for at in grid])
    np.testing.assert_allclose(profile(grid, event), expected, rtol=2e-4, atol=1e-9)


def test_three_releases_cost_what_is_drawn_of_them():
    event = SphericalLaplace(2, 0.0014)
    losses, masses = law(event)
    price = float(epsilon(event * 3, 1e-6))
    totals = np.random.default_rng(0).choice(losses, (200_000, 3), p=masses).sum(axis=1)
    assert np.mean(np.maximum(-np.expm1(np.minimum(price - totals, 0.0)), 0.0)) <= 1e-4  # it was 0.9
    book = Ledger.in_memory()
    book.register("people", Budget(2130.0, 1e-6), "replace_one")
    with pytest.raises(BudgetExceeded):
        book.reserve("people", event * 3, description="too much")


@pytest.mark.parametrize(("size", "noise"), [(800, 0.01), (1000, 0.02), (500, 0.05), (1000, 1.0), (4, 0.01)])
def test_divergences_are_not_too_small(size, noise):
    event = SphericalLaplace(size, noise)
    orders = np.array([1.001, 1.5, 2.0, 5.0, 30.0, 1000.0])
    with mpmath.workdps(60):
        half, nu = 1 / (2 * mpmath.mpf(noise)), mpmath.mpf(size) / 2
        constant = (size - 1) / half * mpmath.besselk(nu, half) / mpmath.besselk(nu - 1, half)

        def moment(at):
            parts = [
                factor * mpmath.gamma(order + 0.5) * (2 / at) ** order * mpmath.besseli(order, at)
                for factor, order in ((1, nu), (constant, nu - 1))
            ]
            return mpmath.log(sum(parts))

        exact = [float((moment((2 * mpmath.mpf(a) - 1) * half) - moment(half)) / (mpmath.mpf(a) - 1)) for a in orders]
    found = divergences(orders, event)
    assert np.all(found >= np.array(exact) * (1 - 1e-13))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_what_cannot_be_priced_costs_infinity_or_is_refused(monkeypatch):
    assert epsilon(RatioApproximation(1000.0), 1e-6) == math.inf
    assert 500 < epsilon(SphericalLaplace(1000, 1e-3), 1e-6) < 1000
    book = Ledger.in_memory()
    book.register("people", Budget(100.0, 1e-6), "replace_one")
    with pytest.raises(BudgetExceeded):
        book.reserve("people", RatioApproximation(1000.0) + Gaussian(5.0), description="too much")
    monkeypatch.setattr("dpmcmc.accounting.spherical_laplace.profile", lambda grid, _: grid * np.nan)
    _step.cache_clear()
    with pytest.raises(InvalidArgument, match="no finite profile"):
        epsilon(SphericalLaplace(2, 0.77), 1e-6, accountant="pld")
    _step.cache_clear()
