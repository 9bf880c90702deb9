"""Errors of JAX where a message of dpmcmc is due, or where nothing is wrong.

The programs: a statistic that reads nothing of a record, which counts them; a run under a guard against transfers
between host and device, which the vault makes itself, and which failed after the charge was made.

What must happen: both run.

False alarms: the count of 100 records has noise of standard deviation 0.02; it is off by one with less than 1e-100.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import PrivateData, Sum


def vault(accelerate):
    options = {"adjacency": "add_or_remove_one", "capacity": 500, "accelerate": accelerate}
    return PrivateData.without_guarantee({"x": np.ones(100, np.float32)}, **options)


def total(oracle, at):
    return oracle.sum(Sum(1.0, 0.02), lambda at, record: record["x"] + 0 * at, at).value


def count(oracle, at):  # noqa: ARG001
    return oracle.sum(Sum(1.0, 0.02), lambda record: jnp.float32(1.0)).value  # noqa: ARG005


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("program", [total, count])
@pytest.mark.parametrize("guard", ["allow", "disallow", "disallow_explicit"])
def test_it_runs(program, guard, accelerate):
    data = vault(accelerate)
    with jax.transfer_guard(guard):
        found = data.run(program, np.float32(0))
    assert float(found[0]) == pytest.approx(100, abs=1)
