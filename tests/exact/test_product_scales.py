"""Products of numbers with levels: their scale follows from few rows in many bins, beside most rows in that of zero."""

import jax
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.enclave import Sum
from dpmcmc.fitting.strategies.weighted_scores.histograms import Counted, Histograms
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.seen_counts import beside_one, shares_of, shares_with_rest
from dpmcmc.fitting.strategies.weighted_scores.start import mean_squares
from dpmcmc.model import from_formula

LEVELS, SIZE = ("a", "b", "c", "d", "e"), 12_000


def made(right: str, sd: float, present: int = len(LEVELS)):
    """A model, what noisy histograms tell of its columns, and the columns themselves."""
    schema = dp.Schema(
        {
            "x": dp.Column(kind="number", lower=-1, upper=1),
            "ward": dp.Column(kind="category", categories=LEVELS),
            "smoker": dp.Column(kind="boolean"),
            "y": dp.Column(kind="number", lower=-4, upper=6),
        }
    )
    rng = np.random.default_rng(3)
    records = {
        "x": rng.uniform(-1, 1, SIZE).astype(np.float32),
        "ward": rng.integers(0, present, SIZE).astype(np.int32),
        "smoker": (rng.random(SIZE) < 0.2).astype(np.float32),
        "y": rng.normal(1, 0.5, SIZE).astype(np.float32),
    }
    regression = Regression.of(from_formula(f"y ~ {right}", schema, family="gaussian"))
    asked = Histograms(regression, Sum(1.0, 1.0), (0.5, 0.5))
    edges = np.concatenate([[-np.inf], asked.column_edges, [np.inf]])
    rows = np.asarray(jax.jit(jax.vmap(regression.model.features))(records), float)
    flags = rows[:, ~asked.numeric].sum(axis=0)
    bins = [np.diff(np.sum(column[:, None] <= edges, axis=0)) for column in rows[:, asked.numeric].T]
    counts = np.concatenate([flags, *bins])
    response = np.zeros(asked._size)
    response[:2] = SIZE
    noise = sd * rng.normal(size=len(counts))
    return regression, asked.moments(Counted(response, sd), Counted(counts + noise, sd)), rows


@pytest.mark.parametrize("sd", [33.0, 60.0, 110.0])  # about epsilon 8, 4 and 2
@pytest.mark.parametrize("right", ["x * ward", "ward / x", "x * smoker", "x * ward * smoker"])
def test_products_are_about_as_long_as_they_are(right: str, sd: float) -> None:
    """The bin of zero has four fifths of the rows. Alone, it made columns seem a thirtieth as long as they are."""
    regression, moments, rows = made(right, sd)
    ratio = np.sqrt(np.diag(mean_squares(regression, moments)) / np.mean(rows**2, axis=0))
    assert ((ratio > 1 / 3) & (ratio < 4)).all(), ratio


@pytest.mark.parametrize("sd", [33.0, 110.0])
@pytest.mark.parametrize("present", [1, 2, 5])
@pytest.mark.parametrize("right", ["x * ward", "ward / x"])
def test_mean_products_are_those_of_some_rows(right: str, present: int, sd: float) -> None:
    """What is no covariance of anything gives coordinates along which a row is longer than any other."""
    regression, moments, _ = made(right, sd, present)
    squares = mean_squares(regression, moments)
    scales = np.sqrt(np.diag(squares))
    assert np.linalg.eigvalsh(squares / np.outer(scales, scales)).min() > 1e-4


def test_what_is_left_beside_a_bin_counts_if_it_stands_out() -> None:
    counts = np.full(64, 40.0)
    counts[31] = 9_600.0
    assert shares_with_rest(counts, 33.0)[31] == pytest.approx(9_600 / counts.sum(), abs=0.02)
    assert shares_of(counts, 33.0)[31] == 1.0  # the control
    assert shares_with_rest(counts, 330.0)[31] == 1.0  # forty in each of 63 bins are noise


def test_half_of_what_may_be_hidden_lies_beside_one_bin() -> None:
    one = np.eye(64)[31]
    assert beside_one(one, 0.005)[31] == pytest.approx(1 - 4 * np.sqrt(63) * 0.005 / 2)
    assert beside_one(one, 0.005).sum() == pytest.approx(1.0)
    assert beside_one(one, 1.0)[31] == 0.5
    assert (beside_one(np.full(64, 1 / 64), 0.005) == 1 / 64).all()
