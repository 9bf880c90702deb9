"""How a fit with many groups divides its budget, and how good it can make it: from public facts."""

from dataclasses import dataclass

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.in_words import at_least
from dpmcmc.fitting.strategies.grouped_scores.bounds import OF_GROUPS, SLOPES
from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.grouped_scores.releases import LENGTH

PILOT_STEPS, LAST = 7, 2
"""How many steps the pilot has, and how many releases come after it."""

HISTOGRAMS, PILOT, LOOKS = 0.05, 0.2, 0.05
"""What of the budget, in mean privacy loss, goes into histograms, into the pilot, and into two looks at residuals; the
last releases have the rest."""

HISTOGRAM_SHARES = (0.3, 0.7)
"""Of the response and of the columns, of what the counts of groups leave."""

HIDDEN = 1.5
"""By how much the square of the noise of the common slope adds to errors: if it is as large, steps go astray."""

PILOT_SLOPE, FINAL_SLOPE = 0.4, 0.12
"""What of a release's share its slope has."""


@dataclass(frozen=True)
class Split:
    """The shares of a budget."""

    grouped: Grouped
    budget: Budget
    num_records: int
    clips_moved: int
    has_residuals: bool

    @classmethod
    def of(cls, grouped: Grouped, budget: Budget, num_records: int, clips_moved: int) -> "Split":
        """Return the shares of a budget for a model."""
        shapes = grouped.common.shapes(np, np.zeros(grouped.num_common))
        has_residuals = grouped.scores.residual_table(shapes) is not None
        return cls(grouped, budget, num_records, clips_moved, has_residuals)

    @property
    def final(self) -> float:
        """What the last releases have together."""
        return 1 - HISTOGRAMS - PILOT - LOOKS * self.has_residuals

    def noise(self, share: float, times: int = 1) -> float:
        """Return the noise multiplier of so many releases that share this of the budget."""
        return noise_of_share(share, times, self.budget)

    @property
    def pilot_noise(self) -> float:
        """The standard deviation of the noise of the pilot's scores, of half of its steps together, at radius one."""
        return self.clips_moved * self.noise(PILOT * (1 - PILOT_SLOPE), 2)

    @property
    def score_noise(self) -> float:
        """The standard deviation of the noise of the last scores together, at radius one."""
        return self.clips_moved * self.noise(self.final * (1 - FINAL_SLOPE))

    def errors(self, num_records: float | None = None) -> tuple[float, float]:
        """Return by how many standard deviations noise moves common parameters, and effects taken by themselves.

        Steps divide by the slope of the common parameters: where noise hides it they lead away, and nothing is near.
        """
        number = num_records or self.num_records
        dims = np.array([max(len(self.grouped.told), 1), self.grouped.num_groups * self.grouped.size], float)
        share = np.sqrt(dims) / np.sqrt(dims).sum()
        lengths = self.grouped.scores.usual_length * np.sqrt(dims / number / share)
        common, groups = self.score_noise * lengths
        return float(common) * (1 + HIDDEN * self._slope_noise(number) ** 2), float(groups)

    def _slope_noise(self, num_records: float) -> float:
        """Return the noise of the common slope in a step of the pilot, beside what records make of it."""
        told = len(self.grouped.told)
        noise = self.clips_moved * self.noise(PILOT * PILOT_SLOPE, PILOT_STEPS) * LENGTH
        return float(SLOPES / (1 - OF_GROUPS) * told**1.5 * noise / num_records)

    def remedy(self) -> str:
        """Say what would make a useless run useful."""
        sizes = self.num_records * 1.05 ** np.arange(1.0, 500.0)
        enough = next((size for size in sizes if self.errors(size)[0] <= 1), sizes[-1])
        return f"About {at_least(enough)} records would do"
