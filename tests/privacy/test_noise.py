import math
import random
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import jaxpr_as_fun
from oracles import reference_discrete_gaussian
from scipy import stats
from toy import compute, slots_of, to_int64

from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.arithmetic import int64
from dpmcmc.enclave.mechanisms.barker_test import gaussian_curve_gap
from dpmcmc.enclave.mechanisms.sum import Sum
from dpmcmc.enclave.noise import discrete_gaussian as noise
from dpmcmc.enclave.noise import logistic_coin, modes
from dpmcmc.enclave.noise.chacha20 import insecure_key
from dpmcmc.enclave.noise.floating import from_float
from dpmcmc.errors import InvalidArgument

FALSE_ALARM = 1e-4
"""Rate of each statistical test here; the keys are fixed, so a failure is a change of the sampler."""


def exact_law(variance, reach):
    """P(x) = exp(-x^2 / (2 variance)) / Z for |x| <= reach, to 60 digits."""
    with localcontext(Context(prec=80)):
        rate = Decimal(variance.denominator) / Decimal(2 * variance.numerator)
        masses = {x: (-(x * x) * rate).exp() for x in range(reach + 1)}
        total = masses[0] + 2 * sum(masses[x] for x in range(1, reach + 1))
        return {x: masses[abs(x)] / total for x in range(-reach, reach + 1)}


def weights_of(table):
    """2^95 * P(|X| = i) for each i, exactly as the sampler draws it."""
    weights = list(table.thresholds)
    for alias, threshold in zip(table.aliases, table.thresholds, strict=True):
        weights[alias] += 2**noise.THRESHOLD_BITS - threshold
    return weights


def table_law(table):
    """The law of one draw, exactly, as integers over 2^96: index, threshold and a fair sign."""
    weights = weights_of(table)
    return {0: 2 * weights[0]} | {sign * i: w for i, w in enumerate(weights) if i and w for sign in (-1, 1)}


def total_variation(law, denominator, ideal):
    with localcontext(Context(prec=80)):
        gap = sum(abs(Decimal(law.get(x, 0)) / denominator - ideal.get(x, 0)) for x in set(law) | set(ideal))
        return float(gap / 2)


# --- the law, computed and not sampled ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 10.0])
def test_small_scales_have_the_exact_law(scale):
    variance = Fraction(scale) ** 2
    law = table_law(noise.table(variance))
    assert sum(law.values()) == 2**96
    distance = total_variation(law, 2**96, exact_law(variance, reach=math.ceil(15 * scale)))
    assert distance <= noise.total_variation_bound(1, scale) <= 1e-12
    wrong = exact_law(variance * Fraction(1000001, 1000000), reach=math.ceil(15 * scale))
    assert total_variation(law, 2**96, wrong) > 1e-8 or scale < 1  # the comparison would see a millionth


def test_the_sum_of_two_draws_has_the_exact_law():
    """The smallest scale that needs a sum, where the bound is at its largest: the convolution in whole numbers."""
    scale = 400.5
    how = noise.plan(scale)
    assert how.num_base == 1
    upper, lower = table_law(noise.table(how.top_variance)), table_law(noise.table(Fraction(256**2)))
    upper = {x: weight for x, weight in upper.items() if abs(x) <= 36}  # 15 standard deviations
    lower = [lower.get(x, 0) for x in range(-4096, 4096)]
    reach = 4096 + 128 * 36
    law = [0] * (2 * reach)
    for x, weight in upper.items():
        start = reach - 4096 + 128 * x
        for offset, other in enumerate(lower):
            law[start + offset] += weight * other
    distance = total_variation(
        {i - reach: w for i, w in enumerate(law)}, 2**192, exact_law(Fraction(scale) ** 2, reach)
    )
    assert distance <= noise.total_variation_bound(1, scale) <= 2e-20
    assert distance > 1e-22  # the bound is not idle: the theta function's first term is there


