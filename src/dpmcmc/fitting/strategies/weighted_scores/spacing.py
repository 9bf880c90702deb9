"""Slopes from one record of every few, at public places: how few, and what that does to them.

One of every `spacing` consecutive places is read (`SpacedSum`), so that every kind of records has its share, however
the table is sorted. The slope of all is `spacing` times their sum. Its noise is so many times as large, and it has a
sampling error besides. Neither matters where there are many rows.
"""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SPACINGS = (16, 8, 4, 2)
"""Of how many records one may have a part in a slope."""

SPREAD = 1.5
"""The mean square of the traces of slopes of usual records, over the square of their mean."""


def sampling_variance(spacing: int, squares: float, size: int) -> float:
    """Return the mean variance of the entries of a slope, on the diagonal, that is of one record of so many.

    Every place is read with the same chance, so that all entries together have at most the variance (spacing - 1) times
    the sum of the squared lengths of what the records add, which are at most their traces. Off the diagonal the mean is
    half of it, as for the noise.

    Args:
        spacing: of how many records one is read.
        squares: the sum of the squared traces.
        size: the number of parameters.
    """
    return 2 * (spacing - 1) * squares / (size * (size + 1))


def usual_squares(size: int, num_records: float) -> float:
    """Return the sum of the squared traces of usual records, in whitened coordinates, where all traces add up to d."""
    return SPREAD * size**2 / num_records


def squares_of(lengths: Floats, edges: Floats, slope_radius: float) -> float:
    """Return about the sum of the squared traces, from the traces by the longest score that a record may have.

    The variance of a score is at most the square of that length, and its slope is about its variance.

    Args:
        lengths: the sum of the traces in each bin, with noise.
        edges: the upper edges of all bins but the last.
        slope_radius: the largest trace.
    """
    return float(np.maximum(lengths, 0.0) @ np.minimum(np.append(edges, np.inf) ** 2, slope_radius))
