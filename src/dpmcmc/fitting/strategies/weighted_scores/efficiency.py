"""The loss of efficiency from cuts and weights, relative to the likelihood.

It needs no query: synthetic rows and the family's distribution at the result give the slope M and the variance V of
bounded scores, and the Fisher information I. The information of the fit is M V^-1 M, that of the likelihood is I: even
without noise the estimates differ by a variance of M^-1 V M^-1 - I^-1.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.synthetic_rows import (
    RIDGE,
    Bounded,
    Rows,
    Sums,
    synthetic_offsets,
    synthetic_rows,
)

TAIL = 1.5
"""From so many times the variance that its histogram shows on, a column has tails that the histogram does not see."""

NEAR = 0.01
"""The least distance from the mean, in half ranges, at which such rows lie: a histogram may show one value alone."""

FAR = 200
"""How many synthetic rows such tails have."""


def full_information(regression: Regression, release: Release, bounded: Bounded, moments: Moments) -> Floats:
    """Return the information of the records without cuts, weights and noise, in whitened coordinates.

    It is the information of the release without noise, plus the gain that synthetic rows predict.

    Args:
        regression: the model.
        release: the last release.
        bounded: the bounds of its scores.
        moments: the moments of the columns.
    """
    told = _told(release)
    with np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        more = _more(_Synthetic(regression, release, bounded, moments).sums(), release, told)
        return more if np.isfinite(more).all() else told
    return told


def _more(sums: Sums, release: Release, told: Floats) -> Floats:
    """Return the gain in information over a release that synthetic rows predict."""
    scales = np.sqrt(np.maximum(np.diag(sums.information), RIDGE * np.diag(sums.information).max()))
    slope, variance, information = (part / np.outer(scales, scales) + RIDGE * np.eye(len(scales)) for part in sums)
    back = np.linalg.inv(_root(slope @ np.linalg.solve(variance, slope)))
    inverse, factor = release.whitening.inverse / scales, release.whitening.factor * scales[:, None]
    root = factor.T @ _root(inverse.T @ told @ inverse)
    return np.asarray(root @ back @ information @ back @ root.T, np.float64)


def _told(release: Release) -> Floats:
    """Return the information of a release without its noise, M V^-1 M.

    In directions that it does not identify, the slope is set to half of the detection limit.
    """
    values, vectors = np.linalg.eigh(release.slope)
    slope = (vectors * np.maximum(values, release.noise_levels(vectors) / 2)) @ vectors.T
    return np.asarray(slope @ np.linalg.solve(release.data_variance(slope), slope), np.float64)


def _root(matrix: Floats) -> Floats:
    """Return the symmetric root; eigenvalues that rounding made negative are replaced by a tiny number."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 1e-12 * values[-1]))) @ vectors.T, np.float64)


@dataclass(frozen=True, eq=False)
class _Synthetic:
    """Synthetic rows in the place of the records of a release."""

    regression: Regression
    release: Release
    bounded: Bounded
    moments: Moments

    def sums(self) -> Sums:
        """Return their total information, including that of tails that the histograms do not show."""
        rows = synthetic_rows(self.regression, self.moments)
        found, numbers = self._at_point(rows), np.full(len(rows), self.moments.worth / len(rows))
        sums = found.sums(numbers, self.release.whitening.factor, self.bounded)
        inverse = self.release.whitening.inverse
        seen = inverse.T @ self.release.slope @ inverse
        for column, spread in enumerate(self.moments.numbers):
            more = 0.0 if spread is None else self._around(column, seen) - self._around(column, sums.slope)
            if spread is not None and more > (TAIL - 1) * self._around(column, sums.slope):
                shown = float(np.abs(spread.middles[spread.shares > 0] - self.moments.means[column]).max())
                sums = self._with_tail(sums, rows[:FAR], column, shown, more)
        return sums

    def _at_point(self, rows: Floats) -> Rows:
        offsets = synthetic_offsets(self.moments, len(rows))
        return Rows(self.regression, self.release.point, self.bounded.cut, rows, offsets)

    def _with_tail(self, sums: Sums, rows: Floats, column: int, shown: float, more: float) -> Sums:
        """Return sums with rows that are far out in a number, of which the slope has so much more.

        They lie further from the mean than the histogram shows, up to the bounds, and tell as much in every octave: the
        density of the number falls with the cube of the distance.
        """
        mean = self.moments.means[column]
        distances = np.geomspace(np.clip(shown, NEAR, 1.0), 1.0 + abs(mean), len(rows))
        tail = rows.copy()
        tail[:, column] = mean - np.copysign(distances, mean)
        told = self._at_point(tail).sums(distances**-2.0, self.release.whitening.factor, self.bounded)
        times = more / self._around(column, told.slope, mean)
        slope, variance, information = (one + times * other for one, other in zip(sums, told, strict=True))
        return Sums(slope, variance, information)

    def _around(self, column: int, slope: Floats, mean: float | None = None) -> float:
        """Return the slope of a column around a mean, its own unless stated; as it is where there is no intercept."""
        names, outputs = self.regression.model.coordinates.names, self.regression.num_outputs
        place = column * outputs
        if "intercept" not in names:
            return float(slope[place, place])
        middle = names.index("intercept") * outputs
        mean = float(slope[place, middle] / slope[middle, middle]) if mean is None else mean
        return float(slope[place, place] - 2 * mean * slope[place, middle] + mean**2 * slope[middle, middle])
