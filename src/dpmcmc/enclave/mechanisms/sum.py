"""The noisy sum of any statistic of a record. The proof is in sum.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Event
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.lattice_sum import lattice_event, noise_variance, noisy_vector_sum, vector_lattice


@certified
@dataclass(frozen=True)
class Sum:
    """Sum over the records of clip(statistic), with noise of `noise_multiplier` times the sensitivity.

    `clip` bounds the l2 norm of what one record adds; a record whose statistic is not finite adds zero.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Return one vector with as many coordinates as the statistic."""
        return (jax.eval_shape(self.contribution(term), list(queries), facts.record),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:
        """Return the Gaussian of the noise multiplier, under either adjacency."""
        return lattice_event(self.noise_multiplier, facts, outputs[0].shape[0])

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return the variance of the noise on each coordinate."""
        return noise_variance(vector_lattice(self.clip, self.noise_multiplier, facts, 1))

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return lambda queries, record: jnp.ravel(term(queries, record)).astype(jnp.float32)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy sum of each chain."""
        num_coordinates = jax.eval_shape(contribution, [query[0] for query in queries], facts.record).shape[0]
        lattice = vector_lattice(self.clip, self.noise_multiplier, facts, num_coordinates)
        return [noisy_vector_sum(lattice, facts, contribution, records, queries, keys)]
