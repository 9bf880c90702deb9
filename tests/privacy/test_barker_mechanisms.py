"""Barker tests: the chance of acceptance, prices, and what one record can do."""

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit
from toy import GaussianModel, slots_of, to_int64

from dpmcmc.accounting.event import Approximation, LogisticBit, NonPrivate, counts
from dpmcmc.accounting.event import BarkerTest as BarkerEvent
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.limbs import limbs
from dpmcmc.enclave.batches.subsample import Batch, Moments
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.data import PrivateData
from dpmcmc.enclave.mechanisms.barker_bit import BarkerBit, public_steps
from dpmcmc.enclave.mechanisms.barker_test import BOUND, BarkerTest, decision_error, draw_correction
from dpmcmc.enclave.mechanisms.correction import linear_program
from dpmcmc.enclave.mechanisms.exact import ExactBarkerBit
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.enclave.noise.discrete_gaussian import discrete_gaussian
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

MODEL = GaussianModel()
THETA, OTHER = jnp.array([0.1, -0.2, 0.3]), jnp.array([0.2, -0.1, 0.1])
ADDED = {"adjacency": "add_or_remove_one", "capacity": 60}
STRUCTURE = jax.tree.structure((0,))
DRAWS = 20_000
ALARM = 4.5  # standard errors: ten comparisons raise a false alarm once in 14,000


@dataclass(frozen=True)
class Slope:
    """A record's log-ratio from 0 to 1 is the record itself."""

    temperature: float = 1.0

    def log_prior(self, position):
        return 0.0 * position

    def log_likelihood(self, position, record):
        return position * record


def vault(records, **facts):
    return PrivateData.without_guarantee(records, **facts)


def accept(mechanism):
    return lambda oracle, first, second: oracle.accept(mechanism, first, second)


def accept_often(mechanism):
    """Tests from 0 to 1, one for each public rest."""
    return lambda oracle, rests: jax.vmap(lambda rest: oracle.accept(mechanism, 0.0, 1.0, rest))(rests)


def frequencies(data, mechanism, rests, seed, model=None):
    asked = jnp.repeat(jnp.asarray(rests, jnp.float32), DRAWS)
    bits = data.run(accept_often(mechanism), asked, model=model or Slope(), insecure_seed=seed)
    return np.asarray(bits).reshape(len(rests), DRAWS).mean(axis=1)


def errors(observed, chances):
    chances = np.asarray(chances)
    return np.abs(observed - chances) / np.sqrt(chances * (1 - chances) / DRAWS)


# Prices.


def only_approximation(price, expected):
    (other,) = set(counts(price)) - {expected}
    assert counts(price) == {expected: 1, other: 1}
    assert isinstance(other, Approximation)
    return other.total_variation


@pytest.mark.parametrize(("facts", "clips"), [({}, 2), (ADDED, 1)])
def test_barker_bit_price(table, facts, clips):
    price = vault(table, **facts).price(accept(BarkerBit(0.05)), THETA, OTHER, model=MODEL)
    assert only_approximation(price, LogisticBit(clips * 0.05)) == 2.0**-58


def test_barker_test_price(table):
    price = vault(table).price(accept(BarkerTest(10, 2.0, 1.0)), THETA, OTHER, model=MODEL)
    assert only_approximation(price, BarkerEvent(10, 50, 2.0, 1.0)) < 2e-14
    assert vault(table).price(accept(ExactBarkerBit()), THETA, OTHER, model=MODEL) == NonPrivate()


def test_the_decision_error_covers_half_a_step():
    assert stats.norm.pdf(0) / 2 * 2.0**-44 < decision_error() < 1.2e-14


# Refusals.


def test_a_batch_needs_a_public_number_of_records(table):
    with pytest.raises(
        AdjacencyMismatch, match="batch_size=10: a batch of fixed size has a price under replace_one alone"
    ):
        vault(table, **ADDED).price(accept(BarkerTest(10, 1.0, 0.5)), THETA, OTHER, model=MODEL)
    with pytest.raises(InvalidArgument, match="batch_size=51 must be <= 50"):
        vault(table).price(accept(BarkerTest(51, 1.0, 0.5)), THETA, OTHER, model=MODEL)


@pytest.mark.parametrize("value", [0, 0.0, -1.0, np.inf, np.nan, None, "1", True])
def test_bad_numbers(value):
    with pytest.raises(InvalidArgument, match="clip="):
        BarkerBit(value)
    with pytest.raises(InvalidArgument, match="batch_size="):
        BarkerTest(value, 1.0, 0.5)
    with pytest.raises(InvalidArgument, match="variance="):
        BarkerTest(10, value, 0.5)
    with pytest.raises(InvalidArgument, match="clip_fraction="):
        BarkerTest(10, 1.0, value)


