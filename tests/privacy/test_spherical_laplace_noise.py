"""Spherical Laplace noise as the enclave draws it: its law, its distance from the ideal one, sums and prices."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

import dpmcmc as dp
from dpmcmc.accounting import Approximation, RatioApproximation, SphericalLaplace, epsilon
from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.accounting.event import counts
from dpmcmc.enclave import PrivateData, SphericalLaplaceSum
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.enclave.noise.discrete_gaussian import TABLE_BITS, THRESHOLD_BITS
from dpmcmc.enclave.noise.spherical_laplace import Mixture, mixture_law, relative_error

RARE = 1e-5
"""How rarely a test of the noise fails by chance."""

BITS = TABLE_BITS + THRESHOLD_BITS


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    """Noise of 20,000 chains of one release, scale one, four coordinates."""
    data = PrivateData.without_guarantee(np.zeros((8, 4), np.float32), adjacency="add_or_remove_one", capacity=8)
    ask = SphericalLaplaceSum(1.0, 2.0)
    noise = data.run(
        lambda oracle, x: jax.vmap(lambda q: oracle.sum(ask, lambda q, r: r * q, q).value)(x), jnp.ones(20_000)
    )
    return np.asarray(noise, float) / 2.0


def test_the_radius_has_a_gamma_law_and_the_direction_is_uniform(drawn: np.ndarray) -> None:
    radius = np.linalg.norm(drawn, axis=1)
    assert stats.kstest(radius, stats.gamma(4).cdf).pvalue > RARE
    square = drawn[:, 0] ** 2 / radius**2
    assert stats.kstest(square, stats.beta(0.5, 1.5).cdf).pvalue > RARE
    assert abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 0.05
    assert len(np.unique(drawn[:, 0])) > 19_900


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_another_scale_is_noticed(drawn: np.ndarray, factor: float) -> None:
    assert stats.kstest(np.linalg.norm(drawn, axis=1) * factor, stats.gamma(4).cdf).pvalue < RARE


def test_a_gaussian_of_the_same_variance_is_noticed(drawn: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    radius = np.linalg.norm(rng.standard_normal(drawn.shape), axis=1) * np.sqrt(5)
    assert stats.kstest(radius, stats.gamma(4).cdf).pvalue < RARE


@pytest.mark.parametrize("size", [1, 2, 6, 20, 60])
def test_the_weights_are_a_law_and_nearly_the_ideal_one(size: int) -> None:
    mixture = Mixture(size, 2.0**20)
    weights, widths = mixture.weights, np.array(mixture.standard_deviations) / mixture.scale
    assert min(weights) >= 0
    assert sum(weights) == 2**BITS
    shares = np.array([weight / 2**BITS for weight in weights])
    assert shares @ widths**2 == pytest.approx(size + 1, rel=1e-6)
    assert shares @ widths**4 == pytest.approx((size + 1) * (size + 3), rel=1e-6)
    assert len(weights) < 200


@pytest.mark.parametrize("size", [2, 6, 20])
def test_the_density_is_within_its_stated_factor(size: int) -> None:
    """The mixture over the kept components, in 30 digits, beside exp(-t): where the noise is, within what is stated."""
    mixture = Mixture(size, 2.0**20)
    slack = without_approximations(SphericalLaplace(size, 1.0) + mixture.approximation)[1]
    with mpmath.workdps(30):
        variances = [(mpmath.mpf(one) / mixture.scale) ** 2 for one in mixture.standard_deviations]
        shares = [mpmath.mpf(weight) / 2**BITS for weight in mixture.weights]
        constant = mpmath.gamma(mpmath.mpf(size) / 2) / (2 * mpmath.pi ** (mpmath.mpf(size) / 2) * mpmath.gamma(size))
        for at in map(float, stats.gamma(size).ppf([1e-6, 0.01, 0.5, 0.99, 1 - 1e-6])):
            parts = [
                share
                * (2 * mpmath.pi * variance) ** (-mpmath.mpf(size) / 2)
                * mpmath.exp(-(mpmath.mpf(at) ** 2) / 2 / variance)
                for share, variance in zip(shares, variances, strict=True)
            ]
            ratio = mpmath.fsum(parts) / (constant * mpmath.exp(-at))
            assert abs(mpmath.log(ratio)) < slack.log_ratio
    assert slack.total_variation < 1e-12
    assert slack.log_ratio < 5e-5


def test_too_few_components_are_noticed() -> None:
    """A control: with two components for each doubling the stated factor is no longer small, nor is the true one."""
    assert relative_error(30.0, 2) > 1e-2
    assert relative_error(30.0, 8) < 1e-5


def test_components_of_neighbouring_scales_are_the_same() -> None:
    first, second = (Mixture(5, 2.0**power).standard_deviations for power in (20, 21))
    assert len(set(first) & set(second)) > len(first) - 12


def test_the_price_is_that_of_the_noise() -> None:
    data = PrivateData(np.zeros((50, 6), np.float32), budget=dp.Budget(2.0, 1e-6))
    price = data.price(lambda oracle: oracle.sum(SphericalLaplaceSum(1.0, 1.25), lambda record: record))
    kinds = {type(part) for part in counts(price)}
    assert kinds == {SphericalLaplace, Approximation, RatioApproximation}
    assert epsilon(price, 1e-6) <= epsilon(SphericalLaplace(6, 1.25), 1e-6) + 1e-4
    assert epsilon(price, 1e-6) < 0.8


@pytest.mark.parametrize("adjacency", ["replace_one", "add_or_remove_one"])
def test_sums_and_variances(adjacency: str) -> None:
    rows = np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)
    capacity = None if adjacency == "replace_one" else 300
    data = PrivateData.without_guarantee(rows, adjacency=adjacency, capacity=capacity)
    quiet = SphericalLaplaceSum(1.5, 0.004)
    found = data.run(lambda oracle: oracle.sum(quiet, lambda record: record))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    moved = 2 if adjacency == "replace_one" else 1
    np.testing.assert_allclose(found.value, (rows * np.minimum(1, 1.5 / norms)).sum(0), atol=0.2)
    np.testing.assert_allclose(found.variance, 4 * (moved * 1.5 * 0.004) ** 2, rtol=1e-3)


def test_two_chains_have_their_own_component_and_noise() -> None:
    keys = jax.random.split(insecure_key(5), 4000)
    law = mixture_law(2, 2.0**18)
    widths = np.asarray(jax.vmap(lambda key: law.select(key)[0].scale)(keys))
    expected = np.array([weight / 2**BITS for weight in Mixture(2, 2.0**18).weights])
    values = np.array(Mixture(2, 2.0**18).standard_deviations, np.float32)
    observed = np.array([(widths == value).sum() for value in values])
    common = expected * 4000 > 20
    chi = float(np.sum((observed[common] - 4000 * expected[common]) ** 2 / (4000 * expected[common])))
    assert stats.chi2.sf(chi, common.sum()) > RARE
