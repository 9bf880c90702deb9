"""Slopes of the last releases that are lost in noise: together, moved to what columns without correlation would have.

Where there are many parameters, noise of a slope grows with their number to the power of 1.5. But the histograms of the
columns make a guess of all of it, and the mean square of the difference tells how good that is (`doubts.shrunk`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.draws import join_all
from dpmcmc.fitting.strategies.weighted_scores.newton import Steps
from dpmcmc.fitting.strategies.weighted_scores.release import Release


def near_together(steps: Steps, releases: Sequence[Release]) -> list[Release]:
    """Return releases with the same coordinates and weights; each has the slope of all if that is moved."""
    joined = join_all(releases).release
    moved = steps.near(joined, is_result=True)
    if moved is joined:
        return list(releases)
    sd = moved.slope_sd * float(np.sqrt(len(releases)))  # joined again they have the doubt of one
    return [replace(each, slope=moved.slope, slope_sd=sd, doubts=moved.doubts) for each in releases]
