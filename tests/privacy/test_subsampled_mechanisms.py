"""Releases from secret batches: how batches are drawn, what is computed on them, and what one record can do."""

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import minibatch_sensitivity
from scipy import stats
from toy import GaussianModel, slots_of, to_int64

from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.accounting.event import (
    FixedBatchGaussian,
    NonPrivate,
    PoissonGaussian,
    counts,
)
from dpmcmc.enclave.arithmetic import limbs
from dpmcmc.enclave.arithmetic.int64 import Wide, to_float
from dpmcmc.enclave.batches import subsample
from dpmcmc.enclave.batches.sampling import Poisson, WithoutReplacement, draw_batches
from dpmcmc.enclave.batches.subsample import Batch
from dpmcmc.enclave.core.gate import Interval
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.exact import ExactSubsampledGradientSum
from dpmcmc.enclave.mechanisms.minibatch_log_ratio import MinibatchLogRatio, constants
from dpmcmc.enclave.mechanisms.subsampled_gradient import SubsampledGradientSum
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

MODEL = GaussianModel()
THETA, OTHER = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.2, -0.1, 0.1])
ADDED = {"adjacency": "add_or_remove_one", "capacity": 60}
STRUCTURE = jax.tree.structure((0,))
TERM = Term(MODEL.log_likelihood, STRUCTURE)


def vault(records, **facts):
    return PrivateData.without_guarantee(records, **facts)


def force(mechanism):
    return lambda oracle, theta: oracle.force(mechanism, theta)


def ratio(mechanism):
    return lambda oracle, first, second: oracle.log_posterior_ratio(mechanism, first, second)


def only_approximation(price, expected):
    released, slack = without_approximations(price)
    assert released == expected
    assert slack.log_ratio < 1e-9
    return slack.total_variation


# Prices.


@pytest.mark.parametrize("facts", [{}, ADDED])
def test_poisson_price(table, facts):
    data = vault(table, **facts)
    price = data.price(force(SubsampledGradientSum.poisson(2.0, 1.5, rate=0.1)), THETA, model=MODEL)
    assert only_approximation(price, PoissonGaussian(0.1, 1.5, data.facts.adjacency)) < 3e-12


def test_fixed_batch_prices(table):
    data = vault(table)
    gradient = SubsampledGradientSum.without_replacement(2.0, noise_multiplier=1.5, batch_size=5)
    price = data.price(force(gradient), THETA, model=MODEL)
    assert only_approximation(price, FixedBatchGaussian(5, 50, 1.5)) < 3e-12
    price = data.price(ratio(MinibatchLogRatio(5, 2.0, 1.5)), THETA, OTHER, model=MODEL)
    assert only_approximation(price, FixedBatchGaussian(5, 50, 1.5)) < 1e-12


def test_a_stated_limit_costs_the_binomial_tail(table):
    data = vault(table)
    free = SubsampledGradientSum.poisson(2.0, 1.5, rate=0.1)
    limited = SubsampledGradientSum.poisson(2.0, 1.5, rate=0.1, max_batch_size=20)
    prices = [data.price(force(mechanism), THETA, model=MODEL) for mechanism in (free, limited)]
    free, limited = (only_approximation(price, PoissonGaussian(0.1, 1.5, "replace_one")) for price in prices)
    assert limited - free == pytest.approx(stats.binom.sf(20, 50, 0.1), rel=1e-4)
    assert subsample.binomial_tail(50, 0.1, 20) >= stats.binom.sf(20, 50, 0.1)


def test_chains_and_steps_are_charged(table):
    mechanism = SubsampledGradientSum.poisson(2.0, 1.5, rate=0.1)

    def program(oracle, positions):
        step = lambda t, _: (jax.vmap(lambda u: oracle.force(mechanism, u).value)(t), None)  # noqa: E731
        return jax.lax.scan(step, positions, length=7)[0]

    price = vault(table).price(program, jnp.zeros((4, 3)), model=MODEL)
    assert counts(price)[PoissonGaussian(0.1, 1.5, "replace_one")] == 28