def test_other_bad_arguments():
    with pytest.raises(InvalidArgument, match="clip=1e-09 must be between"):
        BarkerBit(1e-9)
    with pytest.raises(InvalidArgument, match=r"variance=3\.3 must be < pi\^2 / 3"):
        BarkerTest(10, 3.3, 0.5)
    with pytest.raises(InvalidArgument, match=r"clip_fraction=1\.0 must be < variance=1\.0"):
        BarkerTest(10, 1.0, 1.0)
    with pytest.raises(InvalidArgument, match=r"batch_size=2\.5"):
        BarkerTest(2.5, 1.0, 0.5)


# The chance of acceptance.

RESTS = [-2.0, -0.5, 0.0, 1.5, -np.inf, np.inf, np.nan]


def test_barker_bit_accepts_with_the_logistic_chance():
    records = np.array([0.3, 0.3, 0.05, -0.02, np.nan], np.float32)
    observed = frequencies(vault(records), BarkerBit(0.1), RESTS, seed=1)
    chances = expit(0.23 + np.array(RESTS[:4]))
    assert errors(observed[:4], chances).max() < ALARM
    np.testing.assert_array_equal(observed[4:], [0, 1, 0])
    for wrong in (
        expit(0.63 + np.array(RESTS[:4])),
        stats.norm.cdf(0.23 + np.array(RESTS[:4])),
    ):  # no clip; a normal coin
        assert errors(observed[:4], wrong).max() > ALARM


def test_the_exact_barker_bit_does_not_clip():
    records = np.array([0.3, 0.3, 0.05, -0.02, np.nan], np.float32)
    observed = frequencies(vault(records), ExactBarkerBit(), RESTS[:4], seed=2)
    assert errors(observed, expit(0.63 + np.array(RESTS[:4]))).max() < ALARM


def test_barker_test_on_all_records_accepts_with_the_logistic_chance():
    """With b = n nothing is sampled: the chance is S(lambda) up to the correction's error, 1e-6 at C = 1."""
    test = BarkerTest(8, 1.0, 0.5)
    clip = np.sqrt(0.5 * 8) / 8
    records = np.array([clip, 9.0, -0.1, 0.05, -clip, 0.2, 0.0, np.inf], np.float32)
    observed = frequencies(vault(records), test, RESTS, seed=3)
    ratio = clip + 0.15
    chances = expit(ratio + np.array(RESTS[:4]))
    assert errors(observed[:4], chances).max() < ALARM
    np.testing.assert_array_equal(observed[4:], [0, 1, 0])
    without_correction = stats.norm.cdf(ratio + np.array(RESTS[:4]))
    assert errors(observed[:4], without_correction).max() > ALARM


def chance(ratio, variance, correction):
    """P(ratio + N(0, variance) + V_cor > 0)."""
    scales = np.sqrt(variance + np.square(correction.spreads))
    return float(
        np.sum(np.asarray(correction.weights) * stats.norm.cdf((ratio + np.asarray(correction.atoms)) / scales))
    )


