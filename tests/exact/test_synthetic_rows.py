"""Synthetic rows: what is made of one column of the table belongs together, with the histograms that were released."""

from unittest.mock import patch

import jax
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores import few_rows, synthetic_rows
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.start import mean_squares
from dpmcmc.fitting.strategies.weighted_scores.synthetic_records import with_shared
from dpmcmc.model import from_formula
from dpmcmc.model.bounded_scores.spread import Spread

SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=0, upper=10),
        "z": dp.Column(kind="number", lower=-1, upper=1),
        "ward": dp.Column(kind="category", categories=("a", "b", "c")),
        "day": dp.Column(kind="date", lower="2024-01-01", upper="2024-12-31"),
        "y": dp.Column(kind="boolean"),
    }
)
EDGES = np.linspace(-1, 1, 65)
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
SIZE = 20_000
DATES, CURVE, PRODUCT = "day + month(day) + z", "hsgp(x, m=6) + z", "x * ward + z"


def made(right: str, law=lambda rng: rng.random(SIZE), unseen: float = 0.0) -> tuple[Regression, Moments, np.ndarray]:
    """A model, histograms of its columns without noise, and the columns themselves."""
    rng = np.random.default_rng(1)
    records = {
        "x": np.float32(10 * law(rng)),
        "z": np.float32(rng.uniform(-1, 1, SIZE)),
        "ward": rng.choice(3, SIZE, p=[0.5, 0.3, 0.2]).astype(np.int32),
        "day": np.floor(366 * rng.beta(2, 1, SIZE)).astype(np.float32),
    }
    regression = Regression.of(from_formula(f"y ~ {right}", SCHEMA, family="bernoulli"))
    rows = np.asarray(jax.jit(jax.vmap(regression.model.features))(records), float)
    numbers = tuple(
        Spread(MIDDLES, np.histogram(column, EDGES)[0] / SIZE) if len(np.unique(column)) > 2 else None
        for column in rows.T
    )
    doubts = np.zeros(rows.shape[1])
    moments = Moments(rows.mean(axis=0), rows.std(axis=0), SIZE, doubts, np.eye(len(doubts)), numbers, unseen=unseen)
    return regression, moments, rows


def told(rows: np.ndarray) -> np.ndarray:
    """What so many rows tell of the coefficients of a normal response with sigma one, beside the largest."""
    information = rows.T @ rows / len(rows)
    return np.linalg.inv(information + 1e-9 * np.eye(len(information))).diagonal()


@pytest.mark.parametrize("right", [DATES, CURVE, PRODUCT])
def test_rows_have_the_histograms_and_tell_what_the_records_do(right: str) -> None:
    """Independent columns do not: a coefficient then seems to be known far better than it is, or far worse."""
    regression, moments, rows = made(right)
    found = synthetic_rows.synthetic_rows(regression, moments)
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(found.std(axis=0), rows.std(axis=0), atol=0.05)
    ratios = told(found) / told(rows)
    assert (np.abs(np.log(ratios)) < np.log(1.5)).all(), ratios
    with patch.object(synthetic_rows, "is_shared", lambda _: False):
        ratios = told(synthetic_rows.synthetic_rows(regression, moments)) / told(rows)
    assert (np.abs(np.log(ratios)) > np.log(1.5)).any()


def test_what_a_date_tells_is_known_before_any_slope() -> None:
    """A trend and months are nearly dependent: taken as independent, the trend seems known many times too well."""
    regression, moments, rows = made(DATES)
    moments = moments._replace(means=rows.mean(axis=0), sds=rows.std(axis=0))
    known = with_shared(regression, moments)
    names = list(regression.model.coordinates.names)
    day, december = names.index("day"), names.index("month(day)[Dec]")

    def variance(squares: np.ndarray) -> float:
        return float(np.linalg.inv(squares + 1e-9 * np.eye(len(squares)))[day, day])

    exactly = variance(rows.T @ rows / len(rows))
    assert variance(mean_squares(regression, known)) == pytest.approx(exactly, rel=0.3)
    assert variance(mean_squares(regression, moments)) < exactly / 5
    assert known.rows[december, day] == pytest.approx(rows[rows[:, december] > 0, day].mean(), abs=0.02)
    assert np.linalg.eigvalsh(mean_squares(regression, known)).min() > 0


def test_a_month_that_the_bounds_leave_out_is_no_level() -> None:
    columns = {**SCHEMA.columns, "day": dp.Column(kind="date", lower="2024-02-01", upper="2024-04-30")}
    model = from_formula(f"y ~ {DATES}", dp.Schema(columns), family="bernoulli")
    assert model.coordinates.names == ("intercept", "day", "month(day)[Mar]", "month(day)[Apr]", "z")
    row = {"day": np.float32([0, 29, 60]), "z": np.zeros(3, np.float32)}
    found = np.asarray(jax.vmap(model.features)(row))
    np.testing.assert_array_equal(found[:, 2:4], [[0, 0], [1, 0], [0, 1]])


def test_levels_of_which_no_day_is_tried_are_as_they_were() -> None:
    """Of ten years every fourteenth day is tried, which is always the same day of the week."""
    columns = {**SCHEMA.columns, "day": dp.Column(kind="date", lower="2014-01-01", upper="2023-10-11")}
    with patch(f"{__name__}.SCHEMA", dp.Schema(columns)):
        regression, moments, _ = made("day + weekday(day) + z")
    known = with_shared(regression, moments)
    assert np.isfinite(known.rows).all()
    assert np.isfinite(known.shared).all()


def test_no_curve_is_taken_for_a_date() -> None:
    regression, moments, _ = made(CURVE)
    assert with_shared(regression, moments) is moments


def test_a_month_is_that_of_the_day() -> None:
    regression, moments, _ = made(DATES)
    found = synthetic_rows.synthetic_rows(regression, moments)
    names = regression.model.coordinates.names
    day, december = found[:, names.index("day")], found[:, names.index("month(day)[Dec]")]
    assert december.any()
    assert day[december > 0].min() > day[found[:, names.index("month(day)[Nov]")] > 0].max()


def test_columns_of_their_own_are_as_they_were() -> None:
    """No program is compiled for them, and their rows are the same to the last bit."""
    regression, moments, _ = made("x + z + ward")
    assert not synthetic_rows.is_shared(regression)
    with patch.object(synthetic_rows, "joint_rows", lambda *_: 1 / 0):
        synthetic_rows.synthetic_rows(regression, moments)


def test_what_few_rows_may_tell_is_marked_and_what_is_dependent_everywhere_is_not() -> None:
    """A hundred rows far out would tell much more of a curve of rows in a corner, and little of one of even rows."""
    names = [f"hsgp(x,m=6)[{place}]" for place in range(6)]
    for law, expected in ((lambda rng: rng.random(SIZE), False), (lambda rng: rng.beta(1, 30, SIZE), True)):
        regression, moments, rows = made(CURVE, law, unseen=100.0)
        root = np.linalg.cholesky(np.linalg.inv(rows.T @ rows + 1e-3 * np.eye(rows.shape[1])))
        vectors = np.random.default_rng(0).standard_normal((4000, rows.shape[1])) @ root.T
        marked = few_rows.hardly_told(regression, moments, vectors)
        assert bool(set(marked) & set(names)) is expected, marked
