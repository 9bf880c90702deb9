"""The law of one record's scores under the model, on the host: what cuts and weights lose follows from it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Law(NamedTuple):
    """Responses of one record, with their scores in the arguments of its family."""

    probabilities: Floats
    """Of the responses."""
    scores: Floats
    """Of the likelihood: (responses, arguments)."""
    bounded: Floats
    """The same, cut and centred."""
    bounds: Floats | None = None
    """How large each of the bounded scores is at most, where lengths are bounded by these one by one."""

    @property
    def information(self) -> Floats:
        """The Fisher information."""
        return (self.scores * self.probabilities[:, None]).T @ self.scores

    @property
    def slope(self) -> Floats:
        """How fast the mean of the bounded scores moves with the arguments, made symmetric."""
        slope = (self.bounded * self.probabilities[:, None]).T @ self.scores
        return (slope + slope.T) / 2

    @property
    def variance(self) -> Floats:
        """The covariance of the bounded scores."""
        return (self.bounded * self.probabilities[:, None]).T @ self.bounded

    def longest(self, grams: Floats) -> Floats:
        """Return the length of the longest bounded score in coordinates with each of these Gram matrices (n, a, a)."""
        if self.bounds is not None:
            return np.sqrt(np.maximum(np.diagonal(grams, axis1=1, axis2=2), 0.0)) @ self.bounds
        squares = np.einsum("ka,nab,kb->nk", self.bounded, grams, self.bounded, optimize=True)
        return np.sqrt(np.maximum(squares.max(axis=1), 0.0))
