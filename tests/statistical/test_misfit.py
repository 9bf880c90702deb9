"""Models that do not hold: what the releases show of it is in the verdict, and the estimate nears the likelihood's.

On an emulated oracle (`experiments.stress.emulated`), with new rows and noise in each run.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import special

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores.bounds import MIDDLES, RATIO, SPREAD, Tails, smooth_lengths, tails
from dpmcmc.fitting.strategies.weighted_scores.residuals import p_value, p_value_of_looks
from dpmcmc.model.formula.families.gaussian import Gaussian
from experiments.stress.emulated import Emulated
from experiments.stress.problems import Problem
from experiments.stress.reference import by_importance

ELSEWHERE = "does not hold equally for all records"


def bent(rng, columns, eta):
    """A square that the formula does not have."""
    del rng
    return eta + 2.0 * columns["x0"] ** 2


def heavy(rng, eta):
    """Residuals with the tails of a t, 5 degrees of freedom."""
    return eta + 0.8 * rng.standard_t(5, len(eta))


HOLDS = Problem("bernoulli", size=50_000)
GROUPED = Problem("bernoulli", groups=(5, 0.7))
BENT = replace(HOLDS, alter=bent, holds=False)
HEAVY = Problem("gaussian", size=30_000, respond=heavy, response_bounds=(-20, 20), holds=False)


SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]


@cache
def emulator(problem):
    return Emulated(problem, 8.0)


def fit(problem, seed):
    emulated = emulator(problem)
    records = emulated.records(seed)
    return records, emulated.fit(records, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_square_is_seen_by_other_bounds(seed) -> None:
    _, drawn = fit(BENT, seed)
    assert drawn.quality.verdict != "good"
    assert any(ELSEWHERE in reason for reason in drawn.quality.reasons), drawn.quality.words


def test_other_bounds_agree_where_the_model_holds() -> None:
    """The negative control: by its rate, at most one in 50 of four runs is told that the model does not hold.

    The seeds are fixed, so that it is the same every time.
    """
    for seed in range(4):
        _, drawn = fit(HOLDS, seed)
        assert drawn.settings["pilot"]["other_bounds"] > 5e-3
        assert not any(ELSEWHERE in reason for reason in drawn.quality.reasons)


def test_other_bounds_are_compared_where_no_data_see_a_direction() -> None:
    """An intercept that is raised while all random ones are lowered: the slope has no inverse there.

    It was inverted, and some of these fits ended in draws from the prior. By its rate 0.015 of three runs are told that
    the model does not hold; the seeds are fixed.
    """
    for seed in range(3):
        _, drawn = fit(GROUPED, seed)
        assert drawn.settings["pilot"]["other_bounds"] > 5e-3
        assert drawn.quality.verdict != "bad"


@pytest.mark.parametrize("bound", [1.0, 2.0])
@pytest.mark.parametrize(("middle", "spread"), [(0.0, 0.35), (1.0, 0.6), (0.5, 0.9)])
def test_lengths_that_do_not_stand_out_one_by_one_are_told_together(middle, spread, bound) -> None:
    """Of a lognormal law with noise; a few percent of the information is in bins of less than three deviations.

    The control has no histogram at all: lengths are then as they usually are.
    """
    scores, lengths = Gaussian(), RATIO ** (np.arange(-4.0, 17.0) - 0.5)
    logs, weights = np.log(lengths / scores.usual_length), np.minimum(1.0, bound / lengths)
    held = np.exp(-0.5 * ((logs - middle) / spread) ** 2)
    held = held / held.sum()
    noise = np.random.default_rng(3).standard_normal(len(held))
    for sd in (1e-4, 0.02 * float((held * weights).max())):
        released = _Lengths(held * weights + sd * noise, sd)
        found = smooth_lengths(scores, released, lengths, weights)
        above = lengths > 2 * scores.usual_length
        assert found[above].sum() == pytest.approx(held[above].sum(), rel=0.35, abs=0.01)
    usual = smooth_lengths(scores, _Lengths(np.zeros_like(held), 1.0), lengths, weights)
    assert usual.sum() == 0.0
    assert SPREAD == 0.35


class _Lengths:
    """What a release has of the lengths of scores."""

    def __init__(self, lengths, lengths_sd) -> None:
        self.lengths, self.lengths_sd = lengths, lengths_sd


def _logistic(square, size, seed):
    """A table whose log-odds have a square that `y ~ x + w` lacks, and the estimates of the likelihood."""
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(2, size)).clip(-5, 5)
    y = rng.random(size) < special.expit(-2.5 + x + square * x**2 + 0.4 * w)
    columns, found = np.column_stack([np.ones(size), x, w]), np.zeros(3)
    for _ in range(25):
        p = special.expit(columns @ found)
        information = columns.T @ (columns * (p * (1 - p))[:, None])
        found = found + np.linalg.solve(information, columns.T @ (y - p))
    number = dp.Column(kind="number", lower=-5, upper=5)
    schema = dp.Schema({"x": number, "w": number, "y": dp.Column(kind="boolean")})
    table = pd.DataFrame({"x": x, "w": w, "y": y})
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(100.0, 1e-3))
    return data, dict(zip(("intercept", "x", "w"), found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("square", "least_seen"), [(0.5, 8), (0.0, 0)])
def test_a_missing_square_is_seen_at_a_small_budget(square, least_seen) -> None:
    """n = 20,000, epsilon 2: unseen before scores with other bounds were asked, and 4 own deviations off in x.

    It was seen in 30 of 30 runs; at a rate of 0.99, fewer than 8 of 10 are seen once in 10,000. The negative control
    has no square: at the rate of 0.005 two of ten are told of one once in 900.
    """
    seen = 0
    for seed in range(10):
        data, means = _logistic(square, 20_000, seed)
        posterior = dp.fit("y ~ x + w", data, family="bernoulli", epsilon=2.0, delta=1e-6, progress=False)
        seen += any(ELSEWHERE in reason for reason in posterior.quality.reasons)
        draws = posterior.to_pandas()
        off = max(abs(draws[name].mean() - mean) / draws[name].std() for name, mean in means.items())
        assert off < 6.0
        is_marked = all(grade.reasons for grade in posterior.quality.parameters.values())
        assert off < 4.0 or is_marked or posterior.quality.verdict == "bad"
    assert seen >= least_seen if square else seen <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_heavy_tails_lengthen_the_cut_until_the_scale_is_that_of_the_likelihood(seed) -> None:
    """Cut as for normal residuals, the scale would be 20 or more posterior standard deviations too small."""
    records, drawn = fit(HEAVY, seed)
    assert drawn.settings["pilot"]["cut"] >= 4.0, "a normal distribution would be cut at 2.8 at most"
    assert drawn.quality.verdict == "fair", drawn.quality.words
    sigma = drawn.draws["sigma"]
    reference = by_importance(emulator(HEAVY), records)
    assert reference.is_valid, f"no reference: {reference.check}"
    off = (sigma.mean() - reference.means["sigma"]) / sigma.std()
    is_marked = drawn.quality.parameters["sigma"].verdict != "good"
    assert abs(off) <= 4.0 or is_marked


@pytest.mark.parametrize("bound", [1.0, 2.0, 4.0])
def test_what_a_cut_takes_off_a_normal_score(bound) -> None:
    """Cut scores and what is cut off add up to the scores, in standard deviations."""
    scores = Gaussian()
    location, shape = scores.cut_off(MIDDLES, bound)
    limit = scores.shape_bound(bound)
    np.testing.assert_allclose(np.clip(MIDDLES, -bound, bound) + location, MIDDLES)
    of_scale = (MIDDLES**2 - 1) / np.sqrt(2.0)
    np.testing.assert_allclose(np.minimum(of_scale, limit) + shape, of_scale)


def test_only_what_stands_out_of_its_noise_is_believed() -> None:
    expected = np.full(1 + len(MIDDLES), 1e-6)
    excess = np.zeros(1 + len(MIDDLES))
    excess[-1], excess[-2] = 500.0, 30.0
    found = tails(excess, 10.0, 10_000, expected)
    assert found.excess[-1] == 500.0
    assert found.excess[-2] == 0.0


def test_a_few_far_residuals_in_many_bins_are_seen_together() -> None:
    """In no bin they stand out of the noise; the two looks at their number do. Noise alone does not, at its rate."""
    expected = np.full(1 + len(MIDDLES), 1e-6)
    far = np.abs(MIDDLES) > 4.0
    excess = np.append(10.0 * far.sum(), 10.0 * far)
    assert p_value(excess[1:], 20.0, 20_000, expected[1:]) == 1.0
    assert p_value_of_looks(excess, 20.0, 20_000, expected, excess) < 1e-3
    rng = np.random.default_rng(0)
    alone = [p_value_of_looks(*_looks(rng, 20.0), 20_000, expected, _looks(rng, 20.0)[0]) for _ in range(2000)]
    assert np.mean(np.array(alone) < 1e-2) <= 0.02, "at a rate of 0.01 that is 4.5 standard deviations of the count"


def _looks(rng, noise):
    return noise * rng.standard_normal(1 + len(MIDDLES)), noise


def test_residuals_on_one_side_move_the_location_and_the_scale() -> None:
    excess = np.zeros(len(MIDDLES))
    excess[-3] = 100.0  # between 8 and 11 standard deviations
    bias = Tails(excess, 10_000).bias(Gaussian(), 2.0, num_linear=4)
    over = MIDDLES[-3] - 2.0
    expected = np.sqrt(100 * over**2 / 10_000 + (100 * over) ** 2 / 10_000 / 4)
    assert bias.linear == pytest.approx(expected)
    assert bias.shape == pytest.approx(100 * ((MIDDLES[-3] ** 2 - 1) / np.sqrt(2) - 4.0) / 100)
    assert Tails(excess, 10_000).bias(Gaussian(), 11.0, num_linear=4) == (0.0, 0.0)


def test_bounds_are_shorter_where_short_and_long_ones_agree() -> None:
    """The seeds are fixed: where a square is missing what bounds take off is thought to matter more."""
    holds, bent = (fit(problem, 0)[1].settings["pilot"] for problem in (HOLDS, BENT))
    assert holds["misfit"] < 0.06 < bent["misfit"]
    assert holds["radius"] < bent["radius"]
