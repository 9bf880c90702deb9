"""C2: `data.run` inside a program of its own.

The attack: a program that runs another one, on the same records or on others, while it is traced. The inner run would
be charged once and its result baked into the outer program as a constant, or it dies with a raw TypeError.

What must happen: RunRefused, which names the line and says what to do, before either of them is charged.
"""

import jax
import jax.numpy as jnp
import pytest

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import RunRefused

SUM = Sum(1.0, 5.0)
REFUSAL = r"inside another program, or inside jit, at .*test_c2_nested_run.py:\d+.* ask the oracle"


def inner(oracle):
    return oracle.sum(SUM, lambda record: record).value


def test_in_a_program(data, book):
    for attempt in (data.price, data.run):
        with pytest.raises(RunRefused, match=REFUSAL):
            attempt(lambda oracle: inner(oracle) + data.run(inner))
    assert book.reserved == []


def test_of_another_data_set(data, book, table):
    other = PrivateData.without_guarantee(table.copy())
    with pytest.raises(RunRefused, match=REFUSAL):
        data.run(lambda oracle: inner(oracle) + other.run(inner))
    assert book.reserved == []


def test_deep_in_a_program(data, book):
    def program(oracle, theta):
        return jax.lax.scan(lambda c, _: (c + data.run(inner), None), theta + inner(oracle), None, length=2)[0]

    with pytest.raises(RunRefused, match=REFUSAL):
        data.run(program, jnp.zeros(3))
    assert book.reserved == []


def test_in_a_statistic(data, book):
    with pytest.raises(RunRefused, match=REFUSAL):
        data.run(lambda oracle: oracle.sum(SUM, lambda record: record + data.run(inner)).value)
    assert book.reserved == []


def test_in_a_jit_without_arguments(data, book):
    with pytest.raises(RunRefused, match=REFUSAL):
        jax.jit(lambda: data.run(inner))()
    assert book.reserved == []


def test_one_after_the_other(data, book):
    data.run(lambda oracle, start: start + inner(oracle), data.run(inner))
    assert len(book.reserved) == 2
