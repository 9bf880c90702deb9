"""The noisy Hessian of the log-likelihood. The proof is in curvature.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting.event import Event
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.gradient import flat_gradient
from dpmcmc.enclave.mechanisms.lattice_sum import (
    lattice_event,
    noise_variance,
    noisy_square_sum,
    noisy_vector_sum,
    vector_lattice,
)
from dpmcmc.enclave.rank_one import MOST_RECORDS, ON_DIAGONAL, entries_of, find_rank_one, for_roots
from dpmcmc.enclave.shards import num_rows


def symmetric(entries: jax.Array, size: int) -> jax.Array:
    """Return the matrix whose weighted entries were released."""
    rows, columns, weights = entries_of(size)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries * (ON_DIAGONAL / weights).astype(np.float32))
    return upper + jnp.triu(upper, 1).T


@certified
@dataclass(frozen=True)
class CurvatureSum:
    """Sum over the records of clip(-factor^T Hessian factor), with noise of `noise_multiplier` times the sensitivity.

    `clip` bounds the Frobenius norm of one record's matrix. The queries are those of the position and then the factor.
    What is released are the entries on and above the diagonal, those off it multiplied with 41/29, just below sqrt(2):
    they stand for two, so that the noise on the matrix is symmetric and its norm that of the vector.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one vector: the entries of a symmetric matrix, one row and column for each column of the factor."""
        return (jax.ShapeDtypeStruct((_num_entries(queries),), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:
        """Return the Gaussian of the noise multiplier, under either adjacency."""
        return lattice_event(self.noise_multiplier, facts, outputs[0].shape[0], for_roots)

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise on each entry of the diagonal; off it it is half as large."""
        return noise_variance(vector_lattice(self.clip, self.noise_multiplier, facts, _num_entries(queries)))

    def contribution(self, term: Term) -> Contribution:
        """Return -Hessian times factor for one record's log-likelihood, flat."""
        gradient = flat_gradient(term)

        def times_factor(queries: Sequence[jax.Array], record: Any) -> jax.Array:
            *position, factor = queries
            ends = list(accumulate(query.size for query in position))[:-1]

            def along(column: jax.Array) -> jax.Array:
                parts = zip(jnp.split(column, ends), position, strict=True)
                direction = [part.reshape(query.shape).astype(query.dtype) for part, query in parts]
                return jax.jvp(lambda position: gradient(position, record), (position,), (direction,))[1]

            return -jax.vmap(along, in_axes=1, out_axes=1)(factor).ravel()

        return times_factor

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy entries of each chain."""
        of_one_chain = [query[0] for query in queries]
        rows, columns, weights = entries_of(of_one_chain[-1].shape[1])
        lattice = vector_lattice(self.clip, self.noise_multiplier, facts, len(weights))

        def entries(queries: Sequence[jax.Array], record: Any) -> jax.Array:
            matrix = queries[-1].T @ contribution(queries, record).reshape(queries[-1].shape)
            return matrix[rows, columns] * (weights / ON_DIAGONAL).astype(np.float32)

        suits = for_roots(lattice) is not None and num_rows(records) <= MOST_RECORDS
        form = find_rank_one(contribution, of_one_chain, facts.record) if suits else None
        if form is not None:
            return [noisy_square_sum(lattice, facts, form, records, queries, keys)]
        return [noisy_vector_sum(lattice, facts, entries, records, queries, keys)]


def _num_entries(queries: Sequence[Any]) -> int:
    size = queries[-1].shape[1]
    return size * (size + 1) // 2
