"""The pair of `BlockSum`: that of `Sum`, with one entry in a block and the others beside the blocks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Adjacency, Gaussian, noise_for
from dpmcmc.audits.pairs import ADD, DIRECTION, Pair, standardised
from dpmcmc.enclave import BlockSum, Noisy

BLOCKS, OWN = 3, 1
"""How many blocks there are, and that of all records: one that changes its block moves the sum by less."""


def in_blocks(
    make: Callable[..., Pair], epsilon: float, delta: float, adjacency: Adjacency, accelerate: bool = True
) -> Pair:
    """Return the pair of a sum, which is made by a function, as one of a sum in blocks."""
    pair = make(epsilon, delta, adjacency, "exact", accelerate)
    mechanism = BlockSum(1.0, noise_for(Gaussian, epsilon, delta), BLOCKS, 1)
    middle = 0.5 if adjacency is ADD else 0.0

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        def statistic(scale: jax.Array, row: jax.Array) -> jax.Array:
            return jnp.concatenate([jnp.full(1, OWN, jnp.float32), scale * row])

        noisy = oracle.sum(mechanism, statistic, query)
        seen = jnp.concatenate([noisy.value[OWN : OWN + 1], noisy.value[BLOCKS:]])
        return standardised(Noisy(seen, noisy.variance), np.asarray(DIRECTION), middle)

    return replace(pair, mechanism="BlockSum", program=program)
