"""The last releases of centred scores: their points, their coordinates, and their joint likelihood."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.centred_scores.shown import (
    Chart,
    Displacement,
    chart,
    displacement,
    hidden_directions,
    linear_displacement,
    same_change,
)
from dpmcmc.fitting.strategies.centred_scores.steps import Found, Prior, Steps, without_blind
from dpmcmc.fitting.strategies.weighted_scores.draws import Joined, join_all
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import whiten

SEEN = 3.0
"""A slope of this many noise levels in a direction that changes no distribution contradicts the synthetic records."""


class Last(NamedTuple):
    """The last releases."""

    releases: list[Release]
    arrived: bool
    """Whether no step between them had to be shortened."""
    shows: bool
    """Whether every direction that the releases see changes the distribution of some synthetic record."""
    chart: Chart | None
    """The coordinates, where distributions do not show some of them."""

    def joined(self, prior: Prior) -> Joined:
        """Return the releases joined into one."""

        def apart(first: Release, second: Release) -> Floats:
            moved = displacement(prior.points, first.point, first.whitening, prior.scales)
            return moved.on_host(prior.points, second.point)

        return join_all(self.releases, apart if self.shows else None)

    def from_end(self, prior: Prior) -> Displacement:
        """Return the displacement from the last point: in what distributions show, or in the parameters themselves."""
        last = self.releases[-1]
        if not self.shows:
            return linear_displacement(last.point, last.whitening)
        return displacement(prior.points, last.point, last.whitening, prior.scales)

    def at(self, prior: Prior, joined: Joined, point: Floats) -> Joined:
        """Return the joint release in the corresponding coordinates at another point (see `Chart.carried`)."""
        if self.chart is None:
            return joined
        there = self.chart.carried(prior.points, joined.release.point, point, prior.at(point)[1], prior.scales)
        if there is None:
            return joined
        return replace(joined, release=replace(joined.release, whitening=there.whitening))

    def without_blind(self, matrix: Floats) -> Floats:
        """Return a matrix in whitened coordinates that is zero where no data can see."""
        return matrix if self.chart is None else self.chart.visible @ matrix @ self.chart.visible


def last_releases(steps: Steps, found: Found, radius: float, slope_radius: float, number: int) -> Last:
    """Query a number of releases, with steps between them.

    Args:
        steps: the queries and moves.
        found: the result of the pilot.
        radius: the bound on scores.
        slope_radius: the bound on slopes.
        number: the number of releases.
    """
    prior, point, information = steps.prior, found.point, found.information
    where, shows = None, _shows(prior, found.last)
    is_hidden = len(hidden_directions(prior.points, point, prior.scales)) > 0
    if is_hidden and shows:
        turned = same_change(prior.points, found.last.point, point, prior.scales)
        information = turned.T @ information @ turned
        where = chart(prior.points, point, information, prior.at(point)[1], prior.scales)
    whitening = whiten(information + prior.at(point)[1]) if where is None else where.whitening
    releases: list[Release] = []
    arrived = True
    for _ in range(number):
        blind = where.blind if where is not None and releases else None  # the first one looks whether they are
        release = steps.release(point, whitening, radius, slope_radius, blind).release
        if not releases:
            shows = shows and _shows(prior, release)
            where = where if shows else None
            release = release if where is None else without_blind(release, where.blind)
        releases.append(release)
        move = _move(release, prior)
        trusted = steps.trusted(move, information, 0.5)
        arrived = bool(np.allclose(move, trusted))
        point = point + trusted
    return Last(releases, arrived, shows, where)


def _move(release: Release, prior: Prior) -> Floats:
    """Return the move to the mode of release and prior, in directions that the release informs.

    In other directions there is only the prior, whose density is constant along curves.
    """
    gradient, bend = prior.at(release.point)
    told, factor = release.likelihood(), release.whitening.factor
    values, vectors = np.linalg.eigh(release.slope)
    seen = vectors[:, values > release.noise_level]
    precision = told.precision + factor.T @ bend @ factor
    return factor @ seen @ seen.T @ np.linalg.solve(precision, told.tilt + factor.T @ gradient)


def _shows(prior: Prior, release: Release) -> bool:
    """Say whether a slope sees no direction that changes no distribution of a synthetic record."""
    hidden = hidden_directions(prior.points, release.point, prior.scales)
    turned = hidden @ release.whitening.inverse.T
    turned = turned / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1e-30)
    return bool(np.all(np.sum(turned @ release.slope * turned, axis=1) <= SEEN * release.noise_level))
