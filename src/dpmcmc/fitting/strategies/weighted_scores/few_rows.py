"""Coefficients of a curve, a polynomial or a spline, of which so few rows tell that no release can show how much.

Far out, where a predictor has few values, a handful of rows may hold nearly all that is known of the columns of such a
curve, which are nearly dependent elsewhere. Under privacy they count for little: the result is wide, and rightly so.
But how much narrower it would be without privacy, no release tells.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.few_events import events_unsure
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.levels import skewed
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

DEPENDENT, TOLD, INTERCEPT = 100.0, 20.0, 1000.0
"""How many times as large a variance is as it would be if no other coefficient had to be estimated: that of a curve's
coefficient from which on its columns are nearly dependent, that from which on a coefficient is told then, and that of
the intercept beside them, which any spline has a share in."""


def told_little(
    regression: Regression, moments: Moments, vectors: Floats
) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """Return the coefficients of curves, and the levels, of which few rows tell, and how unsure events are."""
    return (
        hardly_told(regression, vectors),
        skewed(regression, moments, vectors),
        events_unsure(regression, moments, vectors),
    )


def hardly_told(regression: Regression, vectors: Floats) -> tuple[str, ...]:
    """Return the coefficients of curves, and the intercept beside them, of which few rows may tell much more."""
    names, coordinates = regression.model.coordinates.names, regression.model.coordinates
    least = np.array([TOLD if ")[" in name else INTERCEPT if name == "intercept" else np.inf for name in names])
    inflation = _inflation(vectors[:, : len(names) * regression.num_outputs]).reshape(len(names), -1)
    if not np.any(inflation[least == TOLD] > DEPENDENT):
        return ()
    labels = [label for name in names for label in coordinates.labels(name)]
    return tuple(label for label, is_told in zip(labels, (inflation > least[:, None]).ravel(), strict=True) if is_told)


def _inflation(vectors: Floats) -> Floats:
    """Return by how much the variance of each coefficient is larger than if no other one were unknown."""
    covariance = np.atleast_2d(np.cov(vectors.T))
    return np.asarray(np.diag(covariance) * np.diag(np.linalg.pinv(covariance, hermitian=True)))