def test_the_exact_twin_has_no_price(table):
    assert vault(table).price(force(ExactSubsampledGradientSum(Poisson(0.1))), THETA, model=MODEL) == NonPrivate()


def test_the_price_under_add_or_remove_does_not_depend_on_the_number_of_records():
    mechanism = SubsampledGradientSum.poisson(2.0, 1.5, rate=0.1)
    facts = {"adjacency": "add_or_remove_one", "capacity": 5000}
    tables = [np.zeros((rows, 3)) for rows in (0, 5, 5000)]
    prices = [vault(table, **facts).price(force(mechanism), THETA, model=MODEL) for table in tables]
    assert prices[0] == prices[1] == prices[2]


# Refusals.


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (SubsampledGradientSum.without_replacement(1.0, 1.0, 5), "fixed size has a price under replace_one alone"),
        (SubsampledGradientSum.poisson(1.0, 1.0, 0.1, max_batch_size=20), "leave max_batch_size out"),
        (MinibatchLogRatio(5, 1.0, 1.0), "fixed size has a price under replace_one alone"),
    ],
)
def test_what_needs_a_public_number_of_records(table, mechanism, message):
    ask, positions = (force, (THETA,)) if hasattr(mechanism, "lattice") else (ratio, (THETA, OTHER))
    with pytest.raises(AdjacencyMismatch, match=message):
        vault(table, **ADDED).price(ask(mechanism), *positions, model=MODEL)


def test_batches_larger_than_the_table(table):
    for mechanism in (SubsampledGradientSum.without_replacement(1.0, 1.0, 51), MinibatchLogRatio(51, 1.0, 1.0)):
        ask, positions = (force, (THETA,)) if hasattr(mechanism, "lattice") else (ratio, (THETA, OTHER))
        with pytest.raises(InvalidArgument, match="batch_size=51 must be <= 50, the number of records"):
            vault(table).price(ask(mechanism), *positions, model=MODEL)


def test_a_limit_below_most_batches(table):
    mechanism = SubsampledGradientSum.poisson(1.0, 1.0, 0.4, max_batch_size=10)
    with pytest.raises(InvalidArgument, match="max_batch_size=10 must be above 20, the mean size of a batch"):
        vault(table).price(force(mechanism), THETA, model=MODEL)


BAD_NUMBERS = [0, 0.0, -1.0, np.inf, np.nan, None, "1", True]


@pytest.mark.parametrize("value", BAD_NUMBERS)
def test_bad_numbers(value):
    with pytest.raises(InvalidArgument, match="clip="):
        SubsampledGradientSum.poisson(value, 1.0, 0.1)
    with pytest.raises(InvalidArgument, match="noise_over_clip="):
        SubsampledGradientSum.poisson(1.0, value, 0.1)
    with pytest.raises(InvalidArgument, match="noise_multiplier="):
        SubsampledGradientSum.without_replacement(1.0, value, 5)
    with pytest.raises(InvalidArgument, match="clip="):
        MinibatchLogRatio(5, value, 1.0)
    with pytest.raises(InvalidArgument, match="noise_multiplier="):
        MinibatchLogRatio(5, 1.0, value)
    with pytest.raises(InvalidArgument, match="batch_size="):
        MinibatchLogRatio(value, 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="batch_size="):
        WithoutReplacement(value)
    with pytest.raises(InvalidArgument, match="rate="):
        Poisson(value)
    if value is not None:
        with pytest.raises(InvalidArgument, match="max_batch_size="):
            Poisson(0.1, max_batch_size=value)


