"""B6: a program calls back to Python from a primitive of its own.

The attack: a primitive that the program's author registers, under any name and without an effect, whose lowering or
implementation runs code of his. On released values it leaked nothing, but the auditor says that a program has no
callback, and went by names.

What must happen: every operation of a program is on the list, told by identity; others are refused by name and line
before anything is charged, however deep they stand and whatever they call themselves.
"""

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from dpmcmc.enclave import Sum
from dpmcmc.errors import OperationRefused

SEEN = []


def foreign(name):
    """A primitive that keeps what it is applied to, and says nothing about it."""
    primitive = Primitive(name)

    def keep(x):
        SEEN.append(x)
        return x

    def call_back(x):
        return jax.pure_callback(keep, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    primitive.def_abstract_eval(lambda x: x)
    batching.primitive_batchers[primitive] = lambda operands, axes: (primitive.bind(operands[0]), axes[0])
    mlir.register_lowering(primitive, mlir.lower_fun(call_back, multiple_results=False))
    return primitive


NAMES = ["harmless", "add", "sin", "dp_release", "jit"]


def plain(primitive):
    return primitive.bind


def in_a_loop(primitive):
    return lambda x: jax.lax.while_loop(lambda c: jnp.all(c < 0), lambda c: jax.jit(primitive.bind)(c), x)


def in_a_branch(primitive):
    return lambda x: jax.lax.cond(x[0] > 0, primitive.bind, jnp.sin, x)


def for_each_chain(primitive):
    return lambda x: jax.vmap(primitive.bind)(jnp.stack([x, x])).sum(0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("around", [plain, in_a_loop, in_a_branch, for_each_chain])
def test_in_a_program(data, book, name, around):
    function = around(foreign(name))

    def program(oracle):
        return function(oracle.sum(Sum(1.0, 5.0), lambda record: record).value)

    for attempt in (data.price, data.run):
        with pytest.raises(OperationRefused, match=rf"^{name} at .*test_b6_foreign_primitive.py:\d+.*not on the list"):
            attempt(program)
    assert book.reserved == []
    assert SEEN == []


@pytest.mark.parametrize("name", NAMES)
def test_on_records(data, book, name):
    primitive = foreign(name)
    with pytest.raises(OperationRefused, match=rf"^{name} at .*test_b6_foreign_primitive.py:\d+.*applied to records"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 5.0), primitive.bind).value)
    assert book.reserved == []
    assert SEEN == []


def test_a_rule_for_vmap_of_ones_own(data, book):
    """What it does with many records at once is nowhere in the traced function of one."""

    @jax.custom_batching.custom_vmap
    def own(x):
        return x

    @own.def_vmap
    def _(size, batched, x):  # noqa: ARG001
        return jnp.broadcast_to(x.sum(0), x.shape), True

    with pytest.raises(OperationRefused, match=r"custom_vmap_call at .*applied to records"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 5.0), own).value)
    with pytest.raises(OperationRefused, match=r"custom_vmap_call at .*not on the list"):
        data.run(lambda oracle: own(oracle.sum(Sum(1.0, 5.0), lambda record: record).value))
    assert book.reserved == []
