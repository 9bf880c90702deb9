"""Bounded scores of whole records that are centred by each record's own draws (`dpmcmc.model.drawn`).

A bounded score minus its mean over draws from the record's distribution has mean zero at the truth, for every bound,
number of draws and quadrature, since draws and response have the same distribution. It stays
so if what multiplies it does not depend on the draws that are taken off. So the draws are divided in halves, and what
makes one half's difference short enough is computed from the other half.
"""

from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.fitting.strategies.centred_scores.terms import DrawnTerms, share_kept
from dpmcmc.model.drawn import NUM_DRAWS


def score_and_slope(asked: Any, site: DrawnTerms) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return score and slope of a record, their variance, and the traces of both at the radii to choose from."""
    scores, own, there = site.scores[0], site.own[0], site.is_there[0].astype(jnp.float32)
    squares = jnp.sum(scores**2, axis=1)

    def halves(values: jax.Array) -> jax.Array:
        return jnp.mean(values.reshape(2, NUM_DRAWS // 2, *values.shape[1:]), axis=1)

    def at(radius: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
        shares = share_kept(squares, radius)
        means, traces = halves(shares[:, None] * scores), halves(shares * squares)
        weights = radius / (radius + jnp.linalg.norm(means, axis=1))
        weights = weights * jnp.minimum(1.0, asked.slope_radius / jnp.maximum(weights * traces, 1e-30))
        weights = weights[::-1]  # those of the other half
        mean, weight = jnp.mean(means, axis=0), jnp.mean(weights)
        trace = jnp.minimum(jnp.mean(weights * traces), asked.slope_radius)
        spread = jnp.maximum(jnp.mean(shares**2 * squares) - jnp.sum(mean**2), 0.0)
        # a mean over draws estimates the variance a little too small, and centring by one adds as much again
        variance = weight**2 * spread * (1 + 2 / NUM_DRAWS)
        return shares, means, weights, trace, variance

    shares, means, weights, _, variance = at(asked.radius)
    kept = share_kept(jnp.sum(own**2), asked.radius) * own
    score = jnp.mean(weights[:, None] * (kept - means), axis=0)
    slopes = halves(shares[:, None, None] * scores[:, :, None] * scores[:, None, :])
    slope = jnp.tensordot(weights, slopes, 1) / 2
    length = jnp.maximum(jnp.sqrt(jnp.sum(score**2)), 1e-30)
    score = score * jnp.minimum(1.0, asked.radius / length)
    slope = slope * jnp.minimum(1.0, asked.slope_radius / jnp.maximum(jnp.trace(slope), 1e-30))
    _, _, _, of_slopes, variances = jax.vmap(at)(asked.radii)
    return there * score, there * slope, there * variance, there * jnp.concatenate([of_slopes, variances])
