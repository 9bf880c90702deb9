"""The prior of a regression with many groups, in what records see: an arrow too.

Records see the effects of a group together with what is common to all groups: v = effects + means * common, where means
are those of the common columns. Given v and the common parameters the effects are what is left.
"""

from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.arrow import Arrow, Vectors
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats


class Point(NamedTuple):
    """Where scores are asked for."""

    effects: Floats
    """(groups, size)."""
    common: Floats

    def moved(self, move: Vectors, means: Floats) -> "Point":
        """Return the point after a move of what records see, and of what is common."""
        common = move.common[:, 0]
        return Point(self.effects + move.groups[..., 0] - means @ common, self.common + common)


class Prior(NamedTuple):
    """Normal effects of groups, and a normal law around a point for the rest."""

    spreads: Floats
    """Standard deviations of the effects (size)."""
    gradient: Floats
    """Of the logarithm of the density of the common parameters at a point."""
    precision: Floats

    @classmethod
    def at(cls, grouped: Grouped, spreads: Floats, common: Floats) -> "Prior":
        """Return the prior around a point."""
        gradient, bend = grouped.common.prior_at(common)
        return cls(spreads, gradient, grouped.common.prior_precision(bend))

    @property
    def block(self) -> Floats:
        """The precision of the effects of one group."""
        return np.diag(self.spreads**-2.0)

    def arrow(self, number: int, means: Floats) -> Arrow:
        """Return the precision for so many groups, given the means (size, common)."""
        border = -self.block @ means
        return Arrow(
            np.broadcast_to(self.block, (number, *self.block.shape)),
            np.broadcast_to(border, (number, *border.shape)),
            self.precision + number * means.T @ self.block @ means,
        )

    def tilt(self, point: Point, means: Floats) -> Vectors:
        """Return the gradient at a point."""
        own = -point.effects @ self.block
        return Vectors(own[..., None], (self.gradient - means.T @ own.sum(axis=0))[:, None])

    def log_density(self, point: Point) -> float:
        """Return the logarithm of the density of the effects at a point, up to a constant."""
        number = len(point.effects)
        squares = np.sum(point.effects**2, axis=0) / self.spreads**2
        return -float(np.sum(number * np.log(self.spreads) + squares / 2))


def whole_means(grouped: Grouped, means: Floats) -> Floats:
    """Return the means of all common columns, of those that are told of and of the others (size, common)."""
    found = grouped.means_of_fixed.copy()
    found[:, grouped.told] = means
    return found
