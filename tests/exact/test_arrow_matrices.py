"""Arrow-shaped matrices against matrices that are written out."""

import numpy as np
import pytest

from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow, Vectors, measured


def some(seed, groups=7, size=2, common=4):
    """An arrow that is positive."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(groups, size, size))
    blocks = root @ np.swapaxes(root, 1, 2) + 2 * np.eye(size)
    border = 0.3 * rng.normal(size=(groups, size, common))
    own = rng.normal(size=(common, common))
    return Arrow(blocks, border, own @ own.T + 3 * np.eye(common) + np.einsum("gkc,gkd->cd", border, border))


def vectors(seed, number=3, groups=7, size=2, common=4):
    rng = np.random.default_rng(seed)
    return Vectors(rng.normal(size=(groups, size, number)), rng.normal(size=(common, number)))


def flat(one):
    return np.concatenate([one.groups.reshape(-1, one.groups.shape[-1]), one.common])


@pytest.mark.parametrize("size", [1, 2])
def test_products_roots_and_solutions_are_those_of_the_matrix(size):
    arrow, right = some(1, size=size), vectors(2, size=size)
    whole = arrow.dense()
    assert np.allclose(flat(arrow.times(right)), whole @ flat(right))
    root = arrow.root()
    assert np.allclose(flat(root.solve(right)), np.linalg.solve(whole, flat(right)))
    assert np.allclose(flat(root.times(right)), np.linalg.cholesky(whole) @ flat(right))
    assert np.allclose(flat(root.forward(right)), np.linalg.solve(np.linalg.cholesky(whole), flat(right)))
    assert np.isclose(root.log_determinant(), np.linalg.slogdet(whole)[1])


def test_a_measured_precision_is_that_of_the_matrices():
    slope, spread, prior, right = some(1), some(2), some(3), vectors(4)
    told = measured(slope, spread, right)
    found = told.beside(prior)
    whole = slope.dense() @ np.linalg.solve(spread.dense(), slope.dense()) + prior.dense()
    assert np.allclose(flat(found.solve(right)), np.linalg.solve(whole, flat(right)))
    assert np.isclose(found.log_determinant(), np.linalg.slogdet(whole)[1])
    assert np.allclose(flat(told.tilt), slope.dense() @ np.linalg.solve(spread.dense(), flat(right)))


def test_draws_have_the_mean_and_the_covariance():
    """Each entry is within five standard errors: a false alarm in about one of 1e5 seeds."""
    slope, spread, prior = (some(seed, groups=3, size=1, common=2) for seed in (1, 2, 3))
    tilt, number = vectors(5, 1, groups=3, size=1, common=2), 200_000
    draws = flat(measured(slope, spread, tilt).beside(prior).draw(tilt, number, np.random.default_rng(0)))
    whole = slope.dense() @ np.linalg.solve(spread.dense(), slope.dense()) + prior.dense()
    covariance = np.linalg.inv(whole)
    sds = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=1) - (covariance @ flat(tilt))[:, 0]) < 5 * sds / np.sqrt(number))
    assert np.all(np.abs(np.cov(draws) - covariance) < 5 * np.outer(sds, sds) * np.sqrt(2 / number))
