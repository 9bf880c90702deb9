"""C1: a Python number as a query is priced, and then the run dies with a bare AttributeError.

The attack is an honest program: `oracle.sum(mechanism, statistic, 1.0)`. The number becomes a literal of the traced
program, which is no array when the release is performed.

What must happen: numbers are queries like any others, wherever they stand; what is no real number is refused by name.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import GradientSum, LogRatio, PenaltyTest, PrivateData, Sum
from dpmcmc.errors import InvalidArgument

QUIET = Sum(100.0, 0.003)
NUMBERS = [2.0, np.float32(2), np.float64(2), np.array(2.0), jnp.float32(2)]


def scaled(factor, record):
    return factor * record


@pytest.fixture
def free(table):
    return PrivateData.without_guarantee(table)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
def test_a_number_as_a_query(free, table, number):
    asks = {
        "plain": lambda oracle: oracle.sum(QUIET, scaled, number).value,
        "jit": lambda oracle: jax.jit(lambda: oracle.sum(QUIET, scaled, number).value)(),
        "argument of a jit": lambda oracle: jax.jit(lambda x: oracle.sum(QUIET, scaled, x).value)(number),
        "scan": lambda oracle: jax.lax.scan(
            lambda c, _: (c, oracle.sum(QUIET, scaled, number).value), 0, None, length=2
        )[1][1],
        "carry": lambda oracle: jax.lax.scan(
            lambda c, _: (c, oracle.sum(QUIET, scaled, c).value), jnp.float32(number), None, length=2
        )[1][1],
        "chains": lambda oracle: jax.vmap(lambda x: oracle.sum(QUIET, scaled, number).value + 0 * x)(jnp.zeros(3))[1],
    }
    for ask in asks.values():
        np.testing.assert_allclose(free.run(ask), 2 * table.sum(0), atol=4)


def test_numbers_as_positions(free, model):
    class OfOneNumber(type(model)):
        def log_likelihood(self, position, record):
            return -jnp.sum((record - position) ** 2)

    def program(oracle):
        force = oracle.force(GradientSum(10.0, 3.0), 0.5).value
        ratio = oracle.log_posterior_ratio(LogRatio(10.0, 3.0), 0.5, 0.75).value
        return force, ratio, oracle.accept(PenaltyTest(1.0, 3.0), 0.5, 0.75, 1.0)

    force, ratio, accepted = free.run(program, model=OfOneNumber())
    assert np.isfinite(force)
    assert np.isfinite(ratio)
    assert accepted in (True, False)


@pytest.mark.parametrize("query", [1, True, 1j, "one", np.int32(1)])
def test_what_is_no_real_number_is_refused_by_name(data, book, query):
    with pytest.raises(InvalidArgument, match=r"arguments\[0\] (has the type|is a) \w+; expected real numbers"):
        data.run(lambda oracle: oracle.sum(QUIET, scaled, query).value)
    assert book.reserved == []
