"""The releases of a weighted fit: histograms of the columns, and scores with their slope.

A record's score is multiplied by a weight that depends on its predictors alone, so that its norm is at most `radius`
for every response, and its slope at most `slope_radius`. The weighted scores still have mean zero at the truth. In
whitened coordinates z, parameters = centre + factor z; `radius` and all else that changes from one question to the next
are arguments, and what the vault clips is held to one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import Oracle, SpacedSum, Sum
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression

RATIO = 1.3
LENGTHS = RATIO ** np.arange(-4.0, 16.0)
"""Upper edges of the bins of the score histogram in roots of (parameters / records); a last bin has none."""

OFF_DIAGONAL = float(np.sqrt(2.0))
"""Entries off the diagonal stand for two."""

SIDE = 0.5
"""The share of its length with which the side information of a slope is added to it: the trace of its variance, how the
variance differs between coordinates, and its bin."""

LENGTH = float(np.sqrt(1 + 3 * SIDE**2))

MOST_SLICES = 24
"""Up to how many parameters a triangle is put together from slices: each of them is a loop to compile."""


class Asked(NamedTuple):
    """The point and the settings of a query of scores: all public."""

    centre: Any
    factor: Any
    radius: Any
    """The longest weighted score."""
    slope_radius: Any
    """The largest trace of a record's weighted slope."""
    shares: Any
    """What of the release's budget goes to the score and to the slope; they add up to one."""
    edges: Any
    """Of the bins of the histogram of lengths, but the last."""
    table: Any
    """The family's own."""
    weight: Any = 1.0
    """The weight that counts as one, where rows state some."""


class Answer(NamedTuple):
    """The sums over records, with noise, in whitened coordinates."""

    score: Any
    score_sd: Any
    slope: Any
    slope_sd: Any
    """Of the noise on the diagonal; off it it is a root of two smaller."""
    variance: Any
    """The trace of the variance of the sum of scores, given the predictors."""
    differences: Any
    """The variance in each coordinate, less the mean over them."""
    lengths: Any
    """The trace of the slope by the length that the longest score of a record has without weight, if it was asked."""


class _Weighed(NamedTuple):
    """One record: its score and slope without weight, its weight, and its bin."""

    score: jax.Array
    steep: jax.Array
    moves: jax.Array
    """Two factors of the slope, steep^T moves, by rows and predictors."""
    slope_trace: jax.Array
    variance: jax.Array
    """In each coordinate."""
    weight: jax.Array
    bins: jax.Array


@dataclass(frozen=True)
class ScoreAndSlope:
    """The weighted scores and their slope, in one release: ``ask(oracle, asked)``.

    Both are blocks of one vector of norm at most one, each scaled to a norm of at most the root of its share: this has
    the privacy and the noise of two releases with these shares of the budget.
    """

    regression: Regression
    sums: Sum
    has_lengths: bool = True
    """Whether the histogram of lengths is asked: a third more numbers, where few parameters are."""

    @property
    def released(self) -> tuple[Any, ...]:
        """What it releases."""
        return (self.sums,)

    def __call__(self, oracle: Oracle, asked: Asked) -> Answer:
        """Return the two sums."""
        size = self.regression.dimension
        found = oracle.sum(self.sums, _Blocks(self.regression, self.has_lengths), asked)
        (score_unit, slope_unit), sd = _units(asked), jnp.sqrt(found.variance)
        score = found.value[:size] * score_unit, sd * score_unit
        return _answer(size, score, (found.value[size:] * slope_unit, sd * slope_unit))


