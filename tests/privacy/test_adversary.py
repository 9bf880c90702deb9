"""Nothing is believed of the code that makes integers of records: here it is replaced by adversaries.

All that is asked of it is that a record's integers come from that record and public values. Whatever they are, one
record moves a sum by no more than its sensitivity, in integers, and changes what no other record adds.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from oracles import held
from test_linear_predictor import GLMS, OTHERS, D, records
from toy import exact_releases, from_words, shapes_of, slots_of, to_int64

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    BlockSum,
    Counts,
    CurvatureSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PrivateData,
    SpacedSum,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.batches.subsample import Batch
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.mechanisms.barker_test import BOUND
from dpmcmc.enclave.mechanisms.minibatch_log_ratio import constants
from dpmcmc.enclave.noise.chacha20 import insecure_key

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SIZE, CHAINS, PAIRS = 40, 2, 40


# --- an adversary that is a function of the record -------------------------------------------------------------------


def mix(bits):
    """A bijection of 32-bit integers after which nothing of their order is left."""
    bits = bits.astype(jnp.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = (bits ^ (bits >> np.uint32(shift))) * np.uint32(factor)
    return bits ^ (bits >> np.uint32(16))


def wild(contribution, bound, axis=-1):
    """Integers made of the bits of a contribution in one of six ways, which its bits decide too."""
    axis = axis % contribution.ndim
    bits = mix(lax.bitcast_convert_type(contribution.astype(jnp.float32), jnp.int32))
    length = contribution.shape[axis]
    own = jnp.expand_dims(mix(lax.reduce(bits, np.uint32(0), lax.bitwise_xor, (axis,))), axis)
    place = lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
    alone = place == (own >> np.uint32(8)) % np.uint32(length)
    sign = jnp.where((own >> np.uint32(4)) & 1 == 1, -1, 1).astype(jnp.int32)
    edges = jnp.array([INT_MIN, INT_MIN + 1, INT_MAX, bound, -bound, bound + 1, -bound - 1, 2**16, 0, 1], jnp.int32)
    spread = np.int32(0.97 * bound / length**0.5)
    ways = [
        lax.bitcast_convert_type(bits, jnp.int32),
        edges[bits % np.uint32(len(edges))],
        jnp.where(alone, sign * np.int32(bound if length == 1 else 0.999 * bound), 0),  # as far as all balls reach
        jnp.where(alone, sign * np.int32(bound + 1), 0),
        jnp.where(bits & 1 == 1, -spread, spread),
        (bits % np.uint32(spread + 1)).astype(jnp.int32),
    ]
    return jnp.select([own % np.uint32(len(ways)) == number for number in range(len(ways))], ways)


def wild_rows(features):
    steps = wild(features, ROW_BOUND)
    bits = mix(lax.reduce(lax.bitcast_convert_type(features, jnp.int32), np.int32(0), lax.bitwise_xor, (1,)))
    usual = (bits & np.uint32(0x7FFFFF)) | np.uint32(0x3F000000)  # from one half to one; the others are any float
    units = lax.bitcast_convert_type(jnp.where(bits >> np.uint32(29) == 0, bits, usual), jnp.float32)
    return steps, units


def replace_honest_code(monkeypatch):
    monkeypatch.setattr(quantise, "scalar", lambda y, lattice: wild(y[..., None], lattice.bound)[..., 0])
    monkeypatch.setattr(quantise, "vector", lambda y, lattice, axis=-1, **_: wild(y, lattice.bound, axis))
    monkeypatch.setattr(quantise, "count", lambda y, _: jnp.where(y > 0, jnp.int32(INT_MAX), jnp.int32(INT_MIN)))
    monkeypatch.setattr(quantise, "rows", wild_rows)
    monkeypatch.setattr(quantise, "place", wild)


# --- what is asked --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """How to ask a mechanism for its sums in integers, and by how much a record may move them."""

    totals: object
    """From slots to a dict of sums, shape (chains, entries)."""
    limits: object
    """From the bound of the sums to two dicts: the largest move if a record is replaced, and if it goes."""
    attained: float = 0.9
    """How much of the second one this adversary must reach, or it would show nothing."""


def problem(model, position, kind="gradient"):
    leaves, structure = jax.tree.flatten((position,))
    generator = np.random.default_rng(1)
    queries = [jnp.asarray(generator.normal(size=(CHAINS, *np.shape(leaf))).astype(np.float32)) for leaf in leaves]
    if kind == "curvature":
        size = sum(np.size(leaf) for leaf in leaves)
        queries.append(jnp.asarray(generator.normal(size=(CHAINS, size, size)).astype(np.float32)))
    if kind == "pair":
        queries = [*queries, *(query + 0.5 for query in queries), jnp.zeros(CHAINS)]
    return Term(model, structure), queries


def of_plan(mechanism, term, queries, path="reference", clips=(2, 1), attained=0.9):
    """A mechanism whose release is a sum."""

    def totals(facts):
        plan = mechanism.plan(facts, mechanism.contribution(term), shapes_of(queries))
        assert plan.path() == path
        keys = jax.random.split(insecure_key(1), CHAINS)
        return lambda slots: {"sum": plan.draw(plan.prepare(slots), queries, keys)[0]}

    return Asked(totals, lambda bound: tuple({"sum": clip * bound} for clip in clips), attained)


EVERYONE = Batch(jnp.tile(jnp.arange(SIZE, dtype=jnp.int32), (CHAINS, 1)), jnp.ones((CHAINS, SIZE), bool))


def glm(name):
    return problem(*GLMS[name][:2])


def other(name, kind="gradient"):
    return problem(*OTHERS[name], kind)


def barker_bit():
    term, queries = other("a mixture", "pair")
    mechanism = BarkerBit(0.1)
    bound = int(0.1 * 2**23)

    def totals(facts):
        contribution = mechanism.contribution(term)
        return lambda slots: {"sum": mechanism.log_odds(facts, contribution, slots, queries)[0]}

    return Asked(totals, lambda _: ({"sum": 2 * bound}, {"sum": bound}))


def barker_test():
    term, queries = other("a mixture", "pair")
    mechanism = BarkerTest(SIZE, 2.0, 1.0)

    def totals(facts):
        def moments(slots):
            made = mechanism.batch_moments(facts, mechanism.contribution(term), slots, queries, EVERYONE)
            return {"sum": made.total, "spread": made.spread}

        return moments

    spread = 4 * (SIZE - 1) * BOUND**2
    return Asked(totals, lambda _: ({"sum": 2 * BOUND, "spread": spread}, {"sum": BOUND, "spread": spread}))


def minibatch():
    term, queries = other("a mixture", "pair")
    mechanism = MinibatchLogRatio(SIZE, 0.1, 3.0)
    most = constants(SIZE, 3.0).sensitivity

    def totals(_):
        larger = PrivateData.without_guarantee(records(4 * SIZE)).facts
        contribution = mechanism.contribution(term)
        return lambda slots: {"sum": mechanism.batch_value(larger, contribution, slots, queries[:2], EVERYONE)[0]}

    return Asked(totals, lambda _: ({"sum": most}, {"sum": most}), 0.2)


def batch_sum():
    term, queries = other("a mixture")
    mechanism = SubsampledGradientSum.poisson(0.8, 3.0, 0.1)
    bound = mechanism.lattice(SIZE).bound

    def totals(facts):
        contribution = mechanism.contribution(term)
        return lambda slots: {"sum": mechanism.batch_sum(facts, contribution, slots, queries, EVERYONE)}

    return Asked(totals, lambda _: ({"sum": 2 * bound}, {"sum": bound}))


def statistic(w, record):
    return jnp.tanh(record["x"] * w)


def in_blocks(w, record):
    """A place that is often none, and entries of it and beside it."""
    entries = jnp.tanh(record["x"] * w)
    return jnp.concatenate([jnp.round(3 * record["x"][:1]), entries])


ASKED = {
    "sum in blocks": lambda: of_plan(BlockSum(0.8, 3.0, 5, 2), *problem(in_blocks, np.zeros(D, np.float32))),
    "counts": lambda: of_plan(
        Counts(0.8, 3.0), *problem(statistic, np.zeros(D, np.float32)), clips=(2**0.5, 1), attained=0.8
    ),
    "sum of some": lambda: of_plan(SpacedSum(0.8, 3.0, 2), *problem(statistic, np.zeros(D, np.float32))),
    "sum": lambda: of_plan(Sum(0.8, 3.0), *problem(statistic, np.zeros(D, np.float32))),
    "count": lambda: of_plan(NoisyCount(0.8, 3.0), *problem(statistic, np.zeros(D, np.float32)), clips=(1, 1)),
    "gradient": lambda: of_plan(GradientSum(0.8, 3.0), *other("a mixture")),
    "linear rows": lambda: of_plan(GradientSum(0.8, 3.0), *glm("logistic"), "linear rows", attained=0.7),
    "linear rows, many residuals": lambda: of_plan(GradientSum(0.8, 3.0), *glm("softmax"), "linear rows", attained=0.7),
    "linear rows, two groups": lambda: of_plan(
        GradientSum(0.8, 3.0), *glm("intercept and scale"), "linear rows", attained=0.5
    ),
    "curvature": lambda: of_plan(CurvatureSum(0.8, 3.0), *other("a mixture", "curvature")),
    "rank-one squares": lambda: of_plan(
        CurvatureSum(0.8, 3.0), *problem(*GLMS["robust"][:2], "curvature"), "rank-one squares"
    ),
    "log-ratio": lambda: of_plan(
        LogRatio(0.8, 3.0), *(lambda term, queries: (term, queries[:2]))(*other("a mixture", "pair"))
    ),
    "Barker bit": barker_bit,
    "moments of a batch": barker_test,
    "minibatch log-ratio": minibatch,
    "gradient of a batch": batch_sum,
}


def integers(made):
    """Sums as Python's integers, shape (chains, entries)."""
    found = {}
    for name, value in made.items():
        if isinstance(value, list):  # digits
            number = sum(np.asarray(digit).astype(object) << (16 * place) for place, digit in enumerate(value))
        elif isinstance(value, jax.Array):
            number = from_words(value).astype(object)
        else:
            number = to_int64(value).astype(object)
        found[name] = number.reshape(CHAINS, -1)
    return found


