"""Are there events at all? Times that are nearly all censored tell little but that events are rare.

With few of them beside the noise their number is hardly known. How much records know then changes by factors within one
interval: a normal law does not hold, and what is told of the shape of a hazard rests on noise.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import around, known_of
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.survival import SurvivalScores

UNSURE, HARDLY_ANY = 0.35, 0.6
"""Standard deviations of the logarithm of how many events there are from which on intervals may be too narrow, and from
which on a result is not to be relied on."""


def events_unsure(regression: Regression, moments: Moments, vectors: Floats) -> float:
    """Return how uncertain the logarithm of the number of events is; zero where there are none by the model.

    That number is about what records know of their predictors.
    """
    if not isinstance(regression.scores, SurvivalScores):
        return 0.0
    mean = vectors.mean(axis=0)
    predictors = vectors[:, : regression.num_linear] @ moments.means
    ends = predictors.mean() - predictors.std(), predictors.mean() + predictors.std()
    low, high = (known_of(regression, mean, around(np.array([end]), np.zeros(1), moments)) for end in ends)
    return float(abs(np.log(high / low)) / 2)
