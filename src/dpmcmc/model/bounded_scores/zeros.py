"""Bounded scores where zeros come from elsewhere as well: inflated zeros, and hurdles that are taken or not.

The last shape is the log-odds of the extra zeros, or of a zero at all; the others are those of the law behind them.
"""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.counts import Counts, CountsWithZero
from dpmcmc.model.bounded_scores.one_row import OneRow
from dpmcmc.model.bounded_scores.spread import Spread

LEAST, MOST = 0.02, 0.95
"""Shares of zeros to start from."""

NEVER = 80.0
"""Minus the logarithm of a probability that is none."""

ZERO = -1e4
"""What a response of zero is read as, where the others are read as logarithms."""


class _Zeros(Counts):
    """Counts behind more zeros, or fewer."""

    usual_length = 2.4

    def __init__(self, most: float, counts: CountsWithZero) -> None:
        super().__init__(most)
        self.counts = counts
        self.num_shapes = counts.num_shapes + 1

    def shape_bound(self, bound: float) -> float:
        """Return that of the counts."""
        return max(self.counts.shape_bound(bound), 2.0 * bound)

    def rule(self, predictor: float, shapes: Floats) -> tuple[Floats, Floats]:
        """Return the counts behind a zero of its own."""
        counts = np.append(0.0, self.counts.rule(predictor, shapes[:-1])[0])
        return counts, self.weights(counts, predictor, shapes)

    def log_density(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return that of the counts alone."""
        return self.counts.log_density(counts, predictor, shapes[:-1])

    def spread(self, mean: float, shapes: Floats) -> tuple[float, float]:
        """Return that of the counts."""
        return self.counts.spread(mean, shapes[:-1])

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what the counts above zero have, and the share of zeros that they do not explain."""
        above, zero = response.without_zeros(), float(response.shares[0])
        constants, shapes = self.counts.start(above, floor)
        mean = max(above.mean, 1.05)
        for _ in range(50):  # the mean of the counts that are not zero is mean / (1 - P(0))
            expected = -np.expm1(self.counts.log_zero(np, constants[0], shapes))
            constants = np.array([np.log(max(mean * expected, floor))])
        expected = float(np.exp(self.counts.log_zero(np, constants[0], shapes)))
        return constants, np.append(shapes, special.logit(np.clip(self.share(zero, expected), LEAST, MOST)))

    @abstractmethod
    def share(self, zeros: float, expected: float) -> float:
        """Return the last shape as a share, given the share of zeros and what the counts would have."""


class ZeroInflated(_Zeros):
    """Counts, of which a share is zero whatever the predictor says."""

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores of the counts, those of a zero by how probably it is one of theirs, and by the log-odds."""
        share, is_zero = _logistic(xp, shapes[-1]), xp.asarray(response) == 0
        zero = xp.exp(self.counts.log_zero(xp, predictor, shapes[:-1]))
        all_zeros = share + (1 - share) * zero
        own = xp.where(is_zero, (1 - share) * zero / all_zeros, 1.0)[..., None]
        counts = own * self.counts.scores(xp, response, predictor, shapes[:-1])
        of_share = xp.where(is_zero, share * (1 - share) * (1 - zero) / all_zeros, -share)
        return xp.concatenate([counts, of_share[..., None]], axis=-1)

    def weights(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return those of the counts, and more for the zero in front."""
        share = special.expit(shapes[-1])
        own = self.counts.weights(counts[1:], predictor, shapes[:-1])
        return np.append(share, (1 - share) * own)

    def share(self, zeros: float, expected: float) -> float:
        """Return the zeros beyond those expected."""
        return (zeros - expected) / max(1 - expected, 1e-6)


class Hurdle(_Zeros):
    """Zero with one probability, and else a count that is not zero."""

    def scores(self, xp: Any, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the scores of counts that cannot be zero, none of a zero, and by the log-odds of zero."""
        share, is_zero = _logistic(xp, shapes[-1]), xp.asarray(response) == 0
        odds = 1 / xp.expm1(xp.minimum(-self.counts.log_zero(xp, predictor, shapes[:-1]), NEVER))
        at_zero = self.counts.scores(xp, xp.zeros_like(xp.asarray(response, float)), predictor, shapes[:-1])
        counts = self.counts.scores(xp, response, predictor, shapes[:-1]) + odds * at_zero
        return xp.concatenate(
            [xp.where(is_zero[..., None], 0.0, counts), xp.where(is_zero, 1 - share, -share)[..., None]], axis=-1
        )

    def weights(self, counts: Floats, predictor: float, shapes: Floats) -> Floats:
        """Return those of the counts that are not zero, and that of the zero in front."""
        share = special.expit(shapes[-1])
        own = np.where(counts[1:] > 0, self.counts.weights(counts[1:], predictor, shapes[:-1]), 0.0)
        return np.append(share, (1 - share) * own / own.sum())

    def share(self, zeros: float, expected: float) -> float:
        """Return all zeros."""
        del expected
        return zeros


class HurdleRow(OneRow):
    """Zero with one probability, and else a positive number."""

    usual_length = 1.4

    def __init__(self, numbers: OneRow) -> None:
        self.numbers = numbers
        self.num_shapes = numbers.num_shapes + 1

    def shape_bound(self, bound: float) -> float:
        """Return that of the numbers."""
        return max(self.numbers.shape_bound(bound), 2.0 * bound)

    def residual_of(self, response: Any, predictor: Any, shapes: Any) -> Any:
        """Return the residual of the number; zero stays what it is read as."""
        return jnp.where(response <= ZERO / 2, ZERO, self.numbers.residual_of(response, predictor, shapes[:-1]))

    def scores(self, xp: Any, residual: Any, shapes: Any) -> Any:
        """Return the scores of numbers, none of a zero, and by the log-odds of zero."""
        share, is_zero = _logistic(xp, shapes[-1]), residual <= ZERO / 2
        numbers = self.numbers.scores(xp, xp.where(is_zero, 0.0, residual), shapes[:-1])
        unit = xp.concatenate([xp.reshape(self.numbers.unit(xp, shapes[:-1]), (1,)), xp.ones(self.numbers.num_shapes)])
        return xp.concatenate(
            [xp.where(is_zero[..., None], 0.0, unit * numbers), xp.where(is_zero, 1 - share, -share)[..., None]],
            axis=-1,
        )

    def rule(self, shapes: Floats) -> tuple[Floats, Floats]:
        """Return the residuals of numbers, and zero."""
        residuals, weights = self.numbers.rule(shapes[:-1])
        share = special.expit(shapes[-1])
        return np.append(ZERO, residuals), np.append(share, (1 - share) * weights)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return what the numbers have, and the share of zeros."""
        constants, shapes = self.numbers.start(response.without_zeros(), floor)
        return constants, np.append(shapes, special.logit(np.clip(response.shares[0], LEAST, MOST)))


def _logistic(xp: Any, value: Any) -> Any:
    return special.expit(value) if xp is np else sigmoid(value)
