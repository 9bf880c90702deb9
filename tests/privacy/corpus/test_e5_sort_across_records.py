"""An operation on the list, with a parameter that JAX's public function would have refused.

The attack: ``jax.lax.sort_p.bind(..., dimension=-2)`` on a record of one axis. Nothing looks at the number while the
function of one record is traced: sorting changes no shape. The rule for `vmap` leaves a negative number as it is, and
in the batch, which has two axes, -2 is the axis of the records: all records are sorted together. ``reduce_p.bind(...,
dimensions=(-1,))`` adds up all records in the same way, where a record is as long as a chunk.

A record that becomes the smallest moves all others by one place. Here each record knows its parity and is handed that
of the record in its place: all agree in the one table, and none in the other.

What must happen: an error of dpmcmc before anything is charged, or a sum that one record moves by no more than two
clips.

False alarms: the noise has a standard deviation of 1/32 of a clip; below 1e-30.
"""

import jax
import jax.numpy as jnp
import numpy as np
from exact_sums import QUIET
from vaults import free_vault

from dpmcmc.enclave import Sum
from dpmcmc.errors import DpmcmcError

N = 512
ROWS = np.stack([np.arange(1, N + 1), np.arange(1, N + 1) % 2], axis=1).astype(np.float32)
NEIGHBOUR = ROWS.copy()
NEIGHBOUR[-1] = 0.0


def agrees(record):
    _, parity = jax.lax.sort_p.bind(record[:1], record[1:], dimension=-2, is_stable=True, num_keys=1)
    return jnp.where(parity == record[1:], 1.0, -1.0)


def test_records_are_not_sorted_together():
    try:
        one, other = (
            float(free_vault(rows).run(lambda oracle: oracle.sum(Sum(1.0, QUIET), agrees).value)[0])
            for rows in (ROWS, NEIGHBOUR)
        )
    except DpmcmcError:
        return
    assert abs(one - other) < 3, f"one record moved the sum from {one:.1f} to {other:.1f} clips"


def total(record):
    plus = jax.make_jaxpr(lambda a, b: a + b)(0.0, 0.0)
    (sums,) = jax.lax.reduce_p.bind(record, jnp.float32(0), computation=None, jaxpr=plus, dimensions=(-1,))
    return jnp.where(sums > 0.5, 1.0, -1.0)


def test_records_are_not_added_up_together():
    rows = np.zeros((N, N), np.float32)
    neighbour = rows.copy()
    neighbour[7] = 1.0
    try:
        one, other = (
            float(free_vault(table).run(lambda oracle: oracle.sum(Sum(1.0, QUIET), total).value)[0])
            for table in (rows, neighbour)
        )
    except DpmcmcError:
        return
    assert abs(one - other) < 3, f"one record moved the sum from {one:.1f} to {other:.1f} clips"
