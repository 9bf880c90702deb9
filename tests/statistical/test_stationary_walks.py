"""Random walks keep the posterior, and each mutant of their test or of their bookkeeping is caught.

The clip of the log-ratio never binds here, which is what exactness needs. A test of a correct kernel raises a false
alarm with a chance of at most 1e-4.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest
from stationarity import CLEARLY, normal_target, worst

from dpmcmc.enclave import BarkerBit, LogRatio, PenaltyTest
from dpmcmc.enclave.mechanisms import log_ratio
from dpmcmc.kernels import accept, dp_barker, dp_penalty, guided_walk

RATIO = LogRatio(10.0, 0.05)
SCALE = (0.5, 0.9)

WALKS = {
    "penalty": lambda: dp_penalty(RATIO, proposal_scale=SCALE),
    "penalty, one component": lambda: dp_penalty(RATIO, proposal_scale=SCALE, one_component=True),
    "penalty, accept bit": lambda: dp_penalty(PenaltyTest(10.0, 0.05), proposal_scale=SCALE),
    "guided": lambda: guided_walk(RATIO, proposal_scale=SCALE),
    "guided, accept bit": lambda: guided_walk(PenaltyTest(10.0, 0.05), proposal_scale=SCALE),
    "Barker": lambda: dp_barker(BarkerBit(20.0), proposal_scale=SCALE),
}


@pytest.fixture(scope="module")
def target():
    return normal_target()


@pytest.mark.parametrize("name", [name for name in WALKS if name != "guided, accept bit"])
def test_walk_keeps_the_posterior(name, target):
    assert worst(WALKS[name](), target, num_chains=100_000) < 1


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_many_walks_keep_the_posterior(name, target):
    assert worst(WALKS[name](), target, num_chains=400_000, num_steps=20, seed=2) < 1


def penalty_times(factor):
    def test(key, noisy_log_ratio, variance):
        return -jax.random.exponential(key) < noisy_log_ratio - factor * variance

    return test


def uniform_for_its_logarithm(key, noisy_log_ratio, variance):
    return jax.random.uniform(key) < noisy_log_ratio - variance / 2


def wrong_sign(key, noisy_log_ratio, variance):
    return -jax.random.exponential(key) < -noisy_log_ratio - variance / 2


TESTS = {
    "no penalty": penalty_times(0.0),
    "whole variance": penalty_times(1.0),
    "u for log u": uniform_for_its_logarithm,
    "wrong sign": wrong_sign,
}


def test_the_patched_test_is_the_one_in_use(target, monkeypatch):
    """A mutant that is none passes, so that mutants fail for their mutation and not for being patched in."""
    monkeypatch.setattr(accept, "penalty_test", penalty_times(0.5))
    assert worst(WALKS["penalty"](), target, num_chains=20_000) < 1


@pytest.mark.parametrize("name", TESTS)
def test_mutant_of_the_penalty_test_is_caught(name, target, monkeypatch):
    monkeypatch.setattr(accept, "penalty_test", TESTS[name])
    assert worst(WALKS["penalty"](), target, num_chains=20_000) > CLEARLY


@pytest.mark.parametrize(("name", "factor"), [("penalty", 0.25), ("penalty", 4.0), ("penalty, accept bit", 0.25)])
def test_noise_that_is_not_the_stated_one_is_caught(name, factor, target, monkeypatch):
    """The variance is misstated to the kernel, or to the test in the enclave: half the noise is told, or twice."""
    stated = log_ratio.noise_variance
    monkeypatch.setattr(log_ratio, "noise_variance", lambda lattice: factor * stated(lattice))
    assert worst(WALKS[name](), target, num_chains=20_000) > CLEARLY


@pytest.mark.parametrize(("name", "factor"), [("penalty", -1.0), ("penalty", 0.0), ("Barker", -1.0)])
def test_wrong_prior_is_caught(name, factor, target):
    """The prior is inverted, or left out."""
    mutant = replace(target.model, log_prior=lambda position: factor * target.model.log_prior(position))
    assert worst(WALKS[name](), replace(target, model=mutant), num_chains=20_000) > CLEARLY


@pytest.mark.parametrize("wrong", [lambda old, turned: old, lambda old, turned: turned], ids=["never", "always"])  # noqa: ARG005
def test_wrong_turns_of_the_guided_walk_are_caught(wrong, target):
    """To turn every component at a rejection is no mutant: that too keeps the posterior times uniform directions."""
    kernel = WALKS["guided"]()

    def step(key, state, oracle):
        new, info = kernel.step(key, state, oracle)
        moved = jnp.where(new.position == state.position, 1, -1)
        return new._replace(direction=wrong(state.direction, new.direction * moved)), info

    assert worst(replace(kernel, step=step), target, num_chains=20_000) > CLEARLY
