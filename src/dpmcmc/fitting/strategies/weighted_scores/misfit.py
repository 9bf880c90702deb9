"""Estimate of the model's misspecification: under it, scores with different bounds have different roots.

The scores of the pilot have short bounds, those of its last step long ones, close to the likelihood's. If the model
holds, both have the same root. Their distance, relative to noise, shows how far the mean of the clipped part may be
from zero, and so how short the bounds of the last releases may be.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.bounds import MISFIT, Bounds, Lost
from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND
from dpmcmc.fitting.strategies.weighted_scores.other_root import OtherRoot
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

MISFITS = np.geomspace(0.01, 0.35, 40)
"""Candidate means of the part that bounds remove, in its standard deviations."""

COMMON = 1.5
"""Exponent of their prior: 0 is uniform on the log scale, 1 uniform. A misfit that is not shown to be small is assumed
to be large, since most models do not quite hold."""

APART = 0.05
"""Where roots are apart as they rarely are if the model holds, it is taken to be as far off as models usually are."""

LEAST_LOST = 0.05
"""Bounds that take off as much as others but for this tell nothing."""


def expected_misfit(led: OtherRoot, probe: Release, bounds: tuple[Bounds, float], unit: float, lost: Lost) -> float:
    """Return the estimated mean of the clipped part, root mean square in its standard deviations.

    Args:
        led: the root with short bounds, relative to that of the probe.
        probe: a release with wide bounds.
        bounds: the wide bounds, and the radius of the short ones.
        unit: the usual norm of a score.
        lost: the loss of information from bounds.
    """
    long, radius = bounds
    taken = lost(PILOT_BOUND, np.array([radius]))[0] - lost(long.bound, np.array([long.radius]))[0]
    between = float(np.linalg.norm(taken))
    if not between > LEAST_LOST or not np.any(led.covariance):
        return MISFIT
    inverse = probe.whitening.inverse
    found = squared_shift(inverse @ led.apart, inverse @ led.covariance @ inverse.T, between / unit)
    return max(float(np.sqrt(found)), MISFIT if led.p_value < APART else 0.0)


def squared_shift(apart: Floats, covariance: Floats, times: float) -> float:
    """Return the expected square of a misfit that shifts a root by `times` itself, in some direction.

    Args:
        apart: the difference of two roots.
        covariance: the covariance of the difference if the model holds.
        times: the shift of one root from the other per unit of misfit.
    """
    values, vectors = np.linalg.eigh(covariance)
    seen = values > 1e-9 * values[-1]
    noise, found = values[seen], (vectors.T @ apart)[seen]
    shifts = (MISFITS * times) ** 2 / len(found)  # the variance in each coordinate
    total = shifts[:, None] + noise
    logs = COMMON * np.log(MISFITS) - 0.5 * np.sum(np.log(total) + found**2 / total, axis=1)
    weights = np.exp(logs - logs.max())
    squares = np.sum(shifts[:, None] * noise / total + (shifts[:, None] * found / total) ** 2, axis=1)
    return float(weights @ squares / weights.sum()) / times**2
