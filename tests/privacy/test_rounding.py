"""Contributions that are rounded in floating point: within their bound, near themselves, the same in any place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_column_kernel import ENTRY, NASTY

from dpmcmc.enclave import rounding
from dpmcmc.enclave.arithmetic.lattice import Lattice, quantise_vector
from dpmcmc.enclave.arithmetic.quantise import is_rounded, quantise_rounded

BOUND = 2**20
STEPS = jax.jit(lambda y, granularity: quantise_rounded(y, Lattice(granularity, BOUND)))


def square_norms(steps):
    return (np.asarray(steps).astype(object) ** 2).sum(axis=-1)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRY, min_size=6, max_size=6), st.sampled_from([1.0, 2.0**20, 1e-30, 1e30, *NASTY]))
def test_no_record_exceeds_the_bound(entries, granularity):
    steps = STEPS(jnp.asarray([entries], jnp.float32), jnp.float32(granularity))
    assert square_norms(steps)[0] <= BOUND**2
    if not np.all(np.isfinite(entries)):
        assert not np.any(steps)


def sphere(num_coordinates, bound):
    """The square norms of what records at, inside and outside the clip become, and their lengths in clips."""
    directions = np.random.default_rng(num_coordinates).normal(size=(2000, num_coordinates)) ** 3
    lengths = np.geomspace(0.5, 1e12, 2000) ** np.tile([0, 1], 1000)
    contributions = directions / np.linalg.norm(directions, axis=1, keepdims=True) * lengths[:, None]
    steps = jax.jit(quantise_rounded)(jnp.asarray(contributions, jnp.float32), Lattice(1 / bound, bound))
    return square_norms(steps), np.minimum(lengths, 1)


@pytest.mark.parametrize(("num_coordinates", "bound"), [(1, 2**10), (3, 2**21), (100, 2**20), (1000, 2**20)])
def test_records_on_the_sphere_stay_inside_and_near(num_coordinates, bound, monkeypatch):
    assert is_rounded(Lattice(1.0, bound), num_coordinates)
    found, lengths = sphere(num_coordinates, bound)
    assert np.all(found <= bound**2)
    room = 2**-16 + num_coordinates * 2.0**-22 + (num_coordinates**0.5 + 1) / bound
    assert np.all(found.astype(float) ** 0.5 >= bound * (lengths - room))
    monkeypatch.setattr(rounding, "reachable", lambda bound, _: bound * (1 + 2**-9))  # a mutant without the room
    jax.clear_caches()
    assert np.any(sphere(num_coordinates, bound)[0] > bound**2)
    jax.clear_caches()


@pytest.mark.parametrize("d", [1, 5, 100])
def test_it_is_what_is_verified_in_integers_up_to_the_room(d):
    rows = jnp.asarray(np.random.default_rng(d).normal(size=(500, d)).astype(np.float32)) * 2 / d**0.5
    lattice = Lattice(1 / BOUND, BOUND)
    found, expected = (jax.jit(one)(rows, lattice) for one in (quantise_rounded, quantise_vector))
    np.testing.assert_allclose(found, expected, atol=BOUND * (2**-14 + 2**-15 * d**0.5))
    inside = np.linalg.norm(rows, axis=1) < 0.99
    np.testing.assert_array_equal(np.asarray(found)[inside], np.asarray(expected)[inside])


def test_other_lattices_and_longer_contributions_are_not_rounded():
    assert not is_rounded(Lattice(1.0, 2**9), 3)
    assert not is_rounded(Lattice(1.0, 2**22), 3)
    assert not is_rounded(Lattice(1.0, 2**20), 1025)
