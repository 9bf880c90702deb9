"""A number times a category, in a normal response: an everyday table, which four of five fits at epsilon 4 had lost."""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp

EPSILON = 4.0
WARDS = ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("present", [5, 3])
@pytest.mark.parametrize("seed", range(3))
def test_slopes_by_level_are_right(seed: int, present: int) -> None:
    """With levels of the schema that no row has, too: the others are unaffected."""
    rng, number = np.random.default_rng(seed), 12_000
    x, ward = rng.uniform(-1, 1, number), rng.integers(0, present, number)
    slopes, levels = np.array([0.5, 0.5, 0.2, 0.9, 0.5]), np.array([0.0, 0.3, -0.4, 0.6, 0.0])
    y = 1 + slopes[ward] * x + levels[ward] + rng.normal(0, 0.5, number)
    schema = {
        "columns": {
            "x": {"kind": "number", "lower": -1, "upper": 1},
            "ward": {"kind": "category", "categories": list(WARDS)},
            "y": {"kind": "number", "lower": -4, "upper": 6},
        }
    }
    table = pd.DataFrame({"x": x, "ward": np.array(WARDS)[ward], "y": y})
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(EPSILON, 1e-6))
    posterior = dp.fit("y ~ x * ward", data, family="gaussian", epsilon=EPSILON, progress=False)
    assert posterior.quality.verdict == ("good" if present == 5 else "fair"), posterior.quality.reasons
    draws = posterior.to_pandas()
    truth = {"x": 0.5, "sigma": 0.5}
    for place in range(1, present):
        truth[f"ward[{WARDS[place]}]"] = levels[place]
        truth[f"x:ward[{WARDS[place]}]"] = slopes[place] - 0.5
    for name, value in truth.items():
        assert abs(draws[name].mean() - value) < 4.5 * draws[name].std(), name
        assert draws[name].std() < 0.07, name
