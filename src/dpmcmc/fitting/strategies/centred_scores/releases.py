"""The releases of a fit by centred scores.

The whitened score of an observed value is bounded by a radius, by a smooth function of its norm, and its mean under the
model, given everything but the response, is subtracted. The centred score has mean zero at the truth for every radius
(Hampel's optimal bounded scores). A weight that does not depend on the response allows for the norm of the mean. The
terms of a record, several values or the rows of a person, share `radius`, so that the contribution of every record is
at most `radius`, and its slope at most `slope_radius`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.strategies.centred_scores.drawn import score_and_slope
from dpmcmc.fitting.strategies.centred_scores.terms import DrawnTerms, TermLaws, term_laws
from dpmcmc.fitting.strategies.weighted_scores.releases import OFF_DIAGONAL
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

RADII = 1.5 ** np.arange(-3.0, 9.0)
"""Candidate radii for the last releases, in units of sqrt(parameters / records)."""

SIDE = 0.15
"""The share of its length with which each number of side information of a slope is added to it."""

LENGTH = float(np.sqrt(1 + (1 + 2 * len(RADII)) * SIDE**2))

LEVELS = 4.0 ** np.arange(-8.0, 24.0)
"""Upper edges of the bins of one record's information, in prior scales; the last bin is unbounded."""

PLACES = np.array([0.002, *np.arange(1, 8) / 8, 0.998], np.float32)
"""Edges of the bins of the places of responses in their distributions: the tails have bins of their own."""

BINS = len(PLACES) + 1


class Asked(NamedTuple):
    """The point and the settings of a query of scores: all public."""

    centre: Any
    factor: Any
    radius: Any
    slope_radius: Any
    shares: Any
    """What of the release's budget goes to the score and to the slope; they add up to one."""
    radii: Any
    """To choose from."""


class Answer(NamedTuple):
    """The sums over records, with noise, in whitened coordinates."""

    score: Any
    score_sd: Any
    slope: Any
    slope_sd: Any
    """Of the noise on the diagonal; off it it is a root of two smaller."""
    variance: Any
    """The trace of the variance of the sum of scores."""
    traces: Any
    """Of slope and variance, at each of the radii to choose from: (2, radii)."""


class Bounded(NamedTuple):
    """The centred scores of the terms of a site at a radius, in the parameters of the distributions."""

    score: jax.Array
    slope: jax.Array
    weight: jax.Array
    """By which they are still to be multiplied."""
    slope_trace: jax.Array
    """Multiplied by it."""
    variance_trace: jax.Array


def bounded(site: TermLaws, radius: Any) -> Bounded:
    """Return the scores of the terms of a site, each shortened to its share of a radius, and centred."""
    return jax.vmap(_bounded, in_axes=(0, None))(site, radius)


def _bounded(term: TermLaws, radius: Any) -> Bounded:
    radius = jnp.maximum(radius * term.share, 1e-12)  # a place without a row has no share

    def kept(score: jax.Array) -> tuple[jax.Array, jax.Array]:
        square = jnp.maximum(score @ term.gram @ score, 0.0)
        return 1 / jnp.sqrt(jnp.sqrt(1 + (square / radius**2) ** 2)), square

    shares, squares = jax.vmap(kept)(term.scores)
    # scores have mean zero: what their rule makes of it is taken off, so that a bound that cuts nothing shifts nothing
    means = (term.weights * (shares - term.weights @ shares)) @ term.scores
    of_mean = jnp.sqrt(jnp.maximum(means @ term.gram @ means, 0.0))
    weight = radius / (radius + of_mean)
    slope = (term.scores * (term.weights * shares)[:, None]).T @ term.scores
    variance = term.weights @ (shares**2 * squares) - of_mean**2
    score = kept(term.own)[0] * term.own - means
    return Bounded(
        score,
        slope,
        weight,
        weight * (term.weights @ (shares * squares)),
        weight**2 * jnp.maximum(variance, 0.0),
    )


@dataclass(frozen=True)
class CentredSums:
    """The centred scores and their slope, in one release: ``ask(oracle, asked)``."""

    observed: Observed
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, asked: Asked) -> Answer:
        """Return the two sums."""
        size = self.layout.dimension
        found = oracle.sum(self.sums, _Scores(self.observed, self.layout), asked)
        score_unit, slope_unit = _units(asked)
        score, entries = found.value[:size] * score_unit, found.value[size:] * slope_unit
        number = size * (size + 1) // 2
        side = entries[number:] / SIDE
        sd = jnp.sqrt(found.variance)
        slope = _symmetric(entries[:number], size)
        return Answer(score, sd * score_unit, slope, sd * slope_unit, side[0], side[1:].reshape(2, -1))


@dataclass(frozen=True)
class _Scores:
    """What one record adds: the same for every noise, so that it is traced once."""

    observed: Observed
    layout: Layout

    def __call__(self, asked: Asked, record: Any) -> jax.Array:
        sites = term_laws(self.observed, self.layout, asked.centre, asked.factor, record)
        return sum((self._of_site(asked, site) for site in sites), start=jnp.zeros(()))

    def _of_site(self, asked: Asked, site: TermLaws) -> jax.Array:
        score_unit, slope_unit = _units(asked)
        if isinstance(site, DrawnTerms):
            score, slope, variance, traces = score_and_slope(asked, site)
            side = SIDE * jnp.append(variance, traces)
            return jnp.concatenate([score / score_unit, _entries(slope) / slope_unit, side / slope_unit])
        at = bounded(site, asked.radius)
        others = jax.vmap(lambda radius: bounded(site, radius))(asked.radii)
        there, most = site.is_there.astype(jnp.float32), asked.slope_radius * site.share
        weight = at.weight * jnp.minimum(1.0, most / jnp.maximum(at.slope_trace, 1e-30))
        cut = jnp.minimum(1.0, most / jnp.maximum(others.slope_trace, 1e-30))
        score = jnp.einsum("t,tp,tpd->d", weight, jnp.where(site.is_there[:, None], at.score, 0.0), site.moves)
        slope = jnp.einsum("t,tpq,tpd,tqe->de", weight * there, at.slope, site.moves, site.moves)
        variance = jnp.sum(there * at.variance_trace * (weight / at.weight) ** 2)
        traces = jnp.concatenate([(cut * others.slope_trace) @ there, (cut**2 * others.variance_trace) @ there])
        side = jnp.append(variance, traces)
        return jnp.concatenate([score / score_unit, _entries(slope) / slope_unit, SIDE * side / slope_unit])


