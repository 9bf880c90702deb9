"""Means of a population from those of its cells."""

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.errors import InvalidArgument

SCHEMA = dp.Schema(
    {
        "age": dp.Column(kind="number", lower=20, upper=80),
        "region": dp.Column(kind="category", categories=("north", "south", "west")),
        "kind": dp.Column(kind="category", categories=("a", "b", "c")),
        "y": dp.Column(kind="boolean"),
    }
)
CELLS = pd.DataFrame(
    {
        "age": [30.0, 60.0, 30.0, 60.0, 40.0],
        "region": ["north", "north", "south", "south", "west"],
        "zone": ["x", "x", "x", "z", "z"],
        "people": [10, 30, 40, 20, 0],
    }
)


@pytest.fixture(scope="module")
def prior() -> dp.model.FormulaModel:
    return dp.prior_predictive("y ~ age + (1|region)", SCHEMA, family="bernoulli")


def by_hand(prior, places):
    drawn = prior.fitted.means(_read(prior))
    counts = CELLS["people"].to_numpy()[places]
    return drawn[:, places] @ (counts / counts.sum())


def _read(prior):
    from dpmcmc.posterior.new_rows import read_rows

    return read_rows(CELLS, prior.fitted.model, prior.fitted.schema)


def test_the_whole_is_the_weighted_mean_of_the_cells(prior):
    table = prior.poststratify(CELLS, "people")
    drawn = by_hand(prior, [0, 1, 2, 3, 4])
    assert table.loc["population", "mean"] == pytest.approx(drawn.mean())
    assert table.loc["population", "sd"] == pytest.approx(drawn.std(ddof=1))
    assert table.loc["population", "q5"] == pytest.approx(np.quantile(drawn, 0.05))


def test_parts_may_be_of_any_columns_and_a_part_without_people_has_no_mean(prior):
    table = prior.poststratify(CELLS, "people", by="region", prob=0.8)
    assert list(table.index) == ["north", "south"]
    assert table.loc["south", "mean"] == pytest.approx(by_hand(prior, [2, 3]).mean())
    assert "q10" in table.columns
    both = prior.poststratify(CELLS, "people", by=["zone", "region"])
    assert list(both.index) == [("x", "north"), ("x", "south"), ("z", "south")]
    assert both.loc[("x", "north"), "mean"] == pytest.approx(by_hand(prior, [0, 1]).mean())


@pytest.mark.parametrize(
    ("population", "arguments", "words"),
    [
        (CELLS, {}, "the rows have no column count"),
        (CELLS, {"count": "people", "by": "county"}, "the rows have no column county"),
        (CELLS, {"count": "people", "by": "people"}, "is the column of counts"),
        (CELLS.assign(people=-1), {"count": "people"}, "numbers from zero up"),
        (CELLS.assign(people=0), {"count": "people"}, "some of them above zero"),
        (CELLS.assign(people="many"), {"count": "people"}, "numbers from zero up"),
        (CELLS.assign(zone=[None, "x", "x", "x", "x"]), {"count": "people", "by": "zone"}, "blank cells"),
        (CELLS.assign(region="east"), {"count": "people"}, "east"),
    ],
)
def test_what_is_no_population_is_refused_in_words(prior, population, arguments, words):
    with pytest.raises(InvalidArgument, match=words):
        prior.poststratify(population, **arguments)


def test_several_classes_are_refused_in_words():
    prior = dp.prior_predictive("kind ~ age", SCHEMA, family="categorical")
    with pytest.raises(InvalidArgument, match="two classes"):
        prior.poststratify(CELLS, "people")
