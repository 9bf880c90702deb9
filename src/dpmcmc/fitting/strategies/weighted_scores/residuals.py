"""Tests whether the residuals have the family's distribution; otherwise bounded scores have another target.

If the model holds, weighted scores and the likelihood have the same root. If tails are heavier than the family's, or
counts are zero-inflated, the two differ. So residuals are counted by bins, each minus its probability under the model:
under the model the sums are zero up to chance and noise.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, RESIDUALS, Floats, Scores
from dpmcmc.model import FormulaModel

LENGTH = float(np.sqrt(3.0))
"""The longest that a record's counts less their probabilities are."""

FAR = 4.0
"""Residuals beyond so many standard deviations are counted together as well: a few in many bins are seen in none."""

ALIKE = 2.0
"""Two releases of the same residuals that differ by more noise standard deviations than this had different points."""

RARE = 1e-3
"""False-alarm rate of the test of the residuals."""


IS_FAR = np.abs(MIDDLES) > FAR


class Point(NamedTuple):
    """The point at which residuals are queried."""

    centre: Any
    table: Any


class HasResiduals(Protocol):
    """A regression, as residuals are read from it."""

    @property
    def model(self) -> FormulaModel:
        """The formula's model."""
        ...

    @property
    def scores(self) -> Scores:
        """Of the family."""
        ...

    def rows(self, record: Any) -> tuple[Any, Any]:
        """Return the rows of a record, and which of them are there."""
        ...

    def row(self, record: Any) -> jax.Array:
        """Return the columns of one row."""
        ...

    def predictors(self, vector: jax.Array, record: Any) -> jax.Array:
        """Return the predictors of one row."""
        ...

    def shapes(self, xp: Any, vector: Any, columns: Any = None) -> Any:
        """Return the shape parameters."""
        ...


@dataclass(frozen=True)
class Residuals:
    """Counts of residuals by bins, less what the model expects: ``residuals(oracle, point)``."""

    regression: HasResiduals
    noise_multiplier: float

    @property
    def sums(self) -> Sum:
        """The mechanism."""
        return Sum(LENGTH, self.noise_multiplier)

    def __call__(self, oracle: Oracle, point: Point) -> tuple[jax.Array, jax.Array]:
        """Return the sums, with the standard deviation of their noise."""
        found = oracle.sum(self.sums, _Excess(self.regression), point)
        return found.value, jnp.sqrt(found.variance)


@dataclass(frozen=True)
class _Excess:
    """The contribution of one record, which does not depend on the noise."""

    regression: HasResiduals

    def __call__(self, point: Point, record: Any) -> jax.Array:
        rows, is_there = self.regression.rows(record)
        response = self.regression.model.coordinates.response
        if response.weights:  # a row of weight zero is none
            is_there = is_there & (jax.vmap(response.read_weight)(rows) > 0)
        shares = is_there.astype(jnp.float32)
        return shares @ jax.vmap(lambda row: self._of_row(point, row))(rows) / jnp.maximum(jnp.sum(shares), 1.0)

    def _of_row(self, point: Point, row: Any) -> jax.Array:
        regression, response = self.regression, self.regression.model.coordinates.response
        predictors = regression.predictors(point.centre, row)
        shapes = regression.shapes(jnp, point.centre, regression.row(row))
        residual, probabilities = regression.scores.residual(
            predictors, shapes, response.read(row), response.read_trials(row), point.table
        )
        lower = np.append(-np.inf, RESIDUALS).astype(np.float32)
        upper = np.append(RESIDUALS, np.inf).astype(np.float32)
        bins = (residual > lower) & (residual <= upper)
        return far_and_bins(bins.astype(jnp.float32) - probabilities)


def far_and_bins(values: Any) -> Any:
    """Return values of the bins with the sum over those that are far out in front."""
    xp: Any = np if isinstance(values, np.ndarray) else jnp
    return xp.concatenate([xp.sum(values[IS_FAR])[None], values])


def p_value(excess: Floats, noise: float, size: float, probabilities: Floats) -> float:
    """Return the p-value of the largest excess over the bins, under the family's distribution."""
    sds = np.sqrt(noise**2 + size * probabilities * (1 - probabilities))
    return float(min(1.0, len(excess) * 2 * special.ndtr(-np.max(np.abs(excess) / sds))))


def is_near(squared: float, noise: float) -> bool:
    """Say whether two looks expect about the same residuals, given the square of the move between them.

    That is in standard deviations of what the records that were asked know. To first order a move is one of place and
    scale, which are fitted. To second order it changes the count of a bin by a fifth of its square at most, whatever
    the number of records: that has to be less than half of the noise.
    """
    return squared / 5 <= noise / 2


def p_value_of_looks(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats | None) -> float:
    """Return the p-value of the largest excess in two releases, over the bins and the far residuals.

    Args:
        excess: the excess in the last release; the first entry is the number of far residuals.
        noise: the standard deviation of its noise.
        size: the number of records.
        probabilities: the probabilities of the bins.
        before: the excess in the release before, which is as informative on far residuals if it read as many rows;
            None if it was asked too far away.
    """
    far, variance = excess[0], noise**2
    if before is not None and abs(excess[0] - before[0]) <= ALIKE * np.sqrt(2) * noise:
        far, variance = (excess[0] + before[0]) / 2, noise**2 / 2
    sd = np.sqrt(variance + size * probabilities[0])
    in_bins = p_value(excess[1:], noise, size, probabilities[1:])
    return min(1.0, 2 * min(float(special.ndtr(-far / sd)), in_bins))