def test_other_bad_arguments():
    with pytest.raises(InvalidArgument, match=r"rate=1\.5"):
        Poisson(1.5)
    with pytest.raises(InvalidArgument, match=r"sampling=0\.1 must be Poisson"):
        SubsampledGradientSum(1.0, 1.0, 0.1)
    with pytest.raises(InvalidArgument, match="noise_over_clip=1e-06 must be between"):
        SubsampledGradientSum.poisson(1.0, 1e-6, 0.1)
    with pytest.raises(InvalidArgument, match="noise_multiplier=1e-06 must be between"):
        MinibatchLogRatio(5, 1.0, 1e-6)
    with pytest.raises(InvalidArgument, match="batch_size=1 must be >= 2"):
        MinibatchLogRatio(1, 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="population="):
        subsample.num_words(5, 2**31)


# Batches: the law of the whole set, by a chi-square test that raises a false alarm once in 10^5.


def subsets(draw, num_draws, population, seed):
    keys = jax.random.split(insecure_key(seed), num_draws)
    batch = jax.jit(jax.vmap(draw))(keys)
    indices, mask = np.asarray(batch.indices), np.asarray(batch.mask)
    assert np.all((indices >= 0) & (indices < population))
    assert all(len(set(row)) == len(row) for row in indices[:1000])
    return np.bincount(np.where(mask, 1 << indices, 0).sum(axis=1), minlength=2**population)


def fits(observed, chances):
    """Say whether counts of subsets are as expected; rare subsets are lumped together."""
    expected = chances * observed.sum()
    if np.any(observed[expected == 0]):
        return False
    rare = (expected < 8) & (expected > 0)
    observed = np.append(observed[expected >= 8], observed[rare].sum())
    expected = np.append(expected[expected >= 8], expected[rare].sum())
    if expected[-1] < 1:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1) > 1e-5


SIZES = np.array([bin(number).count("1") for number in range(2**9)])


def without_replacement_law(batch_size, population):
    return (SIZES[: 2**population] == batch_size) / comb(population, batch_size)


def poisson_law(rate, population, limit=None):
    sizes = SIZES[: 2**population]
    limit = population if limit is None else limit
    chances = np.where(sizes <= limit, rate**sizes * (1.0 - rate) ** (population - sizes), 0)
    at_limit = stats.binom.sf(limit - 1, population, rate) / comb(population, limit)
    return np.where(sizes == limit, at_limit, chances)


@pytest.mark.parametrize(("batch_size", "population"), [(3, 7), (5, 7)])
def test_fixed_batches_are_uniform_sets(batch_size, population):
    observed = subsets(lambda key: WithoutReplacement(batch_size).draw(key, population), 8000, population, seed=1)
    assert fits(observed, without_replacement_law(batch_size, population))
    uneven = without_replacement_law(batch_size, population) * np.where(np.arange(2**population) % 2, 1.3, 1.0)
    assert not fits(observed, uneven / uneven.sum())


@pytest.mark.parametrize(("rate", "population", "limit"), [(0.15, 8, 4), (0.4, 6, None)])
def test_poisson_batches_are_independent_coins(rate, population, limit):
    assert (subsample.poisson_plan(rate, population, limit).limit is None) == (limit is None)
    observed = subsets(lambda key: Poisson(rate, limit).draw(key, population), 8000, population, seed=2)
    assert fits(observed, poisson_law(rate, population, limit))
    for wrong in (rate * 2 / 3, rate * 3 / 2, rate * 1.1):
        assert not fits(observed, poisson_law(wrong, population, limit))
    if limit is None:  # the same rates, but records in pairs
        pairs = np.zeros(2**population)
        pairs[[sum(3 << 2 * i for i in chosen) for size in range(4) for chosen in combinations(range(3), size)]] = 1 / 8
        assert not fits(observed, pairs)


