"""Weights that rows state: widths are those of the sandwich, wherever in their bounds the weights lie."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

import dpmcmc as dp
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.weighted_scores.stated_weights import EDGES, stated
from experiments.stress.emulated import Emulated
from experiments.stress.problems import Problem

FORMULA = "y | weights(w) ~ x"
RUNS = 6


class Survey(Problem):
    """Rows whose weights tell of their response."""

    def __init__(self, most: float) -> None:
        super().__init__("bernoulli", size=10_000)
        object.__setattr__(self, "most", most)

    @property
    def formula(self) -> str:
        return FORMULA

    @property
    def schema(self) -> dp.Schema:
        weight = dp.Column(kind="number", lower=0, upper=self.most)
        return dp.Schema(
            {"x": dp.Column(kind="number", lower=-5, upper=5), "w": weight, "y": dp.Column(kind="boolean")}
        )

    def table(self, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        x, w = rng.normal(size=self.size).clip(-5, 5), rng.lognormal(0, 1, self.size).clip(0.05, 50)
        return pd.DataFrame(
            {"x": x, "w": w, "y": rng.random(self.size) < special.expit(-0.5 + 0.7 * x + 0.25 * np.log(w))}
        )


def sandwich(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted estimate, and its standard deviations."""
    x, y, w = np.column_stack([np.ones(len(table)), table.x]), table.y.to_numpy(float), table.w.to_numpy()
    found = np.zeros(2)
    for _ in range(20):
        p = special.expit(x @ found)
        bread = np.linalg.inv((x * (w * p * (1 - p))[:, None]).T @ x)
        found = found + bread @ x.T @ (w * (y - p))
    meat = x * (w * (y - special.expit(x @ found)))[:, None]
    return found, np.sqrt(np.diag(bread @ meat.T @ meat @ bread))


@pytest.mark.parametrize(("most", "epsilon"), [(50.0, 2.0), (50.0, 8.0), (1000.0, 2.0)])
def test_widths_are_those_of_the_sandwich(most: float, epsilon: float) -> None:
    """With weights beside the largest that the bounds allow they swung between 0.5 and 1.8 of it."""
    survey = Survey(most)
    emulated = Emulated(survey, epsilon)
    records, (means, sds) = emulated.records(0), sandwich(survey.table(0))
    for seed in range(RUNS):
        drawn = emulated.fit(records, seed)
        values = coordinates(drawn.draws)
        for name, mean, sd in zip(("intercept", "x"), means, sds, strict=True):
            own, share = float(values[name].std()), drawn.quality.parameters[name].shares["privacy"]
            assert 0.7 < own / np.hypot(sd, np.sqrt(share) * own) < 1.5
            assert abs(float(values[name].mean()) - mean) < 4 * own
        assert drawn.quality.verdict != "bad"


@pytest.mark.parametrize("largest", [1.0, 1e-3])
@pytest.mark.parametrize(
    "law",
    [lambda rng: rng.lognormal(0, 1, 100_000), lambda rng: rng.random(100_000), lambda _: np.ones(100_000)],
    ids=["lognormal", "uniform", "equal"],
)
def test_what_weights_come_to(law, largest: float) -> None:
    weights = law(np.random.default_rng(1))
    weights = weights / weights.max() * largest
    counts = np.bincount(np.searchsorted(EDGES, weights), minlength=len(EDGES) + 1)
    found = stated(counts / counts.sum())
    assert found.unit == pytest.approx(np.mean(weights**2) / np.mean(weights), rel=0.45)
    assert found.worth == pytest.approx(np.mean(weights) ** 2 / np.mean(weights**2), rel=0.35)
