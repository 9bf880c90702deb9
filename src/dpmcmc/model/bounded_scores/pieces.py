"""Bounded scores of times whose hazard is constant between stated cuts, and proportional between records."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.survival import CELLS, Integrals, SurvivalScores

FURTHEST = 12.0
"""How far from one event in the longest time the logarithm of a hazard may be that a fit starts with."""

BORROWED = 0.02
"""How much of the time under observation is added to each piece, at the hazard of all of them, to start from."""


FIRST = 1.5
"""The least cumulative hazard up to which records are looked at: later pieces are seen by those that have passed it."""


class Pieces(SurvivalScores):
    """The predictor is the log-hazard in the first piece, the shapes are the log-ratios of the others to it."""

    usual_length = 1.8

    def __init__(self, cuts: tuple[float, ...], last: float, has_entry: bool = False) -> None:
        """Say between which times the hazard is constant: from zero to the first cut, and so on, up to the last."""
        super().__init__(last, has_entry)
        self.begins = np.array([0.0, *cuts])
        self.lengths = np.diff(np.append(self.begins, max(np.exp(last), self.begins[-1] * 1.0001 + 1e-30)))
        self.num_shapes = len(cuts)
        self.usual_predictor = -last  # one event in the longest time

    def table(self, shapes: Floats, bound: float) -> Floats:
        """Return up to which cumulative hazard a record is looked at."""
        del shapes
        return np.array([[FIRST + bound]])

    def hazards(self, xp: Any, predictor: Any, shapes: Any) -> Any:
        """Return the hazard in each piece."""
        return xp.exp(predictor + xp.concatenate([xp.zeros(1), shapes]))

    def passed(self, xp: Any, time: Any, hazards: Any) -> Any:
        """Return the cumulative hazard that is passed in each piece until a time."""
        return hazards * xp.clip(time[..., None] - self.begins, 0.0, self.lengths)

    def integrals(self, xp: Any, predictor: Any, shapes: Any, response: Any, table: Any) -> Integrals:
        """Return the integrals up to where the cumulative hazard reaches its bound."""
        hazards, most = self.hazards(xp, predictor, shapes), table[0, 0]
        time, entry = xp.exp(response[..., 0]), xp.exp(response[..., 2])
        until, before = self.passed(xp, time, hazards), self.passed(xp, xp.minimum(entry, time), hazards)
        inside = _up_to(xp, until, most) - _up_to(xp, before, most)
        is_seen = (xp.sum(until, axis=-1) <= most) & (time > entry)
        event = xp.where(is_seen, response[..., 1], 0.0)
        ends = np.append(self.begins[1:], np.inf)
        own = (time[..., None] > self.begins) & (time[..., None] <= ends)
        of_pieces = xp.where(own, event[..., None], 0.0) - inside
        whole = _up_to(xp, self.passed(xp, xp.exp(xp.asarray(self.last)), hazards), most)
        spread = self._spread
        slope, most_slope = ((part[..., None, :] * spread.T) @ spread for part in (inside, whole))
        return Integrals(of_pieces @ spread, slope, slope, most_slope)

    @property
    def _spread(self) -> Floats:
        """What the score of each piece adds to those of the arguments: (pieces, arguments)."""
        spread = np.eye(self.size)
        spread[:, 0] = 1.0
        return spread

    def longest(self, predictor: Any, shapes: Any, table: Any, gram: Any) -> Any:
        """Return the length of the longest score: at an end of a piece, with the event there or without."""
        hazards = self.hazards(jnp, predictor, shapes)
        whole = _up_to(jnp, self.passed(jnp, jnp.exp(jnp.asarray(self.last)), hazards), table[0, 0])
        pieces = np.arange(self.size)
        firsts = pieces if self.has_entry else pieces[:1]
        points: list[Any] = []
        for first in firsts:
            for last in pieces[first:]:
                inside = (pieces >= first) & (pieces <= last)
                until, event = jnp.where(inside, whole, 0.0), np.eye(self.size)[last]
                points += [-until, event - until, event - jnp.where(pieces < last, until, 0.0)]
        found = jnp.stack(points) @ self._spread
        return jnp.sqrt(jnp.maximum(jnp.max(jnp.sum((found @ gram) * found, axis=1)), 0.0))

    # the host

    def edges(self, predictor: float, shapes: Floats) -> Floats:
        """Return times evenly by their logarithms, the cuts among them."""
        first = max(self.last - FURTHEST, -predictor - FURTHEST - float(np.max(shapes, initial=0.0)))
        even = np.linspace(min(first, self.last - 1.0), self.last, CELLS)
        return np.unique(np.append(even, np.log(self.begins[1:])))

    def cumulative(self, predictor: float, shapes: Floats, logs: Floats) -> Floats:
        """Return the cumulative hazard."""
        return self.passed(np, np.exp(logs), self.hazards(np, predictor, shapes)).sum(axis=-1)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the events over the time under observation, piece by piece, with some of all of them in each."""
        logs, events, censored = self.histogram(response)
        times = np.exp(logs)
        exposed = (events + censored) @ self.passed(np, times, np.ones(self.size))
        own = (times[:, None] > self.begins) & (times[:, None] <= np.append(self.begins[1:], np.inf))
        seen = events @ own
        overall = max(seen.sum(), floor) / max(exposed.sum(), 1e-30)
        borrowed = BORROWED * exposed.sum()
        logs_of = np.log((seen + borrowed * overall) / (exposed + borrowed))
        constant = np.clip(logs_of[:1], -self.last - FURTHEST, -self.last + FURTHEST)
        return constant, np.clip(logs_of[1:] - logs_of[0], -3.0, 3.0)


def _up_to(xp: Any, passed: Any, most: Any) -> Any:
    """Return what is passed in each piece (..., pieces) until so much is passed in all."""
    before = xp.cumsum(passed, axis=-1) - passed
    return xp.minimum(passed, xp.maximum(most - before, 0.0))
