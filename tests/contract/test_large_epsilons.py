"""A very large epsilon: comparing with an analysis without privacy is worth a run, and it must not be refused."""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.accounting import accountants

DELTA = 1e-6
CATEGORIES = [f"g{number}" for number in range(40)]
SCHEMA = {
    "columns": {
        "x": {"kind": "number", "lower": 0, "upper": 1},
        "y": {"kind": "number", "lower": -5, "upper": 5},
        "g": {"kind": "category", "categories": CATEGORIES},
    }
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    size, x = 900, rng.uniform(0, 1, 900)
    return pd.DataFrame({"x": x, "y": x + rng.normal(0, 1, size).clip(-4, 4), "g": rng.choice(CATEGORIES, size)})


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + (1|g)"])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(16.0, DELTA), (30.0, DELTA), (50.0, DELTA), (1000.0, DELTA), (20.0, 1e-12)]
)
def test_what_a_fit_costs_is_within_what_was_stated(frame, formula, epsilon, delta) -> None:
    data = dp.PrivateData.from_table(frame, schema=SCHEMA, budget=dp.Budget(epsilon, delta))
    prepared = dp.prepare_fit(formula, data, family="gaussian", epsilon=epsilon, delta=delta, allow_low_accuracy=True)
    cost = float(accountants.epsilon(prepared.event, delta))
    assert cost <= epsilon
    assert cost > 0.97 * prepared.planned.epsilon
    assert ("The noise is that of epsilon" in prepared.describe()) == (prepared.planned.epsilon < epsilon)


def test_it_runs(frame) -> None:
    data = dp.PrivateData.from_table(frame, schema=SCHEMA, budget=dp.Budget(100.0, DELTA))
    posterior = dp.fit("y ~ x", data, family="gaussian", epsilon=100.0, progress=False)
    slope, intercept = np.polyfit(frame["x"], frame["y"], 1)
    own = posterior.draws["x"].std()
    assert abs(posterior.draws["x"].mean() - slope) < own, "by a normal prior's pull and little noise"
    assert abs(posterior.draws["intercept"].mean() - intercept) < posterior.draws["intercept"].std()
    assert posterior.certificate.epsilon < 50
