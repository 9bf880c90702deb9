"""Objects of JAX's own classes with rules of their own.

The attack: JAX 0.12 writes some functions of jax.numpy as an object that expands to other operations, and has rules for
`vmap` and derivatives as methods. Objects of JAX's own classes pass the auditor, if what they expand to does. But JAX
looks the rules up on the object: `made.batch = ...` writes a rule over for this one, which then sees all records, and a
changed attribute (an axis counted from the end) makes the right rule mix them. Or the object is handed to another
operation than the one that JAX writes it with, such as one of one's own make.

What must happen: refused, each of them; and the object as its class makes it passes.

False alarms: none. The installed JAX may have no such class: then one is put among JAX's own for the test.
"""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax
from jax.extend.core import Primitive
from toy import Book

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.core import allowed
from dpmcmc.errors import OperationRefused

HighLevel = getattr(hijax, "HiPrim", None) or hijax.VJPHiPrimitive
SEEN = []


class Shifted(HighLevel):
    """What JAX's own are like: parameters, and a rule for `vmap` that counts axes from the front."""

    def __init__(self, aval, axis):
        self.in_avals = (aval,)
        self.out_aval = aval
        self.params = {"axis": axis, "steps": (1,), "function": jnp.roll}
        super().__init__()

    def expand(self, x):
        return jnp.concatenate([x[1:], x[:1]])

    def batch(self, axis_data, args, dims):  # noqa: ARG002
        return jnp.roll(jnp.moveaxis(args[0], dims[0], 0), -1, self.axis + 1), 0


def see_all(axis_data, args, dims):  # noqa: ARG001
    SEEN.append(args[0].shape)
    return args[0], dims[0]


class OwnInteger(int):
    pass


ALTERED = {
    "a rule for vmap": {"batch": see_all},
    "a rule for derivatives": {"vjp_fwd": see_all},
    "a function of JAX in place of a rule": {"batch": jnp.roll},
    "what it expands to": {"expand": lambda x: x},
    "an axis from the end": {"axis": -1},
    "a parameter of one's own class": {"steps": (OwnInteger(1),)},
    "a function of one's own": {"function": see_all},
    "a function deep in a parameter": {"params": {"axis": 0, "steps": [(see_all,)]}},
    "something else": {"more": see_all},
}


@pytest.fixture
def of_jax(monkeypatch):
    """The class as if it were one of JAX's own."""
    monkeypatch.setattr(Shifted, "__module__", hijax.__name__)
    monkeypatch.setattr(hijax, "Shifted", Shifted, raising=False)
    (equation,) = jax.make_jaxpr(lambda x: Shifted(jax.typeof(x), 0)(x))(jnp.ones(3)).eqns
    monkeypatch.setattr(allowed, "EXPANDABLE", [*allowed.EXPANDABLE, (equation.primitive, Shifted)])
    return equation


def with_object(equation, high):
    return equation.replace(params={**equation.params, "_prim": high})


def test_an_object_as_its_class_makes_it_is_allowed(of_jax):
    assert allowed.is_allowed(of_jax, allowed.PER_RECORD)
    data = PrivateData.without_guarantee(np.arange(30, dtype=np.float32).reshape(10, 3) / 30)
    total = data.run(lambda oracle: oracle.sum(Sum(5.0, 0.003), lambda record: Shifted(jax.typeof(record), 0)(record)))
    np.testing.assert_allclose(total.value, np.roll(np.arange(30).reshape(10, 3).sum(axis=0) / 30, -1), atol=0.3)


@pytest.mark.parametrize("name", ALTERED)
def test_an_object_with_something_of_its_own_is_refused(of_jax, name):
    altered = copy.copy(of_jax.params["_prim"])
    for attribute, value in ALTERED[name].items():
        setattr(altered, attribute, value)
    assert not allowed.is_allowed(with_object(of_jax, altered), allowed.PER_RECORD)

    def statistic(record):
        made = Shifted(jax.typeof(record), 0)
        for attribute, value in ALTERED[name].items():
            setattr(made, attribute, value)
        return made(record)

    SEEN.clear()
    book = Book()
    data = PrivateData(np.ones((10, 3), np.float32), ledger=book, dataset="people")
    with pytest.raises(OperationRefused, match=r"call_hi_primitive at .* is applied to records"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 2.0), statistic).value)
    assert not SEEN
    assert book.reserved == []


def test_an_object_of_jax_under_another_operation_is_refused(of_jax):
    other = Primitive("call_hi_primitive")
    other.multiple_results = True
    assert not allowed.is_allowed(of_jax.replace(primitive=other), allowed.PER_RECORD)


def test_a_class_that_says_it_equals_one_of_jax_is_refused(of_jax):
    class EqualToAll(type):
        def __hash__(cls):
            return hash(Shifted)

        def __eq__(cls, other):
            return True

    class Own(Shifted, metaclass=EqualToAll):
        __module__ = hijax.__name__

    high = Own(jax.typeof(jnp.ones(3)), 0)
    assert type(high) in {Shifted}, "there is no attack"
    assert not allowed.is_allowed(with_object(of_jax, high), allowed.PER_RECORD)
