"""How far a model is from holding, from two roots: the posterior mean square, beside one by simulation."""

import numpy as np
import pytest

from dpmcmc.fitting.strategies.weighted_scores.misfit import COMMON, MISFITS, squared_shift

TIMES = 40.0


def covariance(size, noise, seed=0):
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))
    return noise**2 * (turn * np.linspace(0.5, 1.5, size)) @ turn.T


def prior_square():
    weights = MISFITS**COMMON
    return float(weights @ MISFITS**2 / weights.sum())


@pytest.mark.parametrize("size", [1, 3, 10])
def test_it_is_the_posterior_mean_of_the_square(size) -> None:
    """Shifts and roots drawn from the prior: the mean of the squares, and that of what is expected, are alike.

    And what is expected explains the squares: their correlation is that of a posterior mean. Seeds are fixed.
    """
    rng = np.random.default_rng(size)
    noise = covariance(size, 2.0)
    root, squares, expected = np.linalg.cholesky(noise), [], []
    for misfit in rng.choice(MISFITS, 4000, p=MISFITS**COMMON / np.sum(MISFITS**COMMON)):
        shift = rng.normal(0, misfit * TIMES / np.sqrt(size), size)
        squares.append(shift @ shift / TIMES**2)
        expected.append(squared_shift(shift + root @ rng.normal(size=size), noise, TIMES))
    squares, expected = np.array(squares), np.array(expected)
    assert np.mean(expected) == pytest.approx(np.mean(squares), rel=0.1)
    low, high = expected < np.quantile(expected, 0.3), expected > np.quantile(expected, 0.7)
    assert squares[low].mean() == pytest.approx(expected[low].mean(), rel=0.2)
    assert squares[high].mean() == pytest.approx(expected[high].mean(), rel=0.2)


def test_noise_tells_nothing_and_a_clear_shift_all() -> None:
    nothing = squared_shift(np.zeros(4), covariance(4, 1e4), TIMES)
    assert nothing == pytest.approx(prior_square(), rel=1e-3)
    shift = np.array([3.0, 0.0, 0.0, 0.0])
    assert squared_shift(shift, covariance(4, 1e-3), TIMES) == pytest.approx((3 / TIMES) ** 2, rel=1e-3)


def test_roots_that_agree_allow_shorter_bounds_than_roots_that_do_not() -> None:
    near, far = (np.sqrt(squared_shift(np.full(5, each), covariance(5, 1.0), TIMES)) for each in (0.3, 4.0))
    assert near < 0.06 < 0.15 < far


def test_directions_that_no_data_see_do_not_count() -> None:
    noise = np.diag([1.0, 1.0, 0.0])
    apart = np.array([0.5, -0.5, 100.0])
    assert squared_shift(apart, noise, TIMES) == pytest.approx(squared_shift(apart[:2], noise[:2, :2], TIMES))
