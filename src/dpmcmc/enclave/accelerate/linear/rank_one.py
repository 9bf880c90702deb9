"""The exact sum of clipped Hessians of rank one, as one product of integer matrices.

Where a record's gradient is one residual times a row of the record, as in a GLM, its Hessian is weight * row row^T. In
coordinates z of position + factor z it is +-root root^T, with the vector root = sqrt|weight| factor^T row, and its
Frobenius norm is |root|^2. So nobody has to write a record's Hessian down: its root is clipped and rounded to integers,
which pass the gate with the sign, and the sum over the records is a product of matrices of integers.
mechanisms/curvature.md proves that the sensitivity holds exactly.
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

from dpmcmc.enclave.accelerate.linear.form import Factors, factorise
from dpmcmc.enclave.accelerate.linear.products import from_int64, product_of_bytes
from dpmcmc.enclave.accelerate.linear.rows import rows_at_once
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, zero
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.quantise import ROW_BOUND
from dpmcmc.enclave.core.gate import SCOPE, Ball, Chunk, hold, seal
from dpmcmc.enclave.core.mechanism import Contribution
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import SumRequest
from dpmcmc.enclave.core.places import Slots, sum_parts, tile_rows
from dpmcmc.enclave.mechanisms.curvature import ON_DIAGONAL, entries_of

LEAST_ROOT = 2**7
"""The least number of steps that a root may be long."""


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


@dataclass(frozen=True)
class RankOneSquares:
    """The path of Hessians of rank one."""

    form: RankOne
    roots: Lattice
    """The lattice of the roots."""
    name: str = "rank-one squares"

    def prepare(self, slots: Slots) -> Slots:
        """Return the records as they are."""
        return slots

    def sum(self, prepared: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:  # noqa: ARG002
        """Return the sum for each chain."""
        return sum_parts(lambda part, _: sum_squares(self.form, self.roots, part, queries), prepared)


def find_rank_one_squares(facts: Facts, request: SumRequest, lattice: Lattice) -> RankOneSquares | None:
    """Return the path, if a Hessian has the form and the lattice of the sum has room for squares.

    A root of norm <= bound gives entries of norm <= ON_DIAGONAL * bound^2, which is within the bound of the sum.
    """
    bound = min(isqrt(lattice.bound // ON_DIAGONAL), ROW_BOUND)
    if request.form != "square" or bound < LEAST_ROOT:
        return None
    form = find_rank_one(request.contribution, request.queries, facts.record)
    granularity = sqrt(ON_DIAGONAL * cast(float, lattice.granularity))
    return None if form is None else RankOneSquares(form, Lattice(granularity, bound))


def sum_squares(form: RankOne, lattice: Lattice, slots: Slots, queries: Sequence[jax.Array]) -> Wide:
    """Return the exact sum of weighted entries for each chain, shape (chains, entries), in steps of the sum's lattice.

    `lattice` is the one of the roots. Every product reads the roots and the signs of one sealed buffer.
    """
    num_chains, size = len(queries[0]), queries[-1].shape[-1]
    chunk = min(rows_at_once(num_chains * size) // tile_rows(), slots.length // tile_rows()) * tile_rows()
    gate = Ball(lattice.bound, size)

    def compute(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = Chunk(start, chunk).of(slots.rows)

        def of_chain(queries: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
            roots, negative = jax.vmap(form.root, in_axes=(None, 0))(queries, rows)
            return quantise.vector(roots, lattice), jnp.where(negative, jnp.int32(-1), jnp.int32(1))

        return jax.vmap(of_chain)(list(queries))

    def square(roots: jax.Array, signs: jax.Array) -> Wide:
        signed = jnp.where(signs[:, None] < 0, -roots, roots)
        return product_of_bytes(2, signed.T[None], roots.T[None])

    def turn(carry: Any) -> Any:
        number, sealed, total = carry
        first = number * np.int32(chunk)
        start = jnp.minimum(first, np.int32(slots.length - chunk))
        roots, signs = seal(slots.once, lambda turn: compute(start + turn), sealed)
        with jax.named_scope(SCOPE):
            is_new = start + lax.iota(jnp.int32, chunk) >= first
            held = hold(gate, roots, (Chunk(start, chunk).of(slots.occupied) & is_new)[:, None])
            return number + 1, (roots, signs), add(total, jax.vmap(square)(held, signs))

    before = (jnp.zeros((num_chains, chunk, size), jnp.int32), jnp.zeros((num_chains, chunk), jnp.int32))
    turns = slots.once * np.int32(-(-slots.length // chunk))
    start = (jnp.int32(0), before, zero((num_chains, size, size)))
    _, _, total = lax.while_loop(lambda carry: carry[0] < turns, turn, start)
    rows, columns, weights = entries_of(size)
    with enable_x64(True):
        high, low = (word[:, rows, columns].astype(jnp.int64) for word in total)
        return from_int64(((high << 32) + low) * weights)