@pytest.mark.parametrize("scale", [1e-3, 1.0, 400.0, 400.001, 51_201.0, 2.0**16, 2.0**20, 2.0**23, 1e7, 2.0**40])
def test_every_scale_is_within_1e_19_of_its_ideal(scale):
    how = noise.plan(scale)
    variance = sum(256**2 * Fraction(128) ** (2 * i) for i in range(how.num_base))
    assert variance + Fraction(128) ** (2 * how.num_base) * how.top_variance == Fraction(scale) ** 2
    assert noise.total_variation_bound(1, scale) < 2e-20
    assert noise.total_variation_bound(1000, scale) == pytest.approx(1000 * noise.total_variation_bound(1, scale))


@pytest.mark.parametrize("scale", [1.0, 2.0, 5.0, 30.0])
def test_gap_to_a_rounded_gaussian(scale):
    points = np.arange(-12 * scale, 12 * scale + 1)
    rounded = stats.norm.cdf((points + 0.5) / scale) - stats.norm.cdf((points - 0.5) / scale)
    discrete = np.exp(-((points / scale) ** 2) / 2)
    distance = np.abs(discrete / discrete.sum() - rounded).sum() / 2
    assert distance <= gaussian_curve_gap(1, scale)
    assert distance >= 0.2 * gaussian_curve_gap(1, scale)


@pytest.mark.parametrize("scale", [4.0, 30.0])
def test_probabilities_are_within_the_factor_of_a_rounded_gaussian(scale):
    points = np.arange(math.ceil(noise.FARTHEST * scale))
    rounded = stats.norm.sf((points - 0.5) / scale) - stats.norm.sf((points + 0.5) / scale)
    discrete = np.exp(-((points / scale) ** 2) / 2)
    discrete /= 2 * discrete.sum() - discrete[0]
    slack = without_approximations(noise.approximation(1, scale))[1]
    largest = np.max(np.abs(np.log(rounded / discrete)))
    assert 0.5 * slack.log_ratio < largest <= slack.log_ratio
    assert slack.total_variation < 1e-18


# --- the map from bits to draws -------------------------------------------------------------------------------------


def host_lookup(table, words):
    """`noise.lookup` in Python integers."""
    index, negative, value = words[0] >> 20, words[0] >> 19 & 1, (words[0] & 0x7FFFF) << 64 | words[1] << 32 | words[2]
    size = index if value < table.thresholds[index] else table.aliases[index]
    return -size if negative else size


def edge_words(table, indices):
    """Words just below, at and just above the threshold of each index, with both signs."""
    for index in indices:
        for value in {0, 2**83 - 1, *(max(table.thresholds[index] + shift, 0) for shift in (-1, 0, 1))}:
            for negative in (0, 1):
                yield [index << 20 | negative << 19 | value >> 64, value >> 32 & 0xFFFFFFFF, value & 0xFFFFFFFF]


@pytest.mark.parametrize("variance", [Fraction(9), Fraction(256**2), noise.plan(2.0**23).top_variance])
def test_lookup_is_the_table(variance):
    table = noise.table(variance)
    words = list(edge_words(table, [0, 1, 2, 35, 100, 2000, 4095]))
    words += np.random.default_rng(0).integers(0, 2**32, size=(3000, 3)).tolist()
    drawn = noise.lookup(table, jnp.asarray(np.array(words, np.uint32).T))
    assert drawn.tolist() == [host_lookup(table, row) for row in words]


def test_a_draw_is_the_sum_of_its_lookups():
    key, scale = insecure_key(4), 2.0**40
    how = noise.plan(scale)
    words = np.asarray(jax.random.bits(key, (how.num_base + 1, 3, 50), jnp.uint32)).tolist()
    expected = [host_lookup(noise.table(how.top_variance), row) for row in zip(*words[0], strict=True)]
    for level in words[1:]:
        base = [host_lookup(noise.table(Fraction(256**2)), row) for row in zip(*level, strict=True)]
        expected = [128 * upper + lower for upper, lower in zip(expected, base, strict=True)]
    drawn = jax.jit(lambda: noise.discrete_gaussian(key, scale, (50,)))()
    assert to_int64(drawn).tolist() == expected


