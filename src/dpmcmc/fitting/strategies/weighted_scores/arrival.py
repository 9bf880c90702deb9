"""Convergence of the steps: the distance of the result from the point at which the last scores were released."""

from typing import NamedTuple

import numpy as np
from scipy import linalg

from dpmcmc.fitting.strategies.weighted_scores.draws import Joined
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.bounded_scores.one_row import LocationScale
from dpmcmc.model.bounded_scores.survival import SurvivalScores

FAR = 3.0
"""The last point is far from the result if the distance is this many times that expected from noise alone."""

OUTWARD, OUTWARD_IN_PRIOR = 3.0, 1.5
"""A move of this many standard deviations in the direction of growing coefficients means that steps diverge; fewer
suffice if the prior dominates half of the coefficients, since the data then do not limit them."""

RESHAPED = 2.4
"""The same for a shape parameter, whose scores are the least linear."""


class Moved(NamedTuple):
    """The distance of the result from the last queried point."""

    length: float
    """Over all directions, relative to the length expected from noise."""
    outward: float = 0.0
    """In the direction of growing coefficients, in standard deviations."""
    reshaped: float = 0.0
    """Along the shape parameter that moved most, in standard deviations."""

    def has_arrived(self, were_whole: bool, is_of_prior: bool) -> bool:
        """Say whether the steps converged.

        Steps that diverge, as under separation, go in the direction of growing coefficients; a length over all
        directions does not show this. A prior that dominates draws them back, which is no sign of it.

        Args:
            were_whole: whether earlier steps were not shortened.
            is_of_prior: whether the prior dominates about half of the coefficients.
        """
        is_near = self.length <= (FAR if were_whole else FAR / 2)
        ends = -OUTWARD <= self.outward <= (OUTWARD_IN_PRIOR if is_of_prior else OUTWARD)
        return bool(is_near and ends and abs(self.reshaped) <= RESHAPED)


def moved_to(joined: Joined, mean: Floats, first_noise: float, regression: Regression) -> Moved:
    """Return the distance of a result from the point of the last release.

    Args:
        joined: the last releases.
        mean: the result.
        first_noise: the noise variance of the release that determined the last point.
        regression: the model, whose first coefficient is the intercept.
    """
    numbers = np.arange(len(mean))
    coefficients = (numbers >= regression.num_outputs) & (numbers < regression.num_linear)
    move = joined.release.whitening.inverse @ (mean - joined.release.point)
    grown = np.where(coefficients, joined.release.point, 0.0)
    outward = moved_along(joined, move, first_noise, grown)
    if isinstance(regression.scores, SurvivalScores):  # no predictor separates times: steps back from far out do end
        outward = max(outward, 0.0)
    shapes = np.eye(len(mean))[regression.num_linear :] if isinstance(regression.scores, LocationScale) else []
    return Moved(
        distance(joined, move, first_noise),
        outward,
        max((abs(moved_along(joined, move, first_noise, way)) for way in shapes), default=0.0),
    )


def noise_of_step(before: Release, point: Floats) -> float:
    """Return the noise variance of a point that a release determined: from its scores, and its slope times the move."""
    step = before.whitening.inverse @ (point - before.point)
    return before.score_variance + before.slope_sd**2 * float(step @ step)


def distance(joined: Joined, moved: Floats, first_noise: float) -> float:
    """Return the length of a whitened move from the last point, relative to that expected from noise alone."""
    release = joined.release
    unseen = release.unseen(release.slope)
    values, vectors = np.linalg.eigh(release.slope)
    values = np.maximum(values, release.noise_levels(vectors))[unseen.shape[1] :]
    expected = np.sqrt(np.sum(first_noise / values**2) + 1.0)
    return float(linalg.norm(moved - unseen @ (unseen.T @ moved)) / expected)


def moved_along(joined: Joined, moved: Floats, first_noise: float, way: Floats) -> float:
    """Return the length of a whitened move in one direction, in standard deviations of noise and data.

    Args:
        joined: the last releases.
        moved: the move from the last point to the result.
        first_noise: the noise variance of the release that determined the last point.
        way: the direction, in the parameters.
    """
    release = joined.release
    turned = release.whitening.inverse @ way
    if not linalg.norm(turned) > 0:
        return 0.0
    turned = turned / linalg.norm(turned)
    values, vectors = np.linalg.eigh(release.slope)
    values = np.maximum(values, release.noise_levels(vectors))
    shares = (vectors.T @ turned) ** 2
    return float(moved @ turned / np.sqrt(np.sum(shares * (first_noise / values**2 + 1 / values))))
