"""Bounded scores of responses with finitely many values, all of which a record can be asked about."""

from abc import abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import BoundedScore, Floats, Scores
from dpmcmc.model.bounded_scores.law import Law


class FiniteScores(Scores):
    """Scores of responses that are finitely many: they are bounded by themselves, and have mean zero."""

    @abstractmethod
    def law(self, xp: Any, predictors: Any, shapes: Any) -> tuple[Any, Any]:
        """Return the probabilities (classes,) and the scores (classes, arguments), with NumPy or JAX as `xp`."""

    def at(self, predictors: Any, shapes: Any, response: Any, trials: Any, table: Any) -> BoundedScore:
        """Return the score of the class that the response is."""
        del trials, table
        probabilities, scores = self.law(jnp, predictors, shapes)
        own = (jnp.round(response) == jnp.arange(len(scores))).astype(jnp.float32) @ scores
        slope = (scores * probabilities[:, None]).T @ scores
        return BoundedScore(own, slope, slope, lambda gram: jnp.sqrt(jnp.max(jnp.sum(scores @ gram * scores, axis=1))))

    def under_model(self, predictors: Floats, shapes: Floats, bound: float) -> Law:
        """Return the classes; nothing is cut."""
        del bound
        probabilities, scores = self.law(np, predictors, shapes)
        return Law(probabilities, scores, scores)

    def information(self, predictors: Floats, shapes: Floats) -> Floats:
        """Return the Fisher information of one record."""
        probabilities, scores = self.law(np, predictors, shapes)
        return (scores * probabilities[:, None]).T @ scores
