"""The kernel that sums clipped gradients with many coordinates on a GPU, interpreted here; contributions row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_bit_equality import SIZE, run
from test_shards import Mixture, table

from dpmcmc.enclave import PrivateData, block_kernel
from dpmcmc.enclave.block_kernel import find_blocks, sum_blocks
from dpmcmc.enclave.lattice import Lattice, quantise_vector, to_int64
from dpmcmc.enclave.mechanisms import gradient
from dpmcmc.enclave.mechanisms.base import Term
from dpmcmc.enclave.mechanisms.gradient import flat_gradient
from dpmcmc.enclave.rounding import reachable
from dpmcmc.enclave.row_by_row import row_by_row

D, BOUND = 5, 2**20


def mean(w, r):
    return -0.5 * jnp.sum(jnp.square(r["x"] - w)) * jnp.exp(r["y"])


def two_places(w, r):
    square = jnp.sum(jnp.square(r["x"] - w))
    return jnp.logaddexp(-0.5 * square, -0.02 * square - 3.0 + r["y"])


def mixed(w, r):
    """Inner products, the largest entry, a constant row, selections, a product of a number and a row."""
    inner, weights = r["x"] @ jnp.tanh(w), np.linspace(-1, 1, D).astype(np.float32)
    return jnp.where(r["x"] @ weights > 0, inner, jnp.max(r["x"] * w)) + jnp.sum(jnp.exp(-((r["x"] * inner - w) ** 2)))


MODELS = {"mean": mean, "two places": two_places, "mixed": mixed}


def problem(model, size, chains, d=D):
    rows = np.random.default_rng(size)
    records = {"x": rows.normal(size=(size, d)).astype(np.float32), "y": rows.normal(size=size).astype(np.float32)}
    records = jax.tree.map(jnp.asarray, records)
    queries = [jnp.asarray(rows.normal(size=(chains, d)).astype(np.float32))]
    return flat_gradient(Term(model, jax.tree.structure((0,)))), records, queries


@pytest.mark.parametrize("name", MODELS)
def test_contributions_are_the_same_row_by_row(name):
    contribution, records, queries = problem(MODELS[name], 50, 1)
    form = row_by_row(contribution, [queries[0][0]], jax.tree.map(lambda leaf: leaf[0], records))
    assert form.length == D
    leaves = [jax.tree.leaves(records)[place].reshape(50, -1) for place in form.leaves]
    leaves = [
        jnp.pad(leaf, [(0, 0), (0, 3 if leaf.shape[1] > 1 else 0)]) for leaf in leaves
    ]  # places that are not there
    public = [jnp.pad(thing, [(0, 3)])[None] for thing in form.public([queries[0][0]])]
    found = form.contributions(leaves, public, jnp.arange(D + 3)[None] < D)
    expected = jax.vmap(contribution, in_axes=(None, 0))([queries[0][0]], records)
    np.testing.assert_allclose(found[:, :D], expected, rtol=2e-5, atol=2e-6)
    assert not np.any(found[:, D:])


@pytest.mark.parametrize(
    "contribution",
    [
        lambda queries, record: jnp.sort(record * queries[0]),
        lambda queries, record: jnp.cumsum(record * queries[0]),
        lambda queries, record: jnp.concatenate([record[1:], record[:1]]) * queries[0],
        lambda queries, record: jnp.outer(record, record) @ queries[0],
        lambda queries, _: queries[0],
    ],
)
def test_what_is_not_made_of_rows_is_left_alone(contribution):
    assert row_by_row(contribution, [jnp.ones(D)], jnp.ones(D)) is None


def kernel(contribution, records, queries, bound=BOUND):
    facts = PrivateData.without_guarantee(records).facts
    lattices = Lattice(jnp.full(len(queries[0]), 2 / bound), bound)

    def total(records):
        blocks = find_blocks(facts, contribution, [query[0] for query in queries], records, bound)
        return sum_blocks(blocks, lattices, queries)

    compiled = jax.jit(total)
    return lambda records: to_int64(compiled(records))


def loop(contribution, records, queries, bound=BOUND):
    def steps(*own):
        return quantise_vector(jax.vmap(contribution, (None, 0))(list(own), records), Lattice(2 / bound, bound))

    return np.asarray(jax.jit(jax.vmap(steps))(*queries)).astype(np.int64).sum(axis=1)


@pytest.mark.parametrize(("name", "size", "chains"), [("mean", 700, 1), ("two places", 33, 5), ("mixed", 300, 2)])
def test_the_kernel_agrees_with_the_loop_and_no_order_changes_a_bit(name, size, chains, monkeypatch):
    monkeypatch.setattr(block_kernel, "CHAINS", 2)  # groups of two chains, the last one not full
    monkeypatch.setattr(block_kernel, "PLACES", 64)
    contribution, records, queries = problem(MODELS[name], size, chains)
    records["x"] = records["x"].at[0, 0].set(jnp.nan)
    total = kernel(contribution, records, queries)
    found, expected = total(records), loop(contribution, records, queries)
    np.testing.assert_allclose(found, expected, atol=size * BOUND * (2**-14 + 2**-15 * D**0.5))
    order = np.random.default_rng(0).permutation(size)
    np.testing.assert_array_equal(total(jax.tree.map(lambda leaf: leaf[order], records)), found)


def squares(d):
    """The square norms of what a record becomes whose gradient is short, or longer than the clip by far."""
    contribution, records, queries = problem(mean, 4, 1, d)
    one = jax.tree.map(lambda leaf: leaf[:1], records) | {"y": jnp.zeros(1)}
    total = kernel(contribution, one, queries)
    lengths = (100.0, 1e9, 1e15, 1e30)
    return [sum(int(step) ** 2 for step in total(one | {"x": one["x"] * length})[0]) for length in lengths]


@pytest.mark.parametrize("d", [2, 1000])
def test_one_record_is_within_the_bound(d, monkeypatch):
    *found, overflowing = squares(d)
    assert all(0.99 * BOUND**2 < square <= BOUND**2 for square in found)
    assert overflowing == 0
    assert np.float32(reachable(BOUND, d)) * (1 + 2**-18 + d * 2**-23) + d**0.5 / 2 <= BOUND
    monkeypatch.setattr(block_kernel, "reachable", lambda bound, _: bound * (1 + 2**-9))  # a mutant without the room
    assert max(squares(d)) > BOUND**2


def test_places_do_not_overflow_at_the_bound(monkeypatch):
    """One program adds up as many records as one ever does, all of them at the bound."""
    monkeypatch.setattr(block_kernel, "PROGRAMS", 1)
    monkeypatch.setattr(block_kernel, "PLACES", 4)
    size = (2**31 - 1) // 2**21 * 2
    records = {"x": jnp.zeros((size, 2)).at[:, 0].set(1e9), "y": jnp.zeros(size)}
    contribution, queries = problem(mean, 4, 1, 2)[0], [jnp.zeros((1, 2))]
    found = kernel(contribution, records, queries, 2**21)(records)
    assert 0.9999 * size * 2**21 < found[0, 0] <= size * 2**21


@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_is_translated_for_a_gpu(name, monkeypatch):
    """As far as that goes without one: into the language of the compiler for kernels."""
    contribution, records, queries = problem(MODELS[name], 50, 5)
    blocks = find_blocks(PrivateData.without_guarantee(records).facts, contribution, [queries[0][0]], records, BOUND)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    total = jax.jit(lambda blocks, *queries: sum_blocks(blocks, Lattice(jnp.ones(5), BOUND), queries))
    assert "triton" in total.trace(blocks, *queries).lower(lowering_platforms=("cuda",)).as_text()


def test_gradient_sums_take_the_kernel_on_a_gpu(monkeypatch):
    expected = run(Mixture(), table(SIZE), 100)
    seen = []
    original = block_kernel.sum_blocks
    monkeypatch.setattr(gradient, "on_gpu", lambda: True)
    monkeypatch.setattr(gradient, "find_columns", lambda *_: None)  # as for more coordinates than it takes
    monkeypatch.setattr("dpmcmc.enclave.mechanisms.lattice_sum.sum_blocks", lambda *a: seen.append(1) or original(*a))
    found = run(Mixture(), table(SIZE), 100)
    assert seen
    np.testing.assert_allclose(found, expected, atol=SIZE * 1e-4)
