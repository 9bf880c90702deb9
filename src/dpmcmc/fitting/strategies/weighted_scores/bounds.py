"""Where to cut scores and how long to let them be: the bounds at which an estimate has the least variance."""

from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND, SEEN, Release, Steps
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS, RATIO
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats, Scores

BOUNDS = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6)
"""Cuts to choose from for the last releases."""

UNCUT = 20.0
"""A cut that cuts nothing."""

RADII = 1.1 ** np.arange(-10.0, 45.0)
"""Radii to choose from, in usual lengths of a score."""

ALIKE = 0.05
"""Variances that differ by so much of the noise's are alike."""


class Bounds(NamedTuple):
    """How the last releases bound scores: the cut, in standard deviations, and the radius of weighted scores."""

    bound: float
    radius: float
    variance: float
    """The predicted variance of the estimate, noise included, in units of the smallest that the records allow."""
    inefficiency: float
    """The same without the noise."""


def best_bounds(steps: Steps, release: Release, noise: float) -> Bounds:
    """Return the bounds at which the estimate has the least variance, given the score histogram of the last release.

    Args:
        steps: that asked.
        release: the last of the pilot.
        noise: the standard deviation of the noise at radius one.
    """
    regression = steps.regression
    upper = np.append(LENGTHS, LENGTHS[-1] * RATIO) * steps.unit
    middles = upper / np.sqrt(RATIO)
    seen = np.where(release.lengths > SEEN * release.lengths_sd, release.lengths, 0.0)
    held = seen / np.minimum(1.0, release.radius / middles)
    held = held / held.sum() if held.sum() > 0 else (np.arange(len(middles)) == len(middles) // 2) * 1.0
    linear = release.point[: regression.num_linear].reshape(regression.num_columns, -1)
    return least_variance(
        regression.scores,
        steps.moments.means @ linear,
        regression.shapes(np, release.point),
        (middles, held),
        noise,
        steps.unit,
    )


def least_variance(
    scores: Scores, predictors: Floats, shapes: Floats, lengths: tuple[Floats, Floats], noise: float, unit: float
) -> Bounds:
    """Return the best bounds for records whose scores, cut as in the pilot, have certain lengths.

    Args:
        scores: of the family.
        predictors: of a usual record.
        shapes: the shape parameters.
        lengths: lengths, and how much of the information is in records with them.
        noise: the standard deviation of the noise at radius one.
        unit: the usual length of a score.
    """
    middles, held = lengths
    radii = unit * RADII
    slope_of, variance_of, longest = scores.moments(predictors, shapes, PILOT_BOUND)
    share = variance_of / slope_of  # in whitened coordinates the slope without weights, at the pilot's cut
    fisher = share * scores.moments(predictors, shapes, UNCUT)[0] / slope_of
    found: list[Bounds] = []
    for bound in BOUNDS:
        slope, variance, length = scores.moments(predictors, shapes, bound)
        weights = np.minimum(1.0, radii[:, None] / (middles * length / longest))
        slopes = share * slope / slope_of * (weights @ held)
        of_records = share * variance / slope_of * (weights**2 @ held) / slopes**2
        of_noise = (noise * radii / slopes) ** 2
        total = of_records + of_noise
        alike = total.min() + ALIKE * of_noise[np.argmin(total)]
        best = int(np.flatnonzero(total <= alike)[-1])  # where it is flat, the slope is best seen far out
        found.append(
            Bounds(bound, float(radii[best]), float(total[best]) * fisher, max(1.0, float(of_records[best]) * fisher))
        )
    return min(found, key=lambda each: each.variance)
