"""Releases as an audit counts them: how many lie where, and their moments; and how many a law would have there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

FARTHEST, BINS = 9.0, 3600
"""Releases are counted in bins of 1/200 standard deviation, out to nine of them; what lies beyond is in the last."""

EDGES = np.linspace(-FARTHEST, FARTHEST, BINS + 1)

Places = Sequence[tuple[float, float]]
"""A law of noise around one of some places: the chance of each, and where it is."""


@dataclass(frozen=True)
class Histogram:
    """How often the releases of one table fell where, and their first four moments about zero."""

    counts: Counts = field(default_factory=lambda: np.zeros(BINS + 2, np.int64))
    moments: NDArray[np.float64] = field(default_factory=lambda: np.zeros(5))

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> "Histogram":
        """Count releases, in deviations of their noise from the middle of the pair; NaN is in the first bin."""
        wide = np.nan_to_num(np.asarray(values, np.float64).ravel(), nan=-FARTHEST, posinf=1e3, neginf=-1e3)
        places = np.clip(np.floor((wide + FARTHEST) * (BINS / (2 * FARTHEST))), -1, BINS).astype(np.int64) + 1
        square = wide * wide
        sums = [wide.size, wide.sum(), square.sum(), (square * wide).sum(), (square * square).sum()]
        return cls(np.bincount(places, minlength=BINS + 2), np.array(sums, np.float64))

    def __add__(self, other: "Histogram") -> "Histogram":
        return Histogram(self.counts + other.counts, self.moments + other.moments)

    @property
    def size(self) -> int:
        """How many releases were counted."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.moments[1] / self.moments[0])

    @cached_property
    def above(self) -> Counts:
        """How many lie at or above each edge between bins."""
        return np.cumsum(self.counts[::-1])[::-1][1:]

    def central(self, order: int) -> float:
        """Return a central moment, up to the fourth."""
        raw = self.moments / self.moments[0]
        signs = [comb(order, k) * (-raw[1]) ** (order - k) * raw[k] for k in range(order + 1)]
        return float(sum(signs))


def masses(places: Places, deviation: float) -> Floats:
    """Return the chance of each bin under normal noise around places."""
    found = np.zeros(BINS + 2)
    for chance, place in places:
        steps = (EDGES - place) / deviation
        below, above = stats.norm.cdf(steps), stats.norm.sf(steps)
        inner = np.where(steps[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
        found += chance * np.concatenate([below[:1], inner, above[-1:]])
    return found
