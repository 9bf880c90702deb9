"""Fits of censored times on the enclave, with its own noise: right where the budget is enough.

A coefficient of a right fit is further than five of its standard deviations from the truth in one of 1.7 million,
about: with two coefficients in five fits, these tests fail by chance once in 170,000.
"""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.errors import BudgetUnreachable

SCHEMA = dp.Schema(
    {
        "years": dp.Column(kind="number", lower=0, upper=10),
        "died": dp.Column(kind="boolean"),
        "entered": dp.Column(kind="number", lower=0, upper=10),
        "age": dp.Column(kind="number", lower=20, upper=90),
        "treated": dp.Column(kind="boolean"),
    }
)
OF_AGE, OF_TREATED = 0.014, -0.4


def rows(family: str, size: int = 12_000, seed: int = 3) -> pd.DataFrame:
    """Rows whose hazards, or times, depend on age and treatment; they leave early, and some come late."""
    rng = np.random.default_rng(seed)
    age, treated = rng.normal(60, 12, size).clip(20, 90), rng.random(size) < 0.4
    moved = OF_AGE * (age - 60) + OF_TREATED * treated
    passed = rng.exponential(size=size)
    if family == "weibull":
        times = np.exp(1.8 + moved) * passed ** (1 / 1.5)
    elif family == "lognormal":
        times = np.exp(1.6 + moved + 0.8 * rng.standard_normal(size))
    elif family == "exponential":
        times = np.exp(1.8 + moved) * passed
    else:  # hazards of 0.2 up to 1, 0.3 up to 4, then 0.12
        times = np.interp(passed * np.exp(-moved), [0, 0.2, 1.1, 1.1 + 12], [0, 1, 4, 104])
    leaves = np.minimum(rng.uniform(0, 16, size), 10)
    table = pd.DataFrame({"years": np.minimum(times, leaves), "died": times <= leaves, "age": age, "treated": treated})
    table["entered"] = np.where(rng.random(size) < 0.5, 0.0, rng.uniform(0, 2, size))
    return table


@pytest.mark.parametrize("family", ["weibull", "lognormal", "exponential", "piecewise_exponential(1, 4)"])
def test_a_fit_of_censored_times_is_right(family) -> None:
    data = dp.PrivateData.from_table(rows(family), schema=SCHEMA, budget=dp.Budget(6.0, 1e-6))
    posterior = dp.fit("Surv(years, died) ~ age + treated", data, family=family, epsilon=6.0, progress=False)
    assert posterior.quality.verdict in {"good", "fair"}
    for name, truth in (("age", OF_AGE), ("treated", OF_TREATED)):
        draws = posterior[name]
        assert abs(draws.mean() - truth) < 5 * draws.std()
        assert draws.std() < 0.5 * abs(truth)


def test_left_truncation_is_accounted_for() -> None:
    """Rows that came late are there only if they had no event before: without the entry times look too long."""
    table = rows("weibull")
    table = table[table["years"] > table["entered"]]
    found = {}
    for response in ("Surv(entered, years, died)", "Surv(years, died)"):
        data = dp.PrivateData.from_table(table, schema=SCHEMA, budget=dp.Budget(6.0, 1e-6))
        posterior = dp.fit(f"{response} ~ age + treated", data, family="weibull", epsilon=6.0, progress=False)
        draws = posterior["shape"]
        found[response] = (draws.mean() - 1.5) / draws.std()
    assert abs(found["Surv(entered, years, died)"]) < 5
    assert found["Surv(years, died)"] > 5  # the control


def test_too_little_is_refused_before_it_is_charged() -> None:
    data = dp.PrivateData.from_table(rows("weibull", 300), schema=SCHEMA, budget=dp.Budget(0.1, 1e-6))
    with pytest.raises(BudgetUnreachable, match="nothing was spent"):
        dp.fit("Surv(years, died) ~ age + treated", data, family="weibull", epsilon=0.1)
