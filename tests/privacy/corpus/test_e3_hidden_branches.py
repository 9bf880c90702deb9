"""Code that the auditor does not find, because of what holds it.

The attack: the auditor looks for the jaxprs that an operation carries in its parameters, and JAX's `jaxprs_in_params`
sees a jaxpr, a closed jaxpr and *tuples* of these. JAX itself asks of a parameter that it can be hashed and of
`branches` that one can go through them. So `cond`, which is on the list, bound with a list that has a hash, carries
anything: a rule for `vmap` of one's own, in which each record sees all others; a callback to Python, which is handed
the records.

What must happen: the program is refused before anything is charged, with an error of dpmcmc, whatever holds the code.

False alarms: the sum behind the release moves by 1,200 clips where a neighbour may move it by two; the noise has a
standard deviation of 40 clips, so a difference of more than 2 + 12 * 57 has a probability below 1e-30.
"""

from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import DpmcmcError

ROWS = np.random.default_rng(0).uniform(0.1, 0.9, size=(600, 2)).astype(np.float32)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[17] = 5.0
SEEN = []


class Hashed(list):
    __hash__ = object.__hash__


class Closed:
    """Looks like a closed jaxpr, and is none by class."""

    def __init__(self, closed):
        self.closed = closed

    def __getattr__(self, name):
        return getattr(self.closed, name)


def hidden_in_a_list(function, record):
    inner = jax.make_jaxpr(function)(record)
    return jax.lax.cond_p.bind(jnp.int32(0), record, branches=Hashed([inner, inner]))[0]


def hidden_in_a_lookalike(function, record):
    inner = Closed(jax.make_jaxpr(function)(record))
    return jax.lax.cond_p.bind(jnp.int32(0), record, branches=(inner, inner))[0]


@jax.custom_batching.custom_vmap
def is_there(record):
    return record


@is_there.def_vmap
def _(size, batched, records):  # noqa: ARG001
    there = jnp.any(records[..., 0] == 5.0)
    return jnp.broadcast_to(jnp.where(there, 1.0, -1.0) * jnp.array([1.0, 0.0]), records.shape), True


def keep(record):
    SEEN.append(np.asarray(record))
    return np.asarray(record)


def call_back(record):
    shape = jax.ShapeDtypeStruct(record.shape, record.dtype)
    return jax.pure_callback(keep, shape, record, vmap_method="expand_dims")


def vault(rows):
    return PrivateData(rows, bounds={"records": (-5, 5)}, budget=Budget(epsilon=1.0, delta=1e-6))


@pytest.mark.parametrize("hidden", [hidden_in_a_list, hidden_in_a_lookalike])
def test_no_record_sees_another(hidden):
    def program(oracle):
        return oracle.sum(Sum(1.0, 20.0), lambda record: hidden(is_there, record)).value

    try:
        one, other = (np.asarray(vault(rows).run(program)) for rows in (ROWS, NEIGHBOUR))
    except DpmcmcError:
        return
    assert abs(one[0] - other[0]) < 2 + 12 * 57, f"one record moved the sum from {one[0]:.0f} to {other[0]:.0f} clips"


@pytest.mark.parametrize("hidden", [hidden_in_a_list, hidden_in_a_lookalike])
def test_no_callback(hidden):
    SEEN.clear()
    with suppress(DpmcmcError):
        vault(ROWS).run(lambda oracle: oracle.sum(Sum(1.0, 20.0), lambda record: hidden(call_back, record)).value)
    assert not SEEN, f"a callback was handed {sum(map(np.size, SEEN))} numbers of records"
