"""Detects too few events: if nearly all times are censored, the data show little more than that events are rare.

With few events relative to the noise their number is hardly known. The information of the records then changes by
large factors within one interval: a normal approximation fails, and estimates of the hazard's shape are mostly noise.
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
    """Return the standard deviation of the log-number of events; zero if the model has no events.

    The number of events is about the information of the records on their predictors.
    """
    if not isinstance(regression.scores, SurvivalScores):
        return 0.0
    mean = vectors.mean(axis=0)
    predictors = vectors[:, : regression.num_linear] @ moments.means
    ends = predictors.mean() - predictors.std(), predictors.mean() + predictors.std()
    low, high = (known_of(regression, mean, around(np.array([end]), np.zeros(1), moments)) for end in ends)
    return float(abs(np.log(high / low)) / 2)
