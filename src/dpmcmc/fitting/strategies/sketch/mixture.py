"""Mixtures of Student's t distributions, as proposals of importance sampling."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpmcmc.fitting.strategies.sketch.skeleton import Matrix

FREEDOM = 5.0
"""Degrees of freedom: the tails are heavier than those of a posterior."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """An equally weighted mixture of Student's t distributions around centres."""

    centres: Matrix
    factors: Matrix
    """Cholesky factors of the scales, one a centre."""

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Return draws, one row each, equally many from each component as far as possible."""
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
