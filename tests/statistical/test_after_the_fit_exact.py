"""Predictions of private fits at a large epsilon against scikit-learn's, and two halves combined against the whole."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpmcmc as dp
from dpmcmc.errors import AdjacencyMismatch, InvalidArgument

NUMBER = 20_000
SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=18, upper=90, unit="years"),
        "smoker": dp.Column(kind="boolean"),
        "ward": dp.Column(kind="category", categories=("surgery", "medicine", "other")),
        "readmitted": dp.Column(kind="boolean"),
        "cost": dp.Column(kind="number", lower=0, upper=20_000),
    }
)
WIDE = {"slopes": "normal(0, 20)", "intercept": "normal(0, 20)"}
NEW = pd.DataFrame(
    {"age": [25.0, 50, 80, 60], "smoker": [True, False, True, False], "ward": ["surgery", "medicine", "other", "other"]}
)


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, NUMBER),
            "smoker": rng.random(NUMBER) < 0.3,
            "ward": rng.choice(["surgery", "medicine", "other"], NUMBER, p=[0.5, 0.3, 0.2]),
        }
    )
    eta = -1 + 0.03 * (rows.age - 54) + 0.7 * rows.smoker + 0.5 * (rows.ward == "medicine")
    cost = 5000 + 60 * (rows.age - 54) + 1500 * rows.smoker + rng.normal(0, 1500, NUMBER)
    return rows.assign(readmitted=rng.random(NUMBER) < expit(eta), cost=cost.clip(0, 20_000))


def design(rows: pd.DataFrame) -> np.ndarray:
    """Columns as the formula has them, the age in tens of years for the sake of the optimiser."""
    return np.stack(
        [rows.age / 10, rows.smoker, rows.ward == "medicine", rows.ward == "other"],
        axis=1,
        dtype=float,
        casting="unsafe",
    )


def vault(rows: pd.DataFrame, **options) -> dp.PrivateData:
    return dp.PrivateData.from_table(rows, schema=SCHEMA, budget=dp.Budget(30.0, 1e-6), **options)


def near(found: pd.DataFrame, mean: np.ndarray, sd: np.ndarray) -> None:
    """Means within half a standard deviation, and widths within a quarter, of the posterior without privacy."""
    assert (np.abs(found["mean"] - mean) < 0.5 * sd).all(), (found["mean"] - mean) / sd
    assert (np.abs(found["sd"] / sd - 1) < 0.25).all(), found["sd"] / sd


@pytest.mark.slow
def test_probabilities_are_those_of_scikit_learn() -> None:
    rows = table(1)
    made = dp.fit(
        "readmitted ~ age + smoker + ward", vault(rows), family="bernoulli", epsilon=30.0, priors=WIDE, progress=False
    )
    exact = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(design(rows), rows.readmitted)
    mean = exact.predict_proba(design(NEW))[:, 1]
    full, new = (np.column_stack([np.ones(len(each)), design(each)]) for each in (rows, NEW))
    weights = exact.predict_proba(design(rows)).prod(axis=1)
    covariance = np.linalg.inv(full.T @ (weights[:, None] * full))
    sd = mean * (1 - mean) * np.sqrt(np.sum(new @ covariance * new, axis=1))
    near(made.predict(NEW), mean, sd)
    odds = made.odds_ratios()
    np.testing.assert_allclose(np.log(odds.loc["ward[medicine]", "mean"]), exact.coef_[0, 2], atol=0.02)
    contrast = made.contrast("smoker", True, False, rows=rows)
    changed = [exact.predict_proba(design(rows.assign(smoker=each)))[:, 1].mean() for each in (True, False)]
    np.testing.assert_allclose(contrast.loc["probability of readmitted", "mean"], changed[0] - changed[1], atol=0.004)


@pytest.mark.slow
def test_costs_are_those_of_scikit_learn() -> None:
    rows = table(2)
    made = dp.fit(
        "cost ~ age + smoker + ward", vault(rows), family="gaussian", epsilon=30.0, priors=WIDE, progress=False
    )
    exact = LinearRegression().fit(design(rows), rows.cost)
    full, new = (np.column_stack([np.ones(len(each)), design(each)]) for each in (rows, NEW))
    sigma = np.std(rows.cost - exact.predict(design(rows)))
    sd = sigma * np.sqrt(np.sum(new @ np.linalg.inv(full.T @ full) * new, axis=1))
    near(made.predict(NEW), exact.predict(design(NEW)), sd)
    response = made.predict(NEW, "response", prob=0.9, seed=1)
    np.testing.assert_allclose(response["sd"], sigma, rtol=0.1)


@pytest.mark.slow
def test_a_fit_that_goes_on_from_an_earlier_one() -> None:
    rows = table(3)
    halves = rows.iloc[: NUMBER // 2], rows.iloc[NUMBER // 2 :]
    call = {"family": "bernoulli", "epsilon": 30.0, "progress": False}
    formula = "readmitted ~ age + smoker + ward"
    earlier = dp.fit(formula, vault(halves[0]), **call)
    both = dp.fit(formula, vault(halves[1]), **call, prior=earlier)
    whole = dp.fit(formula, vault(rows), **call)
    found, expected = both.summary(), whole.summary()
    assert (np.abs(found["mean"] - expected["mean"]) < 0.6 * expected["sd"]).all()
    assert (np.abs(found["sd"] / expected["sd"] - 1) < 0.25).all()
    assert (found["sd"] < 0.85 * earlier.summary()["sd"]).all(), "narrower than either half"


def test_an_earlier_posterior_is_checked_before_anything_is_spent() -> None:
    small = table(4).iloc[:2000]
    data = vault(small, ledger=dp.Ledger.in_memory(), dataset="patients")
    call = {"family": "bernoulli", "epsilon": 2.0, "progress": False, "allow_low_accuracy": True}
    earlier = dp.fit("readmitted ~ age", data, **call)
    spent = data.account.spent
    for formula, options, said in (
        ("readmitted ~ age + smoker", {}, "expected the same formula"),
        ("readmitted ~ age", {"output": "somewhere"}, "cannot be combined"),
        ("readmitted ~ age", {"num_steps": 3}, "too few"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            dp.fit(formula, data, **call, **options, prior=earlier)
    other = vault(small, adjacency="add_or_remove_one", capacity=3000)
    with pytest.raises(AdjacencyMismatch, match="no guarantee in common"):
        dp.fit("readmitted ~ age", other, **call, prior=earlier)
    assert data.account.spent == spent
