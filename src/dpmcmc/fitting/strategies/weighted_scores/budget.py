"""The division of a budget between the releases of a weighted fit, and its expected error, from public facts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpmcmc.accounting import Budget
from dpmcmc.fitting.budget_split import UNSEEN, noise_of_share
from dpmcmc.fitting.in_words import at_least, counted
from dpmcmc.fitting.strategies.weighted_scores.bounds import least_variance, usual_lengths
from dpmcmc.fitting.strategies.weighted_scores.doubts import most_noise
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTH, LENGTHS, RATIO
from dpmcmc.fitting.strategies.weighted_scores.schedule import Schedule, Shares
from dpmcmc.fitting.strategies.weighted_scores.spacing import sampling_variance, usual_squares

PILOT_STEPS, LAST = 8, 2
"""Number of pilot steps, the last with the bounds that the pilot chose, and number of releases after it."""

REFINEMENTS = 2
"""Number of steps on other rows after the pilot's, the last with wide bounds."""

HISTOGRAM_SHARES = (0.01, 0.02)
PROBE_SHARE, RESIDUALS_SHARE, OTHER_SHARE = 0.06, 0.06, 0.05
"""Shares of the budget (mean privacy loss) for histograms, for the pilot's last step with wide bounds, for the two
releases of residuals, and for scores with other bounds at the end. The last releases get the rest."""

PILOT_SHARES = (0.1, 0.12, 0.14, 0.16)
"""Candidate shares of the pilot's steps: the smallest with which it converges is chosen."""

PILOT_SLOPE, PROBE_SLOPE, FINAL_SLOPE, OTHER_SLOPE, MOST_SLOPE = 0.55, 0.2, 0.15, 0.1, 0.5
"""What of a release's share its slope has: more where there are few records, up to the last."""

SEEN_SLOPE = 0.25
"""Target noise of the slope's eigenvalues, which are about one; with twice as much they cannot be detected."""

USUAL_SLOPE = 3.0
"""Smallest radius of slopes, relative to the usual one."""

SLOPE_NOISE, SLOPE_NOISE_OF_ONE = 0.15, 0.015
"""Largest noise of the slope's eigenvalues when the radius of slopes is widened; smaller for a single last release,
which is further from its root."""

PILOT_ERROR = 0.5
"""Largest error of the pilot from its noise, over all steps, in posterior standard deviations of its rows."""

WIDER = 1.1
"""Smallest factor by which bounds for slightly misspecified models increase the noise."""