def test_poisson_batches_of_a_larger_table():
    """Every record as often as any other, and sizes of the right variance, where a table of sizes is used."""
    rate, population, draws = 0.02, 1000, 4000
    limit = subsample.poisson_plan(rate, population, None).limit
    assert limit is not None
    assert limit < 100
    keys = jax.random.split(insecure_key(3), draws)
    batch = jax.jit(jax.vmap(lambda key: Poisson(rate).draw(key, population)))(keys)
    mask = np.asarray(batch.mask)
    included = np.bincount(np.asarray(batch.indices)[mask], minlength=population)
    statistic = ((included - draws * rate) ** 2).sum() / (draws * rate * (1 - rate))
    assert 1e-5 < stats.chi2.sf(statistic, population) < 1 - 1e-5
    sizes = mask.sum(axis=1)
    assert sizes.mean() == pytest.approx(rate * population, abs=4.5 * np.sqrt(rate * (1 - rate) * population / draws))
    assert sizes.var() / (rate * (1 - rate) * population) == pytest.approx(1, abs=4.5 * np.sqrt(2 / draws))


@pytest.mark.parametrize(("count", "population"), [(1, 1), (1, 2), (3, 7), (500, 1000), (10, 10**6), (10**5, 10**7)])
def test_random_words_nearly_always_suffice(count, population):
    words, failure = subsample.num_words(count, population)
    assert count <= words < 3 * count + 100
    assert failure <= 2.0**-60


def test_tables_of_sizes_are_binomial():
    for rate, population, limit in [(0.1, 50, 40), (0.5, 9, 9), (1e-3, 10**5, 300), (0.9, 30, 30), (0.1, 1000, 60)]:
        lowest, chances = subsample.binomial_table(rate, population, limit)
        sizes = lowest + np.arange(len(chances))
        expected = stats.binom.cdf(sizes, population, rate)
        np.testing.assert_allclose([float(c) for c in chances], expected, rtol=1e-9, atol=2.0**-95)
        assert lowest + len(chances) <= limit
        assert lowest + len(chances) == limit or 1 - chances[-1] < 2.0**-90


@pytest.mark.parametrize("sampling", [WithoutReplacement(10), Poisson(1e-5)])
def test_the_work_follows_the_batch_and_not_the_table(sampling):
    """Nothing in the trace of a draw and a batch sum has an axis as long as the table, but the table."""
    population = 10**6
    facts = replace(vault(np.zeros((2, 2), np.int32)).facts, size=population)

    def program(key, slots):
        batch = draw_batches(sampling, key, facts)
        gate = Interval(-(2**20), 2**20)
        return subsample.sum_batch(gate, lambda _, rows: rows, jnp.zeros(len(key)), slots, batch, 1000)

    shapes = [((population, 2), jnp.int32), ((population,), jnp.bool_), ((), jnp.int32)]
    slots = Slots(*(jax.ShapeDtypeStruct(*shape) for shape in shapes))
    traced = jax.make_jaxpr(program)(jax.random.split(insecure_key(0), 3), slots)

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (variable.aval.size for variable in equation.outvars)
            for inner in jax.extend.core.jaxprs_in_params(equation.params):
                yield from sizes(inner)

    assert max(sizes(traced.jaxpr)) < 10_000


# Fresh batches.


class Tell:
    """A model whose gradient is the record itself: with records 2^i a sum tells which ones are in it."""

    temperature = 1.0

    def log_prior(self, position):
        return 0.0 * jnp.sum(position)

    def log_likelihood(self, position, record):
        return position[0] * record


def test_every_release_and_every_chain_draws_its_own_batch():
    data = vault(2.0 ** np.arange(20, dtype=np.float32))
    mechanism = ExactSubsampledGradientSum(WithoutReplacement(6))

    def program(oracle, positions):
        chains = lambda: jax.vmap(lambda t: oracle.force(mechanism, t).value)(positions)  # noqa: E731
        loop = jax.lax.scan(lambda _, __: (0, chains()), 0, length=3)[1]
        return jnp.concatenate([chains()[None], loop])

    run = lambda seed: np.asarray(data.run(program, jnp.zeros((4, 1)), model=Tell(), insecure_seed=seed)) * 6 / 20  # noqa: E731
    first, again, other = run(0), run(0), run(1)
    batches = [round(value) for value in [*first.ravel(), *other.ravel()]]
    assert all(batch.bit_count() == 6 for batch in batches)
    assert len(set(batches)) == 32
    np.testing.assert_array_equal(first, again)
    private = data.run(program, jnp.zeros((4, 1)), model=Tell())
    assert not np.array_equal(private * 6 / 20, first)


