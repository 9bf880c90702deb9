"""A filter for the total of releases whose kind and noise are chosen after looking at earlier ones.

Composition theorems speak of events that are fixed beforehand. If the next event may be any function of what was seen,
then "the composition of all events so far is within the budget" is no stopping rule that a theorem covers, unless the
events are of one kind: docs/accounting.md has an example that breaks it. A sum of Renyi divergences at one order, fixed
beforehand, is such a rule (Feldman and Zrnic 2021; Lecuyer 2021): whoever keeps it below B in every case has released
no more than a mechanism of divergence B at that order.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpmcmc.accounting import rdp
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Approximation, Event, NonPrivate, compose, counts
from dpmcmc.accounting.parallel import dearest

_SHARE_OF_SLACK = 0.01
"""The part of delta that is kept for samplers that are not their ideal laws."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class RenyiFilter:
    """The filter of a budget; it depends on the budget alone, and so is fixed before any record is read.

    Two sums are kept within two limits. The divergences at `order` keep the ideal releases within
    (epsilon, 0.99 delta). The total variations t of samplers keep (1 + e^epsilon) t within 0.01 delta: the real and the
    ideal transcripts are within the sum of all t, however they were chosen.
    """

    budget: Budget

    @cached_property
    def _place(self) -> int:
        """The place of the order among `rdp.ORDERS`: that at which the most Gaussian releases fit."""
        return int(np.argmax(self._limits / rdp.ORDERS))

    @cached_property
    def _limits(self) -> rdp.Orders:
        """The divergence at each order that converts to the budget, as Canonne et al. (2020) do."""
        alpha, log_delta = rdp.ORDERS, math.log((1 - _SHARE_OF_SLACK) * self.budget.delta)
        return self.budget.epsilon - np.log1p(-1 / alpha) + (log_delta + np.log(alpha)) / (alpha - 1)

    @property
    def order(self) -> float:
        """The one order at which divergences are added up."""
        return float(rdp.ORDERS[self._place])

    @property
    def limit(self) -> float:
        """The largest sum of divergences at that order."""
        return max(float(self._limits[self._place]), 0.0)

    @property
    def slack_limit(self) -> float:
        """The largest sum of total variations."""
        return _SHARE_OF_SLACK * self.budget.delta * math.exp(-np.logaddexp(0.0, self.budget.epsilon))

    def used(self, event: Event) -> float:
        """Return which part of the filter an event takes: up to 1 it is admitted; infinite if it has no bound."""
        if NonPrivate in event.held:
            return math.inf
        if event.outermost:  # a neighbour is in one cell, and there what was released of it adds up
            return max(self.used(case) for case in dearest(event))
        parts = counts(event)
        slack = math.fsum(n * part.total_variation for part, n in parts.items() if isinstance(part, Approximation))
        curve = rdp.curve(compose(part * n for part, n in parts.items() if not isinstance(part, Approximation)))
        cost = math.inf if curve is None else float(curve.divergences[self._place]) * (1 + _ROUNDING)
        return max(_part(cost, self.limit), _part(slack, self.slack_limit))

    def admits(self, event: Event) -> bool:
        """Say whether all that was released so far, and is to be released, stays within the filter."""
        return self.used(event) <= 1


def _part(cost: float, limit: float) -> float:
    if cost == 0:
        return 0.0
    return cost / limit if limit > 0 else math.inf
