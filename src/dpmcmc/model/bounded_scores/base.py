"""Scores of a response that are bounded, and still have mean zero under the model whatever the bound.

A score that is clipped has another mean, so an estimate from clipped scores is biased. Here it is bounded by a function
of the residual whose mean under the model, given the predictors, is known and taken off; what is left to bound is a
matter of the predictors alone, by a weight that does not look at the response. The estimating equation then has
the truth as its root if the model holds: bounded-influence estimators of Mallows' type (Cantoni and Ronchetti 2001;
Avella-Medina 2021 for the link to privacy).

A family's *arguments* are its predictors and then its shape parameters, as a sampler moves in them: logarithms of
positive ones, a first cutpoint and the logarithms of the gaps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dpmcmc.model.bounded_scores.law import Law

Floats = NDArray[np.float64]


class BoundedScore(NamedTuple):
    """The score of one response in the arguments of its family, centred, with what the model says of it."""

    score: Any
    """Of the response: shape (arguments,)."""
    slope: Any
    """How fast its mean moves with the arguments: Cov(score, log-likelihood's gradient), made symmetric."""
    variance: Any
    """Its covariance under the model."""
    longest: Callable[[Any], Any]
    """``longest(gram)``: a bound on its length over all responses, in coordinates whose Gram matrix is given."""
    steepest: Callable[[Any], Any] | None = None
    """``steepest(gram)``: a bound on the trace of the slope, where that depends on the response."""


class Moments(NamedTuple):
    """What a cut does to the score of a usual record."""

    slope: float
    """Of the score by the predictor."""
    variance: float
    longest: Callable[[int], float]
    """The length of its longest score, up to a factor that all cuts share, given the number of linear parameters."""


class Scores(ABC):
    """The bounded scores of one family."""

    num_predictors: int = 1
    """How many predictors a record has, where they are not as many as classes."""

    num_shapes: int = 0
    """How many shape parameters the family has."""

    has_threshold: bool = False
    """Whether the first of them is a threshold: what counts is how far the predictor is from it."""

    usual_predictor: float = 0.0
    """That of a record of which nothing is known yet, for forecasts: times to an event say it by their unit."""

    usual_length: float = float(np.sqrt(2.0))
    """How long the longest score of a usual record is, cut as in a pilot, in roots of (parameters / records)."""

    @abstractmethod
    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score of one record, in JAX."""

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return what `at` looks up at these shapes: public, made on the host.

        Args:
            shapes: the shape parameters.
            bound: of the scores, in their own standard deviations; of no effect where responses are finitely many.
        """
        del shapes, bound
        return np.zeros((1, 1))

    @abstractmethod
    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the expected slope of one record, on the host."""

    @abstractmethod
    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the law of a record's scores, cut like this, on the host."""

    @abstractmethod
    def start(self, response: Any, floor: float) -> tuple[Floats, Floats]:
        """Return the constants of the predictors and the shapes that fit the histogram of a response.

        Args:
            response: the histogram (`Spread`), of the response as the family reads it.
            floor: the least share that is told from none.
        """

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record; nothing where there is nothing to cut."""
        del predictors, shapes, bound
        return Moments(1.0, 1.0, lambda _: 1.0)

    def cut_off(self, residuals: Floats, bound: float) -> tuple[Floats, Floats]:
        """Return what a cut takes off the scores by the predictor and by the first shape, in standard deviations.

        Args:
            residuals: scores by the predictor in their standard deviations.
            bound: the cut.
        """
        beyond = np.sign(residuals) * np.maximum(np.abs(residuals) - bound, 0.0)
        return beyond, np.zeros_like(residuals)

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return roots of variance over slope, T S T^T = V, for the predictor and for the shapes."""
        del predictors, shapes, bound
        return 1.0, np.eye(self.num_shapes)

    def steepness(self, predictors: Floats, shapes: Floats, bound: float) -> float:
        """Return how much steeper the slope of a usual record may be than it is on average, given its predictors."""
        del predictors, shapes, bound
        return 1.0

    def residual_table(self, shapes: Floats) -> Floats | None:
        """Return what `residual` looks up; None where no residual can be far out."""
        del shapes
        return None

    def residual(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> tuple[Any, Any]:
        """Return the score by the predictor in its standard deviations, and how probable its bins are, in JAX."""
        raise NotImplementedError

    def bins_at(self, predictors: Floats, shapes: Floats, table: Floats) -> Floats:
        """Return how probable the bins of residuals are of a record with these predictors, on the host."""
        del predictors, shapes
        return np.asarray(table[:, 1:].mean(axis=0))

    def step_of_scale(self, shapes: Floats, bound: float, newton: float) -> float | None:
        """Return by how much the logarithm of a scale is off where Newton's step is this; None if there is no scale."""
        del shapes, bound, newton
        return None


class TabledScores(Scores):
    """Scores that are cut off at so many of their standard deviations, with their moments in a table."""

    @property
    def size(self) -> int:
        """How many arguments there are."""
        return self.num_predictors + self.num_shapes

    def shape_bound(self, bound: float) -> float:
        """Return where scores by shape parameters are cut, further out than those by the predictor: tails tell of them.

        Args:
            bound: of the scores by the predictor. Both are in standard deviations.
        """
        return 2.0 * bound

    def columns(self, table: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Return limits, means, bounds, slopes and variances of one row of a table."""
        size = self.size
        limits, means, bounds = table[:size], table[size : 2 * size], table[2 * size : 3 * size]
        slope, variance = table[3 * size : 3 * size + size**2], table[3 * size + size**2 : 3 * size + 2 * size**2]
        return limits, means, bounds, slope.reshape(size, size), variance.reshape(size, size)

    @abstractmethod
    def row(self, predictors: Floats, shapes: Floats, bound: float) -> Floats:
        """Return the row of the table at predictors, on the host."""

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record."""
        _, _, bounds, slope, variance = self.columns(self.row(predictors, shapes, bound))
        information = np.diag(self.information(predictors, shapes))

        def longest(num_linear: int) -> float:
            of_predictors = np.full(self.num_predictors, num_linear / self.num_predictors)
            lengths = bounds * np.sqrt(np.append(of_predictors, np.ones(self.num_shapes)) / information)
            return float(np.linalg.norm(lengths))

        return Moments(float(slope[0, 0]), float(variance[0, 0]), longest)

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return roots of variance over slope, T S T^T = V, for the predictor and for the shapes."""
        _, _, _, slope, variance = self.columns(self.row(predictors, shapes, bound))
        root, other = np.linalg.cholesky(variance[1:, 1:]), np.linalg.cholesky(slope[1:, 1:])
        return float(np.sqrt(variance[0, 0] / slope[0, 0])), root @ np.linalg.inv(other)

    def bounded(self, scores: Any, row: Any) -> BoundedScore:
        """Return scores as the row of a table cuts and centres them."""
        limits, means, bounds, slope, variance = self.columns(row)
        own = jnp.clip(scores, -limits, limits) - means
        return BoundedScore(own, slope, variance, lambda gram: jnp.sqrt(jnp.maximum(jnp.diagonal(gram), 0.0)) @ bounds)


_POSITIVE = np.array([0.5, 1.5, 2.5, 4.0, 5.6, 8.0, 11.0, 16.0])
RESIDUALS = np.concatenate([-_POSITIVE[::-1], _POSITIVE])
"""Edges of the bins of residuals, in standard deviations."""

MIDDLES = np.concatenate([[-20.0], (RESIDUALS[1:] + RESIDUALS[:-1]) / 2, [20.0]])
"""What the residuals of a bin are taken to be."""


def residual_row(scores: Floats, weights: Floats) -> Floats:
    """Return a row of a table of residuals: one over their standard deviation, and the probabilities of their bins."""
    sd = float(np.sqrt(weights @ scores**2))
    places = np.searchsorted(RESIDUALS, scores / sd, side="left")
    return np.append(1 / sd, np.bincount(places, weights, len(RESIDUALS) + 1))


def table_row(scores: Floats, weights: Floats, bound: float, shape_bound: float) -> Floats:
    """Return a row of a table: scores at the nodes of a rule (nodes, arguments), with the weights of the nodes."""
    limits = np.sqrt(weights @ scores**2) * np.append(bound, np.full(scores.shape[1] - 1, shape_bound))
    return moments_row(limits, np.clip(scores, -limits, limits), scores, weights)


def moments_row(limits: Floats, cut: Floats, scores: Floats, weights: Floats) -> Floats:
    """Return limits, and the moments of scores that were cut there, given the scores of the likelihood."""
    means = weights @ cut
    cut = cut - means
    slope = (cut * weights[:, None]).T @ scores
    variance = (cut * weights[:, None]).T @ cut
    bounds = np.max(np.abs(cut), axis=0)
    return np.concatenate([limits, means, bounds, ((slope + slope.T) / 2).ravel(), variance.ravel()])
