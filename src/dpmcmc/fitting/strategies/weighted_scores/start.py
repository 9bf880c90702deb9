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
    place = regression.num_linear + max(regression.num_of_scale - 1, 0)
    vector[place:] = shapes[list(regression.free)]
    if regression.num_of_scale:  # the logarithm of a scale has the constant first
        vector[regression.num_linear], vector[place] = shapes[0], 0.0 if regression.num_of_scale > 1 else shapes[0]
    return vector


def information(regression: Regression, vector: Floats, moments: Moments) -> Floats:
    """Return the information that the records have, were their columns without correlation."""
    size = regression.num_outputs
    linear = vector[: regression.num_linear].reshape(regression.num_columns, size)
    each = regression.scores.information(moments.means @ linear, regression.shapes(np, vector))
    squares = np.outer(moments.means, moments.means) + np.diag(moments.sds**2)
    result = np.zeros((regression.dimension, regression.dimension))
    result[: regression.num_linear, : regression.num_linear] = np.kron(squares, each[:size, :size])
    place = regression.num_linear
    if regression.num_of_scale:
        columns = np.array(regression.model.coordinates.scale_places)
        own = slice(place, place + regression.num_of_scale)
        result[own, own] = each[size, size] * squares[np.ix_(columns, columns)]
        place += regression.num_of_scale - 1
    for shape in regression.free[1:] if regression.num_of_scale else regression.free:
        place += 1 if regression.num_of_scale else 0
        result[place, place] = each[size + shape, size + shape]
        place += 0 if regression.num_of_scale else 1
    return moments.size * result