@dataclass(frozen=True)
class ScoreAndSpacedSlope:
    """The weighted scores of all records, and their slope from one record of every few: ``ask(oracle, asked)``.

    The records of the slope stand at public places, spread evenly, so that it is that of all but for a sampling error
    (`spacing.py`). It has the price of `ScoreAndSlope` with the same shares.
    """

    regression: Regression
    sums: Sum
    slopes: SpacedSum

    @property
    def released(self) -> tuple[Any, ...]:
        """What it releases."""
        return self.sums, self.slopes

    def __call__(self, oracle: Oracle, asked: Asked) -> Answer:
        """Return the two sums."""
        times = LENGTH * self.slopes.step
        score = oracle.sum(self.sums, _OfScore(self.regression), asked)
        slope = oracle.sum(self.slopes, _OfSlope(self.regression), asked)
        of_score = score.value * asked.radius, jnp.sqrt(score.variance) * asked.radius
        of_slope = slope.value * (asked.slope_radius * times), jnp.sqrt(slope.variance * times**2) * asked.slope_radius
        return _answer(self.regression.dimension, of_score, of_slope)


def _answer(size: int, of_score: tuple[jax.Array, jax.Array], of_slope: tuple[jax.Array, jax.Array]) -> Answer:
    """Return sums and standard deviations of their noise, apart."""
    entries, slope_sd = of_slope
    rows, columns = np.triu_indices(size)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries[: len(rows)] / _weights(size))
    side, slope = entries[len(rows) :] / SIDE, upper + jnp.triu(upper, 1).T
    return Answer(*of_score, slope, slope_sd, side[0], side[1 : 1 + size], side[1 + size :])


@dataclass(frozen=True)
class _Blocks:
    """The contribution of one record, which does not depend on the noise."""

    regression: Regression
    has_lengths: bool

    def __call__(self, asked: Asked, record: Any) -> jax.Array:
        one, (score_unit, slope_unit) = weighed(self.regression, asked, record), _units(asked)
        return jnp.concatenate(
            [one.weight * (1 / score_unit) * one.score, *_of_slope(one, slope_unit, self.has_lengths)]
        )


@dataclass(frozen=True)
class _OfScore:
    """The weighted score of one record, of norm at most one."""

    regression: Regression

    def __call__(self, asked: Asked, record: Any) -> jax.Array:
        one = weighed(self.regression, asked, record)
        return one.weight * (1 / asked.radius) * one.score


@dataclass(frozen=True)
class _OfSlope:
    """The weighted slope of one record and its side information, of norm at most one."""

    regression: Regression

    def __call__(self, asked: Asked, record: Any) -> jax.Array:
        one = weighed(self.regression, asked, record)
        return jnp.concatenate(_of_slope(one, asked.slope_radius * LENGTH, has_lengths=False))


def _of_slope(one: _Weighed, unit: jax.Array, has_lengths: bool) -> list[jax.Array]:
    """Return the slope of one record and its side information, over a unit."""
    of_slope = one.weight * (1 / unit)
    of_side = SIDE * of_slope
    of_variance = of_side * one.weight
    trace, mean = jnp.sum(one.variance), jnp.mean(one.variance)
    return [
        *upper_triangle(of_slope * one.steep, one.moves),
        (of_variance * trace)[None],
        of_variance * (one.variance - mean),
        *([of_side * one.slope_trace * one.bins] if has_lengths else []),
    ]


def upper_triangle(steep: jax.Array, moves: jax.Array) -> list[jax.Array]:
    """Return the upper triangle of steep^T moves in pieces, row after row, entries off the diagonal weighted.

    By slices where there are few, since a compiler for CPUs looks every entry up if they are gathered; with one factor
    of each, as most records of most families have, without the rest of the matrix.
    """
    size, weights = moves.shape[1], _weights(moves.shape[1])
    if size > MOST_SLICES:
        return [weights * (steep.T @ moves)[np.triu_indices(size)]]
    of_row = [weights[: size - place] for place in range(size)]  # each row begins on the diagonal, as the first does
    if len(moves) == 1:
        return [steep[0, place] * (of_row[place] * moves[0, place:]) for place in range(size)]
    whole = steep.T @ moves
    return [of_row[place] * whole[place, place:] for place in range(size)]


def _units(asked: Asked) -> tuple[jax.Array, jax.Array]:
    """Return what the two blocks are divided by."""
    return asked.radius / jnp.sqrt(asked.shares[0]), asked.slope_radius * LENGTH / jnp.sqrt(asked.shares[1])


