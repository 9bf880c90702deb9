"""The ways to add records up: each is, bit for bit, what Python's integers make of its own integers, and all agree."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import held
from test_curvature import ONE_RESIDUAL
from test_curvature import path_of as path_of_squares
from test_linear_predictor import GLMS, OTHERS, D, path_of, records
from toy import exact_releases, from_words, shapes_of, slots_of

from dpmcmc.enclave import CurvatureSum, GradientSum, LogRatio, NoisyCount, PrivateData, SubsampledGradientSum, Sum
from dpmcmc.enclave.accelerate.linear.rows import groups_of
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND, room
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.sums import vector_lattice
from dpmcmc.enclave.mechanisms.curvature import entries_of
from dpmcmc.enclave.noise.chacha20 import insecure_key

CLIP, MULTIPLIER, SIZE, CHAINS = 0.3, 3.0, 700, 2


def problem(model, position, kind="gradient", size=SIZE):
    leaves, structure = jax.tree.flatten((position,))
    generator = np.random.default_rng(1)
    queries = [jnp.asarray(generator.normal(size=(CHAINS, *np.shape(leaf))).astype(np.float32)) for leaf in leaves]
    if kind == "curvature":
        dimension = sum(np.size(leaf) for leaf in leaves)
        queries.append(jnp.asarray(generator.normal(size=(CHAINS, dimension, dimension)).astype(np.float32)) / 4)
    if kind == "pair":
        queries = [*queries, *(query + 0.5 for query in queries)]
    table = records(size)
    table["x"][3, 1], table["x"][8] = np.nan, 1e3
    return Term(model, structure), queries, table


def release(mechanism, term, queries, facts, slots):
    """The sum that a mechanism releases, in integers, and the plan."""
    plan = mechanism.plan(facts, mechanism.contribution(term), shapes_of(queries))
    keys = jax.random.split(insecure_key(1), CHAINS)
    draw = jax.jit(lambda slots, queries, keys: plan.draw(plan.prepare(slots), queries, keys)[0])
    return from_words(draw(slots, queries, keys)), plan


def slots_with_gaps(table):
    """Slots of which some are empty, though rows stand in them."""
    return slots_of(table, occupied=np.arange(len(table["y"])) % 7 != 2)


@pytest.fixture
def answers(monkeypatch):
    """What the code that rounds returned, in the order in which it was asked; it passes through the host."""
    log = []

    def recorded(name, function, axis_of=lambda *_, **__: -1):
        def wrapped(contribution, *others, **options):
            made = function(contribution, *others, **options)
            steps, rest = (made[0], made[1:]) if isinstance(made, tuple) else (made, None)
            axis = axis_of(*others, **options) % steps.ndim - steps.ndim

            def host(steps):
                log.append((name, np.moveaxis(np.array(steps), axis, -1)))
                return steps

            shape = jax.ShapeDtypeStruct(steps.shape, steps.dtype)
            steps = jax.pure_callback(host, shape, steps, vmap_method="broadcast_all")
            return steps if rest is None else (steps, *rest)

        return wrapped

    def axis_of_vector(_, axis=-1, **__):
        return axis

    for name in ("scalar", "count", "rows"):
        monkeypatch.setattr(quantise, name, recorded(name, getattr(quantise, name)))
    monkeypatch.setattr(quantise, "vector", recorded("vector", quantise.vector, axis_of_vector))
    return log


def chunks_of(log, length, chunk):
    """The answers for a walk over so many rows, each with who is new in it: the last chunk overlaps."""
    assert len(log) == -(-length // chunk), "asked once for each chunk"
    for number, (_, answer) in enumerate(log):
        first = number * chunk
        start = min(first, length - chunk)
        rows = np.arange(start, start + chunk)
        yield rows, rows >= first, answer.astype(np.int64)


# --- bit for bit ----------------------------------------------------------------------------------------------------

REFERENCE = {
    "sum": (Sum(CLIP, MULTIPLIER), lambda w, r: jnp.tanh(r["x"] * w), "gradient"),
    "count": (NoisyCount(CLIP, MULTIPLIER), lambda w, r: jnp.tanh(r["x"] * w), "gradient"),
    "gradient": (GradientSum(CLIP, MULTIPLIER), OTHERS["a mixture"][0], "gradient"),
    "curvature": (CurvatureSum(CLIP, MULTIPLIER), OTHERS["a mixture"][0], "curvature"),
    "log-ratio": (LogRatio(CLIP, MULTIPLIER), OTHERS["a mixture"][0], "pair"),
}


@pytest.mark.parametrize("chunk_size", [20_000, 300])
@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_path_is_its_model_in_integers(name, chunk_size, answers, monkeypatch):
    bounds = exact_releases(monkeypatch)
    mechanism, function, kind = REFERENCE[name]
    term, queries, table = problem(function, np.zeros(D, np.float32), kind)
    facts = PrivateData.without_guarantee(table, chunk_size=chunk_size).facts
    slots = slots_with_gaps(table)
    found, plan = release(mechanism, term, queries, facts, slots)
    assert plan.path() == "reference"
    occupied, length = np.asarray(slots.occupied), slots.length
    scalar = name in ("count", "log-ratio")
    coarse = bounds[-1] if scalar else vector_lattice(CLIP, MULTIPLIER, facts).bound
    expected = np.zeros((CHAINS, found.shape[1]), np.int64)
    for rows, new, answer in chunks_of(answers, length, min(chunk_size, length)):
        own = np.clip(answer, 0 if name == "count" else -coarse, coarse) if scalar else held(coarse, answer)
        np.testing.assert_array_equal(own, answer)  # honest: nothing is held
        expected += (own * (occupied[rows] & new)[:, None]).sum(axis=1)
    np.testing.assert_array_equal(found, expected * (bounds[-1] // coarse))
    assert np.all(np.any(found, axis=1))


@pytest.mark.parametrize("name", [name for name in GLMS if name != "logistic, jitted"])
def test_linear_rows_are_their_model_in_integers(name, answers, monkeypatch):
    exact_releases(monkeypatch)
    term, queries, table = problem(*GLMS[name][:2])
    facts = PrivateData.without_guarantee(table).facts
    slots = slots_with_gaps(table)
    mechanism = GradientSum(CLIP, MULTIPLIER)
    found, plan = release(mechanism, term, queries, facts, slots)
    assert plan.path() == "linear rows"
    path, _ = path_of(mechanism.contribution(term), facts, queries, CLIP, MULTIPLIER)
    groups, occupied = groups_of(path.factors), np.asarray(slots.occupied)
    num_residuals = sum(len(group.residuals) for group in groups)
    asked = {answer.shape[1]: held(ROW_BOUND, answer) for kind, answer in answers if kind == "rows"}
    assert len(asked) == len(groups), "groups are told apart by how many features they have"
    rows = [asked[len(group.features)] for group in groups]
    assert all(len(row) == slots.length for row in rows)
    ((kind, steps),) = [one for one in answers if one[0] != "rows"]
    if num_residuals == 1:
        assert kind == "scalar"
        steps = np.clip(steps.astype(np.int64), -path.residuals.bound, path.residuals.bound)
        steps = np.moveaxis(steps, 1, 0).reshape(CHAINS, 1, -1)  # chains, tiles in order
    else:
        assert kind == "vector"
        steps = held(path.residuals.bound, steps)  # tiles, chains, rows, residuals
        steps = np.moveaxis(steps, (1, 3), (0, 1)).reshape(CHAINS, num_residuals, -1)
    assert steps.shape[-1] == slots.length
    expected = np.zeros((CHAINS, found.shape[1]), np.int64)
    start = 0
    for group, own in zip(groups, rows, strict=True):
        for number, coordinates in enumerate(group.coordinates):
            products = np.einsum("cn,nf->cf", steps[:, start + number] * occupied, own * occupied[:, None])
            expected[:, list(coordinates)] += products
        start += len(group.residuals)
    np.testing.assert_array_equal(found, expected)
    assert np.all(np.any(found, axis=1))


@pytest.mark.parametrize("name", ["logistic", "robust", "intercept first"])
def test_rank_one_squares_are_their_model_in_integers(name, answers, monkeypatch):
    exact_releases(monkeypatch)
    term, queries, table = problem(*GLMS[name][:2], "curvature")
    facts = PrivateData.without_guarantee(table).facts
    slots, mechanism = slots_with_gaps(table), CurvatureSum(CLIP, MULTIPLIER)
    found, plan = release(mechanism, term, queries, facts, slots)
    assert plan.path() == "rank-one squares"
    path, _ = path_of_squares(mechanism.contribution(term), facts, queries, CLIP, MULTIPLIER)
    ((_, roots),) = answers
    roots = held(path.roots.bound, roots) * np.asarray(slots.occupied)[:, None]
    _, negative = jax.jit(jax.vmap(jax.vmap(path.form.root, (None, 0)), (0, None)))(queries, slots.rows)
    signs = np.where(negative, -1, 1)
    assert name != "robust" or len(np.unique(signs[:, :SIZE])) == 2
    rows, columns, weights = entries_of(roots.shape[-1])
    matrices = np.einsum("cn,cni,cnj->cij", signs, roots, roots)
    np.testing.assert_array_equal(found, matrices[:, rows, columns] * weights)


def test_sums_over_batches_are_their_model_in_integers(answers, monkeypatch):
    exact_releases(monkeypatch)
    term, queries, table = problem(*OTHERS["a mixture"])
    facts = PrivateData.without_guarantee(table).facts
    mechanism, slots = SubsampledGradientSum.without_replacement(CLIP, MULTIPLIER, 300), slots_with_gaps(table)
    drawn = []
    from dpmcmc.enclave.mechanisms import subsampled_gradient

    draw_batches = subsampled_gradient.draw_batches
    monkeypatch.setattr(
        subsampled_gradient,
        "draw_batches",
        lambda *given: jax.tree.map(
            lambda leaf: jax.pure_callback(
                lambda one: drawn.append(np.array(one)) or one, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), leaf
            ),
            draw_batches(*given),
        ),
    )
    found, _ = release(mechanism, term, queries, facts, slots)
    (indices,) = (one for one in drawn if one.dtype == np.int32)
    assert all(len(set(own.tolist())) == 300 for own in indices)
    assert np.max(indices) < SIZE
    ((_, answer),) = answers
    counts = np.asarray(slots.occupied)[indices]
    np.testing.assert_array_equal(found, (held(mechanism.lattice(SIZE).bound, answer) * counts[..., None]).sum(axis=1))


# --- one with another -----------------------------------------------------------------------------------------------


def rounding(bound, length):
    """How far at most, in clips, a contribution is from its clipped self: what the gate needs, and half steps."""
    return 1 - room(bound, length) / bound + length**0.5 / (2 * bound) + 2.0**-20


def both(mechanism, term, queries, table, monkeypatch):
    """The sums of the fast path and of the reference, in units of the clip."""
    bounds = exact_releases(monkeypatch)
    facts, slots = PrivateData.without_guarantee(table).facts, slots_with_gaps(table)
    fast, plan = release(mechanism, term, queries, facts, slots)
    plain, reference = release(mechanism, term, queries, replace(facts, paths=()), slots)
    assert reference.path() == "reference"
    assert plan.path() != "reference"
    assert plan.event == reference.event
    assert plan.outputs == reference.outputs
    one = [query[0] for query in queries]
    assert float(plan.variance(one)) == float(reference.variance(one))
    assert bounds[0] == bounds[-1], "one lattice for all paths"
    return fast / bounds[0], plain / bounds[0], facts


@pytest.mark.parametrize("name", GLMS)
def test_linear_rows_agree_with_the_reference(name, monkeypatch):
    term, queries, table = problem(*GLMS[name][:2])
    mechanism = GradientSum(CLIP, MULTIPLIER)
    fast, plain, facts = both(mechanism, term, queries, table, monkeypatch)
    path, lattice = path_of(mechanism.contribution(term), facts, queries, CLIP, MULTIPLIER)
    groups = groups_of(path.factors)
    num_residuals, width = sum(len(group.residuals) for group in groups), max(len(group.features) for group in groups)
    of_rows = (width**0.5 / 2 + 1) / ROW_BOUND  # half a step an entry, which the predictor reads too
    of_residuals = 1 - path.residuals.bound * ROW_BOUND / lattice.bound + 1 / path.residuals.bound
    target = Ball(ROW_BOUND, width).reach - 1 - width**0.5 / 2
    of_residuals += 1 - target / ROW_BOUND if num_residuals == 1 else rounding(path.residuals.bound, num_residuals)
    allowed = rounding(vector_lattice(CLIP, MULTIPLIER, facts).bound, plain.shape[1]) + 6 * of_rows + of_residuals
    assert allowed < 2e-3
    np.testing.assert_allclose(fast, plain, atol=allowed * SIZE, rtol=0)
    assert np.max(np.abs(plain)) > 10 * allowed, "the comparison says something"


@pytest.mark.parametrize("name", ONE_RESIDUAL)
def test_rank_one_squares_agree_with_the_reference(name, monkeypatch):
    term, queries, table = problem(*GLMS[name][:2], "curvature")
    mechanism = CurvatureSum(CLIP, MULTIPLIER)
    fast, plain, facts = both(mechanism, term, queries, table, monkeypatch)
    path, lattice = path_of_squares(mechanism.contribution(term), facts, queries, CLIP, MULTIPLIER)
    size = queries[-1].shape[-1]
    of_roots = 2 * rounding(path.roots.bound, size) + 1 - 29 * path.roots.bound**2 / lattice.bound
    allowed = rounding(vector_lattice(CLIP, MULTIPLIER, facts).bound, plain.shape[1]) + of_roots + 2.0**-12
    assert allowed < 3e-3
    np.testing.assert_allclose(fast, plain, atol=allowed * SIZE, rtol=0)
    assert np.max(np.abs(plain)) > 10 * allowed


def test_a_vault_that_may_not_be_fast_releases_the_same():
    """`accelerate=False`, through `run`: the same noise on the same lattice, and sums that agree."""
    table = records(SIZE)
    model = type(
        "Model",
        (),
        {
            "temperature": 1.0,
            "log_prior": staticmethod(lambda w: -0.5 * jnp.sum(w**2)),
            "log_likelihood": staticmethod(GLMS["logistic"][0]),
        },
    )()

    def program(oracle, w):
        force = oracle.force(GradientSum(CLIP, MULTIPLIER), w)
        return force, oracle.curvature(CurvatureSum(CLIP, MULTIPLIER), w, jnp.eye(D))

    vaults = [PrivateData.without_guarantee(table, accelerate=fast) for fast in (True, False)]
    audits = [data.audit(program, jnp.ones(D), model=model) for data in vaults]
    assert [audit.paths for audit in audits] == [("linear rows", "rank-one squares"), ("reference",)]
    assert audits[0].event == audits[1].event
    found, expected = (data.run(program, jnp.ones(D), model=model, insecure_seed=4) for data in vaults)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=3e-4 * CLIP * SIZE, rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "logistic", "a mixture"])
@pytest.mark.parametrize("accelerate", [True, False])
def test_double_precision_takes_every_path_too(name, accelerate):
    """What is rounded is single precision, whatever a program computes with: the sums agree."""
    likelihood, position = {**GLMS, **OTHERS}[name][:2]
    model = type(
        "Model",
        (),
        {
            "temperature": 1.0,
            "log_prior": staticmethod(lambda w: 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(w))),
            "log_likelihood": staticmethod(likelihood),
        },
    )()
    size = sum(np.size(leaf) for leaf in jax.tree.leaves(position))

    def released():
        def program(oracle, w, factor):
            force = oracle.force(GradientSum(CLIP, 0.004), w).value
            curvature = oracle.curvature(CurvatureSum(CLIP, 0.004), w, factor).value
            return jnp.concatenate([jnp.ravel(leaf) for leaf in [*jax.tree.leaves(force), curvature]])

        data = PrivateData.without_guarantee(records(SIZE), accelerate=accelerate)
        at = jax.tree.map(lambda leaf: jnp.full(np.shape(leaf), 0.1), position)
        return np.asarray(data.run(program, at, jnp.eye(size), model=model, insecure_seed=3))

    single = released()
    with jax.enable_x64(True):
        double = released()
    np.testing.assert_allclose(double, single, atol=8 * 2 * 0.004 * CLIP * 2**0.5 + 3e-4 * CLIP * SIZE)
