"""Where a weighted fit starts: the parameters that fit the histogram of the response, all slopes zero."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments, Spread
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

QUARTILES = 1.349
"""How far apart the quartiles of a normal law are, in standard deviations."""

FREEDOM = 5.0
"""Degrees of freedom to start from."""


def start(regression: Regression, response: Spread, offset: float, moments: Moments) -> Floats:
    """Return the parameters: the constant and the shapes as the response has them, and nothing else."""
    vector = np.zeros(regression.dimension)
    floor = 0.5 / moments.size
    constants, shapes = _STARTS[regression.model.family](response, floor)
    names = regression.model.coordinates.names
    if "intercept" in names:
        place = names.index("intercept") * regression.num_outputs
        vector[place : place + regression.num_outputs] = constants - offset
    vector[regression.num_linear :] = shapes[list(regression.free)]
    return vector


def information(regression: Regression, vector: Floats, moments: Moments) -> Floats:
    """Return the information that the records have, were their columns without correlation but within a term."""
    size = regression.num_outputs
    linear = vector[: regression.num_linear].reshape(regression.num_columns, size)
    each = regression.scores.information(moments.means @ linear, regression.shapes(np, vector))
    squares = mean_squares(regression, moments)
    result = np.zeros((regression.dimension, regression.dimension))
    result[: regression.num_linear, : regression.num_linear] = np.kron(squares, each[:size, :size])
    for place, shape in enumerate(regression.free):
        result[regression.num_linear + place, regression.num_linear + place] = each[size + shape, size + shape]
    return moments.size * result


def mean_squares(regression: Regression, moments: Moments) -> Floats:
    """Return the mean products of the columns; those of one term never meet, others are taken to be independent."""
    never_meet = regression.blocks[:, None] == regression.blocks
    products = np.where(never_meet, 0.0, np.outer(moments.means, moments.means))
    return products + np.diag(moments.means**2 + moments.sds**2)


def _no(*_: object) -> Floats:
    return np.zeros(0)


def _binary(response: Spread, floor: float) -> tuple[Floats, Floats]:
    share = np.clip(response.mean, floor, 1 - floor)
    return np.array([special.logit(share)]), _no()


def _classes(response: Spread, floor: float) -> tuple[Floats, Floats]:
    logs = np.log(np.maximum(response.shares, floor))
    return logs[1:] - logs[0], _no()


def _ordered(response: Spread, floor: float) -> tuple[Floats, Floats]:
    shares = np.maximum(response.shares, floor)
    cutpoints = special.logit(np.cumsum(shares / shares.sum())[:-1])
    return np.zeros(1), np.append(cutpoints[:1], np.log(np.maximum(np.diff(cutpoints), floor)))


def _normal(response: Spread, floor: float) -> tuple[Floats, Floats]:
    del floor
    low, middle, high = (response.quantile(probability) for probability in (0.25, 0.5, 0.75))
    width = response.middles[1] - response.middles[0]
    return np.array([middle]), np.array([np.log(max(high - low, width / 2) / QUARTILES)])


def _heavy(response: Spread, floor: float) -> tuple[Floats, Floats]:
    constant, scale = _normal(response, floor)
    return constant, np.append(scale, np.log(FREEDOM))


def _count(response: Spread, floor: float) -> tuple[Floats, Floats]:
    return np.array([np.log(max(response.mean, floor))]), _no()


def _spread_count(response: Spread, floor: float) -> tuple[Floats, Floats]:
    mean = max(response.mean, floor)
    concentration = np.clip(mean**2 / max(response.variance - mean, 0.02 * mean), 0.05, 50.0)
    return np.array([np.log(mean)]), np.array([np.log(concentration)])


_STARTS: Mapping[str, Callable[[Spread, float], tuple[Floats, Floats]]] = {
    "bernoulli": _binary,
    "binomial": _binary,
    "categorical": _classes,
    "ordinal": _ordered,
    "gaussian": _normal,
    "student_t": _heavy,
    "poisson": _count,
    "negative_binomial": _spread_count,
}
