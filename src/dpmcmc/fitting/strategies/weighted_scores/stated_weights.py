"""Stated weights of rows, such as survey weights: the unit weight, and the effective number of rows.

A sum of weighted scores has the variance n E[w^2] and the slope n E[w], in units of an unweighted record: as much as
n E[w]^2 / E[w^2] records tell whose weights are all E[w^2] / E[w]. So that one counts as one. Beside the largest that
the bounds allow, which may be a hundred times as large, all scores would be short, and drown in noise.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

EDGES = 2.0 ** np.arange(-20.0, 0.0)
"""Of bins of weights, in largest ones."""

WIDTH = float(np.log(2.0))
LOGS = np.log(np.append(EDGES, 1.0)) - WIDTH / 2
"""The middles of the bins, as logarithms."""


class Stated(NamedTuple):
    """What the weights of the rows come to."""

    unit: float = 1.0
    """The weight that counts as one, in largest ones."""
    worth: float = 1.0
    """How many rows of equal weights one row is worth."""
    spread: float = 0.0
    """How much the logarithms of weights vary above the middle one, where weights are counted by themselves."""

    @property
    def are_uneven(self) -> bool:
        """Whether rows state different weights."""
        return self.worth < 1.0

    def held(self, lengths: Floats, spread: float) -> Floats:
        """Return the share of the information by the norm of scores, for bins with given upper edges.

        The few rows with the largest weights have much information: weights are assumed to be lognormal.

        Args:
            lengths: the edges, relative to the score of a record with unit weight; the last bin is unbounded.
            spread: the standard deviation of the log-norms without weights.
        """
        below = special.ndtr((np.log(lengths) + self.spread**2 / 2) / np.hypot(self.spread, spread))
        return np.diff(below, prepend=0.0, append=1.0)


def stated(shares: Floats) -> Stated:
    """Return the summary of weights, given the share of them in each bin.

    The largest weights are too few to be seen: their part of the mean square is that of a lognormal distribution.
    """
    middle, upper = (_quantile(shares, probability) for probability in (0.5, 0.84))
    spread = float(np.sqrt(max((upper - middle) ** 2 - (0.34 * WIDTH) ** 2, 0.0)))
    mean, square = (max(float(shares @ np.exp(k * LOGS)), np.exp(k * middle + (k * spread) ** 2 / 2)) for k in (1, 2))
    unit = float(min(square / mean, 1.0))
    return Stated(unit, float(min(mean / unit, 1.0)), spread)


def _quantile(shares: Floats, probability: float) -> float:
    """Return a quantile of the logarithm of weights, even within bins."""
    return float(np.interp(probability, np.append(0.0, np.cumsum(shares)), np.append(LOGS, WIDTH / 2) - WIDTH / 2))
