"""Counts of populations that differ by a factor of two thousand: an offset is part of what a usual record is.

On an emulated oracle, rows and noise by fixed seeds, but for the groups. A coefficient of a right fit is further than
five of its standard deviations from the truth in one of 1.7 million, about: with two coefficients and the concentration
in seven fits, these tests fail by chance once in 80,000. That results are not called bad is a matter of the seeds,
which are fixed.
"""

from unittest.mock import patch

import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores import levels, newton
from experiments.stress.emulated import Emulated
from experiments.stress.problems import Problem

TRUTH = {"intercept": -6.0, "deprived": 0.3, "concentration": 3.0}


class Deaths(Problem):
    """Deaths in places of 100 to 200,000 people."""

    @property
    def formula(self) -> str:
        return "deaths ~ deprived + offset(log(people))"

    @property
    def schema(self) -> dp.Schema:
        return dp.Schema(
            {
                "people": dp.Column(kind="number", lower=1, upper=1_000_000),
                "deprived": dp.Column(kind="number", lower=-3, upper=3),
                "deaths": dp.Column(kind="integer", lower=0, upper=20_000),
            }
        )

    def table(self, seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        people = np.exp(rng.uniform(np.log(100), np.log(200_000), self.size))
        deprived = rng.normal(size=self.size).clip(-3, 3)
        mean = people * np.exp(TRUTH["intercept"] + TRUTH["deprived"] * deprived)
        number = TRUTH["concentration"]
        deaths = rng.negative_binomial(number, number / (number + mean)).clip(0, 20_000)
        return pd.DataFrame({"people": people, "deprived": deprived, "deaths": deaths})


def furthest(drawn) -> float:
    """How many standard deviations the truth is away at most."""
    return max(abs(draws.mean() - TRUTH[name]) / draws.std() for name, draws in drawn.draws.items())


def test_overdispersed_counts_of_very_different_populations_are_fitted() -> None:
    for epsilon in (2.0, 8.0):
        emulated = Emulated(Deaths("negative_binomial"), epsilon)
        for seed in range(3):
            drawn = emulated.fit(emulated.records(seed), seed)
            assert set(drawn.draws) == set(TRUTH)
            assert drawn.quality.verdict in {"good", "fair"}, drawn.quality.reasons
            assert furthest(drawn) < 5
            assert drawn.draws["deprived"].std() < 0.05


def test_without_the_usual_offset_they_were_not() -> None:
    """The control: a usual record was one without offset, which knows next to nothing of the concentration."""

    def around(middle, variance, _, nodes=levels.SPREAD):
        return [(middle + step * np.sqrt(variance), weight) for step, weight in nodes]

    def usual_predictors(regression, point, moments):
        return moments.means @ point[: regression.num_linear].reshape(regression.num_columns, -1)

    emulated = Emulated(Deaths("negative_binomial"), 8.0)
    with patch.object(levels, "around", around), patch.object(newton, "usual_predictors", usual_predictors):
        verdicts = {emulated.fit(emulated.records(seed), seed).quality.verdict for seed in range(2)}
    assert verdicts == {"bad"}


class DeathsInRegions(Deaths):
    """The same in 200 regions, as many as Poisson's law says."""

    @property
    def formula(self) -> str:
        return f"{super().formula} + (1|region)"

    @property
    def schema(self) -> dp.Schema:
        regions = dp.Column(kind="category", categories=tuple(f"r{place}" for place in range(200)))
        return dp.Schema({**super().schema.columns, "region": regions})

    def table(self, seed: int) -> pd.DataFrame:
        found, rng = super().table(seed), np.random.default_rng(1000 + seed)
        effects, regions = rng.normal(0, 0.4, 200), rng.integers(0, 200, self.size)
        mean = found["people"] * np.exp(TRUTH["intercept"] + TRUTH["deprived"] * found["deprived"] + effects[regions])
        return found.assign(region=[f"r{place}" for place in regions], deaths=rng.poisson(mean).clip(0, 20_000))


def test_counts_of_very_different_populations_in_many_regions_are_fitted() -> None:
    """On the enclave, with its own noise."""
    problem = DeathsInRegions("poisson")
    data = dp.PrivateData.from_table(problem.table(0), schema=problem.schema, budget=dp.Budget(8.0, 1e-6))
    draws = dp.fit(problem.formula, data, family="poisson", epsilon=8.0, progress=False)["deprived"]
    assert abs(draws.mean() - TRUTH["deprived"]) < 5 * draws.std()
    assert draws.std() < 0.01
