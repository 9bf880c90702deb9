# ruff: noqa: ARG005
"""Models and statistics that are no real numbers are refused by name and nothing is charged; priors without support."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import GaussianModel

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    ExactSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PenaltyTest,
    PrivateData,
    SubsampledGradientSum,
    Sum,
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


WITHOUT_A_CALL = {
    "no function": (3, "is a int; expected a function that takes a position"),
    "nothing": (None, "is a NoneType; expected a function that takes a position"),
    "too few arguments": (lambda self: 0.0, "takes other arguments, .*; expected a function that takes a position"),
    "too many arguments": (lambda self, a, b, c: 0.0, "takes other arguments, .*missing .*; expected a function that"),
}


@pytest.mark.parametrize("name", ["log_prior", "log_likelihood"])
@pytest.mark.parametrize("kind", WITHOUT_A_CALL)
def test_a_model_that_cannot_be_asked(data, book, name, kind):
    method, message = WITHOUT_A_CALL[kind]
    model = type("Model", (GaussianModel,), {name: method})()
    for question in ("force", "ratio", "penalty"):
        check_refused(data, book, question, model, f"{name} of the model {message}")


# A statistic is as many real numbers as one likes, in one array.

STATISTICS = {
    "nothing": (lambda record: None, "returned a NoneType; expected real numbers in one array"),
    "a text": (lambda record: "a", "returned a str; expected real numbers in one array"),
    "an object": (lambda record: object(), "returned a object; expected real numbers in one array"),
    "a tuple": (lambda record: (record, record), "returned a tuple; .*: put the parts together, as in jnp.concatenate"),
    "a list": (lambda record: [record[0], record[1]], "returned a list; .*: put the parts together"),
    "a tree": (lambda record: {"x": record}, "returned a dict; .*: put the parts together"),
    "complex": (lambda record: record * 1j, "returned an array of the type complex64; .* return both parts"),
    "a complex constant": (lambda record: 1 + 2j, "returned an array of the type complex64; .* return both parts"),
    "a key": (lambda record: jax.random.key(0), "returned an array of the type key<fry>; expected real numbers"),
    "no function": (3.0, "is a float; expected a function that takes the arguments of the question"),
    "no argument": (lambda: 1.0, "takes other arguments, .*takes 0 positional arguments .*, and the record"),
    "an argument more": (lambda query, record: record, "takes other arguments, .*missing .*: 'record'; expected"),
}


@pytest.mark.parametrize(
    "mechanism", [Sum(1.0, 3.0), NoisyCount(1.0, 3.0), ExactSum()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("kind", STATISTICS)
def test_a_statistic_that_is_no_array_of_real_numbers(data, book, mechanism, kind):
    statistic, message = STATISTICS[kind]
    for attempt in (data.price, data.run):
        with pytest.raises(InvalidArgument, match=f"^statistic {message}"):
            attempt(lambda oracle: oracle.sum(mechanism, statistic).value)
    assert book.reserved == []


def test_a_mistake_inside_a_statistic_is_told_as_it_is(data, book):
    """A function that takes its arguments explains itself: by Python's own error and line."""
    with pytest.raises(TypeError, match="unsupported operand"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 3.0), lambda record: record + "a").value)
    assert book.reserved == []


@pytest.mark.parametrize(
    "statistic", [lambda record: 1, lambda record: True, lambda record: np.ones(2), lambda record: record > 0, jnp.abs]
)
def test_numbers_of_any_real_type_are_a_statistic(table, statistic):
    data = PrivateData.without_guarantee(table)
    total = data.run(lambda oracle: oracle.sum(ExactSum(), statistic).value)
    np.testing.assert_allclose(
        total, sum(np.ravel(statistic(record)).astype(np.float32) for record in table), rtol=1e-4
    )


def test_one_statistic_asked_twice_is_traced_once(data):
    statistic = jnp.abs
    audited = data.audit(lambda oracle: [oracle.sum(Sum(1.0, 3.0), statistic).value for _ in range(2)])
    assert len(audited.charges) == 2
    assert len(audited.plans) == 1


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
