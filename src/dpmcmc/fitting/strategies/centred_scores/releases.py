"""What a fit by centred scores asks of the records.

The score s of a record, in whitened coordinates, is shortened to at most `radius` by a smooth function of its length,
and its mean under the model, given everything but the response, is taken off: what is left has mean zero at the truth
whatever the radius (Hampel's optimal bounded scores). A weight that does not look at the response makes up for the
length of the mean, so that every record adds at most `radius`, and a slope of at most `slope_radius`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave import Oracle, Sum
from dpmcmc.fitting.strategies.centred_scores import laws
from dpmcmc.fitting.strategies.weighted_scores.releases import OFF_DIAGONAL
from dpmcmc.model.observed import ObservedSite
from dpmcmc.run.program import Layout

RADII = 1.5 ** np.arange(-3.0, 9.0)
"""Radii to choose from for the last releases, in roots of (parameters / records)."""

SIDE = 0.15
"""The share of its length with which each number of side information of a slope is added to it."""

LENGTH = float(np.sqrt(1 + (1 + 2 * len(RADII)) * SIDE**2))

LEVELS = 4.0 ** np.arange(-8.0, 24.0)
"""Upper edges of the bins of what one record knows, in widths of the prior; a last bin has none."""

PLACES = np.array([0.002, *np.arange(1, 8) / 8, 0.998], np.float32)
"""Edges of the bins of the places of responses in their laws: the tails have bins of their own."""

BINS = len(PLACES) + 1


class Asked(NamedTuple):
    """Where the scores are asked for, and how: all of it public."""

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


class RecordLaw(NamedTuple):
    """The law of one record's response in the parameters of its distribution."""

    moves: jax.Array
    """How they move with the whitened coordinates."""
    gram: jax.Array
    own: jax.Array
    """The gradient of the log-density at the response."""
    scores: jax.Array
    """The same at the nodes."""
    weights: jax.Array
    values: jax.Array
    below: jax.Array
    response: jax.Array
    is_there: jax.Array
    """Whether the response is one that the law can have."""


def record_law(site: ObservedSite, layout: Layout, centre: Any, factor: Any, record: Any) -> RecordLaw:
    """Return the law of one record's response at a point, in coordinates position = centre + factor z."""
    found = site.at(layout.unravel(centre), record)

    def parameters(vector: jax.Array) -> jax.Array:
        return site.at(layout.unravel(vector), record).parameters

    def log_density(parameters: jax.Array, value: jax.Array) -> jax.Array:
        return jnp.sum(site.law(parameters, found.others).log_prob(value))

    jacobian = jax.jacrev if len(found.parameters) <= layout.dimension else jax.jacfwd
    moves = jacobian(parameters)(centre) @ factor
    law = site.law(found.parameters, found.others)
    values, weights, below = laws.nodes(law)
    weights = weights.reshape(-1)
    scores = jax.vmap(jax.grad(log_density), in_axes=(None, 0))(found.parameters, values)
    scores = jnp.where((weights > 0)[:, None] & jnp.isfinite(scores), scores, 0.0)
    own = jax.grad(log_density)(found.parameters, found.response)
    is_there = jnp.all(law.support(found.response)) & jnp.all(jnp.isfinite(own)) & jnp.all(jnp.isfinite(moves))
    return RecordLaw(moves, moves @ moves.T, own, scores, weights, values, below, found.response, is_there)


class Bounded(NamedTuple):
    """The centred score of a record at a radius, in the parameters of its distribution, without the last weight."""

    score: jax.Array
    slope: jax.Array
    weight: jax.Array
    slope_trace: jax.Array
    variance_trace: jax.Array


def bounded(record: RecordLaw, radius: Any) -> Bounded:
    """Return the score of one record, shortened to a radius and centred."""

    def kept(score: jax.Array) -> tuple[jax.Array, jax.Array]:
        square = jnp.maximum(score @ record.gram @ score, 0.0)
        return (1 + (square / radius**2) ** 2) ** -0.25, square

    shares, squares = jax.vmap(kept)(record.scores)
    # scores have mean zero: what their rule makes of it is taken off, so that a bound that cuts nothing shifts nothing
    means = (record.weights * (shares - record.weights @ shares)) @ record.scores
    of_mean = jnp.sqrt(jnp.maximum(means @ record.gram @ means, 0.0))
    weight = radius / (radius + of_mean)
    slope = (record.scores * (record.weights * shares)[:, None]).T @ record.scores
    variance = record.weights @ (shares**2 * squares) - of_mean**2
    score = kept(record.own)[0] * record.own - means
    return Bounded(
        score,
        slope,
        weight,
        weight * (record.weights @ (shares * squares)),
        weight**2 * jnp.maximum(variance, 0.0),
    )


