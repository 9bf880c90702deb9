"""How long the scores of the records are, and where the long ones point, as noisy histograms: the best clip follows.

In whitened coordinates most scores are shorter than the usual clip, often by far. Where the tails of the records are
heavier than those of the model some are longer, and what is cut off them moves the posterior as far as it points in one
direction: a longer clip moves it less, and takes more noise.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.problem_size import ProblemSize
from dpmcmc.fitting.whitening import GaussianApproximation
from dpmcmc.model import Model
from dpmcmc.run.program import Layout, score

RATIO = 1.25
CLIP_SCALES = RATIO ** np.arange(-4.0, 8.0)
"""The clips to choose from, in usual ones; also the lower edges of the bins, whose last has no upper one."""

DECAY = 0.7
"""A bin holds at most so much of the one before: tails heavier than a power of -1.6 are not believed in."""

SEEN = 2.0
"""Counts of less than so many standard deviations of their noise may be nothing else."""

BELIEVED = 4.0
"""Counts of more than so many standard deviations of their noise are believed as they stand, after a gap too."""

LONGEST = 2.0
"""How long scores beyond the longest clip are taken to be, in longest clips."""

LENGTH = math.sqrt(2.0)
"""The norm of what a record with a long score adds: one to the count of its bin, and its direction."""


LOST = 0.1
"""The share of the records with scores beyond all clips from which on the pilot is taken to have failed."""


class HistogramRelease(NamedTuple):
    """The long scores by length, with noise of a known variance."""

    counts: jax.Array
    """How many there are in each bin."""
    directions: jax.Array
    """The sums of their directions, shape (bins, d)."""
    variance: jax.Array


@dataclass(frozen=True)
class ScoreHistogram:
    """The records by the length of their scores in whitened coordinates: ``reach(oracle, approximation)``."""

    model: Model
    layout: Layout
    sums: Sum
    facts: ProblemSize

    def __call__(self, oracle: Oracle, approximation: GaussianApproximation) -> HistogramRelease:
        """Return how many records have a score between one clip and the next longer one, and where these point."""
        edges = self.facts.gradient_clip * np.append(CLIP_SCALES, np.inf).astype(np.float32)

        def binned(centre: jax.Array, factor: jax.Array, record: Any) -> jax.Array:
            own = score(self.model, self.layout)(centre, factor, record)
            length = jnp.linalg.norm(own)
            is_in = ((length > edges[:-1]) & (length <= edges[1:])).astype(jnp.float32)
            return jnp.outer(is_in, jnp.append(own / jnp.maximum(length, edges[0]), 1.0)).ravel()

        released = oracle.sum(self.sums, binned, approximation.centre, approximation.factor)
        table = released.value.reshape(len(CLIP_SCALES), -1)
        return HistogramRelease(table[:, -1], table[:, :-1], released.variance)

    def clip_scale(self, long: HistogramRelease, left: float) -> float:
        """Return the best clip in usual ones, where gradients may cost `left` in mean privacy loss."""
        aligned = self._aligned(long)
        lengths = CLIP_SCALES * math.sqrt(RATIO)
        bias = np.maximum(lengths - CLIP_SCALES[:, None], 0.0) @ aligned * self.facts.gradient_clip
        noise = self.facts.clips_moved * self.facts.gradient_clip * CLIP_SCALES / math.sqrt(2 * left)
        return float(CLIP_SCALES[np.argmin(bias**2 + self.facts.dimension * noise**2)])

    def bias(self, long: HistogramRelease, clip_scale: float) -> float:
        """Return how far a clip moves the posterior, root mean square over coordinates, in its standard deviations.

        What is cut off the scores of a bin points where these do. Bins are believed where their count, or the sum of
        their directions, is above its noise, whether those before are empty or not.
        """
        counts, directions = np.asarray(long.counts, np.float64), np.asarray(long.directions, np.float64)
        variance, size = float(long.variance), self.facts.dimension
        is_seen = counts > BELIEVED * math.sqrt(variance)
        is_seen |= np.sum(directions**2, axis=1) > variance * special.chdtri(size, 2 * special.ndtr(-BELIEVED))
        lengths = CLIP_SCALES * math.sqrt(RATIO)
        lengths[-1] = LONGEST * CLIP_SCALES[-1]
        cut = np.maximum(lengths - clip_scale, 0.0) * self.facts.gradient_clip
        seen = np.where(is_seen, cut, 0.0)
        square = float(np.sum((seen @ directions) ** 2)) - size * variance * float(seen @ seen)
        fitted = float(cut @ self._aligned(long))
        return max(math.sqrt(max(square, 0.0)), fitted) / math.sqrt(size)

    def is_lost(self, long: HistogramRelease) -> bool:
        """Whether so many scores are longer than the longest clip that the posterior cannot be near."""
        noise = 4 * math.sqrt(float(long.variance))
        return float(long.counts[-1]) > noise + LOST * self.facts.num_records

    def _aligned(self, long: HistogramRelease) -> NDArray[np.float64]:
        """Return how many records of each bin are left if those that point in opposite directions cancel out.

        There are fewer scores in a bin than in the one of shorter scores before it (`DECAY`), and what noise alone may
        be (`SEEN`) falls as fast as the ones before: that takes noise off the counts, above all off those of the
        longest scores, where a few records that are none would count for much. And
        the longer the scores, the more of them point in one direction: where a bin holds too few records to show it,
        it is taken to be as the shorter ones are. A count far above its noise is believed as it stands (`BELIEVED`):
        where outcomes are rare, nearly all scores are short and some are very long.
        """
        counts, directions = np.asarray(long.counts, np.float64), np.asarray(long.directions, np.float64)
        shape = DECAY ** np.arange(len(CLIP_SCALES))
        fitted = shape * optimize.isotonic_regression(counts / shape, weights=shape**2, increasing=False).x
        believed = _continued(np.maximum(fitted, 0.0), SEEN * math.sqrt(long.variance))
        believed = np.where(counts > BELIEVED * math.sqrt(long.variance), np.maximum(counts, believed), believed)
        noise = self.facts.dimension * float(long.variance)
        lengths = np.sqrt(np.maximum(np.sum(directions**2, axis=1) - noise, 0.0))
        share, aligned = 0.0, np.zeros_like(believed)
        for index, (count, length) in enumerate(zip(believed, lengths, strict=True)):
            weight = count**2 / noise
            seen = min(length / max(count, 1.0), 1.0)
            share = max(share, (weight * seen + share) / (weight + 1))
            aligned[index] = share * count
        return aligned


def _continued(counts: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """Return counts of which those below `least` fall at least as fast as the two before them do."""
    result = counts.copy()
    for index in range(2, len(result)):
        before, last = result[index - 2 : index]
        if result[index] < least:
            result[index] = min(result[index], last * min(last / before, DECAY) if before > 0 else 0.0)
    return result
