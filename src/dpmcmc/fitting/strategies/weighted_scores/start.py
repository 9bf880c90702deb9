"""The starting point of a weighted fit: parameters that fit the histogram of the response, with zero slopes."""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.told import information_of_records
from dpmcmc.model.bounded_scores.counts import Counts
from dpmcmc.model.bounded_scores.spread import Spread


def start(regression: Regression, response: Spread, moments: Moments) -> Floats:
    """Return the parameters: the constant and the shapes as the response has them, and nothing else."""
    vector = np.zeros(regression.dimension)
    floor = 0.5 / moments.size
    constants, shapes = regression.scores.start(response, floor)
    names = regression.model.coordinates.names
    if "intercept" in names:
        place = names.index("intercept") * regression.num_outputs
        vector[place : place + regression.num_outputs] = constants - _offset(regression, moments)
    if regression.num_of_scale:  # the logarithm of a scale, which has the constant first
        vector[regression.num_linear] = shapes[0]
    rest = shapes[list(regression.free[1 if regression.num_of_scale else 0 :])]
    vector[regression.num_linear + regression.num_of_scale :] = rest
    return vector


def _offset(regression: Regression, moments: Moments) -> float:
    """Return the offset that the mean of the responses has: of counts the logarithm of the mean exponential."""
    if moments.offsets is None or not isinstance(regression.scores, Counts):
        return moments.offset_mean
    return float(np.log(moments.offsets.shares @ np.exp(moments.offsets.middles)))


def information(regression: Regression, vector: Floats, moments: Moments) -> Floats:
    """Return the information that the records have, were their columns without correlation but within a term."""
    size = regression.num_outputs
    each = information_of_records(regression, vector, moments)
    squares = mean_squares(regression, moments)
    result = np.zeros((regression.dimension, regression.dimension))
    result[: regression.num_linear, : regression.num_linear] = np.kron(squares, each[:size, :size])
    shapes = list(range(regression.num_linear + regression.num_of_scale, regression.dimension))
    if regression.num_of_scale:
        columns = regression.model.coordinates.scale_places
        own = slice(regression.num_linear, regression.num_linear + len(columns))
        result[own, own] = each[size, size] * squares[np.ix_(columns, columns)]
    for place, shape in zip(shapes, regression.free[1 if regression.num_of_scale else 0 :], strict=True):
        result[place, place] = each[size + shape, size + shape]
    return moments.worth * result


def mean_squares(regression: Regression, moments: Moments) -> Floats:
    """Return the mean products of the columns; those of one term never meet, others are taken to be independent."""
    never_meet = regression.blocks[:, None] == regression.blocks
    means = np.outer(moments.means, moments.means)
    covariance = np.where(never_meet, -means, 0.0)
    np.fill_diagonal(covariance, moments.sds**2)
    return means + (covariance if moments.shared is None else np.where(moments.shared == 0, covariance, moments.shared))
