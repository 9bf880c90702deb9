"""The choice of bounds on scores: the cut and the radius with the smallest variance of the estimate."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.newton import PILOT_BOUND, SEEN, Steps, usual_predictors
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS, RATIO
from dpmcmc.fitting.strategies.weighted_scores.residuals import ALIKE as LOOKS_ALIKE
from dpmcmc.fitting.strategies.weighted_scores.residuals import IS_FAR
from dpmcmc.fitting.strategies.weighted_scores.scores import MIDDLES, Floats, Scores

BOUNDS = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0)
"""Candidate cuts of the last releases."""

UNCUT = 20.0
"""A cut that has no effect."""

RADII = 1.1 ** np.arange(-10.0, 45.0)
"""Candidate radii, relative to the usual norm of a score."""

SPREAD = 0.35
"""Typical standard deviation of the log-norms of scores."""

SPREADS, UNUSUAL_SPREAD = 0.2 * 1.15 ** np.arange(14.0), 0.5
LOG_MIDDLES, UNUSUAL_MIDDLE = np.linspace(-1.0, 2.0, 31), 1.0
"""Spreads and middles of the logarithms of lengths to choose from, in usual ones, and how unusual others are."""

ALIKE = 0.05
"""Variances that differ by less than this share of the noise's count as equal."""

MISFIT = 0.2
"""Assumed mean of the cut or down-weighted part of scores, in its standard deviations: no model holds exactly. It keeps
cuts and weights from dominating the result when the budget would allow none."""

MISFIT_OF_STATED = 0.3
"""The same with stated weights of rows, which usually depend on the outcome."""

BELIEVED = 4.0
"""Bins whose excess is above this number of standard deviations are used."""


FAR_BELIEVED = 3.0
"""The same of all residuals that are far out, in two looks together."""


Lost = Callable[[float, Floats], Floats]
"""``lost(bound, radii)``: the loss of information from a cut and each of some radii, on predictors and on shapes."""


class Tails(NamedTuple):
    """Residuals in excess of the model's expectation, per bin."""

    excess: Floats
    size: float
    """The number of records."""

    def bias(self, scores: Scores, bound: float, num_linear: int) -> "Bias":
        """Return the bias of the estimate from a cut, relative to that of the likelihood."""
        location, shape = scores.cut_off(MIDDLES, bound)
        spread = float(self.excess @ location**2) / self.size
        shift = float(self.excess @ location) ** 2 / self.size
        return Bias(np.sqrt(spread + shift / num_linear), abs(float(self.excess @ shape)) / np.sqrt(self.size))


class Bias(NamedTuple):
    """The bias of the estimates from a cut, relative to the likelihood's, in posterior standard deviations."""

    linear: float
    shape: float

    def or_more(self, other: "Bias") -> "Bias":
        """Return the larger of two, number by number."""
        return Bias(max(self.linear, other.linear), max(self.shape, other.shape))

    def mean_square(self, num_linear: int, dimension: int) -> float:
        """Return the mean square over the parameters."""
        return (num_linear * self.linear**2 + (dimension - num_linear) * self.shape**2) / dimension


def tails(excess: Floats, noise: float, size: float, probabilities: Floats) -> Tails:
    """Return the significant excess of residuals per bin; the first entry counts all that are far out."""
    excess, probabilities = excess[1:], probabilities[1:]
    sds = np.sqrt(noise**2 + size * probabilities)
    return Tails(np.where(excess > BELIEVED * sds, excess, 0.0), size)


def far_tails(excess: Floats, noise: float, size: float, probabilities: Floats, before: Floats | None) -> Tails:
    """Return the far residuals, if their total stands out of noise and chance in two releases.

    The bins show roughly how far out they are: all positive bins are used, scaled to the total.
    """
    seen, variance = excess, noise**2
    if before is not None and abs(excess[0] - before[0]) <= LOOKS_ALIKE * np.sqrt(2) * noise:
        seen, variance = (excess + before) / 2, noise**2 / 2
    together, in_bins = seen[0], np.where(IS_FAR, np.maximum(seen[1:], 0.0), 0.0)
    if not together > FAR_BELIEVED * np.sqrt(variance + size * probabilities[0]):
        return Tails(np.zeros_like(in_bins), size)
    return Tails(in_bins * together / max(in_bins.sum(), together), size)


