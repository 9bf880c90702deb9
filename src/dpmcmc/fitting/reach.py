"""How long the scores of the records are, as a noisy histogram: the clip that follows trades its bias for its noise.

In round coordinates most scores are shorter than the usual clip. Where the tails of the records are heavier than those
of the model some are much longer, and clipping them moves the posterior: a longer clip moves it less, and takes noise.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.facts import Facts
from dpmcmc.fitting.round import Summit
from dpmcmc.fitting.scales import score
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

STRETCHES = 1.4 ** np.arange(6)
"""The clips to choose from, in usual ones; also the lower edges of the histogram, whose last bin has no upper one."""

ALIGNED = 0.5
"""What of the length that clips cut off adds up, about; the rest points in different directions."""


@dataclass(frozen=True)
class Reach:
    """Noisy counts of the records by the length of their scores in round coordinates: ``reach(oracle, summit)``."""

    model: Model
    layout: Layout
    counts: Sum
    facts: Facts

    def __call__(self, oracle: Oracle, summit: Summit) -> jax.Array:
        """Return how many records have a score between one clip and the next longer one."""
        edges = self.facts.gradient_clip * np.append(STRETCHES, np.inf).astype(np.float32)

        def bins(centre: jax.Array, factor: jax.Array, record: Any) -> jax.Array:
            length = jnp.linalg.norm(score(self.model, self.layout)(centre, factor, record))
            return ((length > edges[:-1]) & (length <= edges[1:])).astype(jnp.float32)

        return oracle.sum(self.counts, bins, summit.centre, summit.factor).value

    def stretch(self, counts: jax.Array, left: float) -> float:
        """Return the best clip in usual ones, where gradients may cost `left` in mean privacy loss.

        There are fewer scores in a bin than in the one of shorter scores before it: that takes noise off the counts.
        """
        fewer = np.maximum(optimize.isotonic_regression(np.asarray(counts, np.float64), increasing=False).x, 0.0)
        lengths = STRETCHES * np.sqrt(STRETCHES[1])
        excess = np.maximum(lengths - STRETCHES[:, None], 0.0) @ fewer * self.facts.gradient_clip
        noise = self.facts.clips_moved * self.facts.gradient_clip * STRETCHES / np.sqrt(2 * left)
        return float(STRETCHES[np.argmin((ALIGNED * excess) ** 2 + self.facts.dimension * noise**2)])
