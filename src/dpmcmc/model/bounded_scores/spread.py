"""The noisy histogram of a response, and what of it a family starts from."""

from dataclasses import dataclass

import numpy as np

from dpmcmc.model.bounded_scores.base import Floats


@dataclass(frozen=True)
class Spread:
    """A noisy histogram."""

    middles: Floats
    shares: Floats
    noise: float = 0.0
    """The standard deviation of the noise of the share of the events, where there are some."""

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.shares @ self.middles)

    def quantile(self, probability: float) -> float:
        """Return a quantile, with even spread within bins."""
        return float(self.quantiles(np.array(probability)))

    def quantiles(self, probabilities: Floats) -> Floats:
        """Return several."""
        width = np.diff(self.middles, append=2 * self.middles[-1] - self.middles[-2])
        total = np.concatenate([[0.0], np.cumsum(self.shares)])
        edges = np.append(self.middles - width / 2, self.middles[-1] + width[-1] / 2)
        return np.interp(probabilities, total, edges)

    @property
    def variance(self) -> float:
        """The variance, that within bins not counted."""
        return float(self.shares @ (self.middles - self.mean) ** 2)

    @property
    def reach(self) -> float:
        """The root of the mean square of the distance from the mean, each weighted by its square."""
        return float(np.sqrt(self.shares @ (self.middles - self.mean) ** 4 / max(self.variance, 1e-12)))

    def without_zeros(self) -> "Spread":
        """Return the histogram of what lies above the first bin."""
        total = self.shares[1:].sum()
        shares = self.shares[1:] / total if total > 0 else np.full(len(self.shares) - 1, 1 / (len(self.shares) - 1))
        return Spread(self.middles[1:], shares)
