"""The noisy Hessian of the log-likelihood. The proof is in curvature.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import SumRequest, vector_sum
from dpmcmc.enclave.mechanisms.gradient import flat_gradient

ON_DIAGONAL, OFF_DIAGONAL = 29, 41
"""What entries of a symmetric matrix are multiplied with: those off the diagonal stand for two. 41 is a little less
than 29 sqrt(2), so that the norm of the entries on and above the diagonal is at most 29 times that of the matrix."""


def entries_of(size: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and weights of the entries on and above the diagonal of a matrix of that size."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, ON_DIAGONAL, OFF_DIAGONAL)


def symmetric(entries: jax.Array, size: int) -> jax.Array:
    """Return the matrix whose weighted entries were released."""
    rows, columns, weights = entries_of(size)
    upper = jnp.zeros((size, size)).at[rows, columns].set(entries * (ON_DIAGONAL / weights).astype(np.float32))
    return upper + jnp.triu(upper, 1).T


@dataclass(frozen=True, slots=True)
class CurvatureSum:
    """Sum over the records of clip(-factor^T Hessian factor), with noise of `noise_multiplier` times the sensitivity.

    `clip` bounds the Frobenius norm of one record's matrix. The queries are those of the position and then the factor.
    The release has the entries on and above the diagonal, the latter multiplied by 41/29, just below sqrt(2), since
    each stands for two. So the noise on the matrix is symmetric, and its norm is that of the vector. The variance is
    that of diagonal entries; for the others it is half as large.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

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

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: the entries of a symmetric matrix, one row and column for each column of the factor."""
        rows, columns, weights = entries_of(queries[-1].shape[1])

        def entries(queries: Sequence[jax.Array], record: Any) -> jax.Array:
            matrix = queries[-1].T @ contribution(queries, record).reshape(queries[-1].shape)
            return matrix[rows, columns] * (weights / ON_DIAGONAL).astype(np.float32)

        request = SumRequest("square", contribution, tuple(queries))
        return vector_sum(facts, self.clip, self.noise_multiplier, entries, len(weights), request)