def test_barker_test_on_batches_has_the_chance_of_the_mixture_of_batches():
    """Half of the records +clip, half -clip: K and W of a batch depend on a hypergeometric number alone."""
    size, b, kappa, variance = 40, 10, 0.8, 1.0
    clip = np.sqrt(kappa * b) / size
    records = np.where(np.arange(size) % 2, clip, -clip).astype(np.float32)
    observed = frequencies(vault(records), BarkerTest(b, variance, kappa), RESTS[:4], seed=4)
    ups = np.arange(b + 1)
    weights = stats.hypergeom.pmf(ups, size, size // 2, b)
    ratios = np.sqrt(kappa / b) * (2 * ups - b)
    spread = kappa * (1 - ((2 * ups - b) / b) ** 2)

    def chances(unsampled):
        noise = variance - unsampled * spread
        each = [
            [chance(r + rest, v, linear_program(variance)) for r, v in zip(ratios, noise, strict=True)]
            for rest in RESTS[:4]
        ]
        return np.array(each) @ weights

    assert errors(observed, chances(1 - b / size)).max() < ALARM
    assert errors(observed, expit(RESTS[:4])).max() < 2 * ALARM  # near the truth: only the number of ups is not normal
    assert errors(observed, chances(0.0)).max() > ALARM  # the batch's variance forgotten


@lru_cache
def decisions(num_draws=DRAWS):
    """Normal draws and corrections as `compute` makes them."""
    keys = jax.random.split(insecure_key(5), num_draws)
    normals = jax.jit(jax.vmap(lambda key: discrete_gaussian(key, 2.0**44)))(keys)
    keys = jax.random.split(insecure_key(6), num_draws)
    return normals, jax.jit(jax.vmap(lambda key: draw_correction(key, linear_program(1.0))))(keys)


def decide(test, facts, total, spread, rest, *, corrected=True):
    """The fraction of accepted draws for a batch with sum(k) = total and b sum(k^2) - total^2 = spread."""
    normals, corrections = decisions()
    step = test.granularity(facts) * facts.size / test.batch_size * 2.0**-16
    threshold = public_steps(rest + corrections * corrected, step)
    count = len(corrections)
    totals = Wide(jnp.full(count, total >> 32, jnp.int32), jnp.full(count, total & 0xFFFFFFFF, jnp.uint32))
    moments = Moments(totals, [jnp.full(count, digit) for digit in limbs(spread)])
    bits = jax.jit(jax.vmap(lambda *chain: test.decide(facts, *chain)))(moments, threshold, normals)
    return float(np.mean(bits))


@pytest.mark.parametrize(("ups", "rest"), [(5, 0.8), (8, -1.0)])
def test_the_noise_has_what_the_batch_lacks_of_the_variance(ups, rest):
    facts, b, kappa = vault(np.zeros(4000, np.float32)).facts, 10, 0.8
    total = (2 * ups - b) * BOUND
    spread = (b * BOUND) ** 2 - total**2
    ratio = np.sqrt(kappa / b) * (2 * ups - b) + rest
    noise = 1.0 - (1 - b / 4000) * kappa * (1 - ((2 * ups - b) / b) ** 2)
    expected = chance(ratio, noise, linear_program(1.0))
    assert errors(decide(BarkerTest(b, 1.0, kappa), facts, total, spread, rest), expected) < ALARM
    mutants = {
        "no correction": decide(BarkerTest(b, 1.0, kappa), facts, total, spread, rest, corrected=False),
        "half as much variance again": decide(BarkerTest(b, 1.5, kappa), facts, total, spread, rest),
        "the batch's variance forgotten": decide(BarkerTest(b, 1.0, kappa), facts, total, 0, rest),
    }
    assert all(errors(observed, expected) > ALARM for observed in mutants.values()), mutants


def test_corrections_are_drawn_from_their_law():
    correction = linear_program(1.0)
    atoms, drawn = np.asarray(correction.atoms, np.float32), np.asarray(decisions()[1])
    observed = np.array([(drawn == atom).sum() for atom in atoms])
    assert observed.sum() == DRAWS
    expected = np.asarray(correction.weights) * DRAWS
    common = expected > 8
    statistic = ((observed - expected)[common] ** 2 / expected[common]).sum()
    assert stats.chi2.sf(statistic, common.sum() - 1) > 1e-5


def test_corrections_with_a_spread():
    correction = linear_program(0.3)
    assert any(correction.spreads)
    keys = jax.random.split(insecure_key(7), DRAWS)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: draw_correction(key, correction)))(keys))
    expected = np.sum(np.asarray(correction.weights) * (np.square(correction.atoms) + np.square(correction.spreads)))
    assert drawn.var() == pytest.approx(expected, rel=0.05)


# The comparison, in integers.


def test_decisions_are_exact():
    """Against whole roots of Python's integers, also where both sides nearly agree."""
    facts, test = vault(np.zeros(1000, np.float32)).facts, BarkerTest(100, 1.0, 0.5)
    generator = np.random.default_rng(8)
    unsampled, rows = 900 * 2**16 // 1000, []
    for i in range(300):
        total = int(generator.integers(-100 * BOUND, 100 * BOUND))
        spread = int(generator.integers(0, (100 * BOUND) ** 2 - total**2 + 1))
        noise = 2 * (100 * BOUND) ** 2 * 2**16 - unsampled * spread
        normal = int(generator.integers(-(2**47), 2**47))
        ratio = int(generator.integers(-(2**40), 2**40))
        if i % 2:  # the root, or next to it
            root = isqrt(noise * normal**2 // (100 * 2**72))
            ratio = (root + int(generator.integers(0, 2))) * (1 if normal < 0 else -1)
        rows.append((total, spread, ratio - (total << 16), normal, ratio, noise))
    column = lambda i: np.array([row[i] for row in rows], np.int64)  # noqa: E731
    wide = lambda x: Wide(jnp.asarray((x >> 32).astype(np.int32)), jnp.asarray((x & 0xFFFFFFFF).astype(np.uint32)))  # noqa: E731
    moments = Moments(wide(column(0)), limbs(wide(column(1))))
    bits = jax.jit(jax.vmap(lambda *chain: test.decide(facts, *chain)))(moments, wide(column(2)), wide(column(3)))
    for bit, (_, _, _, normal, ratio, noise) in zip(np.asarray(bits), rows, strict=True):
        signed = lambda x: x * abs(x)  # noqa: E731
        value = signed(ratio) * 100 * 2**72 + signed(normal) * noise
        assert bit == (value > 0 or (value == 0 and ratio >= 0 and normal >= 0))
    assert 50 < sum(bool(bit) for bit in bits) < 250


# What one record can do.

VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.05, 1e-40, 1.2e-38, 1e20, -1e20, 3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan]
)
ROWS = 5
FACTS = vault(np.zeros((ROWS, 3), np.float32)).facts
TERM = Term(MODEL.log_likelihood, STRUCTURE)
QUERIES = [jnp.stack([THETA, jnp.array([1e20, -1e20, 3e38])]), jnp.stack([OTHER, THETA]), jnp.array([0.5, np.inf])]
BIT, TEST = BarkerBit(0.1), BarkerTest(ROWS, 2.0, 1.0)
EVERYONE = Batch(jnp.tile(jnp.arange(ROWS), (2, 1)), jnp.ones((2, ROWS), bool))


