"""The pairs of `Counts`: records in different bins, or one and none; and one of opposite records, for planted bugs."""

from typing import Any

import jax
import numpy as np

from dpmcmc.accounting import Adjacency, Gaussian, noise_for
from dpmcmc.audits.pairs import ADD, DIRECTION, NOTHING, Law, Pair, standardised, tables_of
from dpmcmc.enclave.mechanisms.counts import Counts

FIRST, SECOND = np.eye(2, dtype=np.float32)
"""Records in the first bin and in the second one: no two without negative entries are further apart."""


def bins(epsilon: float, delta: float, adjacency: Adjacency, noise: str, accelerate: bool) -> Pair:
    """`Counts` of the records themselves: seen along the difference of the two bins, or along the one of the record."""
    along = FIRST if adjacency is ADD else FIRST - SECOND
    middle = 0.5 if adjacency is ADD else 0.0
    return _pair("Counts", (FIRST, SECOND), along, middle, (epsilon, delta, adjacency, noise, accelerate))


def opposites(epsilon: float, delta: float, adjacency: Adjacency, noise: str, accelerate: bool) -> Pair:
    """The same of opposite records: one has negative entries and counts as zero, if the gate holds."""
    about = epsilon, delta, adjacency, noise, accelerate
    return _pair("Counts, opposite records", (np.abs(DIRECTION), -np.abs(DIRECTION)), np.abs(DIRECTION), 0.0, about)


def _pair(name: str, records: tuple[Any, Any], along: Any, middle: float, about: tuple[Any, ...]) -> Pair:
    epsilon, delta, adjacency, noise, accelerate = about
    mechanism = Counts(1.0, noise_for(Gaussian, epsilon, delta))
    along = along / np.float32(np.linalg.norm(along))

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        return standardised(oracle.sum(mechanism, lambda scale, row: scale * row, query), along, middle)

    path = "numbers as arguments" if accelerate else "reference"
    tables = tables_of(adjacency, *records, NOTHING)
    law = Law(Gaussian)
    return Pair(name, adjacency, tables, program, np.float32(1.0), law, noise=noise, accelerate=accelerate, path=path)