class Bounds(NamedTuple):
    """How the last releases bound scores: the cut, in standard deviations, and the radius of weighted scores."""

    bound: float
    radius: float
    variance: float
    """Predicted variance of the estimate with noise, relative to the smallest possible without privacy."""
    inefficiency: float
    """The same without noise."""
    bias: Bias
    """Bias of the estimate from residuals in excess of the model's expectation."""
    misfit: float = MISFIT
    """The assumed mean of the part of scores that the bounds remove."""
    moved: float = float("inf")
    """How far that would move a coefficient if all of it did, in standard deviations of the posterior."""


def best_bounds(
    steps: Steps, release: Release, noise: float, found: Tails, misfit: Callable[[Lost], float] | None = None
) -> Bounds:
    """Return the bounds at which the estimate is best, given the score histogram of the last release.

    Args:
        steps: the steps of the pilot.
        release: the last release of the pilot.
        noise: the standard deviation of the noise at radius one.
        found: the residuals in excess of the model's expectation.
        misfit: the mean of the cut part as a function of the information that bounds remove, if estimated.
    """
    regression = steps.regression
    upper = np.append(LENGTHS, LENGTHS[-1] * RATIO) * steps.unit
    middles = upper / np.sqrt(RATIO)
    weights, least = np.minimum(1.0, release.radius / middles), SEEN * release.lengths_sd
    held = np.where(release.lengths > least, release.lengths, 0.0) / weights
    if steps.moments.stated.are_uneven:
        in_all = steps.moments.stated.held(LENGTHS / regression.scores.usual_length, SPREAD) * held.sum()
        held = np.where(held > 0, held, np.minimum(in_all, least / weights))
    else:
        held = np.where(held > 0, held, smooth_lengths(regression.scores, release, middles / steps.unit, weights))
    held = held / held.sum() if held.sum() > 0 else usual_lengths(regression.scores, middles / steps.unit)
    predictors = usual_predictors(regression, release.point, steps.moments)
    usual = regression.scores, predictors, regression.shapes(np, release.point), (middles, held)
    off_zero = MISFIT_OF_STATED if steps.moments.stated.are_uneven else MISFIT
    if misfit is not None:
        off_zero = misfit(partial(lost_by, *usual, num_linear=regression.num_linear))
    sizes = regression.num_linear, regression.dimension
    return least_variance(*usual, noise, steps.unit, sizes, found, off_zero)


def lost_by(
    scores: Scores,
    predictors: Floats,
    shapes: Floats,
    lengths: tuple[Floats, Floats],
    bound: float,
    radii: Floats,
    num_linear: int,
) -> Floats:
    """Return the loss of information on predictors and shapes from a cut and each of some radii."""
    middles, held = lengths
    pilot, cut = (scores.moments(predictors, shapes, each).longest(num_linear) for each in (PILOT_BOUND, bound))
    weights = np.minimum(1.0, np.asarray(radii)[:, None] * pilot / (middles * cut))
    return np.asarray(1 - (weights @ held)[:, None] * _kept(scores, predictors, shapes, bound), np.float64)


def _kept(scores: Scores, predictors: Floats, shapes: Floats, bound: float) -> Floats:
    """Return the share of a usual record's information on predictors and shapes that a cut keeps."""
    law = scores.under_model(predictors, shapes, bound)
    kept = np.diag(law.slope) / np.maximum(np.diag(law.information), 1e-30)
    outputs = len(kept) - scores.num_shapes
    return np.array([kept[:outputs].mean(), kept[outputs:].mean() if scores.num_shapes else 1.0])


def _inflation(scores: Scores, predictors: Floats, shapes: Floats, bound: float) -> float:
    """Return by how much more a cut inflates the variances of the shapes' estimates than those of the predictors'."""
    if not scores.num_shapes:
        return 1.0
    law = scores.under_model(predictors, shapes, bound)
    back = np.linalg.pinv(law.slope)
    times = np.diag(back @ law.variance @ back.T) / np.maximum(np.diag(np.linalg.pinv(law.information)), 1e-30)
    outputs = len(times) - scores.num_shapes
    return float(np.clip(times[outputs:].mean() / times[:outputs].mean(), 0.1, 100.0))


