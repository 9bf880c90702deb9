"""Private scoring steps for a NumPyro model, on the host: from the prior's centre to the root of the centred scores.

Near the root every release is a normal likelihood of the parameters, as for weighted scores (`weighted.newton`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.optimize import nnls

from dpmcmc.fitting.strategies.centred_scores.points import Points
from dpmcmc.fitting.strategies.centred_scores.releases import LEVELS, RADII, SIDE, Answer, Asked, First
from dpmcmc.fitting.strategies.weighted_scores.newton import CARRIED, SEEN
from dpmcmc.fitting.strategies.weighted_scores.release import LEAST_WEIGHT, Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import Likelihood, Whitening, whiten

PILOT_RADIUS = 1.2
"""The radius of the pilot in usual lengths of a score."""

LONGEST_MOVE, WIDTHS = 1.0, 1.0
"""How far a step may move the responses in their own widths, and the parameters in those of the prior."""

STEEP = 2.0
"""For a step, slopes are raised to at least this many times their noise."""

FLATTEST = 0.1
"""Smallest precision of a prior, in its own scale; smaller ones are raised to it."""

POOLED = 3
"""Number of steps whose traces are pooled to choose the last radius."""

ALIKE = 0.05
"""Relative difference below which variances count as equal."""

EARLY = 0.6
"""Share of early steps, which ignore the releases before them: these may be far away."""


class Prior:
    """The log-prior on the host, with the widths that it has."""

    def __init__(self, points: Points, scales: Floats) -> None:
        self.points, self.scales = points, scales

    def at(self, point: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the precision, without directions in which it is flat or bends upward."""
        found = self.points.at(point)
        gradient, bend = found.gradient, -found.hessian
        if not (np.isfinite(gradient).all() and np.isfinite(bend).all()):
            raise ValueError("the prior has no finite gradient at the point that the steps reached")
        values, vectors = np.linalg.eigh(self.scales[:, None] * (bend + bend.T) / 2 * self.scales)
        inner = (vectors * np.maximum(values, FLATTEST)) @ vectors.T
        return gradient, inner / np.outer(self.scales, self.scales)


class Lengths(NamedTuple):
    """The records' information by the norm of their scores, estimated from noisy traces at several radii."""

    lengths: Floats
    held: Floats

    @classmethod
    def of(cls, radii: Floats, traces: Floats) -> "Lengths":
        """Fit the traces of slopes and variances."""
        lengths = np.append(radii, 1.5 * radii[-1])
        shares = _shares(lengths, radii)
        held, _ = nnls(np.concatenate([shares, shares**2]), np.maximum(traces.ravel(), 0.0))
        return cls(lengths, held)

    @property
    def whole(self) -> float:
        """All of it."""
        return max(float(self.held.sum()), 1e-3)

    def slope(self, radii: Any) -> Floats:
        """Return the trace of the slope at radii."""
        return np.maximum(_shares(self.lengths, radii) @ self.held, 1e-4)

    def variance(self, radii: Any) -> Floats:
        """Return the trace of the variance of scores at radii."""
        return np.maximum(_shares(self.lengths, radii) ** 2 @ self.held, 1e-4)


def _shares(lengths: Floats, radii: Any) -> Floats:
    """Return what is left of scores of some lengths at radii: (radii, lengths)."""
    return (1 + (lengths / np.atleast_1d(radii)[:, None]) ** 4) ** -0.25


class Told(NamedTuple):
    """A release, and the traces at the radii to choose from."""

    release: Release
    traces: Floats

    def information(self, lengths: Lengths) -> Floats:
        """Return the information of all records without bounds, at least the noise in each direction: for whitening."""
        values, vectors = np.linalg.eigh(self.release.slope)
        share = np.clip(lengths.slope(self.release.radius)[0] / lengths.whole, LEAST_WEIGHT, 1.0)
        inner = (vectors * np.maximum(values, self.release.noise_level) / share) @ vectors.T
        inverse = self.release.whitening.inverse
        return inverse.T @ inner @ inverse

    def step(self) -> Likelihood:
        """Return the likelihood for a step: slopes within their noise are raised to it."""
        release = self.release
        values, vectors = np.linalg.eigh(release.slope)
        steep = (vectors * np.maximum(values, STEEP * release.noise_level)) @ vectors.T
        spread = release.data_variance(steep) + release.score_variance * np.eye(release.dimension)
        gain = np.linalg.solve(spread, steep).T
        return Likelihood((gain @ steep + (gain @ steep).T) / 2, gain @ release.score)


def without_blind(release: Release, blind: Floats) -> Release:
    """Return a release without what noise alone says of coordinates that no data can see."""
    visible = np.eye(release.dimension) - blind @ blind.T
    return replace(release, score=visible @ release.score, slope=visible @ release.slope @ visible, blind=blind)


