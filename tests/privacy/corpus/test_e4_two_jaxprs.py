"""A call that carries one program for the auditor, and another for the run.

The attack: the auditor reads `closed.jaxpr.eqns` of what a call carries, the run `closed.eqns`. A subclass of
`ClosedJaxpr`, bound as the parameter of a `jit`, gives each of them another answer: one release is priced, two are
performed. The second has a number for which there is no key; an index that is out of bounds is clamped, so it draws
the noise of the first. Asked at zero, it is that noise: the difference of the two is the exact sum.

What must happen: an error of dpmcmc before anything is charged, or a price for both and noise of their own.

False alarms: the difference of two sums with noise of 40 clips is within 1 of the exact sum on both coordinates with
a probability below 2e-4.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr
from vaults import free_vault

from dpmcmc.accounting.event import Gaussian, counts
from dpmcmc.enclave import Sum
from dpmcmc.errors import DpmcmcError

ROWS = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
TRUE = (ROWS / np.maximum(1, np.linalg.norm(ROWS, axis=1, keepdims=True))).sum(0)
MECHANISM = Sum(1.0, 20.0)


class Two(ClosedJaxpr):
    __slots__ = ("real", "shown")
    jaxpr = property(lambda self: self.shown.jaxpr)
    eqns = property(lambda self: self.real.eqns)
    consts = property(lambda self: self.real.consts)
    invars = property(lambda self: self.real.jaxpr.invars)
    outvars = property(lambda self: self.real.jaxpr.outvars)
    constvars = property(lambda self: self.real.jaxpr.constvars)


def program(oracle, x):
    def ask(x):
        return oracle.sum(MECHANISM, lambda x, record: x * record, x).value

    def shown(x):
        return (ask(x),) * 2

    call = jax.make_jaxpr(jax.jit(shown))(x).eqns[0]
    closed = jax.make_jaxpr(shown)(x)
    two = Two(closed.jaxpr, closed.consts)
    two.shown, two.real = closed, jax.make_jaxpr(lambda x: (ask(x), ask(0 * x)))(x)
    return call.primitive.bind(x, **{**call.params, "jaxpr": two})


def test_one_program_is_priced_and_run():
    vault, x = free_vault(ROWS), jnp.ones(2)
    try:
        price = vault.price(program, x)
        first, second = (np.asarray(value) for value in vault.run(program, x))
    except DpmcmcError:
        return
    paid = sum(times for part, times in counts(price).items() if isinstance(part, Gaussian))
    assert paid == 2 or np.array_equal(first, second), f"two releases, {paid} paid"
    assert np.abs(first - second - TRUE).max() > 1, "the difference of two releases has no noise"
