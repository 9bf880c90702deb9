"""Which groups noise may have given their rows: of many empty groups some seem to have rows, and to be known well."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

SURE = 0.01
"""How many groups without rows may seem to have so many, of all in a table, where a group is taken to have them."""


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

        Noise is below zero as often as above: there are about twice as many empty groups as have less than no rows.
        """
        noise = np.asarray(self.rows * np.sqrt(self.precision))
        empty = 2 * int(np.sum(noise < 0))
        return empty * special.ndtr(-noise) > SURE
