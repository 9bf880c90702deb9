# ruff: noqa: ARG005
"""Models that do not return one real number are refused by name before anything is charged; priors without support."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import GaussianModel

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    PenaltyTest,
    PrivateData,
    SubsampledGradientSum,
)
from dpmcmc.errors import InvalidArgument

THETA = jnp.zeros(3)
QUESTIONS = {
    "force": lambda oracle, theta: oracle.force(GradientSum(1.0, 3.0), theta).value,
    "force of a batch": lambda oracle, theta: oracle.force(SubsampledGradientSum.poisson(1.0, 3.0, 0.5), theta).value,
    "ratio": lambda oracle, theta: oracle.log_posterior_ratio(LogRatio(1.0, 3.0), theta, theta + 1).value,
    "ratio of a batch": lambda o, theta: o.log_posterior_ratio(MinibatchLogRatio(5, 1.0, 3.0), theta, theta + 1).value,
    "penalty": lambda oracle, theta: oracle.accept(PenaltyTest(1.0, 3.0), theta, theta + 1),
    "Barker": lambda oracle, theta: oracle.accept(BarkerBit(1.0), theta, theta + 1),
    "Barker on a batch": lambda oracle, theta: oracle.accept(BarkerTest(5, 1.0, 0.5), theta, theta + 1),
}
BAD = {
    "a vector": (lambda theta: -(theta**2), r"returned an array of shape \(3,\) and type float32; expected one real"),
    "one entry": (lambda theta: jnp.sum(theta)[None], r"returned an array of shape \(1,\)"),
    "complex": (lambda theta: jnp.sum(theta) + 1j, r"shape \(\) and type complex64; expected one real number"),
    "an integer": (lambda theta: jnp.sum(theta > 0), "type int32; expected one real number"),
    "a boolean": (lambda theta: jnp.all(theta > 0), "type bool; expected one real number"),
    "a Python integer": (lambda theta: 0, "type int32; expected one real number"),
    "nothing": (lambda theta: None, "returned a NoneType; expected one real number"),
    "a text": (lambda theta: "flat", "returned a str; expected one real number"),
    "a tree": (lambda theta: {"value": jnp.sum(theta)}, "returned a dict; expected one real number"),
    "a constant NaN": (lambda theta: float("nan"), "is not finite at any position"),
    "a constant infinity": (lambda theta: -jnp.inf, "is not finite at any position"),
    "an infinite array": (lambda theta: np.float32("inf"), "is not finite at any position"),
}


def check_refused(data, book, question, model, message):
    for attempt in (data.price, data.run):
        with pytest.raises(InvalidArgument, match=message):
            attempt(QUESTIONS[question], THETA, model=model)
    assert book.reserved == []


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", BAD)
def test_a_prior_that_is_no_real_number(data, book, question, kind):
    function, message = BAD[kind]

    class Model(GaussianModel):
        def log_prior(self, position):
            return function(position)

    check_refused(data, book, question, Model(), f"log_prior of the model .*{message}")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", BAD)
def test_a_likelihood_that_is_no_real_number(data, book, question, kind):
    function, message = BAD[kind]

    class Model(GaussianModel):
        def log_likelihood(self, position, record):
            return function(position + 0 * record if kind.startswith(("a vector", "one", "complex")) else position)

    check_refused(data, book, question, Model(), f"log_likelihood of the model .*{message}")


@pytest.mark.parametrize("prior", [lambda theta: 0.0, lambda theta: jnp.zeros(()), lambda theta: np.float32(0.0)])
def test_a_flat_prior_is_a_real_number(data, prior):
    class Model(GaussianModel):
        def log_prior(self, position):
            return prior(position)

    for question in ("force", "ratio", "penalty"):
        assert np.all(np.isfinite(data.run(QUESTIONS[question], THETA, model=Model())))


# A prior that is not finite at some positions is no mistake: it has its support elsewhere.


@pytest.mark.parametrize("outside", [-np.inf, np.nan])
@pytest.mark.parametrize("test", [PenaltyTest(1.0, 3.0), BarkerBit(1.0), BarkerTest(5, 1.0, 0.5)])
def test_proposals_without_support_are_rejected(table, outside, test):
    class Model(GaussianModel):
        def log_prior(self, position):
            return jnp.where(jnp.all(position < 0.5), 0.0, outside)

    data = PrivateData.without_guarantee(table)

    def program(oracle, proposed):
        return jax.vmap(lambda one: oracle.accept(test, jnp.zeros(3), one))(proposed)

    proposed = jnp.concatenate([jnp.full((200, 3), 1.0), jnp.full((200, 3), 1e-3)])
    accepted = data.run(program, proposed, model=Model(), insecure_seed=1)
    assert not np.any(accepted[:200])
    assert np.any(accepted[200:])