# Values.


def clipped(vectors, clip):
    return vectors * np.minimum(1, clip / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_a_batch_of_all_records_gives_the_clipped_sum_whatever_the_chunks(table):
    mechanism = SubsampledGradientSum.without_replacement(1.5, 0.005, 50)
    runs = [
        vault(table, chunk_size=size).run(force(mechanism), THETA, model=MODEL, insecure_seed=5) for size in (7, 1000)
    ]
    expected = clipped(table - np.asarray(THETA), 1.5).sum(0) - THETA
    np.testing.assert_allclose(runs[0].value, expected, atol=0.1)
    np.testing.assert_allclose(runs[0].variance, (2 * 1.5 * 0.005) ** 2, rtol=1e-5)
    np.testing.assert_array_equal(runs[0].value, runs[1].value)


@dataclass(frozen=True)
class Estimate:
    mechanism: SubsampledGradientSum
    sampling_variance: float  # of the estimate, over the sum of squares of the records about zero or their mean
    centred: bool


@pytest.mark.parametrize(
    "estimate",
    [
        Estimate(SubsampledGradientSum.poisson(1.5, 1.0, 0.2), (1 - 0.2) / 0.2, False),
        Estimate(SubsampledGradientSum.without_replacement(1.5, 0.5, 10), (50 / 10 - 1) * 50 / 49, True),
    ],
    ids=["poisson", "without replacement"],
)
def test_estimates_are_unbiased_with_the_stated_noise(table, estimate):
    """The mean is the clipped sum; the variance is that of the batch plus the declared one, not 4/9 or 9/4 of it."""
    chains = 3000
    data = vault(table)
    program = lambda o, t: jax.vmap(lambda u: o.force(estimate.mechanism, u))(t)  # noqa: E731
    noisy = data.run(program, jnp.broadcast_to(THETA, (chains, 3)), model=MODEL, insecure_seed=3)
    each = clipped(table - np.asarray(THETA, np.float64), 1.5)
    spread = each - each.mean(0) * estimate.centred
    declared = float(noisy.variance[0])
    assert declared == pytest.approx((5 * 1.5) ** 2, rel=1e-4)
    expected = declared + estimate.sampling_variance * (spread**2).sum(0)
    z = (np.asarray(noisy.value).mean(0) - each.sum(0) + np.asarray(THETA)) / np.sqrt(expected / chains)
    assert np.abs(z).max() < 4.5
    error = 4.5 * np.sqrt(2 / chains)
    observed = np.asarray(noisy.value).var(0)
    assert np.abs(observed / expected - 1).max() < error
    for factor in (4 / 9, 9 / 4):
        assert np.abs(observed / (expected + (factor - 1) * declared) - 1).min() > error


def test_the_noise_of_a_minibatch_ratio_has_the_declared_scale():
    chains = 4000
    data = vault(np.zeros((40, 3), np.float32))
    mechanism = MinibatchLogRatio(10, 2.0, 3.0)
    first = jnp.broadcast_to(THETA, (chains, 3))
    second = jnp.broadcast_to(THETA + jnp.array([0.3, 0.0, 0.4]), (chains, 3))
    program = lambda o, a, b: jax.vmap(lambda c, d: o.log_posterior_ratio(mechanism, c, d))(a, b)  # noqa: E731
    noisy = data.run(program, first, second, model=MODEL, insecure_seed=4)
    declared = 3.0 * minibatch_sensitivity(2.0 * 0.5, 4.0, 10, 0.75)
    np.testing.assert_allclose(np.sqrt(noisy.variance), declared, rtol=1e-4)
    observed = np.asarray(noisy.value).var() / declared**2
    error = 4.5 * np.sqrt(2 / chains)
    assert abs(observed - 1) < error
    assert all(abs(observed / factor - 1) > error for factor in (4 / 9, 9 / 4))


@pytest.mark.parametrize(("batch_size", "clip"), [(50, 2.0), (10, 0.5)])
def test_the_minibatch_ratio_is_mean_less_half_the_variance(table, batch_size, clip):
    facts = vault(table).facts
    mechanism = MinibatchLogRatio(batch_size, clip, 1.0)
    batch = Batch(jnp.arange(batch_size)[None], jnp.ones((1, batch_size), bool))
    queries = [THETA[None], OTHER[None]]
    evaluate = jax.jit(lambda rows: mechanism.batch_value(facts, mechanism.contribution(TERM), rows, queries, batch))
    value, coefficients = evaluate(slots_of(table))
    rows, first, second = table[:batch_size].astype(float), np.asarray(THETA, float), np.asarray(OTHER, float)
    bound = clip * np.linalg.norm(second - first)
    each = np.clip(0.5 * ((rows - first) ** 2 - (rows - second) ** 2).sum(1), -bound, bound)
    weight, unsampled = 50 / batch_size, 1 - batch_size / 50
    expected = weight * each.sum() - 0.5 * weight**2 * unsampled * ((each - each.mean()) ** 2).sum()
    assert float(to_float(value, coefficients.release)[0]) == pytest.approx(expected, rel=2e-3, abs=2e-3)


# What one record can do.

VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 1e-40, 1.2e-38, 1e20, -1e20, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan]
)
ROWS = 5
TABLES = st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=ROWS)
EVERYONE = Batch(jnp.tile(jnp.arange(ROWS), (2, 1)), jnp.ones((2, ROWS), bool))
POSITIONS = jnp.stack([THETA, jnp.array([1e20, -1e20, 3e38])])
FACTS = vault(np.zeros((ROWS, 3), np.float32)).facts
LARGER = vault(np.zeros((40, 3), np.float32)).facts
GRADIENT = SubsampledGradientSum.poisson(2.0, 3.0, 0.1)
MINIBATCH = MinibatchLogRatio(ROWS, 2.0, 3.0)