def test_the_tails_are_there():
    """Float32 normals stop at 5.42 standard deviations. Here the map reaches 10, with the right mass all the way."""
    table, scale = noise.table(Fraction(256**2)), 256
    weights = weights_of(table)
    for deviations in (5.42, 6.0, 7.0, 8.0):
        start = math.ceil(deviations * scale)
        ideal = exact_law(Fraction(scale**2), 4095)
        beyond = 2 * sum(ideal[x] for x in range(start, 4096))
        assert float(sum(weights[start:])) / 2**95 == pytest.approx(float(beyond), rel=1e-6)
    reachable = [row for row in edge_words(table, range(1400, 2560, 40)) if abs(host_lookup(table, row)) >= 1400]
    extremes = noise.lookup(table, jnp.asarray(np.array(reachable, np.uint32).T))
    assert {1400, 2520, -1400, -2520} <= set(extremes.tolist())  # 5.47 and 9.84 standard deviations


# --- draws ----------------------------------------------------------------------------------------------------------


@cache
def sampler(scale):
    return jax.jit(lambda key: noise.discrete_gaussian(key, scale, (100_000,)))


def draws(scale, seed=0):
    return to_int64(sampler(scale)(insecure_key(seed)))


def ks_accepts(values):
    """Kolmogorov-Smirnov against the standard normal, false alarm 5e-5."""
    return stats.kstest(values, "norm").pvalue > FALSE_ALARM / 2


def chi_square_accepts(values, num_bins=100):
    """Counts in bins of equal probability under the standard normal, false alarm 5e-5."""
    edges = stats.norm.ppf(np.linspace(0, 1, num_bins + 1))
    return stats.chisquare(np.histogram(values, edges)[0]).pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("scale", [2.0**16, 2.0**20, 2.0**40])
def test_noise_has_the_declared_scale_and_no_other(scale):
    """Accepts the scale; rejects 2/3 and 3/2 of it and a uniform law of the right variance."""
    values = draws(scale) / scale
    assert ks_accepts(values)
    assert chi_square_accepts(values)
    uniform = np.random.default_rng(0).uniform(-math.sqrt(3), math.sqrt(3), values.size)
    for mutant in (values * 2 / 3, values * 3 / 2, uniform):
        assert not ks_accepts(mutant)
        assert not chi_square_accepts(mutant)


