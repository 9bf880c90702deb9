"""Draws of monotonic effects, whose steps have one sign and share an effect: on the host, at no cost.

A release gives a normal likelihood of the coefficients of the steps, as of any others, without their sign
constraint. Their prior is applied here. The distribution of the coefficients that have such priors, all others
integrated out, is that likelihood times the prior; it is reached from draws of the prior by raising the likelihood to
powers that grow to one, with draws chosen again by weight and moved at each of them (Del Moral, Doucet and Jasra 2006).
So the two signs have the shares that they should have, where the records do not tell which it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import optimize

from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.formula.monotone import Monotone

Spreads = Mapping[str, Floats]
Places = NDArray[np.int_]

KEPT = 0.5
"""Effective share of the draws after each increase of the power."""

MOVES, REACH = 12, 2.0
"""Number of moves of every draw at each power, and their scale times the root of the dimension."""

MOST_POWERS = 200


class Normal(NamedTuple):
    """A normal distribution."""

    mean: Floats
    covariance: Floats

    def log_density(self, points: Floats) -> Floats:
        """Return that of points (draws, dimension)."""
        root = np.linalg.cholesky(self.covariance)
        whitened = np.linalg.solve(root, (points - self.mean).T)
        return -0.5 * np.sum(whitened**2, axis=0) - float(np.sum(np.log(np.diag(root))))

    def marginal(self, places: Places) -> "Normal":
        """Return the distribution of some of the numbers."""
        return Normal(self.mean[places], self.covariance[np.ix_(places, places)])

    def given(self, places: Places, values: Floats, rng: Generator) -> Floats:
        """Draw all numbers, given some of them: (draws, dimension)."""
        rest = np.setdiff1d(np.arange(len(self.mean)), places)
        found = np.empty((len(values), len(self.mean)))
        found[:, places] = values
        if len(rest):
            cross = self.covariance[np.ix_(rest, places)]
            gain = np.linalg.solve(self.covariance[np.ix_(places, places)], cross.T).T
            left = self.covariance[np.ix_(rest, rest)] - gain @ cross.T
            spread, turned = np.linalg.eigh((left + left.T) / 2)
            noise = rng.standard_normal((len(values), len(rest))) * np.sqrt(np.maximum(spread, 0.0))
            found[:, rest] = self.mean[rest] + (values - self.mean[places]) @ gain.T + noise @ turned.T
        return found


@dataclass(frozen=True)
class Effect:
    """One monotonic effect, and where its coefficients stand in the vector."""

    term: Monotone
    places: Places


def effects_of(regression: Regression) -> list[Effect]:
    """Return the monotonic effects of a regression, one for each class where there are some."""
    outputs = regression.num_outputs
    return [
        Effect(term, np.array(term.places) * outputs + output)
        for term in regression.model.coordinates.monotone
        for output in range(outputs)
    ]


def inside_of(regression: Regression, vectors: Floats) -> Floats:
    """Return the mean of draws, with mean shares of monotonic effects.

    If draws have both signs, their mean would be typical of neither; the effect then gets its typical distance from
    zero.
    """
    mean = vectors.mean(axis=0)
    for effect in effects_of(regression):
        own = vectors[:, effect.places]
        totals = own.sum(axis=1)
        shares = np.mean(np.abs(own) / np.maximum(np.abs(own).sum(axis=1), 1e-30)[:, None], axis=0)
        middle = np.abs(totals).mean() * (1.0 if totals.mean() >= 0 else -1.0)
        mean[effect.places] = np.maximum(shares, 1e-3) / np.maximum(shares, 1e-3).sum() * middle
    return mean


def with_effects(
    regression: Regression,
    law_of: Callable[[Spreads], Normal],
    drawn: Sequence[tuple[Spreads, int]],
    rng: Generator,
) -> tuple[Floats, Floats]:
    """Return draws of all parameters with the priors of monotonic effects, and the logarithms of their weights.

    The coefficients of these effects are drawn at the middle of the spreads, all else given them and spreads of its
    own: what the coefficients are worth at these is in the weights.

    Args:
        regression: the model.
        law_of: the distribution of all parameters, with the normal priors that stand in, given the spreads of groups.
        drawn: spreads, with how many draws each is for.
        rng: for the draws.
    """
    effects, number = effects_of(regression), sum(count for _, count in drawn)
    middle = {name: np.exp(np.mean([np.log(each[name]) for each, _ in drawn], axis=0)) for name in drawn[0][0]}
    usual, places = law_of(middle), np.concatenate([effect.places for effect in effects])
    values = draw_effects(effects, usual, number, rng)
    points, logs, start = np.empty((number, len(usual.mean))), np.zeros(number), 0
    for spreads, count in drawn:
        law, own = law_of(spreads) if spreads else usual, slice(start, start + count)
        points[own] = law.given(places, values[own], rng)
        if spreads:
            one, other = (each.marginal(places).log_density(values[own]) for each in (law, usual))
            logs[own] = one - other
        start += count
    return points, logs


def draw_effects(effects: Sequence[Effect], normal: Normal, number: int, rng: Generator) -> Floats:
    """Return draws of the coefficients of monotonic effects, (draws, coefficients), one effect after the other.

    Args:
        effects: the effects, at least one.
        normal: the distribution of all parameters, with normal priors in place of those of the effects.
        number: the number of draws.
        rng: the generator for the draws.
    """
    law = _Law(effects, *_told(effects, normal))
    points = law.draw_prior(number, rng)
    power, told = 0.0, law.told(points)
    for _ in range(MOST_POWERS):
        step = _rise(told, 1.0 - power)
        weights = np.exp(step * (told - told.max()))
        points = points[rng.choice(number, number, p=weights / weights.sum())]
        power += step
        points, told = _moved(law, points, power, rng)
        if power >= 1.0:
            break
    return law.coefficients(points)


def _told(effects: Sequence[Effect], normal: Normal) -> tuple[Floats, Floats]:
    """Return precision and tilt of the likelihood of the coefficients, without the substituted normal priors."""
    own = normal.marginal(np.concatenate([effect.places for effect in effects]))
    stand_ins = [prior.arguments for effect in effects for prior in effect.term.stand_ins]
    means, sds = np.array(stand_ins).T
    precision = np.linalg.inv(own.covariance)
    tilt = precision @ own.mean - means / sds**2
    values, vectors = np.linalg.eigh(precision - np.diag(sds**-2.0))
    is_seen = values > 0
    seen = vectors[:, is_seen]
    return (seen * values[is_seen]) @ seen.T, seen @ (seen.T @ tilt)


@dataclass(frozen=True)
class _Law:
    """The distribution of what a sampler would move in: an effect and the log-ratios of its shares, for each effect."""

    effects: Sequence[Effect]
    precision: Floats
    tilt: Floats

    def _parts(self, points: Floats) -> list[tuple[Monotone, Floats]]:
        ends = np.cumsum([len(effect.places) for effect in self.effects])
        parts = np.split(points.T, ends[:-1])
        return [(effect.term, part) for effect, part in zip(self.effects, parts, strict=True)]

    def draw_prior(self, number: int, rng: Generator) -> Floats:
        drawn = [effect.term.draw_on_host(rng, (len(effect.places), number)) for effect in self.effects]
        return np.concatenate(drawn).T

    def coefficients(self, points: Floats) -> Floats:
        return np.concatenate([term.coefficients(np, part) for term, part in self._parts(points)]).T

    def told(self, points: Floats) -> Floats:
        coefficients = self.coefficients(points)
        return coefficients @ self.tilt - 0.5 * np.sum((coefficients @ self.precision) * coefficients, axis=1)

    def log_prior(self, points: Floats) -> Floats:
        total = np.zeros(len(points))
        for term, part in self._parts(points):
            total = total + term.prior.density(part[0]) + term.log_density_of_shares(np, part)
        return total


def _rise(told: Floats, most: float) -> float:
    """Return the largest increase of the power that leaves enough effective draws."""

    def left(step: float) -> float:
        weights = np.exp(step * (told - told.max()))
        return float(weights.sum() ** 2 / np.sum(weights**2) / len(told)) - KEPT

    if left(most) >= 0:
        return most
    low = most * 1e-12
    return float(optimize.brentq(left, low, most, xtol=1e-3 * low, rtol=1e-2)) if left(low) > 0 else low


def _moved(law: _Law, points: Floats, power: float, rng: Generator) -> tuple[Floats, Floats]:
    """Return draws after random walks that leave the tempered distribution invariant, with their log-likelihoods."""
    told, prior = law.told(points), law.log_prior(points)
    dimension = points.shape[1]
    for move in range(MOVES):
        if move % 4 == 3:  # across to the other sign: the shares of an effect near zero tell nothing
            proposed = points.copy()
            places = np.cumsum([0, *(len(effect.places) for effect in law.effects)])[:-1]
            proposed[:, places] *= np.where(rng.random((len(points), len(places))) < 0.5, -1.0, 1.0)
        else:
            spread, turned = np.linalg.eigh(np.atleast_2d(np.cov(points.T)) + 1e-12 * np.eye(dimension))
            steps = rng.standard_normal(points.shape) * np.sqrt(np.maximum(spread, 0.0)) @ turned.T
            reach = REACH / np.sqrt(dimension) * np.exp(rng.normal(-0.5, 0.8, (len(points), 1)))
            proposed = points + reach * steps
        new_told, new_prior = law.told(proposed), law.log_prior(proposed)
        change = power * (new_told - told) + new_prior - prior
        taken = np.log(rng.random(len(points))) < change
        points = np.where(taken[:, None], proposed, points)
        told, prior = np.where(taken, new_told, told), np.where(taken, new_prior, prior)
    return points, told
