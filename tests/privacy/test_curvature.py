"""Noisy Hessians: which models take the path of rank one, that it sums what the general path does, and its bound."""

from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_linear_predictor import GLMS, OTHERS, VALUES, D, add_up, logistic, records, robust
from toy import compute, shapes_of, slots_of, to_int64

from dpmcmc.accounting import accountants
from dpmcmc.accounting.event import Gaussian
from dpmcmc.enclave import CurvatureSum, PrivateData, Sum
from dpmcmc.enclave.accelerate.linear.products import product_of_bytes
from dpmcmc.enclave.accelerate.linear.rank_one import LEAST_ROOT, find_rank_one, find_rank_one_squares
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.paths import SumRequest, finer_bits
from dpmcmc.enclave.core.sums import vector_lattice
from dpmcmc.enclave.mechanisms.curvature import OFF_DIAGONAL, ON_DIAGONAL, symmetric
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.errors import InvalidArgument, ReleaseRefused

ONE_RESIDUAL = [name for name, (_, _, num_residuals, _) in GLMS.items() if num_residuals == 1]
CLIP = 0.05


def problem(model, position, size, chains=3):
    """The contribution, the facts, the records, and a position and a factor for each chain."""
    leaves, structure = jax.tree.flatten((position,))
    generator, table = np.random.default_rng(1), records(size)
    dimension = sum(np.size(leaf) for leaf in leaves)
    shapes = [*(leaf.shape for leaf in leaves), (dimension, dimension)]
    queries = [jnp.asarray(generator.normal(size=(chains, *shape)).astype(np.float32)) / 4 for shape in shapes]
    facts = PrivateData.without_guarantee(table).facts
    contribution = CurvatureSum(1.0, 1.0).contribution(Term(model, structure))
    return contribution, facts, jax.tree.map(jnp.asarray, table), queries


def form_of(contribution, facts, queries):
    return find_rank_one(contribution, [query[0] for query in queries], facts.record)


def path_of(contribution, facts, queries, clip=CLIP, noise_multiplier=3.0):
    """The path, and the lattice of its sum: as much finer than a sum needs as every path of it is."""
    coarse = vector_lattice(clip, noise_multiplier, facts)
    lattice = coarse.refined(2 ** finer_bits(coarse, facts.size))
    return find_rank_one_squares(facts, SumRequest("square", contribution, tuple(shapes_of(queries))), lattice), lattice


def hessians(model, position, table, queries):
    """The matrices of all records in the coordinates of the factor, by the textbook."""
    leaves, structure = jax.tree.flatten(position)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]

    def of_record(position, factor, record):
        start = jnp.concatenate([jnp.ravel(leaf) for leaf in position])

        def function(vector):
            parts = [part.reshape(leaf.shape) for part, leaf in zip(jnp.split(vector, ends), leaves, strict=True)]
            return model(jax.tree.unflatten(structure, parts), record)

        return -factor.T @ jax.hessian(function)(start) @ factor

    each = jax.vmap(jax.vmap(of_record, (None, None, 0)), (0, 0, None))(queries[:-1], queries[-1], table)
    return np.asarray(each, float)


# What takes the path.


@pytest.mark.parametrize("name", ONE_RESIDUAL)
def test_hessians_of_rank_one_are_found(name):
    model, position, _, _ = GLMS[name]
    contribution, facts, table, queries = problem(model, position, 4)
    form = form_of(contribution, facts, queries)
    for matrix, *own in zip(hessians(model, position, table, queries)[:, 0], *queries, strict=True):
        root, negative = form.root(own, jax.tree.map(lambda leaf: leaf[0], table))
        np.testing.assert_allclose(np.outer(root, root) * (-1 if negative else 1), matrix, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*(name for name in GLMS if name not in ONE_RESIDUAL), *OTHERS])
def test_others_are_not(name):
    contribution, facts, _, queries = problem(*{**GLMS, **OTHERS}[name][:2], 4)
    assert form_of(contribution, facts, queries) is None


# The sum.


@pytest.mark.parametrize("size", [1, 1300])
@pytest.mark.parametrize("name", ["logistic", "robust", "intercept first"])
def test_the_sum_is_the_clipped_sum(name, size):
    model, position, _, _ = GLMS[name]
    contribution, facts, table, queries = problem(model, position, size)
    path, lattice = path_of(contribution, facts, queries)
    found = to_int64(add_up(path)(slots_of(table), queries)) * float(lattice.granularity)
    each = hessians(model, position, table, queries)
    norms = np.linalg.norm(each, axis=(2, 3), keepdims=True)
    assert size == 1 or (np.any(norms > CLIP) and np.any(norms < CLIP))
    assert name != "robust" or size == 1 or np.any(np.trace(each, axis1=2, axis2=3) < 0)  # not every weight is positive
    expected = np.sum(each * np.minimum(1, CLIP / norms), axis=1)
    for own, matrix in zip(found, expected, strict=True):
        np.testing.assert_allclose(symmetric(own, len(matrix)), matrix, atol=3e-4 * CLIP * size, rtol=3e-4)


