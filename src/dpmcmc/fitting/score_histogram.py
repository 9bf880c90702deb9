"""Noisy histograms of the norms of the records' scores, with the directions of long ones: for choosing the clip.

In whitened coordinates most scores are shorter than the usual clip, often much shorter. If the records have heavier
tails than the model, some are longer. Clipping them biases the posterior as far as they point in one direction: a
longer clip means less bias and more noise.
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
"""Candidate clips, relative to the usual one; also the lower edges of the bins (the last bin is unbounded)."""

DECAY = 0.7
"""Largest ratio of a bin's count to the one before: tails no heavier than a power law of exponent -1.6."""

SEEN = 2.0
"""Counts below this number of noise standard deviations may be noise alone."""

BELIEVED = 4.0
"""Counts above this number of noise standard deviations are used unchanged, even after an empty bin."""

LONGEST = 2.0
"""Assumed norm of scores beyond the longest clip, relative to it."""

LENGTH = math.sqrt(2.0)
"""Norm of the contribution of a record with a long score: one to the count of its bin, and a unit direction."""


LOST = 0.1
"""Share of records beyond all clips above which the pilot counts as failed."""


class HistogramRelease(NamedTuple):
    """Noisy counts and directions of long scores by norm, with the variance of the noise."""

    counts: jax.Array
    """Number of records in each bin."""
    directions: jax.Array
    """The sums of their directions, shape (bins, d)."""
    variance: jax.Array


@dataclass(frozen=True)
class ScoreHistogram:
    """Histogram of the records by the norm of their whitened scores: ``reach(oracle, approximation)``."""

    model: Model
    layout: Layout
    sums: Sum
    facts: ProblemSize

    def __call__(self, oracle: Oracle, approximation: GaussianApproximation) -> HistogramRelease:
        """Return the number of records whose score lies between two clips, and the sum of their directions, per bin."""
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
        """Return the best clip, relative to the usual one, if gradients may cost `left` in mean privacy loss."""
        aligned = self._aligned(long)
        lengths = CLIP_SCALES * math.sqrt(RATIO)
        bias = np.maximum(lengths - CLIP_SCALES[:, None], 0.0) @ aligned * self.facts.gradient_clip
        noise = self.facts.clips_moved * self.facts.gradient_clip * CLIP_SCALES / math.sqrt(2 * left)
        return float(CLIP_SCALES[np.argmin(bias**2 + self.facts.dimension * noise**2)])

    def bias(self, long: HistogramRelease, clip_scale: float) -> float:
        """Return the bias from a clip, root mean square over coordinates, in posterior standard deviations.

        The clipped part of a bin's scores has their direction. A bin is used if its count, or the sum of its
        directions, is above the noise, even if earlier bins are empty.
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
        """Whether too many scores exceed the longest clip for the pilot to have succeeded."""
        noise = 4 * math.sqrt(float(long.variance))
        return float(long.counts[-1]) > noise + LOST * self.facts.num_records

    def _aligned(self, long: HistogramRelease) -> NDArray[np.float64]:
        """Return the number of records in each bin after those with opposite directions cancel.

        Counts are denoised: a bin has fewer scores than the bin of shorter scores before it (`DECAY`), and counts that
        may be noise alone (`SEEN`) must decay as fast as those before them. This matters most for the longest scores,
        where a few spurious records would have a large effect. Longer scores also agree more in direction; a bin with
        too few records to show it gets the value of shorter ones. A count far above its noise is used unchanged
        (`BELIEVED`): if outcomes are rare, nearly all scores are short and a few are very long.
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
    """Return the counts; those below `least` decay at least as fast as the two before them."""
    result = counts.copy()
    for index in range(2, len(result)):
        before, last = result[index - 2 : index]
        if result[index] < least:
            result[index] = min(result[index], last * min(last / before, DECAY) if before > 0 else 0.0)
    return result
