"""The information of records on the parameters, by the model and by earlier releases."""

from collections.abc import Sequence

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import some_predictors
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, TabledScores
from dpmcmc.model.bounded_scores.survival import SurvivalScores


def information_of_records(regression: Regression, point: Floats, moments: Moments) -> Floats:
    """Return the model's information of a record on its predictors and the shapes, averaged over predictors."""
    shapes, each = regression.shapes(np, point), some_predictors(regression, point, moments)
    return np.sum([weight * regression.scores.information(one, shapes) for one, weight in each], axis=0)


RELATED = 0.4
"""The correlation of the scores of location and shape from which on the one is not known without the other: of a share
of zeros and a rate, say."""


def with_known_shapes(regression: Regression, information: Floats, point: Floats, moments: Moments) -> Floats:
    """Return an information with that of the shape parameters as the model has it, where it has it."""
    found, place = information.copy(), regression.num_linear
    if isinstance(regression.scores, TabledScores) and regression.free and not regression.num_of_scale:
        each = information_of_records(regression, point, moments)
        kept, roots = 1 + np.array(regression.free), np.sqrt(np.maximum(np.diag(each), 1e-30))
        if np.abs(each[0, kept] / (roots[0] * roots[kept])).max() < RELATED:
            found[place:, :], found[:, place:] = 0.0, 0.0  # location and shape know little of each other
            found[place:, place:] = moments.worth * each[np.ix_(kept, kept)]
    return found


def carried(regression: Regression, releases: Sequence[Release]) -> Floats | float:
    """Return the precision of the parameters from some releases, for times to an event; otherwise zero.

    With few, informative events longer scores have far more noise than those of the pilot, and a step with them alone
    would move away from the pilot's estimate.
    """
    if not isinstance(regression.scores, SurvivalScores):
        return 0.0
    each = [(release.whitening.inverse, release.likelihood().precision) for release in releases]
    return np.sum([inverse.T @ precision @ inverse for inverse, precision in each], axis=0)