@jax.jit
def probe(records):
    gradient = GRADIENT.batch_sum(FACTS, GRADIENT.contribution(TERM), records, [POSITIONS], EVERYONE)
    queries = [POSITIONS, jnp.stack([OTHER, THETA])]
    minibatch, _ = MINIBATCH.batch_value(LARGER, MINIBATCH.contribution(TERM), records, queries, EVERYONE)
    return gradient, minibatch


def integers(wide):
    return to_int64(wide).astype(object)


@settings(max_examples=150, deadline=None)
@given(rows=TABLES, replacement=st.lists(VALUES, min_size=3, max_size=3), index=st.integers(0, ROWS - 1))
def test_one_record_moves_integers_by_no_more_than_declared(rows, replacement, index):
    table = np.array([rows[i % len(rows)] for i in range(ROWS)], np.float32)
    other = table.copy()
    other[index] = replacement
    gone = slots_of(table, occupied=np.arange(ROWS) != index)
    bound = GRADIENT.lattice(3).bound
    (gradient, value), (other_gradient, other_value), (less, _) = (
        map(integers, probe(one)) for one in (slots_of(table), slots_of(other), gone)
    )
    assert np.all(((gradient - other_gradient) ** 2).sum(axis=1) <= (2 * bound) ** 2)
    assert np.all(((gradient - less) ** 2).sum(axis=1) <= bound**2)
    assert np.all(np.abs(value - other_value) <= constants(ROWS, 3.0).sensitivity)


