"""Bounded scores of times to an event that may be censored, whatever censors them.

With N(t) the event that was seen by t and Lambda the cumulative hazard while a record was under observation, N - Lambda
is a martingale at the truth, if censoring is independent given the predictors. So is every integral over it of a weight
that is known in advance, before the time is seen:

    integral of a(t, x) (dN - dLambda),        mean zero whatever the law of the censoring is.

The weight here is the score of the log-hazard in a window of times that depends on the predictors alone. After it the
weight is zero, so that everybody counts as censored there, and before it the weight is what it is at its beginning. So
the cumulative hazard, and with it the integral, is bounded. Its slope, the integral of a s^T dLambda, s the score, and
its variance, that of a a^T, depend on how long a record was under observation: they are released, not computed
(Andersen, Borgan, Gill and Keiding 1993, chapter VI, for likelihoods of counting processes).

A response is the logarithm of the time, whether the event was seen, and the logarithm of the time from which on it
would have been: that of a record that was there from the start is `FROM_START`.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, Moments, Scores
from dpmcmc.model.bounded_scores.law import Law
from dpmcmc.model.bounded_scores.spread import Spread

FROM_START = -69.0
"""The logarithm of a time before every other."""

UNCUT = 20.0
"""A bound that leaves next to everything."""

MOST_STEEP = 8.0
"""By how much a slope may be steeper than on average for it to be let in."""

CELLS = 160
"""How many times stand for all, on the host."""


class Integrals(NamedTuple):
    """Of one record, or of many: (..., arguments) and (..., arguments, arguments)."""

    score: Any
    """The integral of the weight over the event less the hazard."""
    slope: Any
    """That of its product with the score over the hazard, as long as the record was under observation, made
    symmetric."""
    variance: Any
    """That of its square."""
    steepest: Any
    """The slope of a record that is under observation all the time: not less, and known before the time is seen."""


class SurvivalScores(Scores):
    """Scores of a time and of whether it is that of the event."""

    def __init__(self, last: float, has_entry: bool = False) -> None:
        """Say what is public.

        Args:
            last: the logarithm of the longest time that there can be.
            has_entry: whether records may have come under observation after the start.
        """
        self.last, self.has_entry = last, has_entry

    @property
    def size(self) -> int:
        """How many arguments there are."""
        return 1 + self.num_shapes

    @abstractmethod
    def integrals(self, xp: Any, predictor: Any, shapes: Any, response: Any, table: Any) -> Integrals:
        """Return the integrals of responses (..., 3)."""

    @abstractmethod
    def longest(self, predictor: Any, shapes: Any, table: Any, gram: Any) -> Any:
        """Return a bound on the length of the score over all responses, in coordinates with a Gram matrix."""

    @abstractmethod
    def edges(self, predictor: float, shapes: Floats) -> Floats:
        """Return logarithms of increasing times up to the last that matters, on the host."""

    @abstractmethod
    def cumulative(self, predictor: float, shapes: Floats, logs: Floats) -> Floats:
        """Return the cumulative hazard at times, on the host."""

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the bounded score."""
        del trials
        found = self.integrals(jnp, predictors[0], shapes, response, table)
        return BoundedScore(
            found.score,
            found.slope,
            found.variance,
            lambda gram: self.longest(predictors[0], shapes, table, gram),
            lambda gram: jnp.sum(found.steepest * gram),
        )

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the law of a record that is censored at any time up to the last, each as probable as the other.

        Nothing better is known before a release; what the records show is in the slopes that are released.
        """
        predictor = float(predictors[0])
        edges = self.edges(predictor, shapes)
        middles = (edges[1:] + edges[:-1]) / 2
        survive, stay = np.exp(-self.cumulative(predictor, shapes, edges)), self._stay(edges)
        events = (survive[:-1] - survive[1:]) * self._stay(middles)
        censored = (stay[:-1] - stay[1:]) * np.exp(-self.cumulative(predictor, shapes, middles))
        at_end = survive[-1] * stay[-1]
        weights = np.concatenate([events, censored, [at_end]])
        logs = np.concatenate([middles, middles, edges[-1:]])
        seen = np.concatenate([np.ones(len(middles)), np.zeros(len(middles) + 1)])
        responses = np.stack([logs, seen, np.full(len(logs), FROM_START)], axis=1)
        weights = weights / weights.sum()
        found = [
            self.integrals(np, predictor, shapes, responses, self.table(shapes, one)).score for one in (UNCUT, bound)
        ]
        full, cut = (one - weights @ one for one in found)
        return Law(weights, full, cut)

    def _stay(self, logs: Floats) -> Floats:
        return 1 - np.exp(np.minimum(logs - self.last, 0.0))

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the information of a record that is censored like this."""
        return self.under_model(predictors, shapes, UNCUT).information

    def moments(self, predictors: Floats, shapes: Floats, bound: float) -> Moments:
        """Return what a cut does to the score of a usual record."""
        law = self.under_model(predictors, shapes, bound)
        lengths = np.abs(law.bounded).max(axis=0) / np.sqrt(np.maximum(np.diag(law.information), 1e-30))

        def longest(num_linear: int) -> float:
            return float(np.linalg.norm(lengths * np.sqrt(np.append(num_linear, np.ones(self.num_shapes)))))

        return Moments(max(float(law.slope[0, 0]), 1e-30), max(float(law.variance[0, 0]), 1e-30), longest)

    def cut_roots(self, predictors: Floats, shapes: Floats, bound: float) -> tuple[float, Floats]:
        """Return roots of variance over slope, for the predictor and for each of the shapes."""
        law = self.under_model(predictors, shapes, bound)
        roots = np.sqrt(np.maximum(np.diag(law.variance), 1e-30) / np.maximum(np.diag(law.slope), 1e-30))
        return float(roots[0]), np.diag(roots[1:])

    def steepness(self, predictors: Floats, shapes: Floats, bound: float) -> float:
        """Return that of a record which is under observation all the time."""
        law, some = self.under_model(predictors, shapes, bound), np.array([self.last, 0.0, FROM_START])
        steepest = self.integrals(np, float(predictors[0]), shapes, some, self.table(shapes, bound)).steepest
        ratios = np.diag(steepest) / np.maximum(np.diag(law.slope), 1e-30)
        return float(np.clip(ratios.mean(), 1.0, MOST_STEEP))

    def histogram(self, response: Spread) -> tuple[Floats, Floats, Floats]:
        """Return logarithms of times, the share of the records with an event there, and that of the censored ones.

        The histogram has those with an event first, and then as many bins for the others.
        """
        half = len(response.middles) // 2
        return response.middles[:half], response.shares[:half], response.shares[half:]