@pytest.mark.parametrize("scale", [2.0**16, 2.0**20])
def test_the_lowest_digits_are_uniform(scale):
    """A fine law on a coarse lattice would show here: chi-square of the last 8 bits, false alarm 1e-4."""
    counts = np.bincount(draws(scale, seed=1) % 256, minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def counts_accept(values, scale):
    """Chi-square of small integers against the exact law, cells of expected count at least 5 and the two tails."""
    law = exact_law(Fraction(scale) ** 2, math.ceil(12 * scale))
    inner = [x for x in law if float(law[x]) * len(values) >= 5]
    observed = [np.sum(values == x) for x in inner]
    expected = [float(law[x]) * len(values) for x in inner]
    observed.append(len(values) - sum(observed))
    expected.append(len(values) - sum(expected))
    return stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
def test_small_scales_agree_with_the_law_in_draws_too(scale):
    values = draws(scale, seed=2)
    assert counts_accept(values, scale)
    assert not counts_accept(values, scale * 1.05)


def test_the_reference_sampler_agrees():
    """Canonne, Kamath and Steinke's exact sampler has the law that the table has."""
    source = random.Random(0)  # noqa: S311
    values = np.array([reference_discrete_gaussian(Fraction(9), source.randrange) for _ in range(10_000)])
    assert counts_accept(values, 3.0)
    assert not counts_accept(values, 3.3)
    assert isinstance(reference_discrete_gaussian(Fraction(2, 3)), int)


def test_coordinates_keys_and_levels_are_independent():
    """Largest of 120 correlations of 16 streams: |r| sqrt(n) < 5.1 has false alarm 120 * 3.4e-7 < 1e-4."""
    keys = jax.random.split(insecure_key(6), 4)
    values = to_int64(jax.jit(jax.vmap(lambda key: noise.discrete_gaussian(key, 2.0**20, (4, 20_000))))(keys))
    correlation = np.corrcoef(values.reshape(16, -1))
    assert np.abs(correlation - np.eye(16)).max() * math.sqrt(20_000) < 5.1


def test_transformed_draws_are_the_same_integers():
    key = insecure_key(8)

    def draw(index):
        return noise.discrete_gaussian(jax.random.fold_in(key, index), 2.0**23, (3,))

    indices = jnp.arange(3)
    scanned = to_int64(jax.jit(lambda: lax.scan(lambda carry, i: (carry, draw(i)), 0, indices)[1])())
    np.testing.assert_array_equal(to_int64(draw(0)), scanned[0])
    np.testing.assert_array_equal(to_int64(jax.jit(jax.vmap(draw))(indices)), scanned)
    text = str(jax.make_jaxpr(draw)(0))
    assert not any(wide_type in text for wide_type in ("i64", "u64", "f64", "f32", "while", "cond"))


def test_a_traced_release_can_be_evaluated_again():
    """What the auditor reads is what runs: the jaxpr, evaluated under jit and under vmap, gives the same bits."""
    rows = np.asarray(jax.random.normal(jax.random.key(0), (64, 3)))
    facts = PrivateData.without_guarantee(rows, chunk_size=10).facts

    def release(key, slots):
        return compute(Sum(1.0, 20.0), facts, lambda _, record: record, slots, [], key[None])[0][0]

    keys, slots = jax.random.split(insecure_key(3), 2), slots_of(rows)
    closed = jaxpr_as_fun(jax.make_jaxpr(release)(keys[0], slots))
    traced = lambda key, slots: closed(key, *jax.tree.leaves(slots))  # noqa: E731
    plain = [jax.jit(release)(key, slots) for key in keys]
    np.testing.assert_array_equal(jax.jit(traced)(keys[0], slots)[0], plain[0])
    np.testing.assert_array_equal(jax.vmap(traced, (0, None))(keys, slots)[0], plain)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 2.0**45])
def test_impossible_scales_are_refused(scale):
    with pytest.raises(InvalidArgument, match="scale="):
        noise.discrete_gaussian(insecure_key(0), scale)


# --- modes ----------------------------------------------------------------------------------------------------------


def test_modes_say_what_may_be_claimed():
    assert {name: mode.claim for name, mode in modes.MODES.items()} == {
        "exact": modes.Claim.PROVEN,
        "float": modes.Claim.NONE,
    }
    assert "no (epsilon, delta) claim" in modes.Claim.NONE.value


@pytest.mark.parametrize("name", ["exact", "float"])
def test_modes_have_one_scale(name):
    mode = modes.MODES[name]
    values = to_int64(jax.jit(lambda key: mode.draw(key, 2.0**20, (20_000,)))(insecure_key(1))) / 2.0**20
    assert ks_accepts(values)
    assert not ks_accepts(values * 1.5)


# --- the logistic coin ----------------------------------------------------------------------------------------------


def host_multiply(first, second):
    """`logistic_coin._multiply` on 64-bit integers: the product of the low words and all remainders are left out."""
    (a, b), (c, d) = divmod(first, 2**32), divmod(second, 2**32)
    return 2 * (a * c + (a * d >> 32) + (b * c >> 32)) % 2**64


