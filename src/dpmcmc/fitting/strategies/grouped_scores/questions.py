"""What a fit with many groups asks, and with how much of its budget: its price follows."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmcmc.accounting import Event
from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.strategies.grouped_scores.budget import (
    FINAL_SLOPE,
    HISTOGRAM_SHARES,
    HISTOGRAMS,
    LAST,
    LOOKS,
    PILOT,
    PILOT_SLOPE,
    PILOT_STEPS,
    Split,
)
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.releases import Asked, CountsOfGroups, ScoresOfGroups
from dpmcmc.fitting.strategies.weighted_scores.residuals import Point, Residuals
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

PILOT_SHARES, FINAL_SHARES = (1 - PILOT_SLOPE, PILOT_SLOPE), (1 - FINAL_SLOPE, FINAL_SLOPE)


@dataclass(frozen=True, eq=False)
class Questions:
    """The releases of a fit with many groups."""

    grouped: Grouped
    data: PrivateData
    split: Split

    @cached_property
    def histograms(self) -> CountsOfGroups:
        """The first release."""
        return CountsOfGroups(self.grouped, self.split.noise(HISTOGRAMS), HISTOGRAM_SHARES)

    @cached_property
    def pilot(self) -> ScoresOfGroups:
        """What a step of the pilot asks."""
        return ScoresOfGroups.of(self.grouped, self.split.noise(PILOT, PILOT_STEPS))

    @cached_property
    def final(self) -> ScoresOfGroups:
        """What the last releases ask."""
        return ScoresOfGroups.of(self.grouped, self.split.noise(self.split.final, LAST))

    @cached_property
    def residuals(self) -> Residuals | None:
        """The check of the residuals, where there can be any that are far out."""
        return Residuals(self.grouped, self.split.noise(LOOKS, 2)) if self.split.has_residuals else None

    @property
    def settings(self) -> dict[str, str]:
        """The releases, in plain values."""
        found: dict[str, Any] = {"pilot": self.pilot.sums, "final": self.final.sums}
        if self.residuals is not None:
            found["residuals"] = self.residuals.sums
        return {f"{name}_release": repr(sums) for name, sums in found.items()}

    @property
    def event(self) -> Event:
        """Everything that the run releases."""
        price = self.data.price
        total = price(self.histograms) + price(self.pilot, self._somewhere) * PILOT_STEPS
        total += price(self.final, self._somewhere) * LAST
        if self.residuals is None:
            return total
        table = self.grouped.scores.residual_table(some_shapes(self.grouped))
        size = self.grouped.num_common + self.grouped.num_groups * self.grouped.size
        return total + price(self.residuals, Point(np.ones(size, np.float32), np.asarray(table, np.float32))) * 2

    @property
    def _somewhere(self) -> Asked:
        """A question of scores as it might be: what it costs does not depend on where."""
        size, told = self.grouped.size, len(self.grouped.told)
        table = self.grouped.scores.table(some_shapes(self.grouped), 1.0)
        groups = self.grouped.num_groups, size + size**2
        shapes = ((self.grouped.num_common,), groups, (size, told), (told, told), (2,), (2,), (2,), table.shape)
        return Asked(*(np.ones(shape, np.float32) for shape in shapes))


def some_shapes(grouped: Grouped) -> Floats:
    """Return shapes that are somewhere in the prior."""
    return grouped.common.shapes(np, np.zeros(grouped.num_common))