def every_time(histograms: tuple[float, float], has_residuals: bool, has_other: bool, pilot: float) -> Schedule:
    """Return the schedule of a fit that reads all rows in every release, with a share of the budget for the pilot."""
    look, probe, other = RESIDUALS_SHARE * has_residuals / 2, PROBE_SHARE * has_other, OTHER_SHARE * has_other
    final = 1 - sum(histograms) - pilot - probe - 2 * look - other
    steps = PILOT_STEPS - 1
    shares = Shares(histograms, pilot, steps, probe, int(has_other), final, LAST, look, other, FINAL_SLOPE)
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
    """The shares of a budget, for a number of parameters and an adjacency."""

    dimension: int
    clips_moved: int
    has_residuals: bool
    variance: Variance
    blocks: Schedule | None = None
    """The blocks of rows of the pilot, if it does not read all rows."""
    has_other: bool = True
    """Whether scores with other bounds are queried, during the pilot and at the end."""
    pilot_share: float = PILOT_SHARES[-1]
    """Share of the pilot's steps if all rows are read in every release."""
    least: int = 1
    """Smallest number of parameters of a model of the family."""
    histograms: tuple[float, float] = HISTOGRAM_SHARES
    """Shares of the histograms of the response and of the columns if all rows are read in every release."""

    @property
    def schedule(self) -> Schedule:
        """The rows that each release reads."""
        return self.blocks or every_time(self.histograms, self.has_residuals, self.has_other, self.pilot_share)

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
        shares = self.schedule.shares
        return self._shares(budget, size / shares.spacing, shares.final, shares.slope, 1)

    @property
    def other(self) -> tuple[float, float]:
        """The shares of scores with other bounds at the end, and of their slopes, which are known by then."""
        return (1 - OTHER_SLOPE) * self.schedule.shares.other, OTHER_SLOPE * self.schedule.shares.other

    def _shares(self, budget: Budget, size: float, whole: float, slope: float, times: int) -> tuple[float, float]:
        """Return the shares of scores and slopes; slopes get enough to stand out of their noise, if possible."""
        noise = self.slope_noise(budget, size, whole * slope, times)
        is_lost = noise**2 * slope > (2 * SEEN_SLOPE) ** 2 * MOST_SLOPE  # a public guess is needed, whatever they get
        wanted = slope * (noise / (most_noise(self.dimension) if is_lost else SEEN_SLOPE)) ** 2
        kept = float(np.clip(wanted, slope, max(slope, MOST_SLOPE)))
        return whole * (1 - kept), whole * kept

    def slope_noise(self, budget: Budget, size: float, share: float, times: int = 1) -> float:
        """Return the size of a slope's eigenvalues from noise alone, at the usual radius of slopes."""
        noise = self.clips_moved * noise_of_share(share, times, budget) * LENGTH
        return noise * USUAL_SLOPE * self.dimension / size * float(np.sqrt(self.dimension))

    def last_slope(self, budget: Budget, size: float) -> float:
        """Return the size of eigenvalues of the last release's slope from noise, and from rows that it leaves out."""
        spacing, dimension = self.schedule.shares.spacing, self.dimension
        noise = self.slope_noise(budget, size / spacing, self.final(budget, size)[1])
        left_out = dimension * sampling_variance(spacing, usual_squares(dimension, size), dimension)
        return float(np.sqrt(noise**2 + left_out))

    def with_short_pilot(self, budget: Budget, size: float) -> "Split":
        """Return the split with the smallest pilot share that reaches the root and lets slopes stand out of noise."""
        every_time = replace(self, blocks=None)
        return next(
            filter(lambda each: each.leads(budget, size), map(every_time._with_pilot, PILOT_SHARES)), every_time
        )

    def _with_pilot(self, share: float) -> "Split":
        return replace(self, pilot_share=share)

    def leads(self, budget: Budget, size: float) -> bool:
        """Return whether the pilot has enough rows to converge."""
        of_scores, of_slopes = self.pilot(budget, size)
        rows = size * self.schedule.pilot.share
        return (
            self.noise_error(budget, rows, of_scores) <= PILOT_ERROR
            and self.slope_noise(budget, rows, of_slopes) <= SEEN_SLOPE
        )

    def noise_error(self, budget: Budget, size: float, share: float) -> float:
        """Return the error from the noise of scores with a share of the budget, in posterior standard deviations."""
        noise, unit = self.clips_moved * noise_of_share(share, 1, budget), float(np.sqrt(self.dimension / size))
        return WIDER * float(np.sqrt(max(self.variance(noise, unit) - 1.0, 0.0)))

    def error(self, budget: Budget, size: float) -> float:
        """Return a lower bound on the error for usual records, in posterior standard deviations."""
        of_scores, of_slopes = self.final(budget, size)
        if self.slope_noise(budget, size / self.schedule.shares.spacing, of_slopes) > 2 * SEEN_SLOPE:
            return UNSEEN
        return self.noise_error(budget, size, of_scores)

    def remedy(self, budget: Budget, size: float) -> str:
        """Say what would help if the expected error is too large."""
        epsilons = budget.epsilon * 1.05 ** np.arange(1.0, 150.0)
        enough = next((each for each in epsilons if self.error(Budget(each, budget.delta), size) <= 1), None)
        records = next(each for each in size * 1.05 ** np.arange(1.0, 500.0) if self.error(budget, each) <= 1)
        fewer = range(self.dimension - 1, self.least - 1, -1)
        few = next((each for each in fewer if replace(self, dimension=each).error(budget, size) <= 1), None)
        words = [f"epsilon = {at_least(enough)}"] if enough is not None else []
        words += [f"{at_least(records)} records"]
        words += [] if few is None else [counted(few, "parameter")]
        return f"About {words[0]} would do" + "".join(f", or {other}" for other in words[1:])
