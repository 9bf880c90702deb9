"""What is expected of a fit before anything is charged: times to an event say as much in days as in years.

Nothing is random: forecasts follow from the formula, the schema and the number of rows.
"""

import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.fitting.prepare import PreparedFit
from dpmcmc.fitting.strategies.weighted_scores.questions import usual_split
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression

FAMILIES = {
    "exponential": (),
    "weibull": (),
    "lognormal": (),
    "piecewise_exponential": (0.2,),
    "piecewise_exponential ": (0.2, 0.6),
    "piecewise_exponential  ": (0.1, 0.3, 0.5, 0.8),
    "piecewise_exponential   ": (0.02, 0.95),
}


def schema(last: float, response: dict[str, dp.Column] | None = None) -> dp.Schema:
    columns = {
        "time": dp.Column(kind="number", lower=0, upper=last),
        "seen": dp.Column(kind="boolean"),
        "age": dp.Column(kind="number", lower=20, upper=90),
        "treated": dp.Column(kind="boolean"),
        "stage": dp.Column(kind="category", categories=("I", "II", "III", "IV")),
        **{f"x{place}": dp.Column(kind="number", lower=-1, upper=1) for place in range(10)},
    }
    return dp.Schema(columns | (response or {}))


def regression(family: str, last: float, more: str = "") -> Regression:
    cuts = ", ".join(f"{share * last:.12g}" for share in FAMILIES[family])
    called = f"{family.strip()}({cuts})" if cuts else family
    return Regression.of(
        dp.from_formula(f"Surv(time, seen) ~ age + treated + stage{more}", schema(last), family=called)
    )


def expected(of: Regression) -> float:
    return usual_split(of, 2).error(dp.Budget(2.0, 1e-6), 20_000)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_unit_of_time_is_of_no_matter(family) -> None:
    errors = [expected(regression(family, last)) for last in (1e-3, 60.0, 1e5)]
    np.testing.assert_allclose(errors, errors[0], rtol=1e-3)
    assert 0.15 < errors[0] < 0.7


def test_it_was_where_a_usual_hazard_was_one_in_a_unit() -> None:
    """The control: then nobody is left at the second cut, and the fit was refused."""
    of = regression("piecewise_exponential ", 60.0)
    of.scores.usual_predictor = 0.0
    with np.errstate(divide="ignore"):
        assert expected(of) > 20


@pytest.mark.parametrize("family", ["weibull", "piecewise_exponential "])
def test_more_predictors_cost_more(family) -> None:
    several = "".join(f" + x{place}" for place in range(10))
    few, many = expected(regression(family, 60.0)), expected(regression(family, 60.0, several))
    assert few < many < 2 * few


@pytest.mark.parametrize(
    ("family", "least"),
    [("poisson", 1), ("negative_binomial", 2), ("zero_inflated_poisson", 2), ("zero_inflated_negative_binomial", 3)],
)
def test_a_refusal_offers_no_fewer_parameters_than_the_family_has(family, least) -> None:
    """Noise is made to be small enough for so many parameters, and for no more."""
    counts = schema(1.0, {"visits": dp.Column(kind="integer", lower=0, upper=100)})
    own = usual_split(Regression.of(dp.from_formula("visits ~ x1 + x2 + x3 + x4", counts, family=family)), 2)
    budget, size = dp.Budget(8.0, 1e-6), 20_000
    for enough in range(1, own.dimension):
        split = replace(own, variance=lambda _, unit, most=enough: 1 + 0.8 * unit**2 * size / most)
        assert split.error(budget, size) > 1
        offered = re.search(r", or (\d+) parameters?$", split.remedy(budget, size))
        assert (None if offered is None else int(offered[1])) == (enough if enough >= least else None)


def test_a_prepared_fit_takes_progress() -> None:
    """As `fit` does: its run then shows what was asked for, unless it is told."""
    data = dp.PrivateData.from_table(
        pd.DataFrame({"seen": [True, False] * 50}),
        schema=dp.Schema({"seen": dp.Column(kind="boolean")}),
        budget=dp.Budget(2.0, 1e-6),
    )
    shown: list[bool] = []
    for stated, told in ((False, None), (True, None), (True, False)):
        prepared = dp.prepare_fit("seen ~ 1", data, epsilon=2.0, allow_low_accuracy=True, progress=stated)
        with (
            patch.object(PreparedFit, "watched", lambda _, progress: shown.append(progress)),
            pytest.raises(TypeError, match="context manager"),
        ):
            prepared.run(progress=told)
    assert shown == [False, True, False]
