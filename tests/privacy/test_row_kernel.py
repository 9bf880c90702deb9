"""The kernel that sums residual * row on a GPU, interpreted here: it gives the bits of the loop that XLA compiles."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_linear_predictor as rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.enclave import row_kernel, rows
from dpmcmc.enclave.factors import SingleNumbers
from dpmcmc.enclave.lattice import to_int64
from dpmcmc.enclave.linear_predictor import finer, sum_rows
from dpmcmc.enclave.mechanisms.lattice_sum import vector_lattice
from dpmcmc.enclave.rows import make_rows, suits_kernel

NAMES = ("logistic", "linear", "Poisson", "robust", "intercept first", "transformed row")


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(rows, "on_gpu", lambda: True)


def problem(name, size, chains):
    """Factors, records, the lattice of the residuals, and positions of small whole numbers: predictors are exact."""
    model, position, _, _ = rows_of.GLMS[name]
    contribution, facts, table, queries = rows_of.problem(model, position, size, chains)
    queries = [jnp.clip(jnp.rint(query), -2, 2) for query in queries]
    factors = rows_of.find(contribution, facts, queries)
    return factors, table, vector_lattice(0.8, 3.0, facts, rows_of.num_coordinates(queries)), queries


def total(factors, table, lattice, queries):
    return to_int64(jax.jit(lambda table: sum_rows(make_rows(factors, table), finer(lattice)[0], queries))(table))


@pytest.mark.parametrize("name", rows_of.GLMS)
def test_models_with_one_residual_of_single_numbers_take_the_kernel(name):
    factors, table, _, _ = problem(name, 4, 1)
    assert suits_kernel(factors, table) == (factors.num_residuals == 1)


@pytest.mark.parametrize("chains", [1, 3, 18])
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_gives_the_bits_of_the_loop(name, chains, monkeypatch):
    arguments = problem(name, 2500, chains)
    expected = total(*arguments)
    monkeypatch.setattr(rows, "on_gpu", lambda: True)
    found = total(*arguments)
    if name == "linear":
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.max(np.abs(expected)))


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("chains", [1, 18])
def test_the_order_of_the_rows_changes_no_bit(chains):
    factors, table, lattice, queries = problem("logistic", 2500, chains)
    order = np.random.default_rng(0).permutation(2500)
    shuffled = jax.tree.map(lambda leaf: leaf[order], table)
    np.testing.assert_array_equal(total(factors, table, lattice, queries), total(factors, shuffled, lattice, queries))


@pytest.mark.parametrize("plan", ["_FewChains", "_ManyChains"])
def test_digits_do_not_overflow_at_the_bounds(plan, monkeypatch):
    """One program adds up as many rows as one ever does, all of them at both bounds."""
    original = getattr(row_kernel, plan).of

    def one_program(*arguments):
        whole = original(*arguments)
        return replace(whole, programs=1, rows=32, blocks=arguments[2] // 32)

    monkeypatch.setattr(getattr(row_kernel, plan), "of", staticmethod(one_program))
    num_rows = row_kernel._FewChains.most_steps * 32 if plan == "_FewChains" else row_kernel._ManyChains.most_rows
    num_chains, bound = (1, 18)[plan == "_ManyChains"], 2**18
    numbers = SingleNumbers((), lambda _: [], lambda *values: values[2][0])
    coefficients = jnp.ones((1, num_chains, 2)) * jnp.array([1.0, 0.0])
    task = row_kernel.Problem(numbers, coefficients, jnp.zeros((0, num_chains)), jnp.float32(1e9), bound)
    monkeypatch.setattr(row_kernel, "FEW_SUMS", 64 if plan == "_FewChains" else 0)
    tiles = jnp.full((num_rows // 1024, 2, 1024), 127 * 256, jnp.int16).at[:, 1].set(-127 * 256)
    found = to_int64(row_kernel.sum_tiles(task, tiles, jnp.ones(num_rows), []))
    assert {int(value) for value in found[:, 0]} == {num_rows * bound * 127 * 256}
    assert {int(value) for value in found[:, 1]} == {-num_rows * bound * 127 * 256}


PROBES = [problem(name, 4, chains) for name in ("logistic", "Poisson") for chains in (1, 18)]


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_one_record_is_within_the_bound_exactly():
    @jax.jit
    def integers(table):
        far = [[1e18 * query for query in queries] for _, _, _, queries in PROBES]
        return [
            sum_rows(make_rows(factors, table), finer(lattice)[0], queries)
            for (factors, _, lattice, _), queries in zip(PROBES, far, strict=True)
        ]

    @settings(deadline=None, max_examples=60)
    @given(st.lists(rows_of.VALUES, min_size=rows_of.D, max_size=rows_of.D), rows_of.VALUES)
    def check(x, y):
        table = {"x": np.array([x], np.float32), "y": np.array([y], np.float32), "c": np.array([1], np.int32)}
        for found, (_, _, lattice, _) in zip(integers(table), PROBES, strict=True):
            for chain in to_int64(found):
                assert sum(int(step) ** 2 for step in chain) <= (finer(lattice)[1] * lattice.bound) ** 2

    check()


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize("chains", [1, 18])
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_lowers_for_a_gpu(name, chains, monkeypatch):
    factors, table, lattice, queries = problem(name, 2500, chains)
    made = jax.eval_shape(partial(make_rows, factors), table)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    text = jax.jit(sum_rows).trace(made, finer(lattice)[0], queries).lower(lowering_platforms=("cuda",)).as_text()
    assert "triton" in text
