"""The queries of a weighted fit, their rows and their shares of the budget, which determine its price."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpmcmc.accounting import Budget, Event
from dpmcmc.enclave import Counts, PrivateData, SpacedSum, Sum
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.weighted_scores.budget import HISTOGRAM_SHARES, Split, usual_variance
from dpmcmc.fitting.strategies.weighted_scores.histograms import Histograms
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS, Asked, ScoreAndSlope, ScoreAndSpacedSlope
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point, Residuals
from dpmcmc.fitting.strategies.weighted_scores.schedule import Schedule
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

Program = Callable[..., Any]


def usual_split(regression: Regression, clips_moved: int) -> Split:
    """Return how a budget is divided if all rows are read in every release."""
    has_residuals = regression.scores.residual_table(_some_shapes(regression)) is not None
    least = regression.num_outputs + len(regression.free)
    variance = partial(usual_variance, regression)
    counts = (HISTOGRAM_SHARES[0] / clips_moved, HISTOGRAM_SHARES[1] / clips_moved)  # half under replace-one: `Counts`
    return Split(regression.dimension, clips_moved, has_residuals, variance, least=least, histograms=counts)


def _some_shapes(regression: Regression) -> Floats:
    """Return shapes that are somewhere in the prior."""
    return regression.shapes(np, np.zeros(regression.dimension))


@dataclass(frozen=True, eq=False)
class Questions:
    """The releases of a weighted fit."""

    regression: Regression
    data: PrivateData
    budget: Budget
    split: Split

    @property
    def schedule(self) -> Schedule:
        """Which rows are asked when."""
        return self.split.schedule

    @cached_property
    def histograms(self) -> Histograms:
        """The first release."""
        both = self.schedule.shares.histograms
        shares = (both[0] / sum(both), both[1] / sum(both))
        return Histograms(self.regression, Counts(1.0, noise_of_share(sum(both), 1, self.budget)), shares)

    @cached_property
    def pilot(self) -> ScoreAndSlope:
        """The query of a pilot step."""
        return self._scores(self.pilot_shares, self.schedule.shares.num_steps)

    @cached_property
    def refinement(self) -> ScoreAndSlope:
        """The query of the steps after the pilot."""
        return self._scores(self.refinement_shares, self.schedule.shares.num_refinements)

    @cached_property
    def final(self) -> ScoreAndSlope | ScoreAndSpacedSlope:
        """The query of the last releases: of the one pass over many rows, no more numbers than are needed."""
        shares = self.schedule.shares
        if shares.spacing == 1:
            return self._scores(self.final_shares, shares.num_final, not self.schedule.has_blocks)
        of_score, of_slope = (noise_of_share(share, shares.num_final, self.budget) for share in self.final_shares)
        return ScoreAndSpacedSlope(self.regression, Sum(1.0, of_score), SpacedSum(1.0, of_slope, shares.spacing))

    @cached_property
    def other(self) -> ScoreAndSlope:
        """The query with other bounds at the end: its root is the same if the model holds."""
        return self._scores(self.split.other, 1)

    @cached_property
    def residuals(self) -> Residuals | None:
        """The check of the residuals, where there can be any that are far out."""
        if not self.split.has_residuals:
            return None
        return Residuals(self.regression, noise_of_share(2 * self.schedule.shares.look, 2, self.budget))

    @property
    def pilot_shares(self) -> tuple[float, float]:
        """What of the budget goes to scores and slopes of the pilot."""
        return self.split.pilot(self.budget, self.data.facts.size)

    @property
    def refinement_shares(self) -> tuple[float, float]:
        """The same of the steps after it."""
        return self.split.refinement(self.budget, self.data.facts.size)

    @property
    def final_shares(self) -> tuple[float, float]:
        """The same of the last releases."""
        return self.split.final(self.budget, self.data.facts.size)

    @property
    def final_noise(self) -> float:
        """The standard deviation of the noise of the last releases together, at radius one."""
        return self.data.facts.clips_moved * noise_of_share(self.final_shares[0], 1, self.budget)

    def _scores(self, shares: tuple[float, float], times: int, has_lengths: bool = True) -> ScoreAndSlope:
        return ScoreAndSlope(self.regression, Sum(1.0, noise_of_share(sum(shares), times, self.budget)), has_lengths)

    @property
    def settings(self) -> dict[str, str]:
        """The releases, in plain values."""
        asked = {"pilot": self.pilot, "refinement": self.refinement, "final": self.final, "other": self.other}
        found = {"histograms": repr(self.histograms.sums)}
        found |= {name: ", ".join(map(repr, each.released)) for name, each in asked.items()}
        if self.residuals is not None:
            found["residuals"] = repr(self.residuals.sums)
        return {f"{name}_release": each for name, each in found.items()}

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        asked, shares, schedule, price = self._somewhere, self.schedule.shares, self.schedule, self.data.price
        total = price(schedule.pilot.of(self.histograms))
        total += price(schedule.pilot.of(self.pilot), asked) * shares.num_steps
        total += price(self.final, asked) * shares.num_final
        total += price(schedule.refinement.of(self.refinement), asked) * shares.num_refinements
        total += price(schedule.refinement.of(self.other), asked)
        if self.residuals is None:
            return total
        return total + price(schedule.refinement.of(self.residuals), self._point) * 2

    @property
    def _somewhere(self) -> Asked:
        """A question of scores as it might be: what it costs does not depend on where."""
        size, table = self.regression.dimension, self.regression.scores.table(_some_shapes(self.regression), 1.0)
        shapes = ((size,), (size, size), (), (), (2,), LENGTHS.shape, table.shape, ())
        return Asked(*(np.ones(shape, np.float32) for shape in shapes))

    @property
    def _point(self) -> Point:
        table = self.regression.scores.residual_table(_some_shapes(self.regression))
        return Point(np.ones(self.regression.dimension, np.float32), np.asarray(table, np.float32))
