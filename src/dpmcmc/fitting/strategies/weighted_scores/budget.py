"""How a budget is divided between the releases of a weighted fit, and how good it can make it: from public facts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.in_words import at_least, counted
from dpmcmc.fitting.strategies.weighted_scores.bounds import least_variance, usual_lengths
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTH, LENGTHS, RATIO
from dpmcmc.fitting.strategies.weighted_scores.schedule import Schedule, Shares

PILOT_STEPS, LAST = 8, 2
"""How many steps the pilot has, the last of them with the bounds that it found, and how many releases come after it."""

REFINEMENTS = 2
"""How many steps other rows take after those of a pilot, the last of them with long bounds."""

HISTOGRAM_SHARES = (0.01, 0.02)
PROBE_SHARE, RESIDUALS_SHARE, OTHER_SHARE = 0.06, 0.06, 0.05
"""What of the budget, in mean privacy loss, goes into histograms, into the last step of the pilot, with long bounds,
into the two looks at residuals, and into scores with other bounds at the end. The last releases have what is left."""

PILOT_SHARES = (0.1, 0.12, 0.14, 0.16)
"""What the pilot's steps may have: the least that leads near the root, if any does."""

PILOT_SLOPE, PROBE_SLOPE, FINAL_SLOPE, OTHER_SLOPE, MOST_SLOPE = 0.55, 0.2, 0.15, 0.1, 0.5
"""What of a release's share its slope has: more where there are few records, up to the last."""

SEEN_SLOPE = 0.25
"""The noise of the slope's eigenvalues, which are about one, that is aimed at; with twice that they are not seen."""

USUAL_SLOPE = 3.0
"""The least radius of slopes, in usual ones."""

PILOT_ERROR = 0.5
"""By how many standard deviations of a posterior of the pilot's rows its noise may move the pilot, all steps joined."""

WIDER = 1.1
"""How much more noise there is with bounds for models that do not quite hold, at least."""

UNSEEN = 9.9
"""What is said of a run that would not see its slopes."""


def every_time(has_residuals: bool, has_other: bool, pilot: float) -> Schedule:
    """Return the schedule of a fit that asks all rows every time, with a share of the budget for the pilot's steps."""
    look, probe, other = RESIDUALS_SHARE * has_residuals / 2, PROBE_SHARE * has_other, OTHER_SHARE * has_other
    final = 1 - sum(HISTOGRAM_SHARES) - pilot - probe - 2 * look - other
    steps = PILOT_STEPS - 1
    shares = Shares(HISTOGRAM_SHARES, pilot, steps, probe, int(has_other), final, LAST, look, other, FINAL_SLOPE)
    return Schedule(shares)


Variance = Callable[[float, float], float]
"""``variance(noise, unit)``: that of an estimate from usual records, in units of the smallest, given the noise and the
usual length of a score."""


def usual_variance(regression: Regression, noise: float, unit: float) -> float:
    """Return the variance of an estimate of a regression from usual records, in units of the smallest, at best.

    That is with the bounds that are best where the model holds.
    """
    scores = regression.scores
    middles = np.append(LENGTHS, LENGTHS[-1] * RATIO) / np.sqrt(RATIO)
    return least_variance(
        scores,
        np.full(regression.num_outputs, scores.usual_predictor),
        regression.shapes(np, np.zeros(regression.dimension)),
        (middles * unit, usual_lengths(scores, middles)),
        noise,
        unit,
        (regression.num_linear, regression.dimension),
        off_zero=0.0,
    ).variance


