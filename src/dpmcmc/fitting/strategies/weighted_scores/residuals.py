"""Do the residuals have the family's law? Bounded scores estimate something else where they do not.

Where the model holds, weighted scores and the likelihood have the same root. Where tails are heavier than the family's,
or some counts are zero for another reason, the two are apart, and a result that is good for the one is not for the
other. So the residuals are counted by bins, each less its probability under the model: the sums are zero but for chance
and noise.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import RESIDUALS, Floats

LENGTH = float(np.sqrt(2.0))
"""The longest that a record's counts less their probabilities are."""

RARE = 1e-4
"""How rarely residuals that have the family's law are told not to."""


class Point(NamedTuple):
    """Where residuals are asked for."""

    centre: Any
    table: Any


@dataclass(frozen=True)
class Residuals:
    """Counts of residuals by bins, less what the model expects: ``residuals(oracle, point)``."""

    regression: Regression
    noise_multiplier: float

    def __call__(self, oracle: Oracle, point: Point) -> tuple[jax.Array, jax.Array]:
        """Return the sums, with the standard deviation of their noise."""
        found = oracle.sum(Sum(LENGTH, self.noise_multiplier), _Excess(self.regression), point)
        return found.value, jnp.sqrt(found.variance)


@dataclass(frozen=True)
class _Excess:
    """What one record adds: the same for every noise."""

    regression: Regression

    def __call__(self, point: Point, record: Any) -> jax.Array:
        rows, is_there = self.regression.rows(record)
        shares = is_there.astype(jnp.float32)
        return shares @ jax.vmap(lambda row: self._of_row(point, row))(rows) / jnp.maximum(jnp.sum(shares), 1.0)

    def _of_row(self, point: Point, row: Any) -> jax.Array:
        regression, response = self.regression, self.regression.model.coordinates.response
        predictors, shapes = regression.predictors(point.centre, row), regression.shapes(jnp, point.centre)
        residual, probabilities = regression.scores.residual(predictors, shapes, response.read(row), point.table)
        lower = np.append(-np.inf, RESIDUALS).astype(np.float32)
        upper = np.append(RESIDUALS, np.inf).astype(np.float32)
        return ((residual > lower) & (residual <= upper)).astype(jnp.float32) - probabilities


def p_value(excess: Floats, noise: float, size: float, probabilities: Floats) -> float:
    """Return how probable a larger excess is, in the worst of the bins, were the law the family's."""
    sds = np.sqrt(noise**2 + size * probabilities * (1 - probabilities))
    return float(min(1.0, len(excess) * 2 * stats.norm.sf(np.max(np.abs(excess) / sds))))