def smooth_lengths(scores: Scores, release: Release, lengths: Floats, weights: Floats) -> Floats:
    """Return the approximate share of the information by the norm of scores: a fitted lognormal distribution.

    Bins that do not stand out of their noise individually still determine the spread together.

    Args:
        scores: the scores of the family.
        release: the release with the score histogram.
        lengths: the norms of the bins, relative to the usual one.
        weights: the weights of records in these bins.
    """
    logs, sd = np.log(lengths / scores.usual_length), max(release.lengths_sd, 1e-12)
    middles, spreads = (each.ravel() for each in np.meshgrid(LOG_MIDDLES, SPREADS))
    held = np.exp(-0.5 * ((logs - middles[:, None]) / spreads[:, None]) ** 2)
    held = held / held.sum(axis=1, keepdims=True)
    expected = held * weights
    times = np.maximum(expected @ release.lengths, 0.0) / np.sum(expected**2, axis=1)
    misses = np.sum(((release.lengths - times[:, None] * expected) / sd) ** 2, axis=1)
    unusual = (np.log(spreads / SPREAD) / UNUSUAL_SPREAD) ** 2 + (middles / UNUSUAL_MIDDLE) ** 2
    best = int(np.argmin(misses + unusual))
    return times[best] * held[best]


def usual_lengths(scores: Scores, lengths: Floats) -> Floats:
    """Return how much of the information is in records with scores of these lengths, in usual ones, on most tables."""
    held = np.exp(-0.5 * (np.log(lengths / scores.usual_length) / SPREAD) ** 2)
    return held / held.sum()


def least_variance(
    scores: Scores,
    predictors: Floats,
    shapes: Floats,
    lengths: tuple[Floats, Floats],
    noise: float,
    unit: float,
    sizes: tuple[int, int],
    found: Tails | None = None,
    off_zero: float = MISFIT,
) -> Bounds:
    """Return the best bounds for records whose scores, cut as in the pilot, have certain lengths.

    Args:
        scores: of the family.
        predictors: of a usual record.
        shapes: the shape parameters.
        lengths: lengths, and how much of the information is in records with them.
        noise: the standard deviation of the noise at radius one.
        unit: the usual length of a score.
        sizes: the number of linear parameters, and of all.
        found: the residuals that the model does not expect.
        off_zero: how far the mean score of records that are given less weight is off zero, in standard deviations.
    """
    middles, held = lengths
    radii, (num_linear, dimension) = unit * RADII, sizes
    pilot = scores.moments(predictors, shapes, PILOT_BOUND)
    share = pilot.variance / pilot.slope  # in whitened coordinates the slope without weights, at the pilot's cut
    fisher = share * scores.moments(predictors, shapes, UNCUT).slope / pilot.slope
    choices: list[tuple[float, Bounds]] = []
    for bound in BOUNDS:
        cut = scores.moments(predictors, shapes, bound)
        weights = np.minimum(1.0, radii[:, None] * pilot.longest(num_linear) / (middles * cut.longest(num_linear)))
        slopes = share * cut.slope / pilot.slope * (weights @ held)
        of_records = share * cut.variance / pilot.slope * (weights**2 @ held) / slopes**2
        of_noise = (noise * radii / slopes) ** 2
        kept = _kept(scores, predictors, shapes, bound)
        of_shapes = of_records * _inflation(scores, predictors, shapes, bound) + of_noise * (kept[0] / kept[1]) ** 2
        total = (num_linear * (of_records + of_noise) + (dimension - num_linear) * of_shapes) / dimension
        bias = Bias(0.0, 0.0) if found is None else found.bias(scores, bound, num_linear)
        lost = lost_by(scores, predictors, shapes, lengths, bound, radii, num_linear)
        misfit = (off_zero / unit) ** 2 * (lost[:, 0] ** 2 + (dimension > num_linear) * lost[:, 1] ** 2) / dimension
        loss = total * fisher + misfit + bias.mean_square(num_linear, dimension)
        alike = loss.min() + ALIKE * fisher * of_noise[np.argmin(loss)]
        best = int(np.flatnonzero(loss <= alike)[-1])  # where it is flat, the slope is best seen far out
        inefficiency = max(1.0, float(of_records[best]) * fisher)
        radius, variance = float(radii[best]), float(total[best]) * fisher
        moved = off_zero * float(lost[best, 0]) * np.sqrt(dimension) / unit
        bounds = Bounds(bound, radius, variance, inefficiency, bias, off_zero, moved)
        choices.append((float(loss[best]), bounds))
    return min(choices, key=lambda each: each[0])[1]