class Found(NamedTuple):
    """The result of the pilot's steps."""

    point: Floats
    information: Floats
    """At the last release."""
    last: Release
    traces: Floats
    """Of the last few."""


def begin(first: First, scales: Floats, size: float) -> Floats:
    """Return the information of all records at the start, from the first release, in prior scales."""
    counts = np.where(np.asarray(first.levels) > SEEN * float(first.levels_sd), np.asarray(first.levels, float), 0.0)
    middles = np.append(LEVELS, 4 * LEVELS[-1]) / 2
    total = float(counts @ middles) if counts.sum() > 0 else size
    shape = np.asarray(first.shape, float) / size
    values, vectors = np.linalg.eigh(shape)
    floor = float(first.shape_sd) * np.sqrt(len(values)) / size
    inner = (vectors * np.maximum(values, min(floor, 1.0))) @ vectors.T * total
    return inner / np.outer(scales, scales)


@dataclass(frozen=True, eq=False)
class Steps:
    """Queries and steps."""

    prior: Prior
    size: float
    """The number of records."""
    ask: Callable[[Asked], Answer]
    shares: tuple[float, float]
    """What of the budget goes to scores and to slopes."""

    @cached_property
    def unit(self) -> float:
        """The usual length of a record's score in whitened coordinates."""
        return float(np.sqrt(len(self.prior.scales) / self.size))

    def release(
        self, point: Floats, whitening: Whitening, radius: float, slope_radius: float, blind: Floats | None = None
    ) -> Told:
        """Ask at a point; not in coordinates that no data can see, `blind`."""
        visible = np.eye(len(point)) if blind is None else np.eye(len(point)) - blind @ blind.T
        asked = Asked(
            *(
                np.asarray(each, np.float32)
                for each in (
                    point,
                    whitening.factor @ visible,
                    radius,
                    slope_radius,
                    np.array(self.shares) / sum(self.shares),
                    RADII * self.unit,
                )
            )
        )
        score, score_sd, slope, slope_sd, _, traces = (np.asarray(each, float) for each in self.ask(asked))
        variance = Lengths.of(RADII * self.unit, traces).variance(radius)[0]
        sd = float(slope_sd) / SIDE
        roots, nothing = np.eye(len(point)), np.zeros(0)
        release = Release(
            point,
            whitening,
            radius,
            score,
            float(score_sd) ** 2,
            slope,
            float(slope_sd),
            float(variance),
            nothing,
            sd,
            roots,
        )
        return Told(release if blind is None else without_blind(release, blind), traces)

    def trusted(self, move: Floats, information: Floats, share: float = 1.0) -> Floats:
        """Return a move, shortened where it would go further than a linear answer holds."""
        responses = float(np.sqrt(max(move @ information @ move, 0.0) / self.size)) / LONGEST_MOVE
        widths = float(np.max(np.abs(move) / self.prior.scales)) / WIDTHS
        return move * min(1.0, share / max(responses, widths, 1e-12))

    def pilot(self, start: Floats, information: Floats, num_steps: int) -> Found:
        """Return the result of the pilot's steps."""
        point, known = start, np.zeros_like(information)
        found: list[Told] = []
        for number in range(num_steps):
            gradient, bend = self.prior.at(point)
            whitening = whiten(information + bend)
            told = self.release(point, whitening, PILOT_RADIUS * self.unit, 2 * self.unit**2)
            normal, factor = told.step(), whitening.factor
            carried = CARRIED * known if number >= EARLY * num_steps else np.zeros_like(known)
            precision = normal.precision + factor.T @ (bend + carried) @ factor
            move = factor @ linalg.solve(precision, normal.tilt + factor.T @ gradient, assume_a="pos")
            information = told.information(Lengths.of(RADII * self.unit, told.traces))
            point = point + self.trusted(move, information)
            known = whitening.inverse.T @ normal.precision @ whitening.inverse + 0.5 * known
            found.append(told)
        traces = np.mean([told.traces for told in found[-POOLED:]], axis=0)
        return Found(point, information, found[-1].release, traces)

    def best_radius(self, traces: Floats, noise: float) -> tuple[float, float]:
        """Return the radius with the smallest variance of the estimate, and its loss of efficiency without noise.

        The noisy traces depend on the distribution of information over the norm of scores, which is fitted first.
        """
        size, radii = len(self.prior.scales), RADII * self.unit
        lengths = Lengths.of(radii, traces / size)
        slopes = lengths.slope(radii)
        of_records, of_noise = lengths.variance(radii) / slopes**2, (noise * radii / slopes) ** 2
        total = of_records + of_noise
        best = int(np.flatnonzero(total <= (1 + ALIKE) * total.min())[-1])  # the slope is best seen far out
        return float(radii[best]), float(np.clip(of_records[best] * lengths.whole, 1.0, 4.0))