def largest_move(one, two):
    """The square of the longest difference over the chains."""
    return {name: max(((one[name] - two[name]) ** 2).sum(axis=1)) for name in one}


@pytest.mark.parametrize("name", ASKED)
def test_whatever_integers_are_made_of_a_record_it_moves_a_sum_by_its_sensitivity_at_most(name, monkeypatch):
    asked, bounds = ASKED[name](), exact_releases(monkeypatch)
    table = records(SIZE)
    totals = asked.totals(PrivateData.without_guarantee(table, chunk_size=100).facts)
    replace_honest_code(monkeypatch)
    compute = jax.jit(totals)
    strangers, attained = records(PAIRS, seed=9), 0
    for pair in range(PAIRS):
        index = pair % SIZE
        replaced = {leaf: np.array(values) for leaf, values in table.items()}
        for leaf, values in strangers.items():
            replaced[leaf][index] = values[pair]
        rest = np.arange(SIZE) != index
        before, after, gone, also_gone = (
            integers(compute(slots))
            for slots in (
                slots_of(table),
                slots_of(replaced),
                slots_of(table, occupied=rest),
                slots_of(replaced, occupied=rest),
            )
        )
        assert all(value == 0 for value in largest_move(gone, also_gone).values()), "another record adds something else"
        if_replaced, if_gone = asked.limits(bounds[-1] if bounds else None)
        for what, move in largest_move(before, after).items():
            assert move <= if_replaced[what] ** 2
        for what, move in largest_move(before, gone).items():
            assert move <= if_gone[what] ** 2
        attained = max(attained, largest_move(before, gone)["sum"] / if_gone["sum"] ** 2)
    assert asked.attained**2 <= attained <= 1, "the adversary does not reach far enough to show anything"


