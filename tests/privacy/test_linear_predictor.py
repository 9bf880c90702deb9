"""The fast path for GLMs: which models take it, that it sums what the general path sums, and what one record can do."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.scipy.special import gammaln
from toy import compute, shapes_of, slots_of, to_int64

from dpmcmc.enclave.accelerate.linear import sums as linear_sums
from dpmcmc.enclave.accelerate.linear.form import factorise
from dpmcmc.enclave.accelerate.linear.products import bytes_for, product_of_bytes
from dpmcmc.enclave.accelerate.linear.rows import Rows, gated_rows, groups_of, rows_at_once
from dpmcmc.enclave.accelerate.linear.sums import LEAST_BOUND, MOST_BOUND, find_linear_rows, sum_rows
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.arithmetic.quantise import rows as quantise_rows
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.paths import SumRequest, finer_bits
from dpmcmc.enclave.core.places import ROWS_IN_TILE
from dpmcmc.enclave.core.sums import vector_lattice
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.exact import ExactGradientSum, exact_sum
from dpmcmc.enclave.mechanisms.gradient import GradientSum, flat_gradient
from dpmcmc.enclave.noise.chacha20 import insecure_key

D, K = 5, 4
VECTOR, MATRIX, NUMBER = np.zeros(D, np.float32), np.zeros((D, K), np.float32), np.float32(0)


def logistic(w, r):
    return r["y"] * (r["x"] @ w) - jnp.logaddexp(0.0, r["x"] @ w)


def linear(w, r):
    return -0.5 * (r["y"] - jnp.sum(r["x"] * w)) ** 2


def poisson(w, r):
    return r["c"] * (w @ r["x"]) - jnp.exp(w @ r["x"]) - gammaln(r["c"] + 1.0)


def robust(w, r):
    return -2.5 * jnp.log1p((r["y"] - r["x"] @ w) ** 2 / 4)


def softmax(p, r):
    return jax.nn.log_softmax(r["x"] @ p["w"] + p["b"])[r["c"]]


def intercept_and_scale(p, r):
    return -0.5 * ((r["y"] - p["w"] @ r["x"] - p["b"]) * jnp.exp(-p["s"])) ** 2 - p["s"]


def intercept_first(w, r):
    return jax.nn.log_sigmoid((2 * r["y"] - 1) * (w[0] + r["x"] @ w[1:]))


def two_predictors(p, r):
    return -0.5 * (r["y"] - r["x"] @ p["w"]) ** 2 * jnp.exp(-(r["x"][:3] @ p["v"])) - 0.5 * (r["x"][:3] @ p["v"])


def transformed_row(w, r):
    return jax.nn.log_sigmoid(jnp.concatenate([jnp.ones(1), jnp.where(r["x"] > 0, r["x"] ** 2, 0.0)]) @ w)


def network(p, r):
    return -((r["y"] - jnp.tanh(r["x"] @ p["a"]) @ p["b"]) ** 2)


SIX = np.zeros(D + 1, np.float32)
GLMS = {  # the model, its position, how many residuals and how many groups of them
    "logistic": (logistic, VECTOR, 1, 1),
    "logistic, jitted": (jax.jit(logistic), VECTOR, 1, 1),
    "linear": (linear, VECTOR, 1, 1),
    "Poisson": (poisson, VECTOR, 1, 1),
    "robust": (robust, VECTOR, 1, 1),
    "softmax": (softmax, {"w": MATRIX, "b": MATRIX[0]}, K, 1),
    "intercept and scale": (intercept_and_scale, {"w": VECTOR, "b": NUMBER, "s": NUMBER}, 2, 2),
    "intercept first": (intercept_first, SIX, 1, 1),
    "two predictors": (two_predictors, {"w": VECTOR, "v": VECTOR[:3]}, 2, 2),
    "transformed row": (transformed_row, SIX, 1, 1),
    "network": (network, {"a": MATRIX, "b": MATRIX[0]}, 2 * K, 2),
}
OTHERS = {
    "a mean": (lambda w, r: -0.5 * jnp.sum((r["x"] - w) ** 2), VECTOR),
    "a penalty on the position": (lambda w, r: linear(w, r) - r["y"] * jnp.sum(w**2), VECTOR),
    "a normalised position": (lambda w, r: linear(w / jnp.sqrt(1 + jnp.sum(w**2)), r), VECTOR),
    "a transformed position": (lambda w, r: linear(w**2, r), VECTOR),
    "a sum of exponentials": (lambda w, r: -0.5 * (r["y"] - jnp.sum(jnp.exp(r["x"] * w))) ** 2, VECTOR),
    "two rows for one coefficient": (lambda w, r: linear(w, r) - jnp.logaddexp(0.0, (r["x"] ** 2) @ w), VECTOR),
    "a mixture": (lambda w, r: jnp.logaddexp(-jnp.sum((r["x"] - w) ** 2), -2 - jnp.sum((r["x"] + w) ** 2)), VECTOR),
    "a deep network": (
        lambda p, r: -((r["y"] - jnp.tanh(jnp.tanh(r["x"] @ p["a"]) @ p["b"]) @ p["c"]) ** 2),
        {"a": MATRIX, "b": MATRIX[:K], "c": MATRIX[0]},
    ),
}


def records(size, seed=0):
    generator = np.random.default_rng(seed)
    return {
        "x": generator.normal(size=(size, D)).astype(np.float32),
        "y": generator.integers(0, 2, size).astype(np.float32),
        "c": generator.integers(0, K, size).astype(np.int32),
    }


def problem(model, position, size, chains=3):
    """The contribution, the facts, the records and positions for each chain."""
    leaves, structure = jax.tree.flatten((position,))
    table = records(size)
    generator = np.random.default_rng(1)
    queries = [jnp.asarray(generator.normal(size=(chains, *leaf.shape)).astype(np.float32)) for leaf in leaves]
    facts = PrivateData.without_guarantee(table).facts
    return flat_gradient(Term(model, structure)), facts, jax.tree.map(jnp.asarray, table), queries


def find(contribution, facts, queries):
    return factorise(contribution, [query[0] for query in queries], facts.record)


def path_of(contribution, facts, queries, clip=0.8, noise_multiplier=3.0):
    """The path, and the lattice of its sum: as much finer than a sum needs as every path of it is."""
    coarse = vector_lattice(clip, noise_multiplier, facts)
    lattice = coarse.refined(2 ** finer_bits(coarse, facts.size))
    return find_linear_rows(facts, SumRequest("gradient", contribution, tuple(shapes_of(queries))), lattice), lattice


def add_up(path):
    """The sum of slots by a path, compiled."""
    return jax.jit(lambda slots, queries: path.sum(path.prepare(slots), queries, len(queries[0])))


# What takes the path.


@pytest.mark.parametrize("name", GLMS)
def test_glms_are_found(name):
    model, position, num_residuals, num_groups = GLMS[name]
    contribution, facts, table, queries = problem(model, position, 4)
    factors = find(contribution, facts, queries)
    assert factors.num_residuals == num_residuals
    assert len(groups_of(factors)) == num_groups
    for chain in range(3):
        own, record = [query[chain] for query in queries], jax.tree.map(lambda leaf, i=chain: leaf[i], table)
        residuals = jnp.append(factors.residuals(own, record), 0.0)[np.array(factors.residual_of)]
        features = jnp.append(factors.features(record), 1.0)[np.array(factors.feature_of)]
        np.testing.assert_allclose(residuals * features, contribution(own, record), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_near_misses_are_not(name):
    contribution, facts, _, queries = problem(*OTHERS[name], 4)
    assert find(contribution, facts, queries) is None


def test_a_run_takes_the_path_without_being_told(monkeypatch):
    calls = []
    monkeypatch.setattr(linear_sums, "gated_rows", lambda *arguments: calls.append(1) or gated_rows(*arguments))

    class Model:
        temperature = 0.5
        log_prior = staticmethod(lambda w: -0.5 * jnp.sum(w**2))
        log_likelihood = staticmethod(logistic)

    def program(oracle, start):
        def step(position, _):
            force = oracle.force(GradientSum(1.0, 5.0), position)
            return position + 1e-3 * force.value, None

        return jax.lax.scan(step, start, None, length=4)[0]

    data = PrivateData.without_guarantee(records(300))
    result = data.run(program, jnp.zeros(D), model=Model())
    assert np.all(np.isfinite(result))
    assert calls == [1]  # once, before the loop
    assert data.audit(program, jnp.zeros(D), model=Model()).paths == ("linear rows",)
    plain = PrivateData.without_guarantee(records(300), accelerate=False)
    assert np.all(np.isfinite(plain.run(program, jnp.zeros(D), model=Model())))
    assert calls == [1]
    assert plain.audit(program, jnp.zeros(D), model=Model()).paths == ("reference",)


# Without privacy.


@pytest.mark.parametrize("name", GLMS)
def test_the_exact_gradient_is_the_plain_sum(name):
    contribution, facts, table, queries = problem(*GLMS[name][:2], 4200)
    table["x"] = table["x"].at[3, 1].set(jnp.inf).at[4, 2].set(jnp.nan).at[5].set(0.0)  # two records count as zero
    keys = jax.random.split(insecure_key(1), 3)
    plan, slots = ExactGradientSum().plan(facts, contribution, shapes_of(queries)), slots_of(table)
    assert isinstance(plan.prepare(slots), Rows)
    (found,) = plan.draw(plan.prepare(slots), queries, keys)
    expected = exact_sum(facts, contribution, slots, queries, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.max(np.abs(expected)))


def test_an_exact_gradient_that_overflows_counts_as_zero():
    contribution, facts, table, queries = problem(linear, VECTOR, 40)
    far = {**table, "y": table["y"].at[7].set(1e38), "x": table["x"].at[7].set(1e3)}
    (found,) = compute(ExactGradientSum(), facts, contribution, far, queries, jax.random.split(insecure_key(1), 3))
    without = slots_of(table, occupied=np.arange(40) != 7)
    expected = exact_sum(facts, contribution, without, queries, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


# The sum.


@pytest.mark.parametrize("size", [1, 4200])
@pytest.mark.parametrize("name", GLMS)
def test_the_sum_is_the_clipped_sum(name, size):
    model, position, _, _ = GLMS[name]
    contribution, facts, table, queries = problem(model, position, size)
    clip = 0.8
    path, lattice = path_of(contribution, facts, queries, clip)
    total = to_int64(add_up(path)(slots_of(table), queries)) * float(lattice.granularity)
    each = np.asarray(jax.vmap(jax.vmap(contribution, (None, 0)), (0, None))(queries, table), float)
    norms = np.linalg.norm(each, axis=2, keepdims=True)
    assert size == 1 or (np.any(norms > clip) and np.any(norms < clip))
    expected = (each * np.minimum(1, clip / norms)).sum(1)
    np.testing.assert_allclose(total, expected, atol=3e-4 * clip * size, rtol=3e-4)


def test_both_paths_release_the_same_with_the_same_event_and_variance():
    contribution, facts, table, queries = problem(logistic, VECTOR, 400)
    mechanism = GradientSum(0.8, 0.004)
    keys, shapes = jax.random.split(insecure_key(3), 3), shapes_of(queries)
    fast, plain = (mechanism.plan(one, contribution, shapes) for one in (facts, replace(facts, paths=())))
    assert (fast.path(), plain.path()) == ("linear rows", "reference")
    assert fast.event == plain.event
    assert fast.outputs == plain.outputs
    found, general = (plan.draw(plan.prepare(slots_of(table)), queries, keys)[0] for plan in (fast, plain))
    one = [query[0] for query in queries]
    sigma = float(jnp.sqrt(fast.variance(one)))
    assert sigma == float(jnp.sqrt(plain.variance(one)))
    assert sigma == pytest.approx(2 * 0.004 * 0.8, rel=1e-4)
    np.testing.assert_allclose(found, general, atol=3e-4 * 0.8 * 400)  # the noise is the same, on the same lattice


def test_the_noise_of_the_fine_lattice_has_the_declared_scale():
    facts = PrivateData.without_guarantee(records(40)).facts
    table = jax.tree.map(lambda leaf: jnp.zeros((40, *leaf.shape), leaf.dtype), facts.record)
    contribution = flat_gradient(Term(linear, jax.tree.structure((0,))))
    keys = jax.random.split(insecure_key(4), 4000)
    mechanism = GradientSum(2.0, 3.0)
    plan = mechanism.plan(facts, contribution, [jax.ShapeDtypeStruct((D,), jnp.float32)])
    assert plan.path() == "linear rows"
    (values,) = plan.draw(plan.prepare(slots_of(table)), [jnp.ones((4000, D))], keys)
    error = 4 * np.sqrt(2 / values.size)  # four standard errors of a variance: one false alarm in 16,000
    assert np.mean(np.var(values, axis=0)) / 12.0**2 == pytest.approx(1, abs=error)
    assert plan.variance([jnp.ones(D)]) == pytest.approx(12.0**2, rel=1e-4)


# The same bits.

SEEDED = """
import sys; sys.path[:0] = {path!r}
import jax, numpy as np
import test_linear_predictor as tests
from dpmcmc.enclave.arithmetic.int64 import sum_across
from dpmcmc.enclave.core.places import Slots
from jax.sharding import Mesh, PartitionSpec
from toy import slots_of, to_int64
contribution, facts, table, queries = tests.problem(tests.logistic, tests.VECTOR, 4000)
path, _ = tests.path_of(contribution, facts, queries)
slots = slots_of(table, tile=8 * tests.ROWS_IN_TILE)

