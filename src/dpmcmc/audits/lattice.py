"""Pairs beside the worst ones of the proofs: for attacks that look at something else than the size of a release."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Adjacency, Gaussian, LogisticBit, PoissonGaussian, noise_for
from dpmcmc.audits.catalogue import NUM_BITS, gaussian_noise
from dpmcmc.audits.pairs import (
    DIRECTION,
    NOTHING,
    REPLACE,
    Law,
    Linear,
    Pair,
    count_true,
    middle_of,
    replace,
    standardised,
    tables_of,
)
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.core.sums import vector_lattice
from dpmcmc.enclave.mechanisms import barker_bit, subsampled_gradient
from dpmcmc.enclave.mechanisms import sum as plain

EXACT_IN_FLOAT32 = 2**24


def parity(epsilon: float, delta: float, noise: str) -> Pair:
    """Return a pair whose sums are next to each other on the lattice: one is even, and the other is odd.

    Noise that was drawn in float32 has no odd values beyond 2^24 steps. The other records put the sum so far below
    zero that such noise takes it to where float32 has all integers: there the last bit of a release is the sum's.
    """
    mechanism = plain.Sum(1.0, gaussian_noise(epsilon, delta))
    probe = PrivateData.without_guarantee(np.zeros((18, 1), np.float32))
    lattice = vector_lattice(1.0, mechanism.noise_multiplier, probe.facts)
    step = float(np.asarray(lattice.granularity, np.float32))
    each = -(EXACT_IN_FLOAT32 // 17)
    rest = [each] * 16 + [-EXACT_IN_FLOAT32 - 16 * each]

    def table(steps: int) -> np.ndarray:
        return (np.array([steps, *rest]) * step).astype(np.float32)[:, None]

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        value = oracle.sum(mechanism, lambda scale, row: scale * row, query).value[0] / np.float32(step)
        whole = jnp.rint(value)
        is_seen = (value > 0) & (value < EXACT_IN_FLOAT32 / 8)  # so near to zero that no bit is lost
        is_odd = whole - 2 * jnp.floor(whole / 2)
        return jnp.where(is_seen, 10 * is_odd - 5, 0.0)

    name, law = "Sum, last bits", Law(Gaussian)
    tables = table(1001), table(1000)
    return Pair(name, REPLACE, tables, program, np.float32(1.0), law, noise=noise, accelerate=False)


def poisson_among_others(epsilon: float, delta: float) -> Pair:
    """Return a pair for Poisson batches whose other records would tell a batch of fixed size: all are at the clip."""
    rate, count = 0.1, 10

    def event(noise_over_clip: float) -> PoissonGaussian:
        return PoissonGaussian(rate, noise_over_clip, REPLACE)

    mechanism = subsampled_gradient.SubsampledGradientSum.poisson(1.0, noise_for(event, epsilon, delta), rate)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        return standardised(oracle.force(mechanism, position), DIRECTION, count - 1.0)

    record, other, rest = ({"x": side * DIRECTION} for side in (1, -1, 1))
    law = Law(lambda multiplier: event(2 * multiplier), rate, "both")
    tables = replace(record, other, rest, count - 1)
    return Pair("Poisson among others", REPLACE, tables, program, NOTHING, law, model=Linear())


def wide_barker_bits(epsilon: float, delta: float, adjacency: Adjacency) -> Pair:
    """Return a pair for Barker bits whose records are far beyond the clip."""
    sensitivity = 1 / noise_for(lambda z: LogisticBit(1 / z) * NUM_BITS, epsilon, delta)
    clip = sensitivity / (2 if adjacency is REPLACE else 1)
    mechanism, middle = barker_bit.BarkerBit(clip), clip * middle_of(adjacency)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        decide: Callable[[], jax.Array] = lambda: oracle.accept(mechanism, position, position + DIRECTION, -middle)  # noqa: E731
        return count_true(decide, NUM_BITS)

    record, other, rest = ({"x": side * 5 * clip * DIRECTION} for side in (1, -1, 0))
    law = Law(lambda z: LogisticBit(1 / z) * NUM_BITS, num_bits=NUM_BITS)
    tables = tables_of(adjacency, record, other, rest)
    return Pair("BarkerBit, far records", adjacency, tables, program, NOTHING, law, model=Linear())