def test_whatever_the_public_coefficients_of_a_minibatch_are_its_sensitivity_holds(monkeypatch):
    """P and R come from floating point too: any integers in their place are held before they are used."""
    fixed = constants(SIZE, 3.0)
    term, queries = other("a mixture", "pair")
    mechanism = MinibatchLogRatio(SIZE, 0.1, 3.0)
    facts = PrivateData.without_guarantee(records(SIZE)).facts
    contribution = mechanism.contribution(term)
    honest = MinibatchLogRatio.coefficients
    table, gone = slots_of(records(SIZE)), slots_of(records(SIZE), occupied=np.arange(SIZE) != 3)
    replace_honest_code(monkeypatch)
    for linear, square in ((INT_MAX, INT_MAX), (INT_MIN, INT_MIN), (fixed.sensitivity, 5), (1, INT_MAX), (0, -1)):

        def wrong(self, facts, queries, linear=linear, square=square):
            made = honest(self, facts, queries)
            return made._replace(linear=jnp.int32(linear), square=jnp.int32(square))

        monkeypatch.setattr(MinibatchLogRatio, "coefficients", wrong)
        value = jax.jit(lambda slots: mechanism.batch_value(facts, contribution, slots, queries[:2], EVERYONE)[0])
        moved = np.abs(to_int64(value(table)) - to_int64(value(gone)))
        assert np.all(moved <= fixed.sensitivity)


