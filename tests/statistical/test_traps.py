"""Traps that published work and code fell into, each with what shows it or what keeps us out of it.

A test of a correct kernel raises a false alarm with a chance of at most 1e-4; what is wrong must be caught clearly.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from stationarity import CLEARLY, advance, normal_target, worst

import dpmcmc as dp
from dpmcmc.accounting import epsilon, samplers
from dpmcmc.diagnostics import mmd
from dpmcmc.enclave.core import programs, sums
from dpmcmc.enclave.noise.floating import from_float
from dpmcmc.errors import BudgetExceeded, InvalidArgument

BOUNDS = {"records": (-10, 10)}


@pytest.fixture(scope="module")
def target():
    return normal_target()


def test_half_temperature_samples_the_posterior_squared() -> None:
    """Drift h and noise N(0, h): however well it is sampled, half the variance is far off in ten dimensions.

    The kernel with that mutation is in test_temperature.py and test_langevin.py.
    """
    rng = np.random.default_rng(1)
    posterior, again, squared = rng.normal(size=(3, 1000, 10)) * np.array([1.0, 1.0, 0.5**0.5])[:, None, None]
    assert mmd(again, posterior, rng) < 0.05
    assert mmd(squared, posterior, rng) > 0.1


def test_a_chain_that_learns_nothing_looks_perfect_from_the_truth(target) -> None:
    """Start points around the true parameters, as wide as the posterior, are the answer that nobody paid for.

    `fit` starts where no record says (test_fit.py, the choice knows public facts alone), and `calibrate` does not show
    a method the truth.
    """
    rng = np.random.default_rng(2)
    reference, truth = target.draw(1000, 1), target.draw(400, 2)
    prior = (np.array([-1.0, 0.5]) + rng.standard_normal((400, 2)) / np.sqrt([0.5, 0.25])).astype(np.float32)
    learns_nothing = dp.kernels.dp_penalty(dp.mechanisms.PenaltyTest(10.0, 1e5), proposal_scale=0.5)
    states, info = advance(learns_nothing, target.model, target.data, np.concatenate([truth, prior]), 5, 1)
    assert np.mean(info.is_accepted) < 0.01
    assert mmd(np.asarray(states.position[:400]), reference, rng) < 0.08
    assert mmd(np.asarray(states.position[400:]), reference, rng) > 0.3


def test_a_clip_that_most_gradients_reach_ruins_what_trusts_them_and_not_what_tests(target) -> None:
    """One clip for both, which few gradients are shorter than."""
    covariance = np.array([[4.0, 2.4], [2.4, 8.0]])
    rows = np.random.default_rng(0).multivariate_normal([1.0, -0.5], covariance, size=10)  # those of the target
    clip = float(np.quantile(np.linalg.norm((rows - target.mean) @ np.linalg.inv(covariance), axis=1), 0.1))
    gradient = dp.mechanisms.GradientSum(clip, samplers.langevin_noise(0.02) / (2 * clip))
    assert worst(dp.kernels.dp_langevin(gradient, step_size=0.02), target, num_chains=3_000, num_steps=20) > CLEARLY
    hmc = dp.kernels.dp_hmc(
        dp.mechanisms.GradientSum(clip, 1.0), dp.mechanisms.LogRatio(10.0, 0.05), step_size=0.3, num_leapfrog=2
    )
    assert worst(hmc, target, num_chains=5_000, num_steps=3) < 1


def test_a_chain_is_not_private_because_it_would_sample_the_posterior_one_day() -> None:
    """What is charged is what is released, step by step, whether a chain has converged or not."""
    rows = np.zeros((100, 2))
    model = dp.Model(lambda theta: -0.5 * theta @ theta, lambda theta, x: -0.5 * jnp.sum((x - theta) ** 2))
    data = dp.PrivateData(rows, bounds=BOUNDS, budget=dp.Budget(epsilon=10.0, delta=1e-6))
    batches = dp.mechanisms.ExactSubsampledGradientSum(dp.mechanisms.Poisson(0.1))
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        dp.sample(
            dp.kernels.dp_sgld(batches, step_size=1e-3),
            model,
            data,
            num_steps=2,
            num_chains=1,
            init=jnp.zeros(2),
            progress=False,
        )
    noisy = dp.kernels.dp_sgld(dp.mechanisms.SubsampledGradientSum.for_sgld(5.0, 0.1, 1e-5), step_size=1e-5)
    prices = [dp.price(noisy, model, data, num_steps=n, num_chains=1, init=jnp.zeros(2)) for n in (10, 100, 1000)]
    costs = [float(epsilon(price, 1e-6)) for price in prices]
    assert costs == sorted(costs)
    assert costs[2] > 2 * costs[0]


def uniform_noise(mode, key, scale, shape=()):  # noqa: ARG001
    """Return noise of the right variance and of the wrong law."""
    width = getattr(scale, "scale", scale)  # of a law, or the scale itself
    return from_float(jnp.rint(width * 12**0.5 * (jax.random.uniform(key, shape) - 0.5)))


def test_uniform_noise_for_gaussian_is_caught(monkeypatch) -> None:
    """Neither is a penalty test on it exact, nor is its price that of a Gaussian."""

    def chance_of(error):  # p-value of the noise of 2000 releases of nothing
        data = dp.PrivateData.without_guarantee(np.zeros((5, 1)), bounds=BOUNDS)

        def ask(oracle, each):
            return jax.vmap(
                lambda one: oracle.sum(dp.mechanisms.Sum(1.0, 3.0), lambda q, record: q * record, one).value
            )(each)

        values = data.run(ask, jnp.zeros(2000), insecure_seed=1)
        return stats.kstest(np.ravel(values) / error, "norm").pvalue

    assert chance_of(6.0) > 1e-4
    monkeypatch.setattr(sums, "draw_noise", uniform_noise)
    programs.SHARED.clear()  # or the executable of before would be found again
    assert chance_of(6.0) < 1e-8

    def unbalance(noise, log_ratio=1.0):  # of accepting with the chance min(1, exp(ratio + noise - variance / 2))
        forward, backward = (
            np.mean(np.minimum(1, np.exp(sign * log_ratio + noise - np.var(noise) / 2))) for sign in (1, -1)
        )
        return abs(np.log(forward / backward) - log_ratio)

    quantiles = (np.arange(100_000) + 0.5) / 100_000
    assert unbalance(2 * stats.norm.ppf(quantiles)) < 1e-3
    assert unbalance(2 * 12**0.5 * (quantiles - 0.5)) > 0.1


def test_a_sensitivity_cannot_be_taken_from_the_records() -> None:
    """A clip is a number that is stated when a mechanism is made: neither a release nor the data can be one."""
    data = dp.PrivateData(np.ones((50, 1)), bounds=BOUNDS, budget=dp.Budget(epsilon=1.0, delta=1e-6))

    def as_clip(oracle):
        largest = oracle.sum(dp.mechanisms.Sum(10.0, 100.0), lambda record: record).value[0]
        return oracle.sum(dp.mechanisms.Sum(largest, 100.0), lambda record: record).value

    with pytest.raises(InvalidArgument, match="clip"):
        data.price(as_clip)
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        data.run(lambda oracle: oracle.sum(dp.mechanisms.ExactSum(), lambda record: record).value)
