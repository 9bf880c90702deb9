"""What a recipe may know, and the clips that follow from it in whitened coordinates.

There the posterior is about a standard normal, and one record's score about N(0, I / n): its norm is near sqrt(d / n),
its part along a move near 1 / sqrt(n).
"""

import math
from dataclasses import dataclass

from dpmcmc.accounting import Adjacency


@dataclass(frozen=True)
class ProblemSize:
    """What a recipe may know: all of it public, or released."""

    num_records: int
    dimension: int
    adjacency: Adjacency
    temperature: float = 1.0
    """The power of the likelihood: one record's score is the root of it as long as without."""

    clip_scale: float = 1.0
    """How much longer than usual the clips are, as the pilot found good."""

    @property
    def unit(self) -> float:
        """The length of a record's score along a line, times the clip_scale."""
        return self.clip_scale * math.sqrt(self.temperature / self.num_records)

    @property
    def gradient_clip(self) -> float:
        """The largest norm of one record's score that counts: twice the usual one, and four more."""
        return (2 * math.sqrt(self.dimension) + 4) * self.unit

    @property
    def curvature_clip(self) -> float:
        """The largest norm of one record's Hessian that counts: twice its usual trace, and four more."""
        return (2 * self.dimension + 4) / self.num_records

    @property
    def slope_clip(self) -> float:
        """The largest slope of one record's log-likelihood along a move that counts: four standard deviations."""
        return 4 * self.unit

    @property
    def clips_moved(self) -> int:
        """By how many clips one neighbour moves a sum."""
        return 2 if self.adjacency is Adjacency.REPLACE_ONE else 1
