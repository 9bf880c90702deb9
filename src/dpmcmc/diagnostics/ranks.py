"""How the ranks of each chain's draws among all spread (Vehtari et al. 2021): evenly if the chains agree."""

from typing import NamedTuple

import numpy as np
from scipy import stats

from dpmcmc.diagnostics.arguments import Array

BINS = 20
DRAWS_A_BIN = 5


class Ranks(NamedTuple):
    """A histogram of ranks: the edges of its bins, and the counts of each chain, (chain, bin)."""

    edges: Array
    counts: Array

    @property
    def expected(self) -> float:
        """What every bin of every chain would hold if the chains agreed."""
        return float(self.counts.sum() / self.counts.size)


def rank_counts(values: Array) -> Ranks:
    """Return how the ranks of one number's draws, (chain, draw), spread over bins."""
    bins = max(2, min(BINS, values.shape[1] // DRAWS_A_BIN))
    ranked = stats.rankdata(values).reshape(values.shape)
    edges = np.linspace(0.5, values.size + 0.5, bins + 1)
    return Ranks(edges, np.array([np.histogram(chain, edges)[0] for chain in ranked]))
