"""One answer of the records of many groups, in the parameters."""

from dataclasses import dataclass
from typing import NamedTuple

from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow
from dpmcmc.fitting.strategies.grouped_scores.prior import Point
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats


class Radii(NamedTuple):
    """How long scores and slopes may be, and where scores are cut."""

    bound: float
    scores: tuple[float, float]
    """Of a group's entries, and of common ones."""
    slopes: tuple[float, float]
    weights: Floats
    """The weight of a usual record of each group; after a release so that all slopes together are as it tells."""


@dataclass(frozen=True, eq=False)
class Release:
    """One answer, in the parameters: sums of scores and their slope."""

    point: Point
    radii: Radii
    score: Floats
    common_score: Floats
    noise: Arrow
    """The covariance of the noise of the scores, told ones alone."""
    slope: Arrow
    """With the weights."""
    slope_sds: tuple[float, float, float]
    """The noise of blocks, border and corner in the coordinates that were asked."""
    shares: Floats
    """What of a slope the variance of scores is: of all groups, and of each common coordinate."""
    noise_levels: tuple[float, float]
    """The variance of the noise of the scores of groups and of common ones in the coordinates that were asked."""
    roots: Floats
    """The coordinates of each group, and"""
    factor: Floats
    """of what is common."""
