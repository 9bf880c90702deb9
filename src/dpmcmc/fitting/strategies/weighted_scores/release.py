"""One release: noisy scores and their slope, in the coordinates of the query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dpmcmc.fitting.strategies.weighted_scores.doubts import averaged, most_noise, or_more, shrunk, widened
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import Likelihood, Whitening

FLAT, SURELY = 0.25, 1.5
"""A direction that is flatter than the others by this is seen from so many noise levels on: slopes that are never below
zero are too steep there, on average."""

LEAST_WEIGHT, MOST_WEIGHT = 0.02, 1.5
"""Range of credible mean weights; values outside it are attributed to noise."""

UNUSUAL = 0.3
"""Typical relative deviation of the mean weight from its usual value."""

UNEVEN, LEAST_UNEVEN = 0.1, 0.05
"""How much mean weights usually differ between coordinates, and how small they may be beside the mean."""

TURNED = 4.0
"""Components of a direction are kept if they are this many times larger than those from noise."""

CLEAR = 0.2
"""Noise of the slope, beside the slope, below which it is not moved to a public guess."""

DEPENDENT = 0.5
"""Smallest singular value of directions of length one that count as independent."""

USUAL_SCALE, MOST_SCALE = 0.5, 4.0
"""Typical relative difference of the total information from its earlier estimate, and the largest ratio."""


@dataclass(frozen=True)
class Release:
    """One release, in the coordinates of its query."""

    point: Floats
    whitening: Whitening
    radius: float
    score: Floats
    score_variance: float
    slope: Floats
    slope_sd: float
    variance: float
    lengths: Floats
    lengths_sd: float
    roots: Floats
    """A root T of variance over slope, in the parameters: cut scores vary less than their slope says, T M T^T."""
    differences: Floats | None = None
    """The variance in each coordinate, less the mean over them, if it was asked for; its noise is that of lengths."""
    usual: float | None = None
    """The mean weight that records usually have, if it is known."""
    evenness: Floats | None = None
    """Prior estimate of the mean weight in each coordinate relative to that of all, if there is one."""
    blind: Floats | None = None
    """Directions that no data can see, in whitened coordinates, as columns that are orthogonal."""
    doubts: Floats | None = None
    """How uncertain the slope is in directions beside `slope_sd`, if not alike in all (`doubts`)."""

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return len(self.point)

    @property
    def mean_weight(self) -> float:
        """The mean weight of a record, weighted by its information: about V over M."""
        return self._mean_weight(self.slope, 1.0)

    def _mean_weight(self, slope: Floats, most: float) -> float:
        """Return which part of a slope the variance is, as far as its noise lets it be seen, else as it usually is."""
        trace = max(float(np.trace(slope)), self.slope_sd * self.dimension)
        seen, noise = self.variance / trace, self.lengths_sd / trace
        if self.usual is not None:
            seen = self.usual + (seen - self.usual) * UNUSUAL**2 / (UNUSUAL**2 + noise**2)
        return float(np.clip(seen, LEAST_WEIGHT, most))

    @property
    def noise_level(self) -> float:
        """How large an eigenvalue of the slope noise alone makes, about."""
        return self.slope_sd * float(np.sqrt(self.dimension))

    def noise_levels(self, vectors: Floats) -> Floats:
        """Return how large eigenvalues noise alone makes in directions, the columns of a matrix."""
        return np.sqrt(self.dimension) * np.sum(vectors * (self.slope_doubt @ vectors), axis=0)

    @property
    def slope_doubt(self) -> Floats:
        """How uncertain the slope is, in every direction."""
        return self.slope_sd * (np.eye(self.dimension) if self.doubts is None else self.doubts)

    def likelihood(self, slope: Floats | None = None) -> Likelihood:
        """Return the likelihood of the parameters; directions whose slope is within its noise carry no information."""
        return self.told(self.seen(self.slope if slope is None else slope))

    def step(self, levels: float = 1.0) -> Likelihood:
        """Return the likelihood for a step: slopes below this number of noise levels are raised to it."""
        return self.told(self.floored(levels).slope)

    def told(self, slope: Floats) -> Likelihood:
        """Return the likelihood of the parameters with a given slope, in all directions."""
        spread = self.data_variance(slope) + self.score_variance * np.eye(self.dimension)
        gain = np.linalg.solve(spread, slope).T
        return Likelihood((gain @ slope + (gain @ slope).T) / 2, gain @ self.score)

    def seen(self, slope: Floats) -> Floats:
        """Return a slope without the directions that are within their noise."""
        values, vectors = np.linalg.eigh(_without(self.unseen(slope), slope))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def squared(self, move: Floats) -> float:
        """Return the square of a move of the parameters, in standard deviations: none where nothing is seen."""
        turned = self.whitening.inverse @ move
        return float(turned @ self.seen(self.slope) @ turned)

    def unseen(self, slope: Floats) -> Floats:
        """Return directions in which a slope is within its noise, as columns, those first that no data can see.

        Parts of them in other parameters that noise alone explains are left out: what does not change the scores has no
        part in other parameters either, and a little of something that is free would be much.
        """
        blind = np.zeros((self.dimension, 0)) if self.blind is None else self.blind
        rest = linalg.null_space(blind.T) if blind.shape[1] else np.eye(self.dimension)
        values, vectors = np.linalg.eigh(rest.T @ slope @ rest)
        vectors = rest @ vectors
        least = np.where(values < FLAT * np.median(values), SURELY, 1.0)
        found = vectors[:, values <= least * self.noise_levels(vectors)]
        return np.concatenate([blind, self._plain(slope, found, blind)], axis=1)

    def _plain(self, slope: Floats, found: Floats, blind: Floats) -> Floats:
        """Return directions without the parts that noise alone explains, orthogonal to some."""
        if not found.shape[1] or self.usual is None:  # a model that is no regression is free along curves
            return found
        scales = np.linalg.norm(self.whitening.inverse, axis=0)[:, None]
        steep = np.maximum(np.diag(slope), self.noise_level)[:, None]
        parts = scales * (self.whitening.factor @ found)
        parts = parts / np.linalg.norm(parts, axis=0)
        noise = np.sqrt(0.5 * np.outer(np.diag(self.slope_doubt), np.sum(parts * (self.slope_doubt @ parts), axis=0)))
        is_free = np.sum(parts**2, axis=1, keepdims=True) > 0.5  # several are free: how they mix is of no meaning
        plain = np.where(is_free | (np.abs(parts) > TURNED * noise / steep), parts, 0.0)
        turned = self.whitening.inverse @ (plain / scales)
        turned = turned - blind @ (blind.T @ turned)
        turned = turned / np.maximum(np.linalg.norm(turned, axis=0), 1e-30)
        is_flat = np.sum(turned * (slope @ turned), axis=0) <= SURELY * self.noise_levels(turned)
        each = np.where(is_flat & (np.sum(turned**2, axis=0) > 0.5), turned, found)
        if not np.linalg.svd(each, compute_uv=False)[-1] > DEPENDENT:  # what is left of two is one
            return found
        bases, _ = np.linalg.qr(each)
        return bases

    def data_variance(self, slope: Floats) -> Floats:
        """Return the variance of the sum of scores given the predictors, for a slope: its shape, and its trace."""
        shape, share = self._cut(slope), self._mean_weight(self._cut(self.slope), MOST_WEIGHT)
        unevenness = np.sqrt(self.unevenness)
        return share * unevenness[:, None] * shape * unevenness

    def _cut(self, slope: Floats) -> Floats:
        """Return the variance of scores that are cut as these are, but have no weights, for a slope."""
        turned = self.whitening.factor.T @ self.roots @ self.whitening.inverse.T
        return turned @ slope @ turned.T

    @property
    def unevenness(self) -> Floats:
        """The mean weight in each coordinate over that of all: less than one where predictors are skewed, say."""
        mean, slopes = self.variance / self.dimension, np.diag(self._cut(self.slope))
        is_seen = mean > self.lengths_sd and slopes.sum() > self.slope_sd * self.dimension
        known = np.ones(self.dimension) if self.evenness is None else self.evenness
        if self.differences is None or not is_seen:
            return known
        expected = np.maximum(slopes / slopes.mean(), 0.1)
        believed = (UNEVEN * known) ** 2 / ((UNEVEN * known) ** 2 + (self.lengths_sd / mean / expected) ** 2)
        found = (1.0 + self.differences / mean) / expected
        return np.clip(known + believed * (found - known), LEAST_UNEVEN * known, 2.0)

    @property
    def weights(self) -> Floats:
        """The mean weight of a record in each coordinate: small where few records tell, each of them much."""
        return np.clip(self.mean_weight * self.unevenness, LEAST_WEIGHT, 1.0)

    def full_information(self, inefficiency: float) -> Floats:
        """Return the information of the records without weights, cuts and noise, in whitened coordinates.

        In directions that the release does not identify, the slope is set to half of the detection limit.
        """
        values, vectors = np.linalg.eigh(self.slope)
        slope = (vectors * np.maximum(values, self.noise_levels(vectors) / 2)) @ vectors.T
        return slope * inefficiency / self.mean_weight

    def at_information(self, changes: Floats) -> "Release":
        """Return the release with its slope rescaled to a point with a given ratio of information on each parameter."""
        turned = self.whitening.inverse @ (np.sqrt(changes)[:, None] * self.whitening.factor)
        doubt = turned.T @ self.slope_doubt @ turned
        usual, ratios = max(float(np.trace(doubt)) / self.dimension, 1e-30), np.sum(turned**2, axis=0)
        differences = np.zeros(self.dimension) if self.differences is None else self.differences
        noise = differences.mean()  # they add up to zero but for it
        each = ratios * (self.variance / self.dimension + differences - noise)
        return replace(
            self,
            slope=turned.T @ self.slope @ turned,
            slope_sd=usual,
            doubts=doubt / usual,
            variance=float(each.sum()),
            differences=None if self.differences is None else each - each.mean() + ratios.mean() * noise,
        )

    def pooled(self, expected: Floats, doubt: Floats, numbers: Sequence[int] = ()) -> "Release":
        """Return the release with its slope averaged with an earlier estimate.

        Args:
            expected: the earlier estimate of the information of all records without weights, in the original
                coordinates.
            doubt: its uncertainty, in whitened coordinates.
            numbers: the parameters of numeric columns, which may be skewed.
        """
        roots = np.sqrt(self.weights)
        expected = roots[:, None] * (self.whitening.factor.T @ expected @ self.whitening.factor) * roots
        scale = self._scale(float(np.trace(expected)))
        expected, doubt = scale * expected, scale * roots[:, None] * doubt * roots
        doubt = or_more(expected, doubt, self.slope, self.slope_sd, self.whitening.factor[list(numbers)].T)
        slope, left = averaged(expected, doubt, self.slope, self.slope_sd)
        usual = max(float(np.trace(left)) / self.dimension, 1e-30)
        return replace(self, slope=_without(self.blind, slope), slope_sd=usual, doubts=left / usual)

    def near(self, expected: Floats, *, is_result: bool = False) -> "Release":
        """Return the release with a slope that is lost in noise moved to a public guess, as far as they agree.

        Args:
            expected: the guess of the information of all records without weights, in the original coordinates.
            is_result: whether more than a step rests on it: then the noise may only be so large that a direction
                without information would be noticed.
        """
        roots = np.sqrt(self.weights)
        guess = roots[:, None] * (self.whitening.factor.T @ expected @ self.whitening.factor) * roots
        guess = _without(self.blind, self._scale(float(np.trace(guess))) * guess)
        noise = self.noise_level / max(float(np.trace(guess)) / self.dimension, 1e-30)
        is_lost = is_result and noise > most_noise(self.dimension)
        if not noise > CLEAR or is_lost or not np.isfinite([guess, self.slope, self.slope_doubt]).all():
            return self
        slope, left = shrunk(self.slope, self.slope_doubt, guess, CLEAR / noise)
        usual = max(float(np.trace(left)) / self.dimension, 1e-30)
        return replace(self, slope=_without(self.blind, slope), slope_sd=usual, doubts=left / usual)

    def _scale(self, expected: float) -> float:
        """Return by how much the whole slope is larger than expected: of all of it that is seen best."""
        noise = self.slope_sd * float(np.sqrt(self.dimension)) / max(expected, 1e-12)
        believed = USUAL_SCALE**2 / (USUAL_SCALE**2 + noise**2)
        found = 1 + believed * (float(np.trace(self.slope)) / max(expected, 1e-12) - 1)
        return float(np.clip(found, 1 / MOST_SCALE, MOST_SCALE))

    def doubt(self, whitening: Whitening, changes: Floats, drift: float) -> Floats:
        """Return the uncertainty of its estimate of the information, in other coordinates.

        Args:
            whitening: the coordinates.
            changes: the ratio of the information on each parameter there, by the model.
            drift: a further possible change, in these coordinates.
        """
        stretched = np.sqrt(changes)[:, None] * whitening.factor
        turned = (self.whitening.inverse @ stretched) / np.sqrt(self.weights)[:, None]
        return widened(turned.T @ self.slope_doubt @ turned, drift)

    def information(self) -> Floats:
        """Return the information of all records without weights; zero in directions that no data can identify."""
        inner = _without(self.blind, self.slope / np.sqrt(np.outer(self.weights, self.weights)))
        return self.whitening.inverse.T @ inner @ self.whitening.inverse

    def blind_to(self, ways: Floats) -> "Release":
        """Return the release with further directions, the columns of a matrix, marked as not identifiable by data."""
        blind = linalg.orth(ways if self.blind is None else np.concatenate([self.blind, ways], axis=1))
        return replace(self, blind=blind, slope=_without(blind, self.slope))

    def floored(self, levels: float = 1.0) -> "Release":
        """Return the release with a slope of so many noise levels in any direction at least: for coordinates."""
        values, vectors = np.linalg.eigh(self.slope)
        slope = (vectors * np.maximum(values, levels * self.noise_levels(vectors))) @ vectors.T
        return replace(self, slope=_without(self.blind, slope))


def _without(directions: Floats | None, slope: Floats) -> Floats:
    """Return a slope that is zero in some directions, which are the columns of a matrix."""
    if directions is None:
        return slope
    kept = np.eye(len(slope)) - directions @ directions.T
    return kept @ slope @ kept