# --- an adversary that answers differently when it is asked twice ----------------------------------------------------


def with_a_memory(monkeypatch, log):
    """Let all integers come from the host, new ones at every question; what was answered is written to the log."""

    def answer(name, bound):
        def host(asked):
            generator = np.random.default_rng(len(log))
            small = int(0.9 * bound / asked.shape[-1] ** 0.5)
            integers = generator.integers(-small, small, asked.shape, endpoint=True)
            extreme = generator.choice([INT_MIN, INT_MAX, bound, -bound, bound + 1], asked.shape)
            rows = generator.uniform(size=(*asked.shape[:-1], 1)) < 0.3
            log.append((name, np.where(rows, extreme, integers).astype(np.int32)))
            return log[-1][1]

        return host

    def ask(name, contribution, bound, axis=-1):
        contribution = jnp.moveaxis(contribution, axis, -1)
        shape = jax.ShapeDtypeStruct(contribution.shape, jnp.int32)
        made = jax.pure_callback(answer(name, bound), shape, contribution, vmap_method="broadcast_all")
        return jnp.moveaxis(made, -1, axis)

    honest = quantise.rows
    monkeypatch.setattr(quantise, "vector", lambda y, lattice, axis=-1, **_: ask("vector", y, lattice.bound, axis))
    monkeypatch.setattr(quantise, "scalar", lambda y, lattice: ask("scalar", y, lattice.bound))
    monkeypatch.setattr(quantise, "rows", lambda own: (ask("rows", own, ROW_BOUND), honest(own)[1]))


def compiled_release(mechanism, term, queries, table, **facts):
    """The release of a mechanism in integers, and the slots that were read."""
    data = PrivateData.without_guarantee(table, **facts)
    plan = mechanism.plan(data.facts, mechanism.contribution(term), shapes_of(queries))
    slots, keys = slots_of(table), jax.random.split(insecure_key(1), CHAINS)
    release = jax.jit(lambda slots, queries, keys: plan.draw(plan.prepare(slots), queries, keys)[0])
    return from_words(release(slots, queries, keys)), np.asarray(slots.occupied), plan


