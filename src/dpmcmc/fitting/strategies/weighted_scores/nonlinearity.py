"""Slopes as they are where releases lead: records know more there, or less, than where they were asked."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.draws import join_all
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import changes
from dpmcmc.fitting.strategies.weighted_scores.newton import usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

MOST_CHANGE = 4.0
"""By how much the information of a usual record may change between a release and where it leads, to be believed."""

ROUNDED = 1e-9
"""Slopes of less, beside the steepest, are zero but for rounding."""

HALFWAY = 8
"""Times that where a release leads is found by the slope halfway to where it led before."""


def at_result(regression: Regression, releases: Sequence[Release], moments: Moments) -> list[Release]:
    """Return releases with their slopes as they are at the root of all of them."""
    if len(releases) == 1:
        return [_at_own_result(regression, releases[0], moments)]
    last = join_all(releases).release
    found = _root(last, 1.0)
    usual = [change(regression, release.point, found, moments) for release in releases]
    if not np.isfinite(usual).all():
        return list(releases)
    ratios = [
        changes(regression, release.point, found, moments, ratio)
        for release, ratio in zip(releases, usual, strict=True)
    ]
    return [release.at_information(ratio) for release, ratio in zip(releases, ratios, strict=True)]


def change(regression: Regression, point: Floats, found: Floats, moments: Moments) -> float:
    """Return by how much a usual record knows more at one point than at another."""
    ratio = known(regression, found, moments) / known(regression, point, moments)
    return float(np.clip(ratio, 1 / MOST_CHANGE, MOST_CHANGE))


def known(regression: Regression, point: Floats, moments: Moments) -> float:
    """Return how much a usual record knows at a point."""
    predictors = usual_predictors(regression, point, moments)
    return float(np.trace(regression.scores.information(predictors, regression.shapes(np, point))))


def _root(release: Release, ratio: float) -> Floats:
    """Return where a release leads if its slope is so many times as large on the way: not in directions unseen."""
    inverse = np.linalg.pinv(release.seen(release.slope), rcond=ROUNDED, hermitian=True)
    return release.point + release.whitening.factor @ inverse @ release.score / ratio


def _at_own_result(regression: Regression, release: Release, moments: Moments) -> Release:
    """Return a release with its slope as it is where it leads by the slope halfway there, which is a mean on the way.

    With the slope where it was asked, or where it leads, a long step would miss its end by as much, on either side.
    """
    ratio = 1.0
    for _ in range(HALFWAY):
        ratio = change(regression, release.point, _root(release, np.sqrt(ratio)), moments)  # line 4
    if not np.isfinite(ratio):
        return release
    root, place = np.sqrt(ratio), _root(release, np.sqrt(ratio))
    halfway = release.point + (place - release.point) / 2
    of_levels = changes(regression, release.point, halfway, moments, 1.0)  # beside the change of a usual record
    found = release.at_information(ratio * of_levels)
    return replace(found, score=root * release.score, score_variance=ratio * release.score_variance)