def one(slots):
    return path.sum(path.prepare(slots), queries, 3)

alone = to_int64(jax.jit(one)(slots))
mesh = Mesh(np.array(jax.devices()), ("shards",))
spec = PartitionSpec("shards")
shard = lambda slots: sum_across(one(slots), "shards")
options = dict(mesh=mesh, in_specs=(Slots(spec, spec, PartitionSpec()),), out_specs=PartitionSpec(), check_vma=False)
together = to_int64(jax.jit(jax.shard_map(shard, **options))(slots))
assert len(jax.devices()) == 8
np.testing.assert_array_equal(alone, together)
print("equal")
"""


@pytest.mark.parametrize("name", ["logistic", "softmax", "intercept and scale"])
@pytest.mark.parametrize("size", [100, 4500])
def test_chunks_and_order_change_no_bit(name, size):
    model, position, _, _ = GLMS[name]
    structure = jax.tree.structure((position,))
    table = records(size)
    queries = problem(model, position, 4)[3]
    contribution = flat_gradient(Term(model, structure))
    keys = jax.random.split(insecure_key(5), 3)
    shuffled = np.random.default_rng(2).permutation(size)

    def release(table, chunk_size):
        facts = PrivateData.without_guarantee(table, chunk_size=chunk_size).facts
        draw = partial(compute, GradientSum(0.8, 3.0), facts, contribution)
        return jax.jit(lambda slots, keys: draw(slots, queries, keys))(slots_of(table), keys)[0]

    expected = release(table, 1000)
    for chunk_size in (1, 7, 1000, size):
        np.testing.assert_array_equal(release(table, chunk_size), expected)
    for order in (slice(None, None, -1), shuffled):
        np.testing.assert_array_equal(release(jax.tree.map(lambda leaf, o=order: leaf[o], table), 1000), expected)


@pytest.mark.parametrize("chains", [1, 4, 16])
def test_the_sums_of_parts_are_the_sum_of_the_whole(chains):
    """With ten features products of matrices of other shapes round differently, which these sums must not show."""
    generator = np.random.default_rng(7)
    table = {"x": generator.normal(size=(9000, 10)).astype(np.float32), "y": records(9000)["y"]}
    queries = [jnp.asarray(generator.normal(size=(chains, 10)).astype(np.float32))]
    facts = PrivateData.without_guarantee(table).facts
    path, _ = path_of(flat_gradient(Term(logistic, jax.tree.structure((0,)))), facts, queries)

    def total(part):
        return to_int64(add_up(path)(slots_of(jax.tree.map(lambda leaf: leaf[part], table)), queries))

    np.testing.assert_array_equal(total(slice(1234)) + total(slice(1234, None)), total(slice(None)))


def test_eight_devices_give_the_bits_of_one():
    path = [os.path.dirname(__file__), *[entry for entry in sys.path if entry]]  # noqa: PTH120
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SEEDED.format(path=path)], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout.strip().endswith("equal"), done.stderr


# What one record can do: the bound holds in integers.

VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.3, 1e-40, 1e-30, 1e20, -1e20, 1e38, 3.4e38, np.inf, -np.inf, np.nan]
) | st.floats(width=32)


def extreme(name):
    """The factors of a model, the lattice of its sum, and two chains of positions, one of them far out."""
    contribution, facts, _, queries = problem(*GLMS[name][:2], 4)
    queries = [jnp.concatenate([query[:1], 1e18 * query[1:2]]) for query in queries]
    return *path_of(contribution, facts, queries), queries


@cache
def probes():
    return [extreme(name) for name in ("logistic", "Poisson", "softmax", "intercept and scale", "two predictors")]


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


@pytest.mark.parametrize("bound", [127, 32639, MOST_BOUND])
@pytest.mark.parametrize("chains", [1, 5])
def test_products_of_bytes_are_exact_at_their_bounds(bound, chains):
    most_tiles = 2**17 // ROWS_IN_TILE - 1
    assert all(ROWS_IN_TILE <= rows_at_once(width) < 2**17 for width in (1, D, 1000, 2**20))
    generator = np.random.default_rng(6)
    steps = generator.choice([-bound, bound, 1 - bound, 1, 0], (most_tiles, chains, ROWS_IN_TILE))
    rows = generator.choice([-ROW_BOUND, ROW_BOUND, -128, 127, -1], (most_tiles, D, ROWS_IN_TILE))
    steps[:, 0], rows[:, 0] = -min(bound, 128), -128  # the largest product of two digits, throughout
    product = jax.jit(partial(product_of_bytes, bytes_for(bound)))
    found = to_int64(product(steps.astype(np.int32), rows.astype(np.int16)))
    np.testing.assert_array_equal(found, np.einsum("tcr,tdr->cd", steps, rows))


QUANTISE = jax.jit(quantise_rows)


@settings(deadline=None, max_examples=200)
@given(st.lists(VALUES, min_size=D, max_size=D))
def test_rows_are_within_their_bound_and_near_themselves(row):
    row = np.array([row], np.float32)
    steps, units = QUANTISE(row)
    assert sum(int(step) ** 2 for step in steps[0]) <= ROW_BOUND**2
    np.testing.assert_array_equal(Ball(ROW_BOUND, D).hold(steps), steps)
    if not np.all(np.isfinite(row)):
        assert not np.any(steps)
        assert np.isnan(units[0])
    elif 1e-30 < np.max(np.abs(row)) < 1e37:
        error = np.asarray(steps[0], float) * float(units[0]) - np.asarray(row[0], float)
        assert np.max(np.abs(error)) <= 0.6 * np.linalg.norm(row.astype(float)) / (ROW_BOUND - 8)


@pytest.mark.parametrize("noise_multiplier", [0.002, 1.0, 1e2, 1e5, 1e6])
@pytest.mark.parametrize("clip", [1e-6, 1.0, 1e6])
def test_a_finer_lattice_keeps_the_privacy(clip, noise_multiplier):
    contribution, facts, _, queries = problem(logistic, VECTOR, 10)
    coarse = vector_lattice(clip, noise_multiplier, facts)
    path, lattice = path_of(contribution, facts, queries, clip, noise_multiplier)
    refined = lattice.bound // coarse.bound
    assert refined & (refined - 1) == 0
    assert refined * coarse.bound == lattice.bound
    assert refined * coarse.scale == lattice.scale
    assert lattice.scale / lattice.bound >= 2 * noise_multiplier
    assert path.residuals.bound * ROW_BOUND <= lattice.bound
    assert LEAST_BOUND <= path.residuals.bound <= MOST_BOUND
    assert path.residuals.granularity * refined == coarse.granularity
    assert lattice.scale <= 2**44
    assert facts.size * lattice.bound < 2**62


def test_noise_that_leaves_no_room_for_two_factors_takes_the_reference_path():
    contribution, facts, table, queries = problem(logistic, VECTOR, 10)
    assert path_of(contribution, facts, queries, 1.0, 1e8)[0] is None
    plan = GradientSum(1.0, 1e8).plan(facts, contribution, shapes_of(queries))
    slots = slots_of(table)
    assert plan.path() == "reference"
    assert plan.prepare(slots) is slots
    assert np.all(np.isfinite(plan.draw(slots, queries, jax.random.split(insecure_key(1), 3))))


def test_memory_is_flat_in_the_number_of_records():
    contribution, facts, _, queries = problem(logistic, VECTOR, 4)
    path, _ = path_of(contribution, facts, queries)

    def temporary(size):
        slots = slots_of(jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), facts.record))
        slots = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape[1:])[: leaf.ndim], leaf.dtype), slots)
        rows = jax.eval_shape(path.prepare, slots)
        assert isinstance(rows, Rows)
        made = jax.jit(path.prepare).lower(slots).compile().memory_analysis()
        added = jax.jit(partial(sum_rows, lattice=path.residuals)).lower(rows, queries=queries).compile()
        return max(made.temp_size_in_bytes - made.output_size_in_bytes, added.memory_analysis().temp_size_in_bytes)

    assert temporary(2**22) <= temporary(2**18) + 2**20
