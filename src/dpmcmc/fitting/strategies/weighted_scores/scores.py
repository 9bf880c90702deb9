"""Bounded scores, as a weighted fit reads them; each family has its own, in `dpmcmc.model.formula.families`."""

from dpmcmc.model.bounded_scores.base import MIDDLES, RESIDUALS, BoundedScore, Floats, Moments, Scores, TabledScores

__all__ = ["MIDDLES", "RESIDUALS", "BoundedScore", "Floats", "Moments", "Scores", "TabledScores"]
