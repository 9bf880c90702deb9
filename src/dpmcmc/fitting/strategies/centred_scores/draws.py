"""Draws from the posterior given two releases and any prior, by NumPyro's NUTS: post-processing at no privacy cost.

Given the parameters, the released sum of scores is normal around the slope's prediction. The noise of the slope adds to
this variance in proportion to the squared distance, so that directions in which the slope is within its noise keep the
prior's width.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.fitting.strategies.centred_scores.shown import Displacement
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model import Model
from dpmcmc.run.program import Layout


class Care(NamedTuple):
    """Settings of NUTS."""

    warmup: int
    thinning: int
    accepted: float


USUAL, ALONG_CURVES = Care(500, 2, 0.9), Care(1000, 4, 0.99)
"""Where no distribution shows some directions the posterior is a thin curved ridge: longer steps leave its ends out."""

MOST_DENSE = 50
"""The most parameters with a dense mass matrix."""


class Draws(NamedTuple):
    """Draws of chains, with the axes (chain, step, ...)."""

    vectors: Floats
    parameters: Any
    """What they are to people."""
    move: Floats
    """The mean displacement from the point of the release."""


def draw(
    model: Model,
    layout: Layout,
    release: Release,
    displacement: Displacement,
    shape: tuple[int, int],
    seed: int,
    care: Care = USUAL,
) -> Draws:
    """Return draws from the posterior of a release and the prior of a model.

    Args:
        model: the model, whose likelihood is not evaluated.
        layout: the layout of its positions.
        release: the joint release.
        displacement: the displacement from the point of the release, in whitened coordinates.
        shape: the numbers of chains and steps.
        seed: the seed of the sampler.
        care: the settings of NUTS.
    """
    values, vectors = np.linalg.eigh(release.data_variance(release.seen(release.slope)))
    turned = {
        "values": np.maximum(values, 0.0),
        "slope": vectors.T @ release.slope,
        "score": vectors.T @ release.score,
        "factor": release.whitening.factor,
        "point": release.point,
        "noise": release.score_variance,
        "slope_noise": release.slope_sd**2 * (1 + 1 / release.dimension) / 2,
    }
    given = {name: np.asarray(value, np.float32) for name, value in turned.items()}
    normal = release.likelihood()
    start = np.linalg.solve(normal.precision + np.eye(release.dimension), normal.tilt)
    begin = np.asarray(np.broadcast_to(start, (shape[0], len(start))) if shape[0] > 1 else start, np.float32)
    words = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    places, parameters, move = _sampler(model, layout, shape, care)(words, begin, given, displacement)
    found = release.point + np.asarray(places, float) @ release.whitening.factor.T
    return Draws(found, jax.tree.map(np.asarray, parameters), np.asarray(move, float))


@lru_cache(maxsize=32)
def _sampler(model: Model, layout: Layout, shape: tuple[int, int], care: Care) -> Callable[..., Any]:
    """Return the sampler, compiled once for each model; released values are arguments."""
    from numpyro.infer import MCMC, NUTS  # others than fits of NumPyro models do not wait for it

    def vector_at(given: Mapping[str, Any], place: Any) -> jax.Array:
        return given["point"] + given["factor"] @ place

    def potential(given: Mapping[str, Any], displacement: Displacement, place: Any) -> jax.Array:
        vector = vector_at(given, place)
        moved = displacement.of(model.observed, layout, vector)
        missed = given["score"] - given["slope"] @ moved
        variances = given["values"] + given["noise"] + given["slope_noise"] * jnp.sum(moved**2)
        told = -0.5 * jnp.sum(missed**2 / variances + jnp.log(variances))
        return -told - model.log_prior(layout.unravel(vector))

    @jax.jit
    def sample(words: Any, begin: Any, given: Mapping[str, Any], displacement: Displacement) -> Any:
        kernel = NUTS(
            potential_fn=lambda place: potential(given, displacement, place),
            dense_mass=layout.dimension <= MOST_DENSE,
            target_accept_prob=care.accepted,
        )
        sampler = MCMC(
            kernel,
            num_warmup=care.warmup,
            num_samples=care.thinning * shape[1],
            thinning=care.thinning,
            num_chains=shape[0],
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.wrap_key_data(words, impl="threefry2x32"), init_params=begin)
        places = sampler.get_samples(group_by_chain=True)

        def read(place: Any) -> tuple[Any, jax.Array]:
            vector = vector_at(given, place)
            return model.constrain(layout.unravel(vector)), displacement.of(model.observed, layout, vector)

        parameters, moves = jax.vmap(jax.vmap(read))(places)
        return places, parameters, jnp.mean(moves, axis=(0, 1))

    return sample