@dataclass(frozen=True)
class Split:
    """The shares of a budget, for so many parameters and clips that a neighbour moves."""

    dimension: int
    clips_moved: int
    has_residuals: bool
    variance: Variance
    blocks: Schedule | None = None
    """Which rows are asked on the way, if not all."""
    has_other: bool = True
    """Whether scores with other bounds are asked, on the way and at the end."""
    pilot_share: float = PILOT_SHARES[-1]
    """What of the budget the pilot's steps have if all rows are asked every time."""
    least: int = 1
    """How many parameters a model of the family has at least."""

    @property
    def schedule(self) -> Schedule:
        """Which rows are asked when."""
        return self.blocks or every_time(self.has_residuals, self.has_other, self.pilot_share)

    def pilot(self, budget: Budget, size: float) -> tuple[float, float]:
        """Return the shares of the pilot's scores and slopes."""
        shares, rows = self.schedule.shares, size * self.schedule.pilot.share
        return self._shares(budget, rows, shares.pilot, PILOT_SLOPE, shares.num_steps)

    def refinement(self, budget: Budget, size: float) -> tuple[float, float]:
        """Return the shares of scores and slopes of steps that are not the pilot's."""
        shares, rows = self.schedule.shares, size * self.schedule.refinement.share
        slope = PILOT_SLOPE if self.schedule.has_blocks else PROBE_SLOPE
        return self._shares(budget, rows, shares.refinement, slope, shares.num_refinements)

    def final(self, budget: Budget, size: float) -> tuple[float, float]:
        """Return the shares of the last releases' scores and slopes."""
        return self._shares(budget, size, self.schedule.shares.final, self.schedule.shares.slope, 1)

    @property
    def other(self) -> tuple[float, float]:
        """The shares of scores with other bounds at the end, and of their slopes, which are known by then."""
        return (1 - OTHER_SLOPE) * self.schedule.shares.other, OTHER_SLOPE * self.schedule.shares.other

    def _shares(self, budget: Budget, size: float, whole: float, slope: float, times: int) -> tuple[float, float]:
        """Return the shares of scores and slopes: the latter's as large as lets them be seen, if that can be."""
        wanted = slope * (self.slope_noise(budget, size, whole * slope, times) / SEEN_SLOPE) ** 2
        kept = float(np.clip(wanted, slope, max(slope, MOST_SLOPE)))
        return whole * (1 - kept), whole * kept

    def slope_noise(self, budget: Budget, size: float, share: float, times: int = 1) -> float:
        """Return how large eigenvalues of a slope noise alone makes, at a usual radius of slopes."""
        noise = self.clips_moved * noise_of_share(share, times, budget) * LENGTH
        return noise * USUAL_SLOPE * self.dimension / size * float(np.sqrt(self.dimension))

    def with_short_pilot(self, budget: Budget, size: float) -> "Split":
        """Return it with the least share for the pilot's steps that leads near the root and lets slopes be seen."""
        every_time = replace(self, blocks=None)
        return next(
            filter(lambda each: each.leads(budget, size), map(every_time._with_pilot, PILOT_SHARES)), every_time
        )

    def _with_pilot(self, share: float) -> "Split":
        return replace(self, pilot_share=share)

    def leads(self, budget: Budget, size: float) -> bool:
        """Return whether the rows of the pilot are enough for one that arrives."""
        of_scores, of_slopes = self.pilot(budget, size)
        rows = size * self.schedule.pilot.share
        return (
            self.noise_error(budget, rows, of_scores) <= PILOT_ERROR
            and self.slope_noise(budget, rows, of_slopes) <= SEEN_SLOPE
        )

    def noise_error(self, budget: Budget, size: float, share: float) -> float:
        """Return by how many standard deviations the noise of scores with a share of the budget moves a posterior."""
        noise, unit = self.clips_moved * noise_of_share(share, 1, budget), float(np.sqrt(self.dimension / size))
        return WIDER * float(np.sqrt(max(self.variance(noise, unit) - 1.0, 0.0)))

    def error(self, budget: Budget, size: float) -> float:
        """Return by how many of its own standard deviations noise moves a posterior of usual records, at best."""
        of_scores, of_slopes = self.final(budget, size)
        if self.slope_noise(budget, size, of_slopes) > 2 * SEEN_SLOPE:
            return UNSEEN
        return self.noise_error(budget, size, of_scores)

    def remedy(self, budget: Budget, size: float) -> str:
        """Say what would make a useless run useful."""
        epsilons = budget.epsilon * 1.05 ** np.arange(1.0, 150.0)
        enough = next((each for each in epsilons if self.error(Budget(each, budget.delta), size) <= 1), None)
        records = next(each for each in size * 1.05 ** np.arange(1.0, 500.0) if self.error(budget, each) <= 1)
        fewer = range(self.dimension - 1, self.least - 1, -1)
        few = next((each for each in fewer if replace(self, dimension=each).error(budget, size) <= 1), None)
        words = [f"epsilon = {at_least(enough)}"] if enough is not None else []
        words += [f"{at_least(records)} records"]
        words += [] if few is None else [counted(few, "parameter")]
        return f"About {words[0]} would do" + "".join(f", or {other}" for other in words[1:])
