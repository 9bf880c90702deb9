"""Where a weighted fit starts: the parameters that fit the histogram of the response, all slopes zero."""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.spread import Spread


def start(regression: Regression, response: Spread, offset: float, moments: Moments) -> Floats:
    """Return the parameters: the constant and the shapes as the response has them, and nothing else."""
    vector = np.zeros(regression.dimension)
    floor = 0.5 / moments.size
    constants, shapes = regression.scores.start(response, floor)
    names = regression.model.coordinates.names
    if "intercept" in names:
        place = names.index("intercept") * regression.num_outputs
        vector[place : place + regression.num_outputs] = constants - offset
    vector[regression.num_linear :] = shapes[list(regression.free)]
    return vector


def information(regression: Regression, vector: Floats, moments: Moments) -> Floats:
    """Return the information that the records have, were their columns without correlation."""
    size = regression.num_outputs
    linear = vector[: regression.num_linear].reshape(regression.num_columns, size)
    each = regression.scores.information(moments.means @ linear, regression.shapes(np, vector))
    squares = np.outer(moments.means, moments.means) + np.diag(moments.sds**2)
    result = np.zeros((regression.dimension, regression.dimension))
    result[: regression.num_linear, : regression.num_linear] = np.kron(squares, each[:size, :size])
    for place, shape in enumerate(regression.free):
        result[regression.num_linear + place, regression.num_linear + place] = each[size + shape, size + shape]
    return moments.size * result