@pytest.mark.parametrize("noise_multiplier", [0.004, 3.0])
def test_both_paths_release_the_same(noise_multiplier):
    contribution, facts, table, queries = problem(robust, np.zeros(D, np.float32), 400)
    mechanism, keys = CurvatureSum(CLIP, noise_multiplier), jax.random.split(insecure_key(3), 3)
    plans = [mechanism.plan(one, contribution, shapes_of(queries)) for one in (facts, replace(facts, paths=()))]
    assert [plan.path() for plan in plans] == ["rank-one squares", "reference"]
    assert plans[0].event == plans[1].event
    fast, general = (plan.draw(plan.prepare(slots_of(table)), queries, keys)[0] for plan in plans)
    (sigma,) = {float(jnp.sqrt(plan.variance([query[0] for query in queries]))) for plan in plans}
    assert sigma == pytest.approx(2 * noise_multiplier * CLIP, rel=1e-4)
    np.testing.assert_allclose(fast, general, atol=3e-4 * CLIP * 400)  # the noise is the same, on the same lattice


class Logistic:
    temperature = 0.5
    log_prior = staticmethod(lambda position: -0.5 * jnp.sum(position["w"] ** 2 * jnp.arange(1.0, D + 1)))
    log_likelihood = staticmethod(lambda position, record: logistic(position["w"], record))


def test_the_oracle_adds_the_prior_and_the_price_is_that_of_a_sum():
    table = records(500)
    data = PrivateData.without_guarantee(table)
    factor = jnp.asarray(np.random.default_rng(2).normal(size=(D, 3)).astype(np.float32))
    position = {"w": jnp.full(D, 0.1)}

    def program(oracle, position, factor):
        return oracle.curvature(CurvatureSum(1e3, 0.002), position, factor)

    released = data.run(program, position, factor, model=Logistic())
    each = 0.5 * hessians(logistic, position["w"], table, [position["w"][None], factor[None]])[0]
    expected = each.sum(axis=0) + factor.T @ np.diag(np.arange(1.0, D + 1)) @ factor
    sigma = float(np.sqrt(released.variance))
    np.testing.assert_allclose(released.value, expected, atol=6 * sigma)
    np.testing.assert_array_equal(released.value, released.value.T)
    price = data.price(program, position, factor, model=Logistic())
    of_sum = data.price(lambda oracle: oracle.sum(Sum(1e3, 0.002), lambda record: jnp.full(6, record["y"])))
    assert [dict(one.parts)[Gaussian(0.002)] for one in (price, of_sum)] == [1, 1]
    assert accountants.epsilon(price, 1e-6) == pytest.approx(accountants.epsilon(of_sum, 1e-6), rel=1e-6)


def test_a_factor_of_another_shape_and_another_mechanism_are_refused():
    data = PrivateData.without_guarantee(records(5))
    position = {"w": jnp.zeros(D)}
    for factor in (jnp.zeros(D), jnp.zeros((D + 1, D))):
        with pytest.raises(InvalidArgument, match=r"factor has the shape .* expected one row for each coordinate"):
            data.price(lambda o, p, f: o.curvature(CurvatureSum(1.0, 1.0), p, f), position, factor, model=Logistic())
    with pytest.raises(ReleaseRefused, match="expected a certified mechanism of the kind CurvatureSum"):
        data.price(lambda o, p, f: o.curvature(Sum(1.0, 1.0), p, f), position, jnp.eye(D), model=Logistic())


def test_the_noise_has_the_declared_scale_on_the_diagonal_and_off_it():
    contribution, facts, table, _ = problem(logistic, np.zeros(D, np.float32), 1)
    keys = jax.random.split(insecure_key(4), 4000)
    queries = [jnp.zeros((4000, D)), jnp.zeros((4000, D, 2))]
    (values,) = compute(CurvatureSum(2.0, 3.0), facts, contribution, table, queries, keys)
    assert values.shape == (4000, 3)
    assert pytest.approx(2, rel=1e-3) == (OFF_DIAGONAL / ON_DIAGONAL) ** 2
    error = 4.5 * np.sqrt(2 / 4000)  # four and a half standard errors: one false alarm in 50,000 for all three
    np.testing.assert_allclose(np.var(values, axis=0) / 12.0**2, 1, atol=error)


# The same bits.


@pytest.mark.parametrize("size", [100, 1100])
def test_chunks_and_order_change_no_bit(size):
    table, (contribution, _, _, queries) = records(size), problem(logistic, np.zeros(D, np.float32), 4)
    keys = jax.random.split(insecure_key(5), 3)

    def release(table, chunk_size):
        facts = PrivateData.without_guarantee(table, chunk_size=chunk_size).facts
        draw = partial(compute, CurvatureSum(CLIP, 3.0), facts, contribution)
        return jax.jit(lambda slots, keys: draw(slots, queries, keys))(slots_of(table), keys)[0]

    expected = release(table, 1000)
    for chunk_size in (1, size):
        np.testing.assert_array_equal(release(table, chunk_size), expected)
    for order in (slice(None, None, -1), np.random.default_rng(2).permutation(size)):
        np.testing.assert_array_equal(release(jax.tree.map(lambda leaf, o=order: leaf[o], table), 1000), expected)


