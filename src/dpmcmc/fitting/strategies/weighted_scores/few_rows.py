"""Coefficients of curves (polynomials, splines) whose information comes from too few rows to be released.

Where a predictor has few values, a handful of rows may have nearly all the information on the columns of a curve, which
are nearly collinear elsewhere. Under privacy these rows have little influence, and the result is rightly wide. But no
release shows how much narrower it would be without privacy.
"""

from collections.abc import Sequence

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.few_events import events_unsure
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import skewed
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.synthetic_records import places, source_of

DEPENDENT, TOLD, INTERCEPT = 100.0, 20.0, 1000.0
"""Thresholds of variance inflation factors: above the first one a curve's columns are nearly collinear; above the
second one a coefficient of such a curve is reported, above the third one the intercept, which splines share in."""

LEFT = 0.5
"""Remaining share of a variance below which unseen rows may have much more information than is seen."""

RIDGE = 1e-9


def told_little(
    regression: Regression, moments: Moments, vectors: Floats
) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """Return the coefficients of curves, and the levels, of which few rows tell, and how unsure events are."""
    return (
        hardly_told(regression, moments, vectors),
        skewed(regression, moments, vectors),
        events_unsure(regression, moments, vectors),
    )


def hardly_told(regression: Regression, moments: Moments, vectors: Floats) -> tuple[str, ...]:
    """Return the coefficients of curves, and the intercept beside them, of which few rows may tell much more."""
    names, coordinates = regression.model.coordinates.names, regression.model.coordinates
    least = np.array([TOLD if ")[" in name else INTERCEPT if name == "intercept" else np.inf for name in names])
    least[[place for steps in coordinates.monotone for place in steps.places]] = np.inf  # these are levels: no curve
    inflation = _inflation(vectors[:, : len(names) * regression.num_outputs]).reshape(len(names), -1)
    if not np.any(inflation[least == TOLD] > DEPENDENT):
        return ()
    is_told = inflation > least[:, None]
    curves: dict[str | None, list[int]] = {}
    for place in np.flatnonzero(is_told.any(axis=1) & (least == TOLD)):
        curves.setdefault(source_of(regression, int(place)), []).append(int(place))
    told = [place for name, own in curves.items() if _may_be_told(regression, moments, name, own) for place in own]
    is_told[[place for place in range(len(names)) if place not in told and (least[place] == TOLD or not told)]] = False
    labels = [label for name in names for label in coordinates.labels(name)]
    return tuple(label for label, may_be in zip(labels, is_told.ravel(), strict=True) if may_be)


def _may_be_told(regression: Regression, moments: Moments, name: str | None, columns: Sequence[int]) -> bool:
    """Say whether rows that no histogram shows, wherever they all lie, could tell much more of a curve's coefficients.

    Columns may be dependent wherever rows lie, as the sines of a process are: then a few more rows change little.

    Args:
        regression: the model.
        moments: of the columns.
        name: the column of the table that the curve is of; None if it is of several.
        columns: those of its coefficients that are nearly dependent.
    """
    if name is None:
        return True
    found = places(regression, moments, name)
    rows = np.column_stack([np.ones(len(found.made)), found.made])
    information = moments.worth * (rows * found.shares[:, None]).T @ rows
    scales = np.sqrt(np.maximum(np.diag(information), 1e-30))
    try:
        inverse = np.linalg.inv(information / np.outer(scales, scales) + RIDGE * np.eye(len(scales)))
    except np.linalg.LinAlgError:
        return True
    moves = rows / scales @ inverse
    falls = moments.unseen * moves**2 / (1 + moments.unseen * np.sum(moves * rows / scales, axis=1))[:, None]
    left = 1 - falls.max(axis=0) / np.diag(inverse)
    return not (left[1 + np.flatnonzero(np.isin(found.columns, columns))] >= LEFT).all()  # what is no number is told


def _inflation(vectors: Floats) -> Floats:
    """Return by how much the variance of each coefficient is larger than if no other one were unknown."""
    covariance = np.atleast_2d(np.cov(vectors.T))
    return np.asarray(np.diag(covariance) * np.diag(np.linalg.pinv(covariance, hermitian=True)))
