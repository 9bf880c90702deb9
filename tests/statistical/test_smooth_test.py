"""Neyman's smooth test of residuals under noise: its rate of false alarms, what it sees, and what it is not to see."""

import numpy as np
import pytest
from scipy.special import ndtr

from dpmcmc.fitting.strategies.weighted_scores.bounds import far_tails
from dpmcmc.fitting.strategies.weighted_scores.residuals import far_and_bins, p_value_of_looks
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES
from dpmcmc.fitting.strategies.weighted_scores.smooth_test import p_value_of_patterns
from dpmcmc.model.bounded_scores.base import RESIDUALS

SIZE, NOISE, LEVEL, LOOKS = 14_000, 84.5, 1e-3, 1_000
"""Records and noise as of a gaussian regression at epsilon 1."""


def normal_bins(scale: float = 1.0, place: float = 0.0) -> np.ndarray:
    return np.diff(np.concatenate([[0.0], ndtr((RESIDUALS - place) / scale), [1.0]]))


MODEL = normal_bins()
EXPECTED = np.maximum(far_and_bins(MODEL), 1 / SIZE)


def looks_at(law: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    excess = rng.multinomial(SIZE, law) - SIZE * MODEL
    last, before = (far_and_bins(excess) + rng.normal(0, NOISE, 1 + len(MIDDLES)) for _ in range(2))
    return last, before


def p_values(test, law: np.ndarray, times: int = LOOKS) -> np.ndarray:
    rng = np.random.default_rng(11)
    pairs = (looks_at(law, rng) for _ in range(times))
    return np.array([test(last, NOISE, SIZE, EXPECTED, before) for last, before in pairs])


def test_residuals_of_the_model_are_seldom_told_not_to_be():
    """Expected are 50 of 1,000 below 5 %; more than 85 are seen once in 100,000 times."""
    found = p_values(p_value_of_patterns, MODEL)
    assert np.sum(found < 0.05) <= 85
    assert np.sum(found < LEVEL) <= 7  # one is expected


@pytest.mark.parametrize("place_and_scale", [(0.02, 1.0), (0.0, 1.02)])
def test_a_place_and_a_scale_that_are_fitted_are_not_seen(place_and_scale):
    place, scale = place_and_scale
    assert np.sum(p_values(p_value_of_patterns, normal_bins(scale, place)) < LEVEL) <= 7


def test_spreads_that_differ_between_records_are_seen():
    """Two groups with standard deviations of 2 and 3.5, taken for one: a single bin shows it much more rarely."""
    law = (normal_bins(0.70 / 0.968) + normal_bins(1.227 / 0.968)) / 2
    assert np.mean(p_values(p_value_of_patterns, law, 300) < LEVEL) > 0.75
    assert np.mean(p_values(p_value_of_looks, law, 300) < LEVEL) < 0.5


def test_far_residuals_that_stand_out_together_are_believed():
    """Three hundred on one side, spread over bins of which none stands out; and none where there are none."""
    rng = np.random.default_rng(3)
    far = np.where(MIDDLES > 4, 1.0, 0.0)
    law = 0.98 * MODEL + 0.02 * far / far.sum()
    found = [far_tails(last, NOISE, SIZE, EXPECTED, before) for last, before in (looks_at(law, rng) for _ in range(50))]
    assert np.mean([one.excess.sum() > 100 for one in found]) > 0.8
    none = [
        far_tails(last, NOISE, SIZE, EXPECTED, before) for last, before in (looks_at(MODEL, rng) for _ in range(200))
    ]
    assert np.mean([one.excess.any() for one in none]) < 0.02
