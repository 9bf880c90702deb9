"""Whoever answers a kernel does so under the names and in the order that the kernels' protocol states."""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc import Model
from dpmcmc.accounting import Budget, Gaussian
from dpmcmc.accounting.event import counts
from dpmcmc.enclave import ExactGradientSum, GradientSum, PrivateData
from dpmcmc.enclave import Oracle as EnclaveOracle
from dpmcmc.fitting.simulation import SimulatedOracle
from dpmcmc.kernels import dp_langevin
from dpmcmc.kernels.base import Oracle
from dpmcmc.run.program import VectorOracle

QUESTIONS = ("force", "log_posterior_ratio", "accept")


def asked(owner: type, question: str) -> list[str]:
    return list(inspect.signature(getattr(owner, question)).parameters)


def differences(owner: type) -> list[str]:
    return [question for question in QUESTIONS if asked(owner, question) != asked(Oracle, question)]


@pytest.mark.parametrize("owner", [EnclaveOracle, VectorOracle, SimulatedOracle])
def test_oracles_are_asked_as_the_protocol_says(owner: type) -> None:
    assert differences(owner) == []


def test_another_signature_is_seen() -> None:
    class KnowsNoMetric(VectorOracle):
        def force(self, mechanism: Any, position: Any) -> Any: ...

    assert differences(KnowsNoMetric) == ["force"]


def test_a_force_along_a_factor_is_that_of_the_coordinates() -> None:
    """The enclave's oracle answers a kernel with a metric for a position of any structure, as for a vector."""
    rng = np.random.default_rng(0)
    records, factor = rng.normal(size=(40, 3)).astype("float32"), rng.normal(size=(3, 2)).astype("float32")
    start = {"a": np.float32(0.3), "b": np.array([-0.2, 0.5], np.float32)}

    def ask(oracle: Any, position: Any, factor: Any) -> Any:
        along = oracle.force(ExactGradientSum(), position, factor)
        plain = oracle.force(ExactGradientSum(), position)
        return along.value, plain.value

    def log_likelihood(position: Any, record: Any) -> Any:
        return -(((record - jnp.append(position["b"], position["a"])) ** 2) @ jnp.arange(1.0, 4.0)) / 2

    model = Model(lambda position: -(position["a"] ** 4) - position["b"] @ position["b"], log_likelihood)
    along, plain = PrivateData.without_guarantee(records).run(ask, start, factor, model=model)
    vector = np.append(plain["a"], plain["b"])
    np.testing.assert_allclose(along, factor.T @ vector, rtol=1e-4)
    assert np.linalg.norm(along) > 1


def test_a_kernel_with_a_metric_is_bound_to_the_oracle_of_a_program() -> None:
    """Bound, its step has the price of one gradient; the adapter of `sample` asks the same question."""
    kernel = dp_langevin(GradientSum(clip=1.0, noise_multiplier=30.0), step_size=1e-4, metric=np.array([4.0, 9.0]))

    def program(oracle: Any, position: Any, key: Any) -> Any:
        bound = kernel.bind(oracle)
        return bound.step(key, bound.init(position, key))[0].position

    model = Model(lambda theta: -theta @ theta / 2, lambda theta, record: -((record - theta) ** 2).sum() / 2)
    records = np.random.default_rng(0).normal(size=(50, 2)).astype("float32")
    data = PrivateData(records, bounds={"records": (-9, 9)}, budget=Budget(1.0, 1e-6))
    arguments = np.zeros(2, np.float32), jax.random.key(0)
    price = counts(data.price(program, *arguments, model=model))
    assert {event: number for event, number in price.items() if isinstance(event, Gaussian)} == {Gaussian(30.0): 1}
    assert np.isfinite(data.run(program, *arguments, model=model)).all()