def test_the_sensitivity_of_a_minibatch_ratio_is_attained():
    """The worst pair, +clip against -clip among +clip: within a part in 10^4 of what the noise is made for."""

    @dataclass(frozen=True)
    class Slope:
        temperature = 1.0

        def log_likelihood(self, position, record):
            return position[0] * record

    worst = MinibatchLogRatio(ROWS, 0.05, 3.0)
    contribution = worst.contribution(Term(Slope().log_likelihood, STRUCTURE))
    queries = [jnp.zeros((1, 1)), jnp.ones((1, 1))]
    batch = Batch(EVERYONE.indices[:1], EVERYONE.mask[:1])

    def value(records):
        return int(to_int64(worst.batch_value(LARGER, contribution, slots_of(records), queries, batch)[0])[0])

    high = np.full(ROWS, 0.05, np.float32)
    low = high.copy()
    low[2] = -0.05
    moved = abs(value(high) - value(low))
    assert 0.9999 < moved / constants(ROWS, 3.0).sensitivity <= 1


@pytest.mark.parametrize(("b", "a", "clip", "joint"), [(20, 1.0, 0.5, 1.475), (100, 2.0, 0.3, 1.9128)])
def test_the_tight_constant(b, a, clip, joint):
    assert minibatch_sensitivity(clip, a, b) == pytest.approx(joint, rel=1e-12)
    value = lambda r: a * r.sum() - 0.5 * a**2 * ((r - r.mean()) ** 2).sum()  # noqa: E731
    worst = np.full(b, clip)
    other = worst.copy()
    other[0] = -clip
    assert abs(value(worst) - value(other)) == pytest.approx(joint, rel=1e-12)
    generator = np.random.default_rng(0)
    for _ in range(200):
        batch = clip * generator.choice([-1.0, 1.0, 0.3], b)
        other = batch.copy()
        other[0] = generator.uniform(-clip, clip)
        assert abs(value(batch) - value(other)) <= joint * (1 + 1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e-30, 1.0, 1e10, 3e38, np.inf, np.nan])
@pytest.mark.parametrize("batch_size", [2, 3, 1000])
def test_coefficients_keep_the_sensitivity_at_any_positions(shift, batch_size):
    facts = vault(np.zeros((5000, 3), np.float32)).facts
    for multiplier in (0.01, 1.0, 1e4):
        mechanism = MinibatchLogRatio(batch_size, 2.0, multiplier)
        fixed = constants(batch_size, multiplier)
        coefficients = mechanism.coefficients(facts, [THETA, THETA + shift])
        assert int(coefficients.linear) >= 1
        assert int(coefficients.square) >= 0
        assert 2 * fixed.bound * int(coefficients.linear) + int(coefficients.square) + 1 <= fixed.sensitivity
        assert 4 * (batch_size - 1) * fixed.bound**2 <= 2**fixed.shift
        assert fixed.scale >= multiplier * fixed.sensitivity
        assert np.isfinite(coefficients.record)


# The arithmetic.


def test_digits_are_exact():
    generator = np.random.default_rng(5)
    draw = lambda: [int(generator.integers(0, 2 ** int(bits))) for bits in generator.integers(1, 63, 200)]  # noqa: E731
    first, second = draw(), draw()

    def wide(numbers):
        words = np.array(numbers, np.int64)
        return Wide(jnp.asarray((words >> 32).astype(np.int32)), jnp.asarray((words & 0xFFFFFFFF).astype(np.uint32)))

    @jax.jit
    def compute(a, b):
        a, b = limbs.limbs(a), limbs.limbs(b)
        product = limbs.times(limbs.times(a, b), limbs.limbs(3**40))
        smaller = [jnp.where(limbs.less(a, b), x, y) for x, y in zip(a, b, strict=True)]
        larger = [jnp.where(limbs.less(a, b), y, x) for x, y in zip(a, b, strict=True)]
        return product, limbs.minus(larger, smaller), limbs.shifted_right(limbs.times(a, b), 69)

    product, difference, shifted = compute(wide(first), wide(second))
    number = lambda digits, i: sum(int(digit[i]) << (16 * place) for place, digit in enumerate(digits))  # noqa: E731
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        assert number(product, i) == a * b * 3**40
        assert number(difference, i) == abs(a - b)
        assert int(to_int64(shifted)[i]) == a * b >> 69
