"""The worst pairs of mechanisms that look at a sample of the records: a Poisson batch, or one of fixed size."""

from functools import partial
from typing import Any

import jax

from dpmcmc.accounting import Adjacency, Event, FixedBatchGaussian, PoissonGaussian, noise_for
from dpmcmc.audits.pairs import (
    DIRECTION,
    NOTHING,
    REPLACE,
    Law,
    Linear,
    Pair,
    middle_of,
    replace,
    standardised,
    tables_of,
)
from dpmcmc.enclave.mechanisms import minibatch_log_ratio, subsampled_gradient

RATE, BATCH, RECORDS = 0.5, 2, 4


def poisson(epsilon: float, delta: float, adjacency: Adjacency, noise: str) -> Pair:
    """`SubsampledGradientSum` on Poisson batches: opposite records at the clip, the others zero."""

    def event(noise_over_clip: float) -> Event:
        return PoissonGaussian(RATE, noise_over_clip, adjacency)

    found = noise_for(event, epsilon, delta)
    mechanism = subsampled_gradient.SubsampledGradientSum.poisson(1.0, found, RATE)
    middle = middle_of(adjacency)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        return standardised(oracle.force(mechanism, position), DIRECTION, middle)

    record, other, rest = ({"x": side * DIRECTION} for side in (1, -1, 0))
    tables = tables_of(adjacency, record, other, rest)
    clips, moves = (2, "both") if adjacency is REPLACE else (1, "first")
    law = Law(lambda multiplier: event(clips * multiplier), RATE, moves)  # in units of what the record moves
    name = "SubsampledGradientSum (Poisson)"
    return Pair(name, adjacency, tables, program, NOTHING, law, model=Linear(), noise=noise)


def fixed_batches(epsilon: float, delta: float, noise: str) -> Pair:
    """`SubsampledGradientSum` without replacement: all others at the clip, so that a batch without the record shows."""
    event = partial(FixedBatchGaussian, BATCH, RECORDS)
    found = noise_for(event, epsilon, delta)
    mechanism = subsampled_gradient.SubsampledGradientSum.without_replacement(1.0, found, BATCH)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        return standardised(oracle.force(mechanism, position), DIRECTION, RECORDS - 1.0)

    record, other, rest = ({"x": side * DIRECTION} for side in (1, -1, 1))
    tables = replace(record, other, rest, RECORDS - 1)
    law = Law(event, BATCH / RECORDS)
    name = "SubsampledGradientSum (fixed)"
    return Pair(name, REPLACE, tables, program, NOTHING, law, model=Linear(), noise=noise)


def minibatch_ratios(epsilon: float, delta: float, noise: str) -> Pair:
    """`MinibatchLogRatio`: r = L against r' = -L, with all others at L."""
    event = partial(FixedBatchGaussian, BATCH, RECORDS)
    mechanism = minibatch_log_ratio.MinibatchLogRatio(BATCH, 1.0, noise_for(event, epsilon, delta))
    scale, clip = RECORDS / BATCH, 1.0
    without = scale * BATCH * clip
    moved = 2 * scale * clip + 2 * scale**2 * (1 - BATCH / RECORDS) * (1 - 1 / BATCH) * clip**2

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        noisy = oracle.log_posterior_ratio(mechanism, position, position + DIRECTION)
        return standardised(noisy, 1.0, without - moved / 2)

    record, other, rest = ({"x": side * DIRECTION} for side in (1, -1, 1))
    tables = replace(record, other, rest, RECORDS - 1)
    law = Law(event, BATCH / RECORDS)
    return Pair("MinibatchLogRatio", REPLACE, tables, program, NOTHING, law, model=Linear(), noise=noise)
