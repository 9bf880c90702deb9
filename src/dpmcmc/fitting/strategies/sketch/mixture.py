"""A mixture of Student's laws: where to look for the mass of a density."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpmcmc.fitting.strategies.sketch.skeleton import Matrix

FREEDOM = 5.0
"""Of Student's laws, whose tails are heavier than those of a posterior."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Student's laws of equal shares around centres."""

    centres: Matrix
    factors: Matrix
    """Cholesky factors of the scales, one a centre."""

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Return draws, one row each, as many of each law as can be."""
        chosen = np.arange(num_draws) % len(self.centres)
        lengths = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(num_draws, 1)))
        normal = rng.standard_normal((num_draws, self.centres.shape[1])) * lengths
        return self.centres[chosen] + np.einsum("nij,nj->ni", self.factors[chosen], normal)

    def log_density(self, positions: Matrix) -> NDArray[np.float64]:
        """Return the log-density, up to a constant."""
        parts = np.empty((len(self.centres), len(positions)))
        for part, centre, factor in zip(parts, self.centres, self.factors, strict=True):
            white = np.linalg.inv(factor) @ (positions - centre).T
            spread = np.log1p(np.sum(white**2, axis=0) / FREEDOM)
            part[:] = -np.sum(np.log(np.diag(factor))) - 0.5 * (FREEDOM + len(centre)) * spread
        return np.asarray(logsumexp(parts, axis=0))
