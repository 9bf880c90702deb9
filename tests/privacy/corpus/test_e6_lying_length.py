"""A loop that is longer than it says when it is priced.

The attack: `length` of a scan, and `chains` of a release, are parameters that the program's author can write himself,
with ``jax.lax.scan_p.bind``. A subclass of int whose products are its own is twenty turns to JAX and one to the
auditor, who multiplies.

What must happen: an error of dpmcmc before anything is charged, or a price for all releases.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from vaults import free_vault

from dpmcmc.accounting.event import Gaussian, counts
from dpmcmc.enclave import Sum
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.release import dp_release
from dpmcmc.errors import DpmcmcError

TIMES = 20
MECHANISM = Sum(1.0, 20.0)


class One(int):
    """So many, but a product with it is one with one."""

    def __mul__(self, other):
        return int(other)

    __rmul__ = __mul__


class OneToTheAuditor(int):
    def __mul__(self, other):
        return int(other) * (1 if sys._getframe(1).f_code.co_name == "audit" else int(self))

    __rmul__ = __mul__


def a_scan(oracle, x):
    def step(carry, _):
        return carry, oracle.sum(MECHANISM, lambda record: record).value

    traced = jax.make_jaxpr(lambda x: jax.lax.scan(step, x, None, length=TIMES))(x)
    (scan,) = (equation for equation in traced.eqns if equation.primitive is jax.lax.scan_p)
    return jax.lax.scan_p.bind(x, **{**scan.params, "length": One(TIMES)})[-1]


def chains(oracle, x):  # noqa: ARG001
    term = Term(lambda record: record, jax.tree.structure(()))
    return dp_release.bind(facts=oracle.facts, mechanism=MECHANISM, term=term, chains=(OneToTheAuditor(TIMES),))[0]


@pytest.mark.parametrize("program", [a_scan, chains])
def test_all_releases_are_paid(program):
    vault = free_vault(np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32))
    x = jnp.float32(0)
    try:
        price = vault.price(program, x)
        released = np.asarray(vault.run(program, x))
    except DpmcmcError:
        return
    paid = sum(times for part, times in counts(price).items() if isinstance(part, Gaussian))
    assert paid >= len(np.unique(released, axis=0)), f"{len(released)} releases with noise of their own, {paid} paid"
