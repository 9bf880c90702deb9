"""How far a model is from holding, as the records tell: bounds of other lengths lead elsewhere where it does not.

The scores of the pilot have short bounds, those of its last step long ones, near the likelihood's. Where the model
holds both have one root. How far apart they are, beside their noise, tells how far the mean of what bounds take off may
be off zero, and so how short the bounds of the last releases may be.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.bounds import MISFIT, Bounds, Lost
from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND
from dpmcmc.fitting.strategies.weighted_scores.other_root import OtherRoot
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

MISFITS = np.geomspace(0.01, 0.35, 40)
"""How far the mean of what bounds take off may be off zero, in its standard deviations."""

COMMON = 1.5
"""How common larger ones are: with 0 all magnitudes would be as likely, with 1 all numbers. What is not seen to be
small is taken to be large: most models do not quite hold."""

APART = 0.05
"""Where roots are apart as they rarely are if the model holds, it is taken to be as far off as models usually are."""

LEAST_LOST = 0.05
"""Bounds that take off as much as others but for this tell nothing."""


def expected_misfit(led: OtherRoot, probe: Release, bounds: tuple[Bounds, float], unit: float, lost: Lost) -> float:
    """Return how far the mean of what bounds take off is off zero, in its standard deviations, root mean square.

    Args:
        led: where short bounds lead, beside the long ones of the probe.
        probe: a release with long bounds.
        bounds: the long ones, and the radius of the short ones.
        unit: the usual length of a score.
        lost: what bounds take off.
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
    """Return the expected square of a misfit that moves a root by so many times itself, in some direction.

    Args:
        apart: how far two roots are apart.
        covariance: of that, were the model to hold.
        times: by how much a misfit moves the one from the other.
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
