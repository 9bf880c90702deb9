"""The kernel that sums clipped gradients of any model on a GPU, interpreted here; contributions in single numbers."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_bit_equality import SIZE, run
from test_shards import Mixture, table

from dpmcmc.enclave import PrivateData, column_kernel
from dpmcmc.enclave.column_kernel import find_columns, quantise, sum_columns
from dpmcmc.enclave.lattice import Lattice, quantise_vector, to_int64
from dpmcmc.enclave.mechanisms import gradient
from dpmcmc.enclave.rounding import reachable
from dpmcmc.enclave.written_out import write_out

NASTY = [0.0, -0.0, 3.4028235e38, -3.4028235e38, 1e19, 1e-19, math.inf, -math.inf, math.nan, 1e-45, 1.2e-38, 2.0**-50]
ENTRY = st.floats(width=32) | st.floats(-2, 2, width=32) | st.sampled_from(NASTY)
BOUND = 2**20


def square_norms(steps):
    return (np.asarray(steps).astype(object) ** 2).sum(axis=0)


# --- single numbers ---------------------------------------------------------------------------------------------------


def clusters(queries, record):
    """Reductions, products of matrices, rearrangements, branches, public arithmetic, a leaf of two axes."""
    centres, scales = queries
    inverse = jnp.exp(-scales)
    away = (record["pairs"].T.reshape(-1)[1:4] - centres) * inverse
    weights = jax.nn.softmax(-0.5 * jnp.sum(away**2, axis=1))
    rotated = jnp.einsum("kd,de->ke", away, jnp.eye(3)[::-1] + inverse[:, None])
    best = jnp.where(record["flag"] > 0, jnp.max(rotated), jnp.min(weights))
    padded = jnp.pad(away[0], [(1, 2)]).reshape(2, 3)
    return jnp.concatenate(
        [weights @ rotated, padded[1], best[None], jnp.stack([jnp.tanh(record["flag"]), weights[1]])]
    )


def test_contributions_are_the_same_in_single_numbers():
    rows = np.random.default_rng(0)
    records = {"pairs": rows.normal(size=(50, 2, 3)), "flag": rows.normal(size=50), "unused": rows.normal(size=50)}
    records = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), records)
    queries = [jnp.asarray(rows.normal(size=shape), jnp.float32) for shape in ((2, 3), (3,))]
    written = write_out(clusters, queries, jax.tree.map(lambda leaf: leaf[0], records))
    leaves = [jax.tree.leaves(records)[place] for place in written.leaves]
    numbers = [np.empty(leaf.shape[1:], object) for leaf in leaves]
    for leaf, own in zip(leaves, numbers, strict=True):
        for place in np.ndindex(own.shape):
            own[place] = leaf[(slice(None), *place)]
    found = [jnp.broadcast_to(one, (50,)) for one in written.coordinates(numbers, list(written.public(queries)))]
    expected = jax.vmap(clusters, in_axes=(None, 0))(queries, records)
    assert len(leaves) == 2
    assert written.num_coordinates == expected.shape[1]
    np.testing.assert_allclose(np.stack(found, axis=1), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "contribution",
    [
        lambda queries, record: jnp.sort(record * queries[0]),
        lambda queries, record: jax.lax.fori_loop(0, 70, lambda _, x: jnp.sin(x), record * queries[0]),
        lambda queries, record: jnp.sum(jnp.exp(jnp.outer(record, jnp.arange(900.0)) + queries[0][0]), axis=1),
        lambda queries, _: queries[0],
    ],
)
def test_what_cannot_be_written_out_is_left_alone(contribution):
    assert write_out(contribution, [jnp.ones(5)], jnp.ones(5)) is None


# --- sensitivity ------------------------------------------------------------------------------------------------------

STEPS = jax.jit(lambda y, per_step: jnp.stack(quantise(list(y), per_step, BOUND, jnp.ones(y.shape[1], bool))))


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRY, min_size=6, max_size=6), st.sampled_from([1.0, 2.0**20, 1e-30, 1e30, *NASTY]))
def test_no_record_exceeds_the_bound(entries, per_step):
    steps = STEPS(jnp.asarray(entries, jnp.float32)[:, None], jnp.float32(per_step))
    assert square_norms(steps)[0] <= BOUND**2
    if not np.all(np.isfinite(entries)):
        assert not np.any(steps)


def sphere(num_coordinates, bound):
    """The square norms of what records at, inside and outside the clip become."""
    directions = np.random.default_rng(num_coordinates).normal(size=(num_coordinates, 4000)) ** 3
    lengths = np.geomspace(0.5, 1e12, 4000) ** np.tile([0, 1], 2000)
    contributions = jnp.asarray(directions / np.linalg.norm(directions, axis=0) * lengths, jnp.float32)
    steps = quantise(list(contributions), np.float32(bound), bound, jnp.ones(4000, bool))
    return square_norms(steps), np.minimum(lengths, 1)


@pytest.mark.parametrize(("num_coordinates", "bound"), [(1, 2**10), (3, 2**21), (40, 2**10), (40, 2**20)])
def test_records_on_the_sphere_stay_inside_and_near(num_coordinates, bound, monkeypatch):
    found, lengths = sphere(num_coordinates, bound)
    assert np.all(found <= bound**2)
    room = 2**-16 + (num_coordinates**0.5 + 1) / bound
    assert np.all(found.astype(float) ** 0.5 >= bound * (lengths - room))
    monkeypatch.setattr(column_kernel, "reachable", lambda bound, _: bound * (1 + 2**-9))  # a mutant without the room
    assert np.any(sphere(num_coordinates, bound)[0] > bound**2)


def test_the_room_covers_the_proven_errors():
    for bound in (2**10, 699_050, 2**21):
        for d in (1, 10, 40):
            assert np.float32(reachable(bound, d)) * (1 + 2**-18 + d * 2**-23) + d**0.5 / 2 <= bound


# --- the kernel -------------------------------------------------------------------------------------------------------


def mean(queries, record):
    return record - queries[0]


def kernel(records, queries, bound=BOUND):
    facts = PrivateData.without_guarantee(records).facts
    lattices = Lattice(jnp.full(len(queries[0]), 2 / bound), bound)

    def total(records):
        columns = find_columns(facts, mean, [query[0] for query in queries], records, bound)
        return sum_columns(columns, lattices, queries)

    compiled = jax.jit(total)
    return lambda records: to_int64(compiled(records))


def loop(records, queries, bound=BOUND):
    def steps(query):
        return quantise_vector(jax.vmap(mean, (None, 0))([query], records), Lattice(2 / bound, bound))

    return np.asarray(jax.jit(jax.vmap(steps))(queries[0])).astype(np.int64).sum(axis=1)


@pytest.mark.parametrize(("size", "d", "chains"), [(1100, 2, 1), (33, 2, 5)])
def test_the_kernel_agrees_with_the_loop_and_no_order_changes_a_bit(size, d, chains, monkeypatch):
    monkeypatch.setattr(column_kernel, "SUMS_IN_REGISTERS", 4)  # groups of two chains, the last one not full
    rows = np.random.default_rng(size)
    records = jnp.asarray(rows.normal(size=(size, d)) * 2, jnp.float32).at[0, 0].set(jnp.nan)
    queries = [jnp.asarray(rows.normal(size=(chains, d)), jnp.float32)]
    total = kernel(records, queries)
    found, expected = total(records), loop(records, queries)
    # what the two kinds of room take off a clipped record
    np.testing.assert_allclose(found, expected, atol=size * BOUND * (2**-14 + 2**-15 * d**0.5))
    np.testing.assert_array_equal(total(records[rows.permutation(size)]), found)


def test_threads_do_not_overflow_at_the_bound(monkeypatch):
    """One program adds up as many rows as one ever does, all of them at the bound."""
    monkeypatch.setattr(column_kernel, "PROGRAMS", 1)
    size = (2**31 - 1) // 2**21 * 128
    arguments = jnp.full((size, 1), 1e9), [jnp.zeros((1, 1))], 2**21
    found, expected = kernel(*arguments)(arguments[0]), loop(*arguments)
    assert 0.9999 * size * 2**21 < found[0, 0] <= size * 2**21
    np.testing.assert_allclose(found, expected, rtol=2**-14)


def test_gradient_sums_take_the_kernel_on_a_gpu(monkeypatch):
    expected = run(Mixture(), table(SIZE), 100)
    seen = []
    original = column_kernel.sum_columns
    monkeypatch.setattr(gradient, "on_gpu", lambda: True)
    monkeypatch.setattr("dpmcmc.enclave.mechanisms.lattice_sum.sum_columns", lambda *a: seen.append(1) or original(*a))
    found = run(Mixture(), table(SIZE), 100)
    assert seen
    np.testing.assert_allclose(found, expected, atol=SIZE * 1e-4)
