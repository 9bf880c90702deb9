"""Draws from what two releases tell and a prior of any form, by NumPyro's NUTS: for nothing, no record is asked.

Given the parameters, the released sum of scores is normal around the slope's prediction; the noise of the slope itself
adds to its variance what it does at that distance, so that directions in which the slope is within its noise keep the
prior's width.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

WARMUP = 500
THINNING = 2


def draw(
    model: Model,
    layout: Layout,
    release: Release,
    displacement: Callable[[Any], jax.Array],
    shape: tuple[int, int],
    seed: int,
) -> Floats:
    """Return draws (chains, steps, parameters) from the posterior of a release and the prior of a model.

    Args:
        model: of which only the prior is read.
        layout: of its positions.
        release: what is known.
        displacement: from the point of the release, of a flat position, in whitened coordinates.
        shape: chains and steps.
        seed: of the sampler.
    """
    from numpyro.infer import MCMC, NUTS  # others than fits of NumPyro models do not wait for it

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
    given = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), turned)

    def potential(place: Any) -> jax.Array:
        vector = given["point"] + given["factor"] @ place
        moved = displacement(vector)
        missed = given["score"] - given["slope"] @ moved
        variances = given["values"] + given["noise"] + given["slope_noise"] * jnp.sum(moved**2)
        told = -0.5 * jnp.sum(missed**2 / variances + jnp.log(variances))
        return -told - model.log_prior(layout.unravel(vector))

    normal = release.likelihood()
    start = np.linalg.solve(normal.precision + np.eye(release.dimension), normal.tilt)
    chains, steps = shape
    kernel = NUTS(potential_fn=potential, dense_mass=release.dimension <= 50, target_accept_prob=0.9)
    sampler = MCMC(
        kernel,
        num_warmup=WARMUP,
        num_samples=THINNING * steps,
        thinning=THINNING,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    begin = np.broadcast_to(start, (chains, len(start))) if chains > 1 else start
    sampler.run(jax.random.key(seed), init_params=jnp.asarray(begin, jnp.float32))
    places = np.asarray(sampler.get_samples(group_by_chain=True), float)
    return release.point + places @ release.whitening.factor.T
