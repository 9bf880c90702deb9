"""Slopes as they are where releases lead: records know more there, or less, than where they were asked."""

from collections.abc import Sequence

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.draws import join_all
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.newton import usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

MOST_CHANGE = 4.0
"""By how much the information of a usual record may change between a release and where it leads, to be believed."""


def at_result(regression: Regression, releases: Sequence[Release], moments: Moments) -> list[Release]:
    """Return releases with their slopes as they are at the root of all of them."""
    last = join_all(releases).release
    gain = np.linalg.pinv(last.seen(last.slope))
    found = last.point + last.whitening.factor @ gain @ last.score

    def known(point: Floats) -> float:
        predictors = usual_predictors(regression, point, moments)
        return float(np.trace(regression.scores.information(predictors, regression.shapes(np, point))))

    ratios = [np.clip(known(found) / known(release.point), 1 / MOST_CHANGE, MOST_CHANGE) for release in releases]
    if not np.isfinite(ratios).all():
        return list(releases)
    return [release.at_information(float(ratio)) for release, ratio in zip(releases, ratios, strict=True)]
