"""Directions that no release sees, several at once, and what releases know of scales on the way to their root."""

import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.nonlinearity import at_result
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten
from dpmcmc.model import from_formula

SD, UNEVEN = 0.03, 0.35
"""The noise of a slope, and how much less of it one of two levels has."""


def release(point, precision, score, slope, doubts=None) -> Release:
    size = len(point)
    return Release(
        point=np.asarray(point, float),
        whitening=whiten(precision),
        radius=1.0,
        score=np.asarray(score, float),
        score_variance=0.25,
        slope=slope,
        slope_sd=SD,
        variance=float(size),
        lengths=np.zeros(21),
        lengths_sd=0.1,
        roots=np.eye(size),
        usual=1.0,
        doubts=doubts,
    )


def with_two_levels(turned: float) -> Release:
    """An intercept and a slope that are seen, and two levels that are not, whose flat directions mix."""
    slope = np.diag([1.0, 1.0, 0.02, 0.02])
    slope[2, 3] = slope[3, 2] = turned
    return release(np.zeros(4), np.eye(4), np.zeros(4), slope, np.diag([1.0, 1.0, UNEVEN, 1.0]))


@pytest.mark.parametrize("turned", [0.005, -0.005, 0.0])
def test_two_levels_that_are_not_seen_are_two_directions(turned: float) -> None:
    """Once what noise explains is left out of both, one was left, and the other was any: the intercept, say."""
    one = with_two_levels(turned)
    unseen = one.unseen(one.slope)
    assert unseen.shape == (4, 2)
    np.testing.assert_allclose(unseen.T @ unseen, np.eye(2), atol=1e-9)
    assert np.abs(unseen[:2]).max() < 1e-9, "intercept and slope are seen"
    kept = np.diag(one.likelihood().precision)
    assert kept[:2].min() > 0.5 > 1e-9 > np.abs(kept[2:]).max()
    assert one.squared(np.array([3.0, 4.0, 100.0, 100.0])) == pytest.approx(25.0)


def test_one_level_with_a_little_of_the_intercept_is_that_level() -> None:
    slope = np.diag([1.0, 1.0, 1.0, 0.01])
    slope[0, 3] = slope[3, 0] = SD
    one = release(np.zeros(4), np.eye(4), np.zeros(4), slope)
    np.testing.assert_allclose(np.abs(one.unseen(slope)), np.eye(4)[:, 3:], atol=1e-9)


SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=-1, upper=1),
        "y": dp.Column(kind="number", lower=-6, upper=6),
        "count": dp.Column(kind="integer", lower=0, upper=80),
    }
)
SIZE = 20_000.0


def regression_of(response: str, family: str) -> tuple[Regression, Moments]:
    regression = Regression.of(from_formula(f"{response} ~ x", SCHEMA, family=family))
    moments = Moments(np.array([1.0, 0.0]), np.array([0.0, 0.577]), SIZE, np.zeros(2), np.eye(2), (None, None))
    return regression, moments


def normal_release(truth: np.ndarray, off: float) -> Release:
    """What a table of normal responses answers without noise where the scale is taken to be too large."""
    point = np.array([truth[0], truth[1], truth[2] + off])
    precision = SIZE * np.diag([np.exp(-2 * point[2]), np.exp(-2 * point[2]) / 3, 2.0])
    score = np.array([0.0, 0.0, SIZE * (np.exp(-2 * off) - 1)]) / np.sqrt(2 * SIZE)
    return release(point, precision, score, np.eye(3))


def test_a_scale_that_shrinks_says_more_of_coefficients_and_as_much_of_itself() -> None:
    regression, moments = regression_of("y", "gaussian")
    truth = np.array([0.0, 0.13, -3.0])
    (one, last) = at_result(regression, [normal_release(truth, 0.1), normal_release(truth, 0.05)], moments)
    moved = truth[2] + 0.1 - at_root(one, last)
    assert moved > 0.08
    np.testing.assert_allclose(np.diag(one.slope), [np.exp(2 * moved), np.exp(2 * moved), 1.0], rtol=1e-2)


def at_root(one: Release, last: Release) -> float:
    """The logarithm of the scale at the root of two releases, with slopes of one."""
    back = (one.whitening.factor @ (one.score - one.whitening.inverse @ (last.point - one.point)))[2]
    return float(last.point[2] + (back + (last.whitening.factor @ last.score)[2]) / 2)


def test_a_shape_has_its_own_information_there() -> None:
    """Counts that become rarer say less of their mean, and less still of their overdispersion."""
    regression, moments = regression_of("count", "negative_binomial")
    point, precision = np.array([0.0, 0.0, 0.4]), SIZE * np.eye(3)
    score = np.array([-np.sqrt(SIZE), 0.0, 0.0])
    (one,) = {
        each.slope.tobytes(): each
        for each in at_result(regression, [release(point, precision, score, np.eye(3))] * 2, moments)
    }.values()
    assert 0.2 < one.slope[2, 2] < 0.8 * one.slope[0, 0] < 0.8
