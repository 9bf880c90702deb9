"""Which groups noise may have given their rows: of many empty groups some seem to have rows, and to be known well."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SURE = 0.01
"""How many groups without rows may seem to have so many, of all in a table, where a group is taken to have them."""

ONE, WINDOW = 0.02, 0.5
"""How probable it may be that a group is one more without rows, given how many seem to have about as many: as many as
this, in standard deviations of the noise."""


@dataclass(frozen=True)
class Seen:
    """What releases alone tell of the numbers of rows of groups, with noise."""

    rows: Floats | float = 0.0
    precision: Floats | float = 0.0

    def beside(self, rows: Floats, precision: Floats | float) -> "Seen":
        """Return it with one more measurement, and how well that is known."""
        both = self.precision + precision
        return Seen((self.precision * self.rows + precision * rows) / both, both)

    @property
    def may_be_empty(self) -> NDArray[np.bool_]:
        """Which groups may well be empty ones whose noise is large.

        Noise is below zero as often as above: there are about twice as many empty groups as have less than no rows, and
        one more, for those of a few may all be above. A group that many others are like is hardly that one.
        """
        noise = np.atleast_1d(self.rows * np.sqrt(self.precision))
        empty, least = 2 * int(np.sum(noise < 0)), np.maximum(noise, 0.0)
        alike = np.sum(np.abs(noise[:, None] - noise) <= WINDOW, axis=1)
        one_more = (special.ndtr(least + WINDOW) - special.ndtr(least - WINDOW)) / alike
        return (empty * special.ndtr(-noise) > SURE) | ((empty + 1) * one_more > ONE)
