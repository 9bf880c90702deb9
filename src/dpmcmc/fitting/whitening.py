"""Whitened coordinates, in which the posterior is approximately standard normal."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpmcmc.model import Model
from dpmcmc.run.program import Layout


class GaussianApproximation(NamedTuple):
    """A Gaussian approximation of the posterior: its mean, and a factor F of its covariance F F^T."""

    centre: jax.Array
    factor: jax.Array

    def moved(self, z: jax.Array) -> "GaussianApproximation":
        """Return the approximation with the same factor, centred at the position with whitened coordinates z."""
        return GaussianApproximation(self.centre + self.factor @ z, self.factor)


class Begin(NamedTuple):
    """The starting point of a pilot, and the scales of the prior in every coordinate."""

    centre: jax.Array
    scales: jax.Array


def placeholder(dimension: int) -> GaussianApproximation:
    """Return a placeholder for pricing: prices do not depend on the position."""
    return GaussianApproximation(jnp.zeros(dimension), jnp.eye(dimension))


def whitened(model: Model, layout: Layout, approximation: GaussianApproximation) -> Model:
    """Return the model over flat positions z, where the position of the given one is centre + F z."""

    def original(z: jax.Array) -> Any:
        return layout.unravel(approximation.centre + approximation.factor @ z)

    return replace(
        model,
        log_prior=lambda z: model.log_prior(original(z)),
        log_likelihood=lambda z, record: model.log_likelihood(original(z), record),
        constrain=lambda z: model.constrain(original(z)),
        unconstrain=lambda z: z,
        sample_prior=lambda key: jax.random.normal(key, (layout.dimension,)),
        position=jax.ShapeDtypeStruct((layout.dimension,), approximation.centre.dtype),
    )
