"""D1: operations with a state, or with random numbers of their own, on the list of pure ones.

The attack: `jax.lax.rng_uniform` draws from a generator that the process shares, so the same record gives another value
each time, and the records before it decide which. Collectives and uninitialised memory were on the list as well.

What must happen: none of them may be applied to records, and none with hidden state may stand in a program; refused by
name before anything is charged. Random numbers from a key of the program's own pass in the program, not on records.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.core import allowed
from dpmcmc.errors import OperationRefused

SUM = Sum(1.0, 5.0)
STATEFUL = {
    "rng_uniform": lambda x: x + jax.lax.rng_uniform(0.0, 1.0, (3,)),
    "rng_bit_generator": lambda x: (
        x + jax.lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (3,), dtype=jnp.uint32)[1].astype(jnp.float32)
    ),
}
RANDOM = {
    "random_bits": lambda x: x + jax.random.normal(jax.random.key(0), (3,)),
    "random_seed": lambda x: x + jax.random.normal(jax.random.key(x[0].astype(jnp.int32)), (3,)),
    "random_wrap": lambda x: x + jax.random.uniform(jax.random.wrap_key_data(x[:2].view(jnp.uint32))),
}


@pytest.mark.parametrize("name", [*STATEFUL, *RANDOM])
def test_on_records(data, book, name):
    statistic = (STATEFUL | RANDOM)[name]
    for attempt in (data.price, data.run):
        with pytest.raises(OperationRefused, match=r"^(rng|random)_\w+ at .*applied to records.*must not be random"):
            attempt(lambda oracle: oracle.sum(SUM, statistic).value)
    assert book.reserved == []


@pytest.mark.parametrize("name", STATEFUL)
def test_in_a_program(data, book, name):
    with pytest.raises(OperationRefused, match=f"^{name} at .*not on the list"):
        data.run(lambda oracle: STATEFUL[name](oracle.sum(SUM, lambda record: record).value))
    assert book.reserved == []


def test_keys_of_the_programs_own(table):
    data = PrivateData.without_guarantee(table)

    def program(oracle, key):
        return oracle.sum(SUM, lambda record: record).value, [
            draw(key) for draw in (jax.random.normal, jax.random.bits)
        ]

    _, (normal, bits) = data.run(program, jax.random.key(3))
    assert normal == np.asarray(jax.random.normal(jax.random.key(3)))
    assert bits == np.asarray(jax.random.bits(jax.random.key(3)))


@pytest.mark.parametrize("name", ["psum", "pmax", "all_gather", "axis_index", "ppermute", "empty2", "after_all"])
def test_what_else_was_on_the_list(name):
    primitive = allowed.find(name)
    assert primitive is not None
    assert primitive not in allowed.PER_RECORD | allowed.PROGRAMS