def host_decay(exponent):
    high, low = (row.tolist() for row in logistic_coin._exponentials())
    factors = [high[i] << 32 | low[i] for i in (256 * j + (exponent >> 8 * j & 255) for j in range(4))]
    return host_multiply(host_multiply(factors[0], factors[1]), host_multiply(factors[2], factors[3]))


def host_probability(steps, fraction_bits):
    """P(coin) to 2^-63: the number of uniforms below the threshold, found by bisection."""
    exponent = min(abs(steps) << 26 - fraction_bits, 2**32 - 1)
    decay = host_decay(exponent)
    low, high = 0, 2**63
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle + host_multiply(middle, decay) < 2**63 else (low, middle)
    return Fraction(high, 2**63) if steps >= 0 else 1 - Fraction(high, 2**63)


LOG_ODDS = [0, 1, -1, 5, 1000, -1000, 2**19, 2**20, -(2**20), 3 * 2**20 + 7, -40 * 2**20, 63 * 2**20, 2**26 - 1, 2**40]


@pytest.mark.parametrize("fraction_bits", [20, 26])
def test_logistic_coin_has_its_probability(fraction_bits):
    for steps in LOG_ODDS:
        with localcontext(Context(prec=60)):
            log_odds = Decimal(steps) / 2**fraction_bits
            ideal = 1 / (1 + (-log_odds).exp())
            found = host_probability(steps, fraction_bits)
            error = abs(Decimal(found.numerator) / Decimal(found.denominator) - ideal)
        assert float(error) <= logistic_coin.LOGISTIC_ERROR


def test_logistic_coin_is_its_integer_formula():
    key, fraction_bits = insecure_key(12), 20
    steps = [value for value in LOG_ODDS for _ in range(200)]
    log_odds = int64.Wide(
        jnp.asarray(np.array([s >> 32 for s in steps], np.int32)),
        jnp.asarray(np.array([s & 0xFFFFFFFF for s in steps], np.uint32)),
    )
    flip = jax.jit(lambda key, log_odds: logistic_coin.bernoulli_logistic(key, log_odds, 2.0**-fraction_bits))
    coins = flip(key, log_odds)
    high, low = np.asarray(jax.random.bits(key, (2, len(steps)), jnp.uint32)).astype(object)
    for value, coin, top, bottom in zip(steps, coins.tolist(), high, low, strict=True):
        uniform = (top >> 1) << 32 | bottom
        below = uniform + host_multiply(uniform, host_decay(min(abs(value) << 6, 2**32 - 1))) < 2**63
        assert coin == (below ^ (value < 0))
    opposite = flip(key, int64.negate(log_odds))
    signed = np.array(steps) != 0
    assert np.all(np.asarray(coins)[signed] != np.asarray(opposite)[signed])


FLIPS = jax.jit(
    lambda key, log_odds: logistic_coin.bernoulli_logistic(
        key, from_float(jnp.full((100_000,), log_odds * 2**20, jnp.float32)), 2.0**-20
    )
)


@pytest.mark.parametrize("log_odds", [-2.5, 0.0, 0.7])
def test_logistic_coin_in_draws(log_odds):
    """|z| < 4, false alarm 6.4e-5; a coin for 2/3 or 3/2 of a log-odds that is not zero is refused."""
    heads = np.asarray(FLIPS(insecure_key(13), log_odds)).mean()

    def deviation(of):
        probability = 1 / (1 + math.exp(-of))
        return abs(heads - probability) / math.sqrt(probability * (1 - probability) / 100_000)

    assert deviation(log_odds) < 4
    assert all(deviation(log_odds * factor) > 4 for factor in (2 / 3, 3 / 2)) or not log_odds


@pytest.mark.parametrize("granularity", [0.3, 2.0, 2.0**-27, 0.0])
def test_granularity_of_the_coin_is_a_power_of_two(granularity):
    with pytest.raises(InvalidArgument, match="granularity="):
        logistic_coin.bernoulli_logistic(insecure_key(0), int64.zero(()), granularity)
