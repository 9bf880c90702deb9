# ruff: noqa: ARG005
"""The vault's own arrays, closed over by a program.

The attack: `jax.live_arrays()` lists all arrays of the process, those of the vault too. A program closes over one of
them, or is handed it, or a view of its memory, and returns its sum: audited, and free.

What must happen: refused before anything is charged, as the arrays are that the vault was given. (Who runs code in the
process can read its memory without a program; this is for mistakes, and the arrays are known by where they lie.)

False alarms: none. The control is a public array of the same shape.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Book

from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.errors import RecordsRefused

ROWS = np.arange(700, dtype=np.float32) / 700


def make(**options):
    book = Book()
    return book, PrivateData({"x": ROWS.copy()}, bounds={"x": (0, 1)}, ledger=book, dataset="people", **options)


VIEWS = {
    "itself": lambda array: array,
    "a view of NumPy": np.asarray,
    "a part of its memory": lambda array: np.asarray(array)[3:9],
    "a part on one device": lambda array: array.addressable_shards[0].data,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("options", [{}, {"devices": jax.devices()}], ids=["one", "spread"])
def test_an_array_of_the_vault_is_recognised(name, options):
    book, data = make(**options)
    own = jax.tree.leaves((data._slots.rows, data._slots.occupied))
    held = [array for array in jax.live_arrays() if any(array is leaf for leaf in own)]
    assert len(held) == 2, "there is no attack"
    for array in map(VIEWS[name], held):
        with pytest.raises(RecordsRefused):
            data.run(lambda oracle, array=array: jnp.sum(jnp.asarray(array)))
        with pytest.raises(RecordsRefused, match="the table itself"):
            data.run(lambda oracle, given: jnp.sum(given), array)
    assert book.reserved == []


def test_the_array_of_some_cells_is_recognised():
    _, data = make()
    half = data.partition([300])
    tables, asked = data._programs.table, []
    object.__setattr__(data._programs, "table", lambda cells: asked.append(tables(cells)) or asked[-1])
    data.run(lambda oracle: oracle.shard(half, 0).sum(Sum(1.0, 9.0), lambda record: record["x"]).value)
    cells = asked[-1]
    assert cells is not tables(None)
    with pytest.raises(RecordsRefused, match="the table itself"):
        data.run(lambda oracle, given: jnp.sum(given), cells.rows["x"])


def test_a_public_array_of_the_shape_is_none():
    _, data = make()
    given = np.ones(1024, np.float32)
    np.testing.assert_array_equal(data.run(lambda oracle, given: jnp.sum(given), given), 1024)
