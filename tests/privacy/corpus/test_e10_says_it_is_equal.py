"""Operations and objects that say that they are others.

The attack: the auditor has a list of operations. Looked up as Python looks things up in sets, by hash and equality, an
operation of one's own make that has the hash of `neg` and says that it equals it is on the list; so is a class for the
classes of mechanisms that an owner accepts. Their rules for `vmap` are code of one's own, in which each record
sees all others and Python is called with them.

What must happen: the program is refused before anything is charged, with an error of dpmcmc: operations and classes are
told apart by identity, and a class that lies about the module that it is from, which decides whether a parameter is
plain, is none of JAX's.

False alarms: none; nothing is released.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import batching
from toy import Book

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.core.allowed import is_plain
from dpmcmc.enclave.core.mechanism import is_certified
from dpmcmc.errors import OperationRefused

ROWS = np.random.default_rng(0).uniform(0.1, 0.9, size=(600, 2)).astype(np.float32)
SEEN = []


class EqualForTheAuditor(Primitive):
    """Equal to all where the auditor asks, and to itself elsewhere, so that JAX has the right rule for each."""

    def __hash__(self):
        return hash(jax.lax.neg_p)

    def __eq__(self, other):
        return self is other or sys._getframe(1).f_globals["__name__"].startswith("dpmcmc.")


def see_all(operands, _):
    (records,) = operands
    SEEN.append(records.shape)
    return jnp.broadcast_to(jnp.sign(jnp.max(records) - 1), records.shape), 0


disguised = EqualForTheAuditor("neg")
disguised.def_abstract_eval(lambda record: record)
batching.primitive_batchers[disguised] = see_all


def test_an_operation_that_says_it_equals_a_listed_one_is_refused():
    SEEN.clear()
    book = Book()
    data = PrivateData(ROWS, ledger=book, dataset="people")
    with pytest.raises(OperationRefused, match=r"neg at .*test_e10_says_it_is_equal.py:\d+.*is applied to records"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 20.0), disguised.bind).value)
    with pytest.raises(OperationRefused, match=r"neg at .* is not on the list of operations that a program may use"):
        data.run(lambda oracle: oracle.sum(Sum(1.0, 20.0), jnp.abs).value + disguised.bind(jnp.ones(2)))
    assert not SEEN
    assert book.reserved == []


class SaysItIsSum(type):
    def __hash__(cls):
        return hash(Sum)

    def __eq__(cls, other):
        return True


def test_a_class_that_says_it_equals_an_accepted_one_is_not_accepted():
    class Own(metaclass=SaysItIsSum):
        pass

    assert Own in {Sum}, "there is no attack"
    assert not is_certified(Own(), frozenset((Sum,)))


class SaysItIsJax(str):
    """The name of this module, which begins otherwise for who asks where it begins."""

    __slots__ = ()

    def partition(self, _):
        return "jax", ".", "core"


class ElsewhereTheSecondTime(type):
    asked = 0

    @property
    def __module__(cls):
        cls.asked += 1
        return __name__ if cls.asked % 2 else "jax.core"


class FirstLie(int):
    __module__ = SaysItIsJax(__name__)


class SecondLie(int, metaclass=ElsewhereTheSecondTime):
    pass


@pytest.mark.parametrize("kind", [FirstLie, SecondLie])
def test_a_parameter_of_a_class_that_lies_about_its_home_is_refused(kind):
    for _ in range(3):
        assert not is_plain(kind(1))
        assert not is_plain((0, kind(1)))
    assert is_plain((0, 1.0, np.float32(1), "a", None, jnp.float32, np.dtype("int32")))