@pytest.mark.parametrize("chunk_size", [1000, 200])
def test_the_integers_that_are_checked_are_those_that_are_added_up(chunk_size, monkeypatch):
    """The sum is that of what was answered, once for every chunk, as the gate leaves it: nothing is asked twice."""
    log, bounds = [], exact_releases(monkeypatch)
    with_a_memory(monkeypatch, log)
    term, queries = other("a mixture")
    found, occupied, _ = compiled_release(GradientSum(0.8, 3.0), term, queries, records(SIZE), chunk_size=chunk_size)
    length = len(occupied)
    chunk = min(chunk_size, length)
    starts = [min(number * chunk, length - chunk) for number in range(-(-length // chunk))]
    assert [answer.shape for _, answer in log] == [(CHAINS, chunk, D)] * len(starts)
    coarse = max(bound for bound in bounds)
    expected, so_far = np.zeros((CHAINS, D), np.int64), 0
    bound = GradientSumBound.of(0.8, 3.0)
    for start, (_, answer) in zip(starts, log, strict=True):
        new = np.arange(start, start + chunk) >= so_far
        counts = occupied[start : start + chunk] & new
        expected += (held(bound, answer) * counts[:, None]).sum(axis=1)
        so_far = start + chunk
    assert coarse % bound == 0
    np.testing.assert_array_equal(found, expected * (coarse // bound))
    assert np.any(expected)


class GradientSumBound:
    """The bound of the lattice that the reference path rounds to."""

    @staticmethod
    def of(clip, noise_multiplier):
        from dpmcmc.enclave.core.sums import vector_lattice

        return vector_lattice(clip, noise_multiplier, PrivateData.without_guarantee(records(SIZE)).facts).bound


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_the_integers_of_rows_and_residuals_are_those_that_are_multiplied(name, monkeypatch):
    log, _ = [], exact_releases(monkeypatch)
    with_a_memory(monkeypatch, log)
    term, queries = glm(name)
    found, occupied, plan = compiled_release(GradientSum(0.8, 3.0), term, queries, records(SIZE))
    assert plan.path() == "linear rows"
    (first, rows), (_, residuals) = log
    assert first == "rows"
    num_residuals = 1 if name == "logistic" else 4
    rows = held(ROW_BOUND, rows) * occupied[:, None]
    bound = linear_bound(term, queries)
    if num_residuals == 1:  # an interval, not a ball
        steps = np.clip(residuals.astype(np.int64), -bound, bound).reshape(CHAINS, 1, -1)
    else:  # asked along the residuals, which were moved to the end
        steps = np.swapaxes(held(bound, residuals).reshape(CHAINS, -1, num_residuals), 1, 2)
    steps = steps * occupied
    sums = np.einsum("crn,nf->crf", steps, rows)
    if name == "softmax":  # coordinates: the intercepts first, then the coefficients, feature by feature
        sums = np.concatenate([sums[:, :, -1], np.swapaxes(sums[:, :, :-1], 1, 2).reshape(CHAINS, -1)], axis=1)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(sums.reshape(CHAINS, -1), axis=1))
    assert np.any(found)


def linear_bound(term, queries):
    from test_linear_predictor import path_of

    facts = PrivateData.without_guarantee(records(SIZE)).facts
    return path_of(GradientSum(0.8, 3.0).contribution(term), facts, queries)[0].residuals.bound


def test_a_vault_runs_what_remembers_and_holds_it_too(monkeypatch):
    """All the way through `run`, where the compiled program is read: the release is the sum of what was answered."""
    log = []
    with_a_memory(monkeypatch, log)
    table, quiet = records(SIZE), GradientSum(0.8, 0.003)
    model = type(
        "Model",
        (),
        {
            "temperature": 1.0,
            "log_prior": staticmethod(lambda w: 0.0 * jnp.sum(w)),
            "log_likelihood": staticmethod(OTHERS["a mixture"][0]),
        },
    )()
    data = PrivateData.without_guarantee(table)
    released = data.run(lambda oracle, w: oracle.force(quiet, w).value, jnp.zeros(D), model=model)
    ((_, answer),) = log
    from dpmcmc.enclave.core.sums import vector_lattice

    lattice = vector_lattice(0.8, 0.003, data.facts)
    expected = held(lattice.bound, answer)[:SIZE].sum(axis=0) * float(lattice.granularity)
    assert np.linalg.norm(expected) <= SIZE * 0.8
    np.testing.assert_allclose(released, expected, atol=7 * 2 * 0.003 * 0.8)