@jax.jit
def probe(slots):
    log_odds, _ = BIT.log_odds(FACTS, BIT.contribution(TERM), slots, QUERIES)
    return log_odds, TEST.batch_moments(FACTS, TEST.contribution(TERM), slots, QUERIES, EVERYONE)


def numbers(digits):
    return sum(np.asarray(digit).astype(object) << (16 * place) for place, digit in enumerate(digits))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=ROWS),
    replacement=st.lists(VALUES, min_size=3, max_size=3),
    index=st.integers(0, ROWS - 1),
)
def test_one_record_moves_integers_by_no_more_than_declared(rows, replacement, index):
    table = np.array([rows[i % len(rows)] for i in range(ROWS)], np.float32)
    other = table.copy()
    other[index] = replacement
    gone = slots_of(table, occupied=np.arange(ROWS) != index)
    (odds, moments), (other_odds, other_moments) = probe(slots_of(table)), probe(slots_of(other))
    fewer_odds, _ = probe(gone)
    moved = np.abs(to_int64(odds) - to_int64(other_odds))
    assert np.all(moved * 2.0**-23 <= 2 * 0.1)  # steps of 2^-23, the largest power of two that puts 0.1 below 2^20
    assert np.all(np.abs(to_int64(odds) - to_int64(fewer_odds)) * 2.0**-23 <= 0.1)
    assert np.all(np.abs(to_int64(moments.total) - to_int64(other_moments.total)) <= 2 * BOUND)
    spreads = numbers(moments.spread), numbers(other_moments.spread)
    assert all(abs(one - two) <= 4 * (ROWS - 1) * BOUND**2 for one, two in zip(*spreads, strict=True))
    assert all(0 <= one <= (ROWS * BOUND) ** 2 for one in spreads[0])


def test_the_step_of_the_logistic_coin():
    _, lattice = BIT.log_odds(FACTS, BIT.contribution(TERM), slots_of(jnp.zeros((ROWS, 3))), QUERIES)
    assert lattice.granularity == 2.0**-23
    assert lattice.bound * lattice.granularity <= 0.1


def test_temperature_scales_a_ratio_before_it_is_clipped():
    test, temperature = BarkerTest(4, 1.0, 0.5), 0.25
    clip = np.sqrt(0.5 * 4) / 4
    records = np.array([0.4, 1.2, 4.0, -0.8], np.float32)
    facts = vault(records).facts
    contribution = test.contribution(Term(lambda t, x: temperature * t * x, STRUCTURE))
    batch = Batch(jnp.arange(4)[None], jnp.ones((1, 4), bool))
    queries = [jnp.zeros(1), jnp.ones(1), jnp.zeros(1)]
    moments = test.batch_moments(facts, contribution, slots_of(records), queries, batch)
    expected = np.rint(np.clip(temperature * records, -clip, clip) / clip * BOUND).astype(int)
    assert int(to_int64(moments.total)[0]) == expected.sum()
    assert numbers(moments.spread)[0] == 4 * (expected**2).sum() - expected.sum() ** 2


@settings(max_examples=200, deadline=None)
@given(
    m=st.floats(-1, 1),
    share=st.floats(0, 1),
    first=st.floats(-1, 1),
    second=st.floats(-1, 1),
    f=st.floats(0, 1),
    b=st.integers(2, 50),
)
def test_the_finite_population_factor_only_adds_noise(m, share, first, second, f, b):
    """The two identities of the proof in barker_test.md."""
    q = lambda x, mean, var: (b - 1) / b * var + (b - 1) / b**2 * (x - mean) ** 2  # noqa: E731
    w = share * (1 - m**2)
    middle, half = (first + second) / 2, (first - second) / 2
    mean = (1 - f) * middle + f * m
    var = f * w + f * (1 - f) * (middle - m) ** 2 / b - (1 - f) * half**2 / b
    for x in (first, second):
        assert f * q(x, m, w) == pytest.approx(q(x, mean, var), abs=1e-12)
    assert abs(mean) <= 1
    assert var <= 1 - mean**2 + 1e-12