def _units(asked: Asked) -> tuple[jax.Array, jax.Array]:
    """Return what the two blocks are divided by."""
    return asked.radius / jnp.sqrt(asked.shares[0]), asked.slope_radius * LENGTH / jnp.sqrt(asked.shares[1])


class First(NamedTuple):
    """The information of the records at a point: its mean shape, and a histogram of its size."""

    shape: Any
    shape_sd: Any
    levels: Any
    levels_sd: Any


@dataclass(frozen=True)
class InformationShape:
    """The first release, before the scale of scores is known: ``ask(oracle, centre, factor)``."""

    observed: Observed
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, centre: Any, factor: Any) -> First:
        """Return the sum over records of their information, each divided by its trace, and a histogram of traces."""
        size = self.layout.dimension
        number = size * (size + 1) // 2
        found = oracle.sum(self.sums, _Shape(self.observed, self.layout), (centre, factor))
        value, sd = found.value * OFF_DIAGONAL, jnp.sqrt(found.variance) * OFF_DIAGONAL
        return First(_symmetric(value[:number], size), sd, value[number:], sd)


@dataclass(frozen=True)
class _Shape:
    observed: Observed
    layout: Layout

    def __call__(self, asked: Any, record: Any) -> jax.Array:
        centre, factor = asked
        sites = term_laws(self.observed, self.layout, centre, factor, record)
        information = sum((_information(site) for site in sites), start=jnp.zeros(()))
        trace = jnp.maximum(jnp.trace(information), 0.0)
        shape = _entries(information / jnp.maximum(trace, 1e-30))
        lower, upper = np.append(-1.0, LEVELS), np.append(LEVELS, np.inf)
        levels = ((trace > lower) & (trace <= upper)).astype(jnp.float32)
        blocks = jnp.concatenate([jnp.where(trace > 1e-20, shape, 0.0), levels]) / OFF_DIAGONAL
        is_there = jnp.any(jnp.concatenate([site.is_there for site in sites]))
        return jnp.where(is_there, blocks, 0.0)


def _information(site: TermLaws) -> jax.Array:
    """Return the information of the terms of a site, in whitened coordinates."""
    each = jnp.einsum("tn,tnp,tnq->tpq", site.weights, site.scores, site.scores)
    return jnp.einsum("t,tpq,tpd,tqe->de", site.is_there.astype(jnp.float32), each, site.moves, site.moves)


@dataclass(frozen=True)
class Places:
    """Where the responses are in their distributions, a check of the model: ``ask(oracle, centre)``.

    Each record adds the bin that its place is in less the probabilities of the bins: zero in the mean if the
    distribution holds.
    """

    observed: Observed
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, centre: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the excess of each bin, its noise, and how many are expected in it."""
        found = oracle.sum(self.sums, _Bins(self.observed, self.layout), centre)
        sd = jnp.sqrt(found.variance)
        return found.value[:BINS] * 2.0, sd * 2.0, found.value[BINS:] * 2.0


@dataclass(frozen=True)
class _Bins:
    observed: Observed
    layout: Layout

    def __call__(self, centre: Any, record: Any) -> jax.Array:
        sites = term_laws(self.observed, self.layout, centre, jnp.eye(self.layout.dimension), record)
        blocks = jnp.sum(jnp.concatenate([jax.vmap(_place)(site) for site in sites]), axis=0)
        number = jnp.sum(jnp.concatenate([site.is_there for site in sites]).astype(jnp.float32))
        return blocks / (2.0 * jnp.maximum(number, 1.0))


def _place(term: TermLaws) -> jax.Array:
    """Return in which bin a term is, less their probabilities, and these."""
    if term.below is None:
        return jnp.zeros(2 * BINS)
    values, own = term.values.reshape(-1).astype(jnp.float32), term.response.reshape(()).astype(jnp.float32)
    below = term.below.reshape(-1)
    known = jnp.where(jnp.isfinite(below), below, 2.0)
    edges = jax.vmap(lambda level: jnp.argmin(jnp.abs(known - level)))(PLACES)
    # several edges in one place leave the bins between them empty
    cumulative = jnp.concatenate([jnp.zeros(1), known[edges], jnp.ones(1)])
    expected = jnp.diff(cumulative)
    found = jnp.sum(own > values[edges]) == jnp.arange(BINS)
    is_told = jnp.any(jnp.isfinite(below)) & jnp.all(expected > -1e-3) & term.is_there
    return jnp.where(is_told, jnp.concatenate([found.astype(jnp.float32) - expected, expected]), 0.0)


def _entries(matrix: jax.Array) -> jax.Array:
    """Return the upper half of a symmetric matrix, whose length is the matrix's."""
    rows, columns = np.triu_indices(matrix.shape[0])
    return matrix[rows, columns] * np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)


def _symmetric(entries: jax.Array, size: int) -> jax.Array:
    rows, columns = np.triu_indices(size)
    weights = np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries / weights)
    return upper + jnp.triu(upper, 1).T
