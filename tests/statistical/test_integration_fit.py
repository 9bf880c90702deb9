"""Fits that integrate over missing predictors: right with 30 % missing, where a filled-in value is not.

A number of a right fit is further than four and a half of its standard deviations from the truth in one of 150,000.
"""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp

OF_X, OF_Z, OF_W = 0.04, 0.6, 0.5
RESPONSES = {"gaussian": dp.Column(kind="number", lower=-8, upper=8), "bernoulli": dp.Column(kind="boolean")}


def rows(family: str, size: int = 20_000, seed: int = 1) -> pd.DataFrame:
    """Rows in which a third of the numbers is missing; w is told by x in part, so that what fills x in moves it."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(50, 12, size).clip(10, 90), rng.random(size) < 0.4
    w = rng.random(size) < 0.5
    eta = -0.3 + OF_X * (x - 50) + OF_Z * z + OF_W * w
    y = eta + rng.normal(0, 0.5, size) if family == "gaussian" else rng.random(size) < 1 / (1 + np.exp(-4 * eta))
    return pd.DataFrame({"x": np.where(rng.random(size) < 0.3, np.nan, x), "z": z, "w": w, "y": y})


def fitted(family: str, epsilon: float, **policy) -> dp.Posterior:
    schema = dp.Schema(
        {
            "x": dp.Column(kind="number", lower=10, upper=90, **policy),
            "z": dp.Column(kind="boolean"),
            "w": dp.Column(kind="boolean"),
            "y": RESPONSES[family],
        }
    )
    data = dp.PrivateData.from_table(rows(family), schema=schema, budget=dp.Budget(epsilon, 1e-6))
    return dp.fit("y ~ x + z + w", data, family=family, epsilon=epsilon, progress=False)


def off(posterior: dp.Posterior, scale: float) -> dict[str, float]:
    truth = {"x": OF_X, "z": OF_Z, "w": OF_W}
    return {
        name: float((posterior[name].mean() - scale * value) / posterior[name].std()) for name, value in truth.items()
    }


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_a_logistic_fit_is_right_where_a_filled_in_value_is_not(epsilon) -> None:
    """Log-odds shrink where a part of the predictor is left out: a filled-in value makes those of z and w too small."""
    found = off(fitted("bernoulli", epsilon, missing="integrate", mean=50, sd=12), 4.0)
    assert max(map(abs, found.values())) < 4.5
    filled = off(fitted("bernoulli", epsilon, missing="fill", fill=50), 4.0)
    assert min(filled.values()) < -4.5  # attenuated: by about a tenth


def test_a_normal_fit_is_right_where_a_filled_in_value_is_not() -> None:
    posterior = fitted("gaussian", 4.0, missing="integrate", mean=50, sd=12)
    assert posterior.quality.verdict in {"good", "fair"}
    assert max(map(abs, off(posterior, 1.0).values())) < 4.5
    assert abs(posterior["sigma"].mean() - 0.5) < 4.5 * posterior["sigma"].std()
    assert off(fitted("gaussian", 4.0, missing="fill", fill=35), 1.0)["x"] < -8  # not the mean: the slope is attenuated
    filled = fitted("gaussian", 4.0, missing="fill", fill=50)
    assert filled["sigma"].mean() > 0.5 + 8 * filled["sigma"].std()
    assert posterior["z"].std() < 1.2 * filled["z"].std()
