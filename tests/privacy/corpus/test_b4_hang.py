"""B4: a run that never ends if and only if a certain record is there.

The attack: a statistic with a `while_loop` whose condition is a record. Whether the run comes back says one exact bit;
under `vmap` every record also waits for the slowest. The incomplete gamma functions hide such a loop: one large record
makes them thousands of times slower.

What must happen: loops whose number of turns could depend on a record are refused before anything is charged; loops of
a fixed length pass. A program may loop on public values as long as it likes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import OperationRefused

QUIET = Sum(100.0, 0.003)


def for_ever(record):
    return jax.lax.while_loop(lambda _: record[0] == 1.0, lambda c: c + 1, jnp.zeros(3))


def as_often_as_a_record_says(record):
    return jax.lax.fori_loop(0, record[0].astype(jnp.int32), lambda _, c: c + 1, record)


def until_it_is_small(record):
    return jax.lax.while_loop(lambda c: jnp.any(jnp.abs(c) > 0.1), lambda c: 0.5 * c, record)


def as_often_as_a_query_says(record):
    return jax.lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, record))[1]


@pytest.mark.parametrize(
    "statistic",
    [
        for_ever,
        as_often_as_a_record_says,
        until_it_is_small,
        as_often_as_a_query_says,
        jax.jit(for_ever),
        lambda record: jax.lax.cond(record[0] > 0, for_ever, jnp.sin, record),
        lambda record: jax.lax.map(lambda x: until_it_is_small(x[None])[0], record),
        jax.checkpoint(until_it_is_small),
    ],
)
def test_a_loop_without_a_fixed_length_is_refused(data, book, statistic):
    for attempt in (data.price, data.run):
        with pytest.raises(
            OperationRefused, match=r"^while at .*test_b4_hang.py:\d+.* applied to records.*jax.lax.scan"
        ):
            attempt(lambda oracle: oracle.sum(QUIET, statistic).value)
    assert book.reserved == []


def test_a_slow_series_is_refused(data, book):
    with pytest.raises(OperationRefused, match=r"^igamma at"):
        data.run(lambda oracle: oracle.sum(QUIET, lambda x: jax.scipy.special.gammainc(jnp.abs(x), jnp.abs(x))).value)
    assert book.reserved == []


def test_a_loop_of_fixed_length_passes(table):
    data = PrivateData.without_guarantee(table)

    def statistic(record):
        return jax.lax.fori_loop(0, 3, lambda _, c: 0.5 * c, record)

    total = data.run(lambda oracle: oracle.sum(QUIET, statistic).value)
    np.testing.assert_allclose(total, (table / 8).sum(0), atol=4)


def test_a_program_may_loop_on_what_was_released(table):
    data = PrivateData.without_guarantee(table)

    def program(oracle):
        total = oracle.sum(QUIET, lambda record: record).value
        return jax.lax.while_loop(lambda c: jnp.any(jnp.abs(c) > 1), lambda c: 0.5 * c, total)

    assert np.all(np.abs(data.run(program)) <= 1)
