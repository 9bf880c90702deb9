"""The distributions of a record's responses at a point, with scores at the observed and at possible responses."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc.fitting.strategies.centred_scores import laws
from dpmcmc.model.drawn import NUM_DRAWS, DrawnLaw
from dpmcmc.model.formula.integration import NearMixture
from dpmcmc.model.observed import LawOfRecord, Observed, ObservedSite
from dpmcmc.run.program import Layout

JITTER = 1e-2
"""By so much densities are moved at random, for no two of them to be equal."""


class TermLaws(NamedTuple):
    """The distributions of the numbers that a site observes of a record, in the parameters of their distributions.

    Where these are more than the coordinates, in the coordinates. The first axis is that of the terms.
    """

    moves: jax.Array
    """How they move with the whitened coordinates."""
    gram: jax.Array
    own: jax.Array
    """The gradient of the log-density at the response."""
    scores: jax.Array
    """The same at the nodes."""
    weights: jax.Array
    values: jax.Array
    below: jax.Array | None
    response: jax.Array
    is_there: jax.Array
    """Whether a term counts, and the response is one that the distribution can have."""
    share: jax.Array
    """Of the radius of the record: they add up to one, over all terms of all sites."""


class DrawnTerms(TermLaws):
    """A record as one term: scores in whitened coordinates, at draws; their log-densities stand for values."""


def term_laws(observed: Observed, layout: Layout, centre: Any, factor: Any, record: Any) -> list[TermLaws]:
    """Return the distributions of one record's responses at a point, in coordinates position = centre + factor z."""
    found = observed.at(layout.unravel(centre), record)
    sizes = [law.parameters.size for law in found]

    def parameters(vector: jax.Array) -> jax.Array:
        return jnp.concatenate([jnp.ravel(law.parameters) for law in observed.at(layout.unravel(vector), record)])

    jacobian = jax.jacrev if sum(sizes) <= layout.dimension else jax.jacfwd
    all_moves = jacobian(parameters)(centre) @ factor
    laws_of_sites: list[TermLaws] = []
    start = 0
    for site, law, size in zip(observed.sites, found, sizes, strict=True):
        moves = all_moves[start : start + size].reshape(*law.parameters.shape, layout.dimension)
        laws_of_sites.append(jax.vmap(partial(_of_term, site))(law, moves))
        start += size
    shares = _shares(observed, found, laws_of_sites)
    return [each._replace(share=share) for each, share in zip(laws_of_sites, shares, strict=True)]


def _of_term(site: ObservedSite, found: LawOfRecord, moves: jax.Array) -> TermLaws:
    def log_density(parameters: jax.Array, value: jax.Array) -> jax.Array:
        return jnp.sum(site.law(parameters, found.others).log_prob(value))

    law = site.law(found.parameters, found.others)
    if isinstance(law, DrawnLaw):
        return _of_record(law, found, moves)
    response = found.response[None]
    if isinstance(law, NearMixture):  # whose densities take longest: they are computed once, with their gradients
        rule = laws.rule_of_mixture(law)
        both = jax.vmap(jax.value_and_grad(log_density), in_axes=(None, 0))
        logs, scores = both(found.parameters, rule.values)
        logs = jnp.where(jnp.isfinite(logs), logs, -jnp.inf).reshape(rule.values.shape)
        values, weights, below = rule.nodes(logs)
    else:
        values, weights, below = laws.nodes(law)
        scores = jax.vmap(jax.grad(log_density), in_axes=(None, 0))(found.parameters, values)
    weights = weights.reshape(-1)
    scores = jnp.where((weights > 0)[:, None] & jnp.isfinite(scores), scores, 0.0)
    own = jax.grad(log_density)(found.parameters, response)
    is_finite = jnp.all(jnp.isfinite(moves))
    moves = jnp.where(is_finite, moves, 0.0)
    is_there = found.is_there & jnp.all(law.support(response)) & jnp.all(jnp.isfinite(own)) & is_finite
    if (
        len(moves) > moves.shape[1]
    ):  # a distribution of more parameters than the model: its scores in the coordinates themselves
        scores, own, moves = scores @ moves, own @ moves, jnp.eye(moves.shape[1])
    nothing = jnp.zeros(())
    return TermLaws(moves, moves @ moves.T, own, scores, weights, values, below, response, is_there, nothing)


def _of_record(law: DrawnLaw, found: Any, moves: jax.Array) -> DrawnTerms:
    """Return the scores of a record with a distribution of its own, and at the draws."""
    both = jax.value_and_grad(law.log_density)
    is_finite = jnp.all(jnp.isfinite(moves))
    moves = jnp.where(is_finite, moves, 0.0)

    def at(number: jax.Array) -> tuple[jax.Array, jax.Array]:
        drawn, uniform = law.drawn(number)
        # the last one is the record's own: densities are compiled once for it and the draws
        response = jax.tree.map(lambda one, own: jnp.where(number < NUM_DRAWS, one, own), drawn, found.response)
        log, score = both(found.parameters, response)
        return log + JITTER * (uniform - 0.5), score @ moves

    logs, scores = jax.lax.map(at, jnp.arange(NUM_DRAWS + 1))
    log, own, logs, scores = logs[-1], scores[-1], logs[:-1], scores[:-1]
    there = found.is_there & is_finite & jnp.isfinite(log) & jnp.all(jnp.isfinite(own))
    weights = jnp.full(NUM_DRAWS, 1 / NUM_DRAWS)
    below = jnp.arange(1, NUM_DRAWS + 1) / jnp.float32(NUM_DRAWS + 1)
    size = moves.shape[1]
    scores = jnp.where(jnp.isfinite(scores), scores, 0.0)
    return DrawnTerms(jnp.eye(size), jnp.eye(size), own, scores, weights, jnp.sort(logs), below, log, there, weights[0])


def _shares(observed: Observed, found: Sequence[LawOfRecord], sites: Sequence[TermLaws]) -> list[jax.Array]:
    """Return how the radius of a record is divided between its terms, whose scores have means of zero one by one.

    A share that looked at a response, or at whether another response is there, which may depend on one, would give the
    terms another mean. Where no distribution reads a response shares follow the usual lengths of scores, else they are
    equal.
    """

    def usual(site: TermLaws) -> jax.Array:
        square = jnp.einsum("tn,tnp,tpq,tnq->t", site.weights, site.scores, site.gram, site.scores)
        return jnp.sqrt(jnp.where(jnp.isfinite(square), jnp.maximum(square, 0.0), 0.0))

    rows = [law.is_row.astype(jnp.float32) for law in found]
    lengths = rows if observed.is_chained else [row * usual(site) for row, site in zip(rows, sites, strict=True)]
    total = sum(jnp.sum(length) for length in lengths)
    count = sum(jnp.sum(row) for row in rows)
    return [
        jnp.where(total > 1e-20, length / jnp.maximum(total, 1e-20), row / count)
        for length, row in zip(lengths, rows, strict=True)
    ]


def share_kept(square: jax.Array, radius: Any) -> jax.Array:
    """Return what share of a score is kept, by its squared length: the product is no longer than the radius."""
    return (1 + (square / radius**2) ** 2) ** -0.25
