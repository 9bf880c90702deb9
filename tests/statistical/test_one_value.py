"""A number of which the histogram shows one value alone: the fit uses its releases all the same."""

import numpy as np
import pandas as pd

import dpmcmc as dp


def test_a_column_that_is_nearly_constant_does_not_cost_the_fit():
    """Its tail is in the slope and not in the histogram; it had been put at a distance of zero, which raised."""
    rng, num_rows = np.random.default_rng(0), 15_000
    age, smoker = rng.uniform(18, 90, num_rows), rng.random(num_rows) < 0.3
    bmi = np.where(rng.random(num_rows) < 0.15, np.nan, rng.normal(27, 5, num_rows))
    odds = -4.6 + 0.03 * (age - 50) + 0.7 * smoker + 0.5 * np.isnan(bmi)
    table = pd.DataFrame(
        {"age": age, "smoker": smoker, "bmi": bmi, "y": rng.random(num_rows) < 1 / (1 + np.exp(-odds))}
    )
    columns = {
        "age": {"kind": "number", "lower": 0, "upper": 120},
        "bmi": {"kind": "number", "lower": 10, "upper": 100, "missing": "indicator", "fill": 27.0},
        "smoker": {"kind": "boolean"},
        "y": {"kind": "boolean"},
    }
    schema = dp.Schema.from_dict({"columns": columns})
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(100.0, 1e-4))
    for _ in range(3):
        options = {"family": "bernoulli", "epsilon": 1.0, "delta": 1e-6, "progress": False, "allow_low_accuracy": True}
        quality = dp.fit("y ~ age * smoker + bmi + bmi_missing", data, **options).quality
        assert not any("cannot be used" in reason for reason in quality.reasons), quality.reasons
