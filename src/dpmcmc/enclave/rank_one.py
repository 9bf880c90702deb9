"""The exact sum of clipped Hessians of rank one, as one product of integer matrices.

Where a record's gradient is one residual times a row of the record, as in a GLM, its Hessian is weight * row row^T. In
coordinates z of position + factor z it is +-root root^T, with the vector root = sqrt|weight| factor^T row, and its
Frobenius norm is |root|^2. So nobody has to write a record's Hessian down: its root is clipped and rounded to integers,
and the sum over the records is a product of matrices of integers. mechanisms/curvature.md proves that the sensitivity
holds exactly.
"""

# jax annotates itself in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, sqrt
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax

from dpmcmc.enclave.factors import Factors, factorise
from dpmcmc.enclave.lattice import Lattice, Wide, add, from_int64, quantise_vector, zero
from dpmcmc.enclave.linear_predictor import LARGEST_SCALE
from dpmcmc.enclave.mechanisms.base import Contribution
from dpmcmc.enclave.rows import ROWS_IN_TILE, count_rows, last_rows, on_gpu, slice_rows

ON_DIAGONAL, OFF_DIAGONAL = 29, 41
"""What entries of a symmetric matrix are multiplied with: those off the diagonal stand for two. 41 is a little less
than 29 sqrt(2), so that the norm of the entries on and above the diagonal is at most 29 times that of the matrix."""

LEAST_ROOT, MOST_ROOT = 2**7, 2**15
"""The least number of steps that a root may be long, and the largest one."""

ROWS_ON_GPU = 2**14
"""How many records a GPU squares at a time: many, since short loops would leave it idle."""

MOST_RECORDS = 2**26
"""So many contributions of at most ON_DIAGONAL * MOST_ROOT^2 add up to less than 2^62."""


def entries_of(size: int) -> tuple[Any, Any, Any]:
    """Return rows, columns and weights of the entries on and above the diagonal of a matrix of that size."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, ON_DIAGONAL, OFF_DIAGONAL)


@dataclass(frozen=True)
class RankOne:
    """The form of Hessians times a factor: entry (i, j) is ``residuals()[residual_of[j]] * row()[i]``."""

    factors: Factors
    residual_of: Any
    feature_of: Any
    """Which feature entry i of the row is; the last but one stands for the number one, the last for zero."""

    def root(self, queries: Sequence[jax.Array], record: Any) -> tuple[jax.Array, jax.Array]:
        """Return the root of one record's Hessian, and whether the Hessian is its square or the opposite.

        The residuals are weight * along, for all positions, since a Hessian is symmetric.
        """
        residuals = self.factors.residuals(queries, record)[self.residual_of]
        features = jnp.append(self.factors.features(record), np.array([1, 0], np.float32))
        along = features[self.feature_of] @ queries[-1]
        curved = residuals @ along
        return along * jnp.sqrt(jnp.abs(curved) / (along @ along)), curved < 0


def find_rank_one(contribution: Contribution, queries: Sequence[Any], record: Any) -> RankOne | None:
    """Return the form of a contribution, a matrix of the factor's shape, if it is one row times one residual a column.

    `queries` are those of one chain, the factor the last of them; their shapes alone are used.
    """
    factors = factorise(contribution, queries, record)
    if factors is None:
        return None
    residual_of, feature_of = (
        np.reshape(places, queries[-1].shape) for places in (factors.residual_of, factors.feature_of)
    )
    there = np.any(residual_of >= 0, axis=1)
    same = np.all(residual_of[there] == residual_of[there][:1]) and np.all(
        feature_of[there] == feature_of[there][:, :1]
    )
    if not same:
        return None
    one, nothing = factors.num_features, factors.num_features + 1
    row = np.where(there, np.where(feature_of[:, 0] < 0, one, feature_of[:, 0]), nothing)
    return RankOne(factors, residual_of[there][0], row)


def for_roots(lattice: Lattice) -> tuple[Lattice, int] | None:
    """Return the lattice of the roots, and the power of two by which that of the sum is finer than the given one.

    Bound and scale of the sum grow by the same factor, so that their quotient, which decides the privacy, stays. None
    where the noise is so large that a lattice that can hold it has no room for squares.
    """

    def longest(refined: int) -> int:
        return isqrt(refined * lattice.bound // ON_DIAGONAL)

    refined = 1
    while longest(2 * refined) <= MOST_ROOT and 2 * refined * lattice.scale <= LARGEST_SCALE:
        refined *= 2
    if not LEAST_ROOT <= longest(refined) <= MOST_ROOT:
        return None
    return Lattice(sqrt(ON_DIAGONAL * cast(float, lattice.granularity) / refined), longest(refined)), refined


def sum_squares(form: RankOne, lattice: Lattice, records: Any, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of weighted entries for each chain, shape (chains, entries), in steps of the sum's lattice.

    `lattice` is the one of the roots. All tiles have one shape, whatever the number of records, so that a root's bits
    come from the same compiled operations wherever its record stands.
    """
    num_records, size = count_rows(records), queries[-1].shape[-1]
    in_tile = ROWS_ON_GPU if on_gpu() else ROWS_IN_TILE
    rows, columns, weights = entries_of(size)

    def of_tile(tile: Any, there: Any) -> Wide:
        def of_chain(queries: Sequence[jax.Array]) -> Wide:
            roots, negative = jax.vmap(form.root, in_axes=(None, 0))(queries, tile)
            return _square(quantise_vector(roots, lattice), jnp.where(negative, -1, 1) * there)

        return jax.vmap(of_chain)(list(queries))

    def add_whole(number: Any, total: Wide) -> Wide:
        return add(total, of_tile(slice_rows(records, number * in_tile, in_tile), 1))

    whole = num_records // in_tile
    total = zero((len(queries[0]), size, size))
    if whole:
        total = lax.fori_loop(0, whole, add_whole, total)
    if whole * in_tile < num_records:
        there = (whole * in_tile + np.arange(in_tile) < num_records).astype(np.int32)
        total = add(total, of_tile(last_rows(records, whole * in_tile, in_tile), there))
    with enable_x64(True):
        words = (word[:, rows, columns].astype(jnp.int64) for word in total)
        return from_int64(((next(words) << 32) + next(words)) * weights)


def _square(steps: jax.Array, signs: jax.Array) -> Wide:
    """Return the sum of signed squares of vectors, shape (records, entries), of norm at most MOST_ROOT.

    In float64, which is exact: every partial sum over at most 2^17 records is an integer of at most 2^47.
    """
    with enable_x64(True):
        steps, signs = steps.astype(jnp.float64), signs.astype(jnp.float64)
        product = jnp.matmul((steps * signs[:, None]).T, steps, precision=lax.Precision.HIGHEST)
        return from_int64(product.astype(jnp.int64))
