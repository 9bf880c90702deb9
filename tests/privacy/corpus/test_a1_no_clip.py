"""A1: one record is not clipped.

The attack: a statistic like q * q - x with a record that equals the rounded product. A compiler that computes the
contribution twice, once with a fused multiply-add and once without, finds a norm of zero and then integers that are
not. All other records are NaN and add nothing, so the whole sum is what one record adds.

What must happen: the program runs, for it is an honest one by its form, and the sum is no longer than one clip.

False alarms: 1.3e-14 a check (`exact_sums`).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_sums import QUIET, QUIETEST, assert_within
from vaults import free_vault

from dpmcmc.enclave import (
    CurvatureSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    SubsampledGradientSum,
    Sum,
)

STATISTICS = {
    "q*q - x": (lambda q, x: q * q - x, lambda q: q * q),
    "q*q[0] - x": (lambda q, x: q * q[0] - x, lambda q: q * q[0]),
}


def hostile_query(d, seed=0):
    """Numbers whose products are about 1e12, with rounding errors of some 1e4: many clips."""
    return (1e6 * np.random.default_rng(seed + d).uniform(1, 2, d)).astype(np.float32)


def one_finite_row(row, n, place=None):
    rows = np.full((n, len(row)), np.nan, np.float32)
    rows[n // 3 if place is None else place] = row
    return rows


class Likelihood:
    """A model without a prior, around any function of position and record."""

    temperature = 1.0

    def __init__(self, log_likelihood):
        self.log_likelihood = log_likelihood

    def log_prior(self, position):
        return 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(position))


SQUARES = Likelihood(lambda t, x: jnp.sum(x * t - t**3 / 3))
"""Its gradient is x - t * t."""

FOURTH_POWERS = Likelihood(lambda t, x: jnp.sum(x * t**2 / 2 - t**4 / 12))
"""Its Hessian is diagonal, x - t * t."""


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize(
    ("n", "sizes"),
    [
        (1000, range(2, 8)),
        (2000, range(2, 8)),
        (20_000, (2, 5)),
        pytest.param(20_000, (3, 4, 6, 7), marks=pytest.mark.slow),
    ],
)
def test_sum(n, sizes, statistic):
    function, product = STATISTICS[statistic]
    for d in sizes:
        query = hostile_query(d)
        vault = free_vault(one_finite_row(product(query), n))
        noisy = vault.run(lambda oracle, q: oracle.sum(Sum(1.0, QUIET), function, q), query)
        assert_within(noisy, 1.0, f"n = {n}, d = {d}")


def test_sum_with_ordinary_noise():
    """As an analyst would run it: noise of ten clips, three runs, no more than noise."""
    query = hostile_query(4)
    vault = free_vault(one_finite_row(query * query, 1000))
    for _ in range(3):
        noisy = vault.run(lambda oracle, q: oracle.sum(Sum(1.0, 5.0), STATISTICS["q*q - x"][0], q), query)
        assert_within(noisy, 1.0)


@pytest.mark.parametrize("d", [5, 9, 16])
def test_sum_of_products_within_a_record(d):
    a, b = np.float32(1234567.0), np.float32(7654321.0)
    row = np.array([a, b, *[a * b] * d], np.float32)
    for place in (0, 8, 15):
        vault = free_vault(one_finite_row(row, 16, place))
        noisy = vault.run(lambda oracle: oracle.sum(Sum(1.0, QUIET), lambda x: x[0] * x[1] - x[2:]))
        assert_within(noisy, 1.0, f"d = {d}, place {place}")


def test_sum_of_more_coordinates_than_the_fast_rounding_takes():
    query = hostile_query(1100)
    for n in (16, 64):
        vault = free_vault(one_finite_row(query * query, n))
        noisy = vault.run(lambda oracle, q: oracle.sum(Sum(1.0, QUIET), lambda q, x: q * q - x, q), query)
        assert_within(noisy, 1.0, f"n = {n}")


def test_sum_of_products_of_more_coordinates_than_the_fast_rounding_takes():
    a, b = np.float32(1234567.0), np.float32(7654321.0)
    for n in (16, 64):
        vault = free_vault(one_finite_row(np.array([a, b, *[a * b] * 1100], np.float32), n))
        noisy = vault.run(lambda oracle: oracle.sum(Sum(1.0, QUIET), lambda x: x[0] * x[1] - x[2:]))
        assert_within(noisy, 1.0, f"n = {n}")


@pytest.mark.parametrize("n", [16, 1000, 2000])
@pytest.mark.parametrize("multiplier", [QUIET, QUIETEST])
def test_gradient(n, multiplier):
    for d in (2, 4, 7):
        query = hostile_query(d)
        vault = free_vault(one_finite_row(query * query, n))
        noisy = vault.run(lambda oracle, t: oracle.force(GradientSum(1.0, multiplier), t), query, model=SQUARES)
        assert_within(noisy, 1.0, f"n = {n}, d = {d}")


@pytest.mark.parametrize("n", [1000, 2000])
@pytest.mark.parametrize("d", [4, 16])
def test_gradient_on_a_fixed_batch_of_all_records(n, d):
    query = hostile_query(d)
    vault = free_vault(one_finite_row(query * query, n))
    mechanism = SubsampledGradientSum.without_replacement(1.0, QUIETEST, n)
    noisy = vault.run(lambda oracle, t: oracle.force(mechanism, t), query, model=SQUARES)
    assert_within(noisy, 1.0)


@pytest.mark.parametrize("n", [1000, 2000])
def test_gradient_on_a_poisson_batch(n):
    """A batch has the record in it with a chance of 0.9, and then the sum is weighted with 1 / 0.9."""
    query = hostile_query(16)
    vault = free_vault(one_finite_row(query * query, n))
    mechanism = SubsampledGradientSum.poisson(1.0, 2 * QUIETEST, 0.9)
    for _ in range(3):
        noisy = vault.run(lambda oracle, t: oracle.force(mechanism, t), query, model=SQUARES)
        assert_within(noisy, 1 / 0.9)


@pytest.mark.parametrize("n", [1000, 2000])
@pytest.mark.parametrize("multiplier", [QUIET, QUIETEST])
def test_curvature(n, multiplier):
    for d in (2, 4):
        query = hostile_query(d)
        vault = free_vault(one_finite_row(query * query, n))
        noisy = vault.run(
            lambda oracle, t, factor: oracle.curvature(CurvatureSum(1.0, multiplier), t, factor),
            query,
            np.eye(d, dtype=np.float32),
            model=FOURTH_POWERS,
        )
        assert_within(noisy, 1.0, f"n = {n}, d = {d}")


ROW = np.array([0.6, -0.3, 0.5, 0.2, -0.5], np.float32)


def residual_table(n, targets):
    rows = {"x": np.full((n, len(ROW)), np.nan, np.float32), "y": np.full((n, *np.shape(targets)), np.nan, np.float32)}
    rows["x"][n // 3], rows["y"][n // 3] = ROW, targets
    return rows


@pytest.mark.parametrize("n", [100, 1000, 2000])
@pytest.mark.parametrize("multiplier", [QUIET, 1.0])
def test_gradient_of_one_residual_times_a_row(n, multiplier):
    """The path of models with a linear predictor: the residual y - w[0] * w[1] cancels."""

    def log_likelihood(w, record):
        held = jax.lax.stop_gradient(w)
        return (record["y"] - held[0] * held[1]) * (record["x"] @ w)

    query = hostile_query(len(ROW))
    vault = free_vault(residual_table(n, query[0] * query[1]))
    mechanism = GradientSum(1.0, multiplier)
    noisy = vault.run(lambda oracle, t: oracle.force(mechanism, t), query, model=Likelihood(log_likelihood))
    assert_within(noisy, 1.0)


@pytest.mark.parametrize("n", [100, 1000, 2000])
@pytest.mark.parametrize("m", [3, 8])
def test_gradient_of_several_residuals_times_a_row(n, m):
    """As in a multinomial model: m residuals y - w[0] * w[1] cancel together, and their norm is what is held."""

    def log_likelihood(w, record):
        held = jax.lax.stop_gradient(w)
        return jnp.sum((record["y"] - held[0] * held[1]) * (record["x"] @ w))

    query = hostile_query(len(ROW) * m).reshape(len(ROW), m)
    vault = free_vault(residual_table(n, query[0] * query[1]))
    mechanism = GradientSum(1.0, QUIET)
    noisy = vault.run(lambda oracle, t: oracle.force(mechanism, t), query, model=Likelihood(log_likelihood))
    assert_within(noisy, 1.0)


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("m", [4, 16])
def test_gradient_of_several_residuals_of_products_within_a_record(n, m):
    """The residuals u * v - y cancel, whatever the position: seen to be sqrt(m) clips."""

    def log_likelihood(w, record):
        return jnp.sum((record["u"] * record["v"] - record["y"]) * (record["x"] @ w))

    u, v = np.float32(6732.8667), np.float32(3428.3794)
    table = residual_table(n, np.full(m, u * v, np.float32)) | {"u": np.full(n, u), "v": np.full(n, v)}
    position = np.ones((len(ROW), m), np.float32)
    mechanism = GradientSum(1e-3, QUIET)
    noisy = free_vault(table).run(
        lambda oracle, t: oracle.force(mechanism, t), position, model=Likelihood(log_likelihood)
    )
    assert_within(noisy, 1e-3)


@pytest.mark.parametrize("n", [100, 1000, 2000])
def test_gradient_with_an_unknown_scale(n):
    """Two kinds of residual: of a row, and of a scale, whose feature is the number one."""

    def log_likelihood(p, record):
        w, scale = jax.lax.stop_gradient(p["w"]), jax.lax.stop_gradient(p["scale"])
        cancels = record["y"] - w[0] * w[1]
        return cancels * (record["x"] @ p["w"]) + (record["y"] - w[0] * w[1] + 0 * scale) * p["scale"]

    query = {"w": hostile_query(len(ROW)), "scale": np.float32(2.0)}
    vault = free_vault(residual_table(n, query["w"][0] * query["w"][1]))
    noisy = vault.run(
        lambda oracle, t: oracle.force(GradientSum(1.0, QUIET), t), query, model=Likelihood(log_likelihood)
    )
    flat = noisy._replace(value=np.append(noisy.value["w"], noisy.value["scale"]))
    assert_within(flat, 1.0)


@pytest.mark.parametrize("n", [100, 1000, 2000])
@pytest.mark.parametrize("multiplier", [QUIET, 1.0])
def test_curvature_of_rank_one(n, multiplier):
    """Roots of Hessians weight * row row^T, whose weight y - w[0] * w[1] cancels."""

    def log_likelihood(w, record):
        held = jax.lax.stop_gradient(w)
        return (record["y"] - held[0] * held[1]) * (record["x"] @ w) ** 2 / 2

    query = hostile_query(len(ROW))
    vault = free_vault(residual_table(n, query[0] * query[1]))
    noisy = vault.run(
        lambda oracle, t, factor: oracle.curvature(CurvatureSum(1.0, multiplier), t, factor),
        query,
        np.eye(len(ROW), dtype=np.float32),
        model=Likelihood(log_likelihood),
    )
    assert_within(noisy, 1.0)


@pytest.mark.parametrize("n", [16, 1000, 2000])
def test_log_ratio(n):
    """The clip of a log-ratio is times the distance of the positions."""
    model = Likelihood(lambda t, x: jnp.sum(t * t - x))
    first, second = hostile_query(3), hostile_query(3) * np.float32(1.5)
    vault = free_vault(one_finite_row(first * first, n))
    noisy = vault.run(
        lambda oracle, a, b: oracle.log_posterior_ratio(LogRatio(1.0, QUIET), a, b), first, second, model=model
    )
    assert_within(noisy, float(np.linalg.norm(second - first)))


@pytest.mark.parametrize("n", [16, 1000, 2000])
def test_noisy_count(n):
    """Records that are not finite count, so the count is n - 1 or n, whatever becomes of the one that is."""
    query = hostile_query(4)
    vault = free_vault(one_finite_row(query * query, n))
    noisy = vault.run(lambda oracle, q: oracle.sum(NoisyCount(1.0, 2 * QUIETEST), lambda q, x: q * q - x, q), query)
    assert_within(noisy._replace(value=noisy.value - (n - 0.5)), 0.5)


@pytest.mark.parametrize("n", [16, 203, 1000])
def test_log_ratio_on_a_batch(n):
    """Of a batch of half of the records, all alike: the value is within n clips, less a penalty that is next to none.

    Its variance is a difference of two exact moments. If they were computed from two versions of a record's integers,
    it could be negative, and in unsigned arithmetic huge.
    """
    model = Likelihood(lambda t, x: t[0] * (x[0] * x[0] - x[1]))
    number, clip, b = hostile_query(1)[0], 1e-3, n // 2
    rows = np.tile(np.float32([number, number * number, 0, 0, 0, 0]), (n, 1))
    noisy = free_vault(rows).run(
        lambda oracle, a, b: oracle.log_posterior_ratio(MinibatchLogRatio(n // 2, clip, QUIETEST), a, b),
        np.zeros(1, np.float32),
        np.ones(1, np.float32),
        model=model,
    )
    assert_within(noisy, n * clip + n * n / b * clip**2)