@dataclass(frozen=True)
class CentredSums:
    """The centred scores and their slope, in one release: ``ask(oracle, asked)``."""

    site: ObservedSite
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, asked: Asked) -> Answer:
        """Return the two sums."""
        size = self.layout.dimension
        found = oracle.sum(self.sums, self._blocks, asked)
        score_unit, slope_unit = _units(asked)
        score, entries = found.value[:size] * score_unit, found.value[size:] * slope_unit
        number = size * (size + 1) // 2
        side = entries[number:] / SIDE
        sd = jnp.sqrt(found.variance)
        slope = _symmetric(entries[:number], size)
        return Answer(score, sd * score_unit, slope, sd * slope_unit, side[0], side[1:].reshape(2, -1))

    def _blocks(self, asked: Asked, record: Any) -> jax.Array:
        one = record_law(self.site, self.layout, asked.centre, asked.factor, record)
        at = bounded(one, asked.radius)
        others = jax.vmap(lambda radius: bounded(one, radius))(asked.radii)
        weight = at.weight * jnp.minimum(1.0, asked.slope_radius / jnp.maximum(at.slope_trace, 1e-30))
        cut = jnp.minimum(1.0, asked.slope_radius / jnp.maximum(others.slope_trace, 1e-30))
        slope = one.moves.T @ (weight * at.slope) @ one.moves
        variance = at.variance_trace * (weight / at.weight) ** 2
        side = jnp.concatenate([variance[None], cut * others.slope_trace, cut**2 * others.variance_trace])
        score_unit, slope_unit = _units(asked)
        blocks = [weight * at.score @ one.moves / score_unit, _entries(slope) / slope_unit, SIDE * side / slope_unit]
        return jnp.where(one.is_there, jnp.concatenate(blocks), 0.0)


def _units(asked: Asked) -> tuple[jax.Array, jax.Array]:
    """Return what the two blocks are divided by."""
    return asked.radius / jnp.sqrt(asked.shares[0]), asked.slope_radius * LENGTH / jnp.sqrt(asked.shares[1])


class First(NamedTuple):
    """What records know at a point: the mean shape of their information, and how much of it they have."""

    shape: Any
    shape_sd: Any
    levels: Any
    levels_sd: Any


@dataclass(frozen=True)
class InformationShape:
    """The first release, before anything is known of the scale of scores: ``ask(oracle, centre, factor)``."""

    site: ObservedSite
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, centre: Any, factor: Any) -> First:
        """Return the sum over records of their information, each divided by its trace, and a histogram of traces."""
        size = self.layout.dimension
        number = size * (size + 1) // 2
        found = oracle.sum(self.sums, self._blocks, (centre, factor))
        value, sd = found.value * OFF_DIAGONAL, jnp.sqrt(found.variance) * OFF_DIAGONAL
        return First(_symmetric(value[:number], size), sd, value[number:], sd)

    def _blocks(self, asked: Any, record: Any) -> jax.Array:
        centre, factor = asked
        one = record_law(self.site, self.layout, centre, factor, record)
        information = (one.scores * one.weights[:, None]).T @ one.scores
        trace = jnp.maximum(jnp.sum(information * one.gram), 0.0)
        shape = _entries(one.moves.T @ information @ one.moves / jnp.maximum(trace, 1e-30))
        lower, upper = np.append(-1.0, LEVELS), np.append(LEVELS, np.inf)
        levels = ((trace > lower) & (trace <= upper)).astype(jnp.float32)
        blocks = jnp.concatenate([jnp.where(trace > 1e-20, shape, 0.0), levels]) / OFF_DIAGONAL
        return jnp.where(one.is_there, blocks, 0.0)


@dataclass(frozen=True)
class Places:
    """Where the responses are in their laws, a check of the model: ``ask(oracle, centre)``.

    Each record adds the bin that its place is in less the probabilities of the bins: zero in the mean if the law holds.
    """

    site: ObservedSite
    layout: Layout
    sums: Sum

    def __call__(self, oracle: Oracle, centre: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the excess of each bin, its noise, and how many are expected in it."""
        found = oracle.sum(self.sums, self._blocks, centre)
        sd = jnp.sqrt(found.variance)
        return found.value[:BINS] * 2.0, sd * 2.0, found.value[BINS:] * 2.0

    def _blocks(self, centre: Any, record: Any) -> jax.Array:
        one = record_law(self.site, self.layout, centre, jnp.eye(self.layout.dimension), record)
        values, own = one.values.reshape(-1).astype(jnp.float32), one.response.reshape(()).astype(jnp.float32)
        below = one.below.reshape(-1)
        known = jnp.where(jnp.isfinite(below), below, 2.0)
        edges = jax.vmap(lambda level: jnp.argmin(jnp.abs(known - level)))(
            np.arange(1.0, BINS, dtype=np.float32) / BINS
        )
        # several edges in one place leave the bins between them empty
        cumulative = jnp.concatenate([jnp.zeros(1), known[edges], jnp.ones(1)])
        expected = jnp.diff(cumulative)
        found = jnp.sum(own > values[edges]) == jnp.arange(BINS)
        blocks = jnp.concatenate([found.astype(jnp.float32) - expected, expected]) / 2.0
        is_told = jnp.any(jnp.isfinite(below)) & jnp.all(expected > -1e-3) & one.is_there
        return jnp.where(is_told, blocks, 0.0)


def _entries(matrix: jax.Array) -> jax.Array:
    """Return the upper half of a symmetric matrix, whose length is the matrix's."""
    rows, columns = np.triu_indices(matrix.shape[0])
    return matrix[rows, columns] * np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)


def _symmetric(entries: jax.Array, size: int) -> jax.Array:
    rows, columns = np.triu_indices(size)
    weights = np.where(rows == columns, 1.0, OFF_DIAGONAL).astype(np.float32)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries / weights)
    return upper + jnp.triu(upper, 1).T