def test_the_sums_of_parts_are_the_sum_of_the_whole():
    contribution, facts, table, queries = problem(logistic, np.zeros(D, np.float32), 3000)
    path, _ = path_of(contribution, facts, queries)

    def total(part):
        return to_int64(add_up(path)(slots_of(jax.tree.map(lambda leaf: leaf[part], table)), queries))

    np.testing.assert_array_equal(total(slice(1234)) + total(slice(1234, None)), total(slice(None)))


# What one record can do: the bound holds in integers.


def extreme(name):
    """The form of a model's Hessians, the lattice of their sum, and two chains, one of them far out."""
    contribution, facts, _, queries = problem(*GLMS[name][:2], 4)
    queries = [jnp.concatenate([query[:1], 1e9 * query[1:2]]) for query in queries]
    return *path_of(contribution, facts, queries), queries


@cache
def probes():
    return [extreme(name) for name in ("logistic", "Poisson", "robust", "intercept first")]


@jax.jit
def integers(slots):
    return [path.sum(path.prepare(slots), queries, 2) for path, _, queries in probes()]


@settings(deadline=None, max_examples=200)
@given(st.lists(VALUES, min_size=D, max_size=D), VALUES)
def test_one_record_is_within_the_bound_exactly(x, y):
    table = {"x": np.array([x], np.float32), "y": np.array([y], np.float32), "c": np.array([1], np.int32)}
    for (_, lattice, _), total in zip(probes(), integers(slots_of(table)), strict=True):
        for chain in to_int64(total):
            assert sum(int(step) ** 2 for step in chain) <= lattice.bound**2


@given(st.lists(st.integers(-ROW_BOUND, ROW_BOUND), min_size=1, max_size=6))
def test_the_weighted_entries_of_a_square_are_no_longer_than_its_norm(root):
    """In integers of any size: |29 diagonal, 41 above it| <= 29 |root|^2, with nothing to spare for one coordinate."""
    weighted = [
        (ON_DIAGONAL if i == j else OFF_DIAGONAL) * a * b
        for i, a in enumerate(root)
        for j, b in enumerate(root)
        if i <= j
    ]
    assert sum(step**2 for step in weighted) <= (ON_DIAGONAL * sum(a * a for a in root)) ** 2


def test_squares_are_exact_at_their_bounds():
    generator = np.random.default_rng(6)
    rows = 2**17 - 512
    steps = generator.choice([-ROW_BOUND, ROW_BOUND, ROW_BOUND - 1, 1, 0], (rows, 2)).astype(np.int32)
    signs = generator.choice([-1, 1], (rows, 1)).astype(np.int32)
    product = jax.jit(partial(product_of_bytes, 2))
    found = to_int64(product((steps * signs).T[None], steps.T[None]))
    wide = steps.astype(np.int64)
    np.testing.assert_array_equal(found, (wide * signs).T @ wide)


@pytest.mark.parametrize("noise_multiplier", [0.002, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("clip", [1e-6, 1.0, 1e6])
def test_the_finer_lattice_keeps_the_privacy(clip, noise_multiplier):
    contribution, facts, _, queries = problem(logistic, np.zeros(D, np.float32), 10)
    coarse = vector_lattice(clip, noise_multiplier, facts)
    path, lattice = path_of(contribution, facts, queries, clip, noise_multiplier)
    refined = lattice.bound // coarse.bound
    assert refined & (refined - 1) == 0
    assert refined * coarse.bound == lattice.bound
    assert refined * coarse.scale == lattice.scale
    assert ON_DIAGONAL * path.roots.bound**2 <= lattice.bound
    assert LEAST_ROOT <= path.roots.bound <= ROW_BOUND
    assert path.roots.granularity**2 * refined == pytest.approx(ON_DIAGONAL * coarse.granularity, rel=1e-6)
    assert lattice.scale <= 2**44


def test_noise_that_leaves_no_room_for_squares_takes_the_reference_path():
    contribution, facts, table, queries = problem(logistic, np.zeros(D, np.float32), 10)
    assert path_of(contribution, facts, queries, 1.0, 1e8)[0] is None
    request = SumRequest("square", contribution, tuple(shapes_of(queries)))
    assert find_rank_one_squares(facts, request, Lattice(1.0, ON_DIAGONAL, 2.0**44)) is None
    keys = jax.random.split(insecure_key(1), 3)
    plan = CurvatureSum(1.0, 1e8).plan(facts, contribution, shapes_of(queries))
    assert plan.path() == "reference"
    assert np.all(np.isfinite(plan.draw(plan.prepare(slots_of(table)), queries, keys)))
