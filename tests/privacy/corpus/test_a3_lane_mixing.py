"""A3: one record changes another's bits inside an operation.

The attack: a statistic (betainc - c) * 1e9. JAX computes the incomplete beta function of all records in one loop that
stops when none is unconverged and freezes none, so a slow record gives all others another turn; cancellation makes the
last bits that it changes larger than a clip, and every record moves at once.

What must happen: a function of a record that uses such an operation, at any depth, is refused by the operation and the
line before anything is charged. In a program, on public values, it may be used.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import GradientSum, LogRatio, PrivateData, Sum
from dpmcmc.errors import OperationRefused


def slow_beta(record):
    return (jax.scipy.special.betainc(5 + record, 5.0, 0.5) - 0.5) * 1e9


def inside_a_jit_in_a_scan(record):
    return jax.lax.scan(lambda c, _: (jax.jit(slow_beta)(c), None), record, None, length=2)[0]


def one_branch(record):
    return jax.lax.cond(record[0] > 0, slow_beta, jnp.sin, record)


STATISTICS = {
    "regularized_incomplete_beta": (slow_beta, inside_a_jit_in_a_scan, one_branch),
    "igamma": (lambda record: jax.scipy.special.gammainc(jnp.abs(record), 1.0),),
    "igammac": (lambda record: jax.scipy.special.gammaincc(jnp.abs(record), 1.0),),
    "eigh": (lambda record: jnp.linalg.eigh(jnp.outer(record, record))[0],),
    "svd": (lambda record: jnp.linalg.svd(jnp.outer(record, record))[1],),
    "while": (lambda record: jax.scipy.special.exp1(jnp.abs(record)),),
}


@pytest.mark.parametrize(
    ("operation", "statistic"), [(name, function) for name, functions in STATISTICS.items() for function in functions]
)
def test_a_statistic_is_refused(data, book, operation, statistic):
    for attempt in (data.price, data.run):
        with pytest.raises(
            OperationRefused, match=rf"^{operation} at .*test_a3_lane_mixing.py:\d+.* applied to records"
        ):
            attempt(lambda oracle: oracle.sum(Sum(1.0, 5.0), statistic).value)
    assert book.reserved == []


def test_the_message_says_why(data):
    with pytest.raises(OperationRefused, match="one loop that ends with the slowest"):
        data.price(lambda oracle: oracle.sum(Sum(1.0, 5.0), slow_beta).value)


@pytest.mark.parametrize("kind", ["force", "ratio"])
def test_a_likelihood_is_refused(data, book, model, kind):
    class Slow(type(model)):
        def log_likelihood(self, position, record):
            return jnp.sum(slow_beta(record) * position)

    def program(oracle, theta):
        if kind == "force":
            return oracle.force(GradientSum(1.0, 5.0), theta).value
        return oracle.log_posterior_ratio(LogRatio(1.0, 5.0), theta, theta + 1).value

    with pytest.raises(OperationRefused, match="regularized_incomplete_beta"):
        data.run(program, jnp.zeros(3), model=Slow())
    assert book.reserved == []


def test_on_public_values_it_may_be_used(table):
    data = PrivateData.without_guarantee(table)

    def program(oracle, shape):
        return oracle.sum(Sum(1.0, 5.0), lambda record: record).value, jax.scipy.special.betainc(shape, 2.0, 0.5)

    _, value = data.run(program, jnp.float32(1.0))
    np.testing.assert_allclose(value, 0.75, rtol=1e-5)
