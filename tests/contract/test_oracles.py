"""Whoever answers a kernel does so under the names and in the order that the kernels' protocol states."""

import inspect

import pytest

from dpmcmc.enclave import Oracle as EnclaveOracle
from dpmcmc.fitting.simulation import SimulatedOracle
from dpmcmc.kernels.base import Oracle
from dpmcmc.run.program import VectorOracle

QUESTIONS = ("force", "log_posterior_ratio", "accept")


def asked(owner: type, question: str) -> list[str]:
    return list(inspect.signature(getattr(owner, question)).parameters)


def differences(owner: type) -> list[str]:
    return [question for question in QUESTIONS if asked(owner, question) != asked(Oracle, question)]


@pytest.mark.parametrize("owner", [VectorOracle, SimulatedOracle])
def test_oracles_are_asked_as_the_protocol_says(owner: type) -> None:
    assert differences(owner) == []


def test_the_enclave_speaks_of_positions_and_knows_no_metric() -> None:
    """`VectorOracle` is the one adapter between the two, and this the one difference. It is also the control."""
    assert differences(EnclaveOracle) == ["force"]
    assert asked(Oracle, "force") == [*asked(EnclaveOracle, "force"), "factor"]
