"""Hessians that are the same for all records, such as that of the mean of a normal distribution: they are public."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.accounting import Adjacency
from dpmcmc.enclave import PrivateData
from dpmcmc.fitting.whitening import GaussianApproximation
from dpmcmc.model import Model
from dpmcmc.model.reads import sources_of
from dpmcmc.run.program import Layout, log_likelihood

FLATTEST = 1e-6
"""Eigenvalues are raised to at least this, relative to the largest one."""


@dataclass(frozen=True, eq=False)
class PublicCurvature:
    """The negative Hessian of the log-posterior of any data set of a given size: ``curvature(vector)``."""

    model: Model
    layout: Layout
    record: Any
    """The shapes of a record."""
    num_records: int

    def __repr__(self) -> str:
        """Return its entry in the settings of a run."""
        return "public"

    def approximation(self, vector: jax.Array) -> GaussianApproximation:
        """Return the Gaussian approximation with this centre and the inverse of this curvature as covariance."""
        values, vectors = jnp.linalg.eigh(self(vector))
        return GaussianApproximation(vector, vectors / jnp.sqrt(jnp.maximum(values, FLATTEST * values[-1])))

    def __call__(self, vector: jax.Array) -> jax.Array:
        """Return the matrix at a flat position."""
        any_record = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), self.record)
        added = log_likelihood(self.model, self.layout)

        def log_posterior(at: jax.Array) -> jax.Array:
            return self.model.log_prior(self.layout.unravel(at)) + self.num_records * added(at, any_record)

        return -jax.hessian(log_posterior)(vector)


def public_curvature(model: Model, layout: Layout, data: PrivateData) -> PublicCurvature | None:
    """Return the curvature where the traced Hessian of a record's log-likelihood does not read the record."""
    facts = data.facts
    if facts.adjacency is not Adjacency.REPLACE_ONE:  # the number of records is private
        return None
    position = jax.ShapeDtypeStruct((layout.dimension,), jnp.float32)
    traced = jax.make_jaxpr(jax.hessian(log_likelihood(model, layout)))(position, facts.record).jaxpr
    is_read = any(sources_of(traced, len(traced.invars) - 1))
    return None if is_read else PublicCurvature(model, layout, facts.record, facts.size)
