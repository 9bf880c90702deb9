"""B5: how a sum is made, and so the lattice that its release lies on, switches at the true number of records.

The attack: fast paths hold up to MOST_RECORDS records; beyond it a sum takes the general path, on a coarser lattice.
Under add-or-remove-one the number is private, and which lattice a release lies on can be read off its last bits.

What must happen: two tables with the same stated number of places release on the same lattice, whatever they hold.

No limit by the true number is left: what a sum is refined by follows from the capacity. The tables have 1, 99 and 120
records of 120. False alarms: of 200 draws of noise on a lattice of steps g, all lie on a lattice four times as coarse
with a probability of 4^-200.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_sums import QUIET
from vaults import add_or_remove_vault

from dpmcmc.enclave import CurvatureSum, GradientSum, PrivateData

D = 8


class Linear:
    temperature = 1.0

    def log_prior(self, t):
        return 0.0 * jnp.sum(t)

    def log_likelihood(self, t, r):
        return r["y"] * (r["x"] @ t) - 0.5 * (r["x"] @ t) ** 2


def finest_step(values):
    """The largest power of two of which all values are multiples, as its exponent."""
    values = np.abs(np.ravel(np.asarray(values, np.float64)))
    values = values[values > 0]
    return min(-next(bits for bits in range(80) if float(v * 2.0**bits).is_integer()) for v in values)


def force(oracle, t):
    return jax.lax.scan(lambda t, _: (t, oracle.force(GradientSum(1.0, 2 * QUIET), t).value), t, length=25)[1]


def curvature(oracle, t):
    eye = jnp.eye(D)
    mechanism = CurvatureSum(1.0, 2 * QUIET)
    diagonal = lambda t: jnp.diagonal(oracle.curvature(mechanism, t, eye).value)  # noqa: E731
    return jax.lax.scan(lambda t, _: (t, diagonal(t)), t, length=25)[1]


@pytest.mark.parametrize("program", [force, curvature])
def test_the_lattice_does_not_follow_the_number_of_records(program):
    own = {name: module for name, module in sys.modules.items() if name.startswith("dpmcmc")}
    assert not [name for name, module in own.items() if hasattr(module, "MOST_RECORDS")]
    steps, paths = [], set()
    for n in (1, 99, 120):
        rows = {"x": np.zeros((n, D), np.float32), "y": np.zeros(n, np.float32)}
        vault = add_or_remove_vault(rows, 120)
        steps.append(finest_step(vault.run(program, jnp.zeros(D), model=Linear())))
        paths.add(vault.audit(program, jnp.zeros(D), model=Linear()).paths)
    assert max(steps) - min(steps) <= 1, f"releases are multiples of powers of two: {steps}"
    assert len(paths) == 1


def test_the_lattice_follows_the_capacity():
    """The negative control: where the stated number leaves no room for products, the lattice is coarser."""
    from dpmcmc.enclave.core.paths import finer_bits
    from dpmcmc.enclave.core.sums import vector_lattice

    small, large = (
        PrivateData.without_guarantee(np.zeros((3, 1)), adjacency="add_or_remove_one", capacity=size).facts
        for size in (120, 2**12)
    )
    lattice = vector_lattice(1.0, 2 * QUIET, small)
    assert finer_bits(lattice, small.size) == finer_bits(lattice, large.size) > finer_bits(lattice, 2**35)
