"""How the owner chooses the noise, and what may be claimed for it: proven by default, labelled, or nothing at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import NonPrivate
from dpmcmc.enclave import (
    BarkerTest,
    CurvatureSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PenaltyTest,
    PrivateData,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave.noise.modes import MODES
from dpmcmc.errors import BudgetExceeded, InvalidArgument

ZEROS = np.zeros((40, 3), np.float32)
BUDGET = Budget(epsilon=5.0, delta=1e-6)
CHAINS = 2000


class Flat:
    """A likelihood that no record and no position moves: what is released is the noise."""

    temperature = 1.0

    def log_prior(self, position):
        return 0.0 * jnp.sum(position)

    def log_likelihood(self, position, record):
        return 0.0 * jnp.sum(jnp.sin(position) * record)


class Linear(Flat):
    """The same with a linear predictor, which takes the path of its own."""

    def log_likelihood(self, position, record):
        return record @ position


def force(mechanism):
    return lambda oracle, theta: oracle.force(mechanism, theta)


def ratio(mechanism):
    return lambda oracle, theta: oracle.log_posterior_ratio(mechanism, theta, theta + 1.0)


def curvature(oracle, theta):
    released = oracle.curvature(CurvatureSum(1.0, 3.0), theta, jnp.eye(3))
    return released._replace(value=jnp.diag(released.value))


QUESTIONS = {
    "sum": (lambda oracle, theta: oracle.sum(Sum(1.0, 3.0), lambda t, r: 0.0 * r * t, theta), Flat()),
    "count": (lambda oracle, theta: oracle.sum(NoisyCount(1.0, 3.0), lambda t, r: 0.0 * r * t, theta), Flat()),
    "gradient": (force(GradientSum(1.0, 3.0)), Flat()),
    "linear predictor": (force(GradientSum(1.0, 3.0)), Linear()),
    "curvature": (curvature, Linear()),
    "log-ratio": (ratio(LogRatio(1.0, 3.0)), Flat()),
    "minibatch log-ratio": (ratio(MinibatchLogRatio(10, 1.0, 3.0)), Flat()),
    "Poisson batch": (force(SubsampledGradientSum.poisson(1.0, 3.0, 0.2)), Flat()),
    "fixed batch": (force(SubsampledGradientSum.without_replacement(1.0, 3.0, 10)), Flat()),
}


def test_exact_is_the_default():
    data = PrivateData(ZEROS, budget=BUDGET)
    assert data.facts.noise == "exact"
    assert data.assumptions == ()
    assert "noise" not in repr(data)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_mode_has_the_declared_scale_and_its_own_draws(question):
    program, model = QUESTIONS[question]
    positions = jnp.zeros((CHAINS, 3))
    drawn = {}
    for mode in MODES:
        data = PrivateData.without_guarantee(ZEROS, noise=mode)
        noisy = data.run(lambda o, t: jax.vmap(lambda one: program(o, one))(t), positions, model=model, insecure_seed=3)
        standard = np.ravel(noisy.value.T / jnp.sqrt(jnp.broadcast_to(noisy.variance, CHAINS)))
        assert stats.kstest(standard, "norm").pvalue > 1e-4
        for factor in (2 / 3, 3 / 2):
            assert stats.kstest(standard * factor, "norm").pvalue < 1e-6
        drawn[standard.tobytes()] = mode
    assert len(drawn) == len(MODES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "test", [PenaltyTest(1.0, 3.0), BarkerTest(10, 1.0, 0.5)], ids=lambda test: type(test).__name__
)
def test_decisions_are_made_as_often_in_every_mode(mode, test):
    data = PrivateData.without_guarantee(ZEROS, noise=mode)

    def program(oracle, positions):
        return jax.vmap(lambda one: oracle.accept(test, one, one + 1.0))(positions)

    accepted = data.run(program, jnp.zeros((CHAINS, 3)), model=Flat(), insecure_seed=3)
    expected = 0.5 if isinstance(test, BarkerTest) else 2 * stats.norm.cdf(-3 * np.sqrt(3))  # 2 Phi(-sigma / 2)
    error = 4 * np.sqrt(expected * (1 - expected) / CHAINS)
    assert np.mean(accepted) == pytest.approx(expected, abs=max(error, 2 / CHAINS))


# What may be claimed.


@pytest.mark.parametrize("paid", ["budget", "ledger"])
def test_float_noise_has_no_price(paid, book):
    payer = {"budget": BUDGET} if paid == "budget" else {"ledger": book, "dataset": "people"}
    with pytest.raises(InvalidArgument, match="noise='float' has no guarantee; use PrivateData"):
        PrivateData(ZEROS, noise="float", **payer)


def test_float_noise_is_not_private():
    program, model = QUESTIONS["sum"]
    data = PrivateData.without_guarantee(ZEROS, noise="float")
    price = data.price(program, jnp.zeros(3), model=model)
    assert NonPrivate in price.held
    with pytest.raises(BudgetExceeded), PrivateData(ZEROS, budget=BUDGET).reserve(price):
        pass


def test_exact_noise_has_the_price_of_its_mechanism():
    program, model = QUESTIONS["sum"]
    data = PrivateData(ZEROS, budget=BUDGET, noise="exact")
    assert data.price(program, jnp.zeros(3), model=model) == PrivateData(ZEROS, budget=BUDGET).price(
        program, jnp.zeros(3), model=model
    )


@pytest.mark.parametrize("mode", ["Exact", "gaussian", "hardened", "", None, 1])
def test_modes_that_do_not_exist(mode):
    with pytest.raises(InvalidArgument, match="must be one of exact, float"):
        PrivateData(ZEROS, budget=BUDGET, noise=mode)
