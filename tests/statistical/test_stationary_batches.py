"""Barker's test and the penalty test on batches keep a tempered posterior as well as twenty thousand chains can tell.

Both are approximate: the noise of the batch is only nearly normal, its variance is estimated from the batch, and V_cor
makes a logistic law only nearly. The settings are such that these errors are below what the test can see, and what a
careless kernel would leave out is above. A test of a correct kernel raises a false alarm with a chance of at most 1e-4.
"""

from dataclasses import replace

import jax.numpy as jnp
import pytest
from stationarity import CLEARLY, normal_target, worst

from dpmcmc.enclave import BarkerTest, MinibatchLogRatio
from dpmcmc.enclave.mechanisms import barker_test
from dpmcmc.kernels import dp_barker, dp_penalty

NUM_CHAINS = 20_000


@pytest.fixture(scope="module")
def weak():
    """Fifty records that count as three: the ratio of one is then below the clip that Barker's test sets."""
    return normal_target(50, temperature=0.06, spread=2.0)


@pytest.fixture(scope="module")
def strong():
    """A hundred records that count as ten."""
    return normal_target(100, temperature=0.1, spread=2.0)


BARKER = {
    "all records": lambda: dp_barker(BarkerTest(50, 1.0, 0.9), proposal_scale=(0.4, 0.5)),
    "half of the records": lambda: dp_barker(BarkerTest(25, 1.0, 0.9), proposal_scale=(0.4, 0.5)),
    "half of the records, as published": lambda: dp_barker(BarkerTest(25, 2.0, 1.0), proposal_scale=(0.4, 0.5)),
}


@pytest.mark.parametrize(
    "name",
    ["all records", pytest.param("half of the records", marks=pytest.mark.slow), "half of the records, as published"],
)
def test_barker_on_a_batch_keeps_the_posterior(name, weak):
    assert worst(BARKER[name](), weak, num_chains=NUM_CHAINS) < 1


def test_missing_correction_is_caught(weak, monkeypatch):
    monkeypatch.setattr(barker_test, "draw_correction", lambda key, correction: jnp.zeros(()))  # noqa: ARG005
    assert worst(BARKER["half of the records, as published"](), weak, num_chains=NUM_CHAINS) > CLEARLY


@pytest.mark.slow
def test_clip_that_binds_is_caught(strong):
    assert worst(BARKER["half of the records"](), strong, num_chains=NUM_CHAINS) > CLEARLY


MINIBATCH = {
    "15 of 100 records": lambda: dp_penalty(MinibatchLogRatio(15, 0.25, 0.3), proposal_scale=(0.5, 0.8)),
    "30 of 100 records": lambda: dp_penalty(MinibatchLogRatio(30, 0.25, 0.3), proposal_scale=(0.5, 0.8)),
}


@pytest.mark.parametrize("name", MINIBATCH)
def test_penalty_on_a_batch_keeps_the_posterior(name, strong):
    assert worst(MINIBATCH[name](), strong, num_chains=NUM_CHAINS) < 1


def test_missing_penalty_of_the_batch_is_caught(strong, monkeypatch):
    coefficients = MinibatchLogRatio.coefficients

    def without_penalty(mechanism, facts, queries):
        found = coefficients(mechanism, facts, queries)
        return found._replace(square=jnp.zeros_like(found.square))

    monkeypatch.setattr(MinibatchLogRatio, "coefficients", without_penalty)
    assert worst(MINIBATCH["15 of 100 records"](), strong, num_chains=NUM_CHAINS) > CLEARLY


@pytest.mark.slow
def test_missing_temperature_is_caught(strong):
    """The chains start at draws of the tempered posterior and are then moved toward another one."""
    other = replace(strong, model=strong.model.tempered(0.2))
    assert worst(MINIBATCH["30 of 100 records"](), other, num_chains=NUM_CHAINS) > CLEARLY
