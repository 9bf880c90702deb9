"""The pair of `SpacedSum`: that of `Sum`, with the record that differs at a place that is read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dpmcmc.accounting import Gaussian, noise_for
from dpmcmc.audits.pairs import DIRECTION, REPLACE, Pair, standardised
from dpmcmc.enclave import SpacedSum
from dpmcmc.enclave.mechanisms.spaced_sum import pattern

STEP = 2


def of_some(make: Callable[..., Pair], epsilon: float, delta: float, accelerate: bool = True) -> Pair:
    """Return the pair of a sum, which is made by a function, as one of a sum of some records.

    Under add-or-remove-one places are drawn, so that nobody can say who is read; the pair is under replace-one alone.
    """
    pair = make(epsilon, delta, REPLACE, "exact", accelerate)
    mechanism, at = SpacedSum(1.0, noise_for(Gaussian, epsilon, delta), STEP), int(pattern(STEP)[0])
    first, second = (jax.tree.map(lambda leaf: np.roll(leaf, at, axis=0), table) for table in pair.tables)

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        return standardised(oracle.sum(mechanism, lambda scale, row: scale * row, query), DIRECTION, 0.0)

    return replace(pair, mechanism="SpacedSum", program=program, tables=(first, second))
