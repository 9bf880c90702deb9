"""Scores of whole records at a public point, and their means under the distribution of the records, by public draws.

No record is asked by a `Simulator`: it draws responses from the distribution that the model has at the point.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.fitting.strategies.centred_scores.releases import Asked
from dpmcmc.fitting.strategies.centred_scores.terms import share_kept
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.observed import LawOfRecord, Observed
from dpmcmc.run.program import Layout

BATCH = 2**14
MOST_DRAWS = 2**23
"""How many draws there are at most."""


class Own(NamedTuple):
    """The score of a record, in whitened coordinates, and whether it counts."""

    score: jax.Array
    is_there: jax.Array


def moved(observed: Observed, layout: Layout, centre: Any, factor: Any, record: Any) -> Any:
    """Return the distributions of a record at a point, and how their parameters move with the whitened coordinates."""

    def parameters(vector: jax.Array) -> list[jax.Array]:
        return [law.parameters for law in observed.at(layout.unravel(vector), record)]

    found = observed.at(layout.unravel(centre), record)
    moves = [each @ factor for each in jax.jacfwd(parameters)(centre)]
    return found, moves


def score_of(observed: Observed, found: tuple[LawOfRecord, ...], moves: Any, responses: Any) -> Own:
    """Return the score of one record with some responses."""
    total, is_there = jnp.zeros(()), jnp.bool_(True)
    for site, law, own, response in zip(observed.sites, found, moves, responses, strict=True):

        def of_term(parameters: Any, others: Any, value: Any, site: Any = site) -> tuple[jax.Array, jax.Array]:
            def log_density(parameters: jax.Array) -> jax.Array:
                return jnp.sum(site.law(parameters, others).log_prob(value[None]))

            gradient = jax.grad(log_density)(parameters)
            can_be = jnp.all(site.law(parameters, others).support(value[None]))
            return gradient, can_be & jnp.all(jnp.isfinite(gradient))

        gradients, can_be = jax.vmap(of_term)(law.parameters, law.others, response)
        total = total + jnp.einsum("tp,tpd->d", jnp.where(can_be[:, None], gradients, 0.0), own)
        is_there = is_there & jnp.all(can_be & law.is_there)
    return Own(total, is_there & jnp.all(jnp.isfinite(total)))


class Means(NamedTuple):
    """Means under the model, over so many draws."""

    number: int
    mean: Floats
    """Of bounded scores."""
    mean_error: Floats
    """Its covariance, by the number of draws."""
    slope: Floats
    traces: Floats
    """Of slope and variance, at the radii to choose from."""
    variance: float
    information: Floats
    off: Floats
    """The mean score, which should be zero, in standard errors."""


class _Sums(NamedTuple):
    """Sums over draws."""

    score: Any
    bounded: Any
    squares: Any
    """Of scores."""
    mixed: Any
    """Of bounded scores with scores."""
    bounded_squares: Any
    slope: Any
    slopes: Any
    variances: Any
    means: Any
    """Of bounded scores at all radii."""


@dataclass(frozen=True, eq=False)
class Simulator:
    """Draws from the distribution of a record, at public points; no record is asked."""

    observed: Observed
    layout: Layout
    record: Any
    """Any: nothing of it is read but responses, which are drawn."""
    sums: Callable[..., _Sums] = field(init=False)
    lengths: Callable[..., jax.Array] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sums", jax.jit(self._sums))
        object.__setattr__(self, "lengths", jax.jit(lambda *asked: jnp.linalg.norm(self._scores(*asked), axis=1)))

    def _scores(self, centre: Any, factor: Any, key: jax.Array) -> jax.Array:
        found, moves = moved(self.observed, self.layout, centre, factor, self.record)

        def one(key: jax.Array) -> jax.Array:
            responses = []
            for place, (site, law) in enumerate(zip(self.observed.sites, found, strict=True)):

                def drawn(key: jax.Array, parameters: Any, others: Any, site: Any = site) -> jax.Array:
                    return site.law(parameters, others).sample(key)[0]

                keys = jax.random.split(jax.random.fold_in(key, place), len(law.parameters))
                responses.append(jax.vmap(drawn)(keys, law.parameters, law.others))
            return score_of(self.observed, found, moves, responses).score

        return jax.vmap(one)(jax.random.split(key, BATCH))

    def _sums(self, centre: Any, factor: Any, radius: Any, radii: Any, key: jax.Array) -> _Sums:
        scores = self._scores(centre, factor, key)
        squares = jnp.sum(scores**2, axis=1)
        share = share_kept(squares, radius)[:, None]
        bounded = share * scores
        shares = share_kept(squares, radii[:, None])
        return _Sums(
            jnp.sum(scores, axis=0),
            jnp.sum(bounded, axis=0),
            scores.T @ scores,
            scores.T @ bounded,
            bounded.T @ bounded,
            scores.T @ bounded,
            shares @ squares,
            shares**2 @ squares,
            shares @ scores,
        )

    def means(self, asked: Asked, least: int, tolerance: float, size: float) -> Means:
        """Return means with `least` draws or more, until the bias that their error makes is within a tolerance."""
        total: Any = None
        number, batch = 0, 0
        while True:
            key = jax.random.fold_in(jax.random.key(0), batch)
            found = self.sums(asked.centre, asked.factor, asked.radius, asked.radii, key)
            found = _Sums(*(np.asarray(each, float) for each in found))
            total = found if total is None else _Sums(*(one + other for one, other in zip(total, found, strict=True)))
            number, batch = number + BATCH, batch + 1
            if number >= least:
                means = _means(total, number, float(asked.radius), np.asarray(asked.radii, float))
                bias = np.sqrt(size * max(np.trace(means.mean_error), 0.0) / max(np.trace(means.slope), 1e-30))
                if bias <= tolerance or number >= MOST_DRAWS or not np.isfinite(bias):
                    return means


def _means(sums: _Sums, number: int, radius: float, radii: Floats) -> Means:
    """Return means; scores have mean zero, and what bounded ones share with them is taken off their error."""
    one = _Sums(*(each / number for each in sums))
    gain = np.linalg.pinv(one.squares, rcond=1e-6, hermitian=True) @ one.mixed
    mean = one.bounded - one.score @ gain
    left = one.bounded_squares - one.mixed.T @ gain - np.outer(mean, mean)
    weight = radius / (radius + float(np.linalg.norm(mean)))
    of_means = np.linalg.norm(one.means, axis=1)
    weights = radii / (radii + of_means)
    sds = np.sqrt(np.maximum(np.diag(one.squares), 1e-30) / number)
    return Means(
        number,
        mean,
        (left + left.T) / 2 / number,
        weight * (one.slope + one.slope.T) / 2,
        np.array([weights * one.slopes, weights**2 * np.maximum(one.variances - of_means**2, 0.0)]),
        float(weight**2 * max(np.trace(one.bounded_squares) - float(mean @ mean), 0.0)),
        one.squares,
        np.abs(one.score) / sds,
    )
