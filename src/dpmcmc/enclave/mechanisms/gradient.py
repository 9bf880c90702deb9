"""The noisy gradient of the log-likelihood (Räisä et al. 2021, Section 3.1). The proof is in gradient.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Event
from dpmcmc.enclave.block_kernel import Blocks, find_blocks
from dpmcmc.enclave.column_kernel import Columns, find_columns
from dpmcmc.enclave.linear_predictor import MOST_RECORDS, find_rows, finer
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.lattice_sum import (
    lattice_event,
    noise_variance,
    noisy_kernel_sum,
    noisy_row_sum,
    noisy_vector_sum,
    vector_lattice,
)
from dpmcmc.enclave.rows import Rows, on_gpu
from dpmcmc.enclave.shards import consists_of, map_parts, num_rows


def num_coordinates(queries: Sequence[Any]) -> int:
    """Return how many coordinates a position has, over all its arrays."""
    return sum(prod(query.shape) for query in queries)


def flat_gradient(term: Term) -> Contribution:
    """Return the gradient of one record's term with respect to the position, as a flat vector."""

    def gradient(queries: Sequence[jax.Array], record: Any) -> jax.Array:
        parts = jax.grad(lambda position: term(position, record))(list(queries))
        return jnp.concatenate([jnp.ravel(part) for part in parts]).astype(jnp.float32)

    return gradient


@certified
@dataclass(frozen=True)
class GradientSum:
    """Sum over the records of clip(gradient of log-likelihood), with noise of `noise_multiplier` times the sensitivity.

    `clip` (the papers' b_g or L) bounds the l2 norm of one record's gradient. Under replace-one the noise has the
    standard deviation 2 * clip * noise_multiplier on each coordinate, under add-or-remove-one half of it.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one vector with as many coordinates as the position."""
        return (jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:
        """Return the Gaussian of the noise multiplier, under either adjacency."""
        return lattice_event(self.noise_multiplier, facts, outputs[0].shape[0])

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise on each coordinate."""
        return noise_variance(vector_lattice(self.clip, self.noise_multiplier, facts, num_coordinates(queries)))

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def prepare(self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[Any]) -> Any:
        """Return the records as `compute` reads them best: rows in integers if there are rows, or for a GPU."""
        lattice = vector_lattice(self.clip, self.noise_multiplier, facts, num_coordinates(queries))
        if num_rows(records) > MOST_RECORDS:
            return records
        found = None
        if finer(lattice):
            found = map_parts(lambda part: find_rows(facts, contribution, queries, part), records)
        for find in (find_columns, find_blocks) if on_gpu() else ():
            found = found or map_parts(
                lambda part, find=find: find(facts, contribution, queries, part, lattice.bound), records
            )
        return found or records

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy gradient of each chain; `records` as they are, or prepared."""
        of_one_chain = [query[0] for query in queries]
        lattice = vector_lattice(self.clip, self.noise_multiplier, facts, num_coordinates(of_one_chain))
        if not any(consists_of(records, kind) for kind in (Rows, Columns, Blocks)):
            records = self.prepare(facts, contribution, records, of_one_chain)
        if consists_of(records, Rows):
            return [noisy_row_sum(lattice, facts, records, queries, keys)]
        if consists_of(records, Columns) or consists_of(records, Blocks):
            return [noisy_kernel_sum(lattice, facts, records, queries, keys)]
        return [noisy_vector_sum(lattice, facts, contribution, records, queries, keys)]