def weighed(regression: Regression, asked: Asked, record: Any) -> _Weighed:
    """Return the score and the slope of one record in whitened coordinates, and its weight."""
    rows, is_there = regression.rows(record)
    found = jax.vmap(lambda row: _of_row(regression, asked, row))(rows)
    score, steep, moves, trace, variance, longest, steepest = found
    present = is_there.astype(jnp.float32)
    score, variance, longest = _summed(present, score), _summed(present, variance), _summed(present, longest)
    steep = (present[:, None, None] * steep).reshape(-1, regression.dimension)
    moves, trace = moves.reshape(-1, regression.dimension), _summed(present, trace)
    by_score = asked.radius / jnp.maximum(longest, 1e-30)
    most = trace if steepest is None else jnp.sum(present * steepest)
    by_slope = asked.slope_radius / jnp.maximum(most, 1e-30)
    weight = jnp.minimum(1.0, jnp.minimum(by_score, by_slope))
    lower, upper = jnp.append(-1.0, asked.edges), jnp.append(asked.edges, jnp.inf)
    bins = ((longest > lower) & (longest <= upper)).astype(jnp.float32)
    return _Weighed(score, steep, moves, trace, variance, weight, bins)


def _summed(present: jax.Array, of_rows: jax.Array) -> jax.Array:
    """Return the sum over the rows of a record that are there; of one row without a product, which takes longer."""
    return present[0] * of_rows[0] if len(present) == 1 else jnp.tensordot(present, of_rows, 1)


def _of_row(regression: Regression, asked: Asked, row: Any) -> tuple[Any, ...]:
    """Return score, slope in two factors, its trace, variance in each coordinate, and longest score, without weight.

    Last comes a bound on the trace of the slope where that depends on the response: weights may not look at it.
    """
    response, columns, size = regression.model.coordinates.response, regression.row(row), regression.dimension
    shapes = regression.shapes(jnp, asked.centre, columns)
    along, predictors = _along(regression, asked, row, columns)
    found = regression.scores.at(predictors, shapes, response.read(row), response.read_trials(row), asked.table)
    moves = jnp.concatenate([along, regression.shape_moves(asked.factor, columns)])
    kept = np.array([*range(regression.num_outputs), *(regression.num_outputs + place for place in regression.free)])
    score, slope, variance = found.score[kept], found.slope[kept][:, kept], found.variance[kept][:, kept]
    one = len(moves) == 1  # then a product with ones, which takes less time
    gram = ((moves[0] * moves[0]) @ np.ones(size, np.float32))[None, None] if one else moves @ moves.T
    all_of = np.eye(regression.num_outputs + regression.scores.num_shapes)[kept]  # fixed shapes have no direction
    whole = all_of.T @ gram @ all_of
    longest, steepest = found.longest(whole), None if found.steepest is None else found.steepest(whole)
    share = response.read_weight(row) / asked.weight if response.weights else 1.0
    spread, trace = jnp.sum((variance @ moves) * moves, axis=0), share * jnp.sum(slope * gram)
    steepest = None if steepest is None else share * steepest
    return (
        share * (moves.T @ score),
        share * (slope @ moves),
        moves,
        trace,
        share**2 * spread,
        share * longest,
        steepest,
    )


def _along(regression: Regression, asked: Asked, row: Any, columns: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return how the predictors of a row move with the coordinates, and what they are: in one product."""
    size, num_linear = regression.dimension, regression.num_linear
    shape = regression.num_columns, regression.num_outputs
    linear = jnp.column_stack([asked.factor[:num_linear], asked.centre[:num_linear]]).reshape(*shape, size + 1)
    both = jnp.tensordot(columns, linear, 1)
    return both[:, :size], both[:, size] + regression.model.coordinates.offset(row)


def _weights(size: int) -> Any:
    rows, columns = np.triu_indices(size)
    return np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)
