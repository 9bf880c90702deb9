"""Rows of weight zero are none: they add nothing to a look at residuals, wherever they lie."""

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point, Residuals

SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=-1, upper=1),
        "w": dp.Column(kind="number", lower=0, upper=2),
        "y": dp.Column(kind="number", lower=-4, upper=4),
    }
)


class Watched:
    """An oracle that returns what each record adds."""

    def __init__(self, records):
        self.records = records

    def sum(self, _, statistic, point):
        found = jax.vmap(lambda record: statistic(point, record))(self.records)
        return type("Found", (), {"value": found, "variance": jnp.float32(1)})


def looks(formula, **columns):
    model = dp.from_formula(formula, SCHEMA, family="gaussian")
    regression = Regression.of(model)
    table = regression.scores.residual_table(regression.shapes(np, np.zeros(regression.dimension)))
    point = Point(np.zeros(regression.dimension, np.float32), np.asarray(table, np.float32))
    records = {name: jnp.asarray(values, jnp.float32) for name, values in columns.items()}
    return np.asarray(Residuals(regression, 1.0)(Watched(records), point)[0])


def test_rows_of_weight_zero_are_left_out_of_looks_at_residuals():
    x, y, w = np.zeros(4), np.array([0.0, 3.9, 0.0, 3.9]), np.array([1.0, 1.0, 0.0, 0.0])
    found = looks("y | weights(w) ~ x", x=x, y=y, w=w)
    assert np.abs(found[:2]).max() > 0.1
    assert not found[2:].any()
    np.testing.assert_array_equal(found[:2], looks("y ~ x", x=x, y=y)[:2])
