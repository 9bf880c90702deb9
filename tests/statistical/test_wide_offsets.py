"""Counts of populations that differ by a factor of two thousand: an offset is part of what a usual record is.

On an emulated oracle, rows and noise by fixed seeds. A coefficient of a right fit is further than five of its standard
deviations from the truth in one of 1.7 million, about: with two coefficients and the concentration in six fits, these
tests fail by chance once in 90,000. That results are not called bad is a matter of the seeds, which are fixed.
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

    def around(middle, variance, _):
        return [(middle + step * np.sqrt(variance), weight) for step, weight in levels.SPREAD]

    def usual_predictors(regression, point, moments):
        return moments.means @ point[: regression.num_linear].reshape(regression.num_columns, -1)

    emulated = Emulated(Deaths("negative_binomial"), 8.0)
    with patch.object(levels, "around", around), patch.object(newton, "usual_predictors", usual_predictors):
        verdicts = {emulated.fit(emulated.records(seed), seed).quality.verdict for seed in range(2)}
    assert verdicts == {"bad"}
