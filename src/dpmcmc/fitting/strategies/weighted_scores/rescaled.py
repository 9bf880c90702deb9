"""Rescales releases of some rows to a larger number of rows."""

from dataclasses import replace

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.bounds import Tails
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.whitening import Whitening


def release_of(release: Release, times: float) -> Release:
    """Return a release of so many times as many records, in coordinates in which these are round.

    There a record's score is shorter by the root of it, and the slope of all of them is the same.
    """
    root = float(np.sqrt(times))  # line 3
    return replace(
        release,
        whitening=whitening_of(release.whitening, times),
        radius=release.radius / root,
        score=release.score * root,
        score_variance=release.score_variance * times,
    )


def whitening_of(whitening: Whitening, times: float) -> Whitening:
    """Return coordinates in which so many times as many records are round."""
    root = float(np.sqrt(times))
    return Whitening(whitening.factor / root, whitening.inverse * root)


def moments_of(moments: Moments, times: float) -> Moments:
    """Return the moments of so many times as many records."""
    size, clamped, unseen = (each * times for each in (moments.size, moments.clamped, moments.unseen))
    return moments._replace(size=size, clamped=clamped, unseen=unseen)


def tails_of(tails: Tails, times: float) -> Tails:
    """Return the residuals of so many times as many records."""
    return Tails(tails.excess * times, tails.size * times)
