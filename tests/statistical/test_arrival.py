"""Steps that go on for ever are told so, though noise is large; those that arrived are not."""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores.arrival import FAR, Moved

SIZE = 5_000
SCHEMA = dp.Schema(
    {
        **{name: dp.Column(kind="number", lower=-3, upper=3) for name in ("a", "b", "c")},
        "y": dp.Column(kind="boolean"),
    }
)


def fitted(is_separated: bool, seed: int) -> dp.Posterior:
    rng = np.random.default_rng(seed)
    table = {name: rng.normal(size=SIZE).clip(-3, 3) for name in ("a", "b", "c")}
    predictor = table["a"] + 0.7 * table["b"] - 0.5 * table["c"]
    table["y"] = predictor > 0 if is_separated else rng.random(SIZE) < 1 / (1 + np.exp(-predictor))
    data = dp.PrivateData.from_table(pd.DataFrame(table), schema=SCHEMA, budget=dp.Budget(2, 1e-6))
    return dp.fit("y ~ a + b + c", data, family="bernoulli", epsilon=2.0, delta=1e-6, progress=False)


def test_what_has_arrived():
    assert Moved(1.0, 2.9, 2.3).has_arrived(were_whole=True, is_of_prior=False)
    assert not Moved(1.0, 2.9).has_arrived(were_whole=True, is_of_prior=True)
    assert Moved(1.0, -2.9).has_arrived(were_whole=True, is_of_prior=True)
    assert not Moved(1.0, -3.1).has_arrived(were_whole=True, is_of_prior=False)
    assert not Moved(1.0, 0.0, 2.5).has_arrived(were_whole=True, is_of_prior=False)
    assert not Moved(FAR + 0.1).has_arrived(were_whole=True, is_of_prior=False)
    assert not Moved(FAR * 0.6).has_arrived(were_whole=False, is_of_prior=False)
    assert not Moved(float("nan")).has_arrived(were_whole=True, is_of_prior=False)


@pytest.mark.parametrize("is_separated", [True, False])
def test_outcomes_that_predictors_separate_are_told(is_separated):
    """Of 24 emulated runs of separated tables one was not told, so that two of three are told but once in 200 times."""
    bad = [fitted(is_separated, seed).quality.verdict == "bad" for seed in range(3)]
    assert sum(bad) >= 2 if is_separated else not any(bad)


def test_cutpoints_follow_a_skewed_predictor_far_out_in_its_prior():
    """Steps are as long as what they change: the distance of predictors from cutpoints, not the cutpoints themselves.

    Of 32 runs at epsilon 1 to 8 none was bad; where lengths of cutpoints counted 9 were, all those at 1. Two are not
    both bad but once in some 1,000 times.
    """
    rng, size = np.random.default_rng(0), 15_000
    x, w = rng.lognormal(0, 0.8, size).clip(0, 30), rng.normal(size=size).clip(-4, 4)
    classes = np.array(["a", "b", "c", "d"])[np.digitize(0.5 * x + 0.4 * w + rng.logistic(size=size), [0, 1, 2.5])]
    columns = {
        "x": dp.Column(kind="number", lower=0, upper=30),
        "w": dp.Column(kind="number", lower=-4, upper=4),
        "y": dp.Column(kind="category", categories=("a", "b", "c", "d")),
    }
    table = pd.DataFrame({"x": x, "w": w, "y": classes})
    data = dp.PrivateData.from_table(table, schema=dp.Schema(columns), budget=dp.Budget(2, 1e-6))
    fits = [dp.fit("y ~ x + w", data, family="ordinal", epsilon=1.0, delta=4e-7, progress=False) for _ in range(2)]
    assert any(fit.quality.verdict != "bad" for fit in fits)
    assert all(abs(fit.to_pandas()["x"].mean() - 0.46) < 0.1 for fit in fits)
