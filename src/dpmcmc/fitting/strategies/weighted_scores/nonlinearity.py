"""Corrects slopes for the move from the queried point to the root, where the information may differ."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.draws import join_all
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import changes
from dpmcmc.fitting.strategies.weighted_scores.newton import usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, TabledScores
from dpmcmc.fitting.strategies.weighted_scores.told import information_of_records

MOST_CHANGE = 4.0
"""Largest credible change of a usual record's information between a release and its root."""

ROUNDED = 1e-9
"""Slopes of less, beside the steepest, are zero but for rounding."""

HALFWAY = 8
"""Number of iterations for the root of a release with the slope at the midpoint."""


def at_result(regression: Regression, releases: Sequence[Release], moments: Moments) -> list[Release]:
    """Return releases with their slopes corrected to their common root."""
    if len(releases) == 1:
        return [_at_own_result(regression, releases[0], moments)]
    last = join_all(releases).release
    found = _root(last, 1.0)
    usual = [change(regression, release.point, found, moments) for release in releases]
    if not np.isfinite(usual).all():
        return list(releases)
    ratios = [
        _with_shapes(
            regression, changes(regression, release.point, found, moments, ratio), release.point, found, moments
        )
        for release, ratio in zip(releases, usual, strict=True)
    ]
    return [release.at_information(ratio) for release, ratio in zip(releases, ratios, strict=True)]


def _with_shapes(regression: Regression, ratios: Floats, before: Floats, point: Floats, moments: Moments) -> Floats:
    """Return ratios of the information at two points with the model's own for shapes, where it has them.

    A smaller scale gives more information on the predictors, and as much as before on its own logarithm.
    """
    if not isinstance(regression.scores, TabledScores):
        return ratios
    there, here = (np.diag(information_of_records(regression, each, moments)) for each in (before, point))
    outputs, of_scale = regression.num_outputs, [0] * regression.num_of_scale
    places = outputs + np.array([*of_scale, *regression.free[bool(of_scale) :]], int)
    own = here[places] / np.maximum(there[places], 1e-30)
    usual = np.where(np.isfinite(own), np.clip(own, 1 / MOST_CHANGE, MOST_CHANGE), 1.0)
    return np.append(ratios[: regression.num_linear], usual)


def change(regression: Regression, point: Floats, found: Floats, moments: Moments) -> float:
    """Return the ratio of a usual record's information at two points."""
    ratio = known(regression, found, moments) / known(regression, point, moments)
    return float(np.clip(ratio, 1 / MOST_CHANGE, MOST_CHANGE))


def known(regression: Regression, point: Floats, moments: Moments) -> float:
    """Return the information of a usual record at a point."""
    predictors = usual_predictors(regression, point, moments)
    return float(np.trace(regression.scores.information(predictors, regression.shapes(np, point))))


def _root(release: Release, ratio: float) -> Floats:
    """Return the root of a release if its slope is rescaled along the move, except in unidentified directions."""
    inverse = np.linalg.pinv(release.seen(release.slope), rcond=ROUNDED, hermitian=True)
    return release.point + release.whitening.factor @ inverse @ release.score / ratio


def _at_own_result(regression: Regression, release: Release, moments: Moments) -> Release:
    """Return a release with its slope at its root, which is found with the slope at the midpoint of the move.

    With the slope at the queried point, or at the root, a long step would miss the root, on opposite sides.
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
