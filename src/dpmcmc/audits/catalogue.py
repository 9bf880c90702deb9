"""All pairs that the audit table has: every certified mechanism, both adjacencies, noise modes, and ways to add up."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    BarkerTest,
    Event,
    Gaussian,
    LogisticBit,
    SphericalLaplace,
    noise_for,
)
from dpmcmc.audits.bins import bins
from dpmcmc.audits.blocks import in_blocks
from dpmcmc.audits.pairs import (
    ADD,
    DIRECTION,
    NOTHING,
    REPLACE,
    Full,
    Law,
    Linear,
    Pair,
    Residual,
    Square,
    count_true,
    middle_of,
    replace,
    standardised,
    tables_of,
)
from dpmcmc.audits.sampled import fixed_batches, minibatch_ratios, poisson
from dpmcmc.audits.spaced import of_some
from dpmcmc.enclave.mechanisms import (
    barker_bit,
    barker_test,
    curvature,
    gradient,
    log_ratio,
    noisy_count,
    remainder_test,
    spherical_laplace_sum,
)
from dpmcmc.enclave.mechanisms import sum as plain

DELTA = 1e-6
NUM_BITS = 16
"""Decisions in one run of a chain, which are audited together."""

BARKER_REST = np.float32(1.0)
"""The public rest of Barker tests: of 16 bits that are true more often than not, those that are false tell most."""

FAR = 100.0
"""Standard deviation of a hidden log-ratio: so large that the uniform of the test blurs next to nothing."""


def gaussian_noise(epsilon: float, delta: float) -> float:
    """Return the noise multiplier of one Gaussian release at a claimed epsilon."""
    return noise_for(Gaussian, epsilon, delta)


def sums(epsilon: float, delta: float, adjacency: Adjacency, noise: str, accelerate: bool) -> Pair:
    """`Sum` of the records themselves: opposite records at the clip."""
    mechanism, middle = plain.Sum(1.0, gaussian_noise(epsilon, delta)), middle_of(adjacency)

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        noisy = oracle.sum(mechanism, lambda scale, row: scale * row, query)
        return standardised(noisy, DIRECTION, middle)

    return Pair(
        "Sum",
        adjacency,
        tables_of(adjacency, DIRECTION, -DIRECTION, NOTHING),
        program,
        np.float32(1.0),
        Law(Gaussian),
        noise=noise,
        accelerate=accelerate,
        path="numbers as arguments" if accelerate else "reference",
    )


def spherical_sums(epsilon: float, delta: float, adjacency: Adjacency) -> Pair:
    """`SphericalLaplaceSum` of the records themselves, seen along the direction in which the tables differ."""
    coordinates, middle = DIRECTION.size, middle_of(adjacency)
    spread = (coordinates + 1) ** 0.5  # standard deviation of a coordinate, in scales

    def event(multiplier: float) -> Event:
        return SphericalLaplace(coordinates, multiplier / spread)

    mechanism = spherical_laplace_sum.SphericalLaplaceSum(1.0, noise_for(event, epsilon, delta) / spread)

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        noisy = oracle.sum(mechanism, lambda scale, row: scale * row, query)
        return standardised(noisy, DIRECTION, middle)

    tables = tables_of(adjacency, DIRECTION, -DIRECTION, NOTHING)
    law = Law(event, is_normal=False)
    return Pair("SphericalLaplaceSum", adjacency, tables, program, np.float32(1.0), law)


def twice(epsilon: float, delta: float, adjacency: Adjacency, noise: str, how: str) -> Pair:
    """`Sum` two times in one run, at opposite queries: whoever subtracts the two is left with no noise that they share.

    Both stand in one `loop`, are two `chains`, or stand in a `row`.
    """
    mechanism = plain.Sum(1.0, noise_for(lambda z: Gaussian(z) * 2, epsilon, delta))
    queries = (np.float32(1.0), np.float32(-1.0))

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        def one(scale: Any) -> jax.Array:
            noisy = oracle.sum(mechanism, lambda scale, row: scale * row, query * scale)
            return standardised(noisy, DIRECTION, scale * middle_of(adjacency))

        def step(carry: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
            return carry, one(scale)

        both: Any = {
            "loop": lambda: jax.lax.scan(step, jnp.float32(0), jnp.asarray(queries))[1],
            "chains": lambda: jax.vmap(one)(jnp.asarray(queries)),
            "row": lambda: [one(scale) for scale in queries],
        }[how]()
        return (both[0] - both[1]) / jnp.sqrt(2.0)

    name = {"loop": "Sum, twice in a loop", "chains": "Sum, two chains", "row": "Sum, twice in a row"}[how]
    tables = tables_of(adjacency, DIRECTION, -DIRECTION, NOTHING)
    law = Law(Gaussian)
    return Pair(name, adjacency, tables, program, np.float32(1.0), law, noise=noise, accelerate=False)


def gradients(epsilon: float, delta: float, adjacency: Adjacency, noise: str, accelerate: bool) -> Pair:
    """`GradientSum`: a gradient that is the record, or a residual times its row; opposite ones at the clip."""
    mechanism, middle = gradient.GradientSum(1.0, gaussian_noise(epsilon, delta)), middle_of(adjacency)
    record, other, rest = ({"x": DIRECTION, "y": np.float32(y)} for y in (1.0, -1.0, 0.0))

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        return standardised(oracle.force(mechanism, position), DIRECTION, middle)

    return Pair(
        "GradientSum",
        adjacency,
        tables_of(adjacency, record, other, rest),
        program,
        NOTHING,
        Law(Gaussian),
        model=Residual(),
        noise=noise,
        accelerate=accelerate,
        path="linear rows" if accelerate else "reference",
    )


def curvatures(epsilon: float, delta: float, adjacency: Adjacency, noise: str, accelerate: bool) -> Pair:
    """`CurvatureSum`: Hessians of either sign, with the Frobenius norm at the clip; of rank one, or not."""
    model = Square() if accelerate else Full()
    matrix = np.outer(DIRECTION, DIRECTION) if accelerate else np.diag([1.0, 0.5]) / np.sqrt(1.25)
    mechanism, middle = curvature.CurvatureSum(1.0, gaussian_noise(epsilon, delta)), middle_of(adjacency)
    size = 1.0 if accelerate else 1 / np.sqrt(1.25)
    record, other, rest = ({"x": DIRECTION, "y": np.float32(y)} for y in (size, -size, 0.0))

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        noisy = oracle.curvature(mechanism, position, jnp.eye(2))
        return standardised(noisy, matrix.ravel().astype(np.float32), middle)

    return Pair(
        "CurvatureSum",
        adjacency,
        tables_of(adjacency, record, other, rest),
        program,
        NOTHING,
        Law(Gaussian),
        model=model,
        noise=noise,
        accelerate=accelerate,
        path="rank-one squares" if accelerate else "reference",
    )


def ratios(epsilon: float, delta: float, adjacency: Adjacency, noise: str) -> Pair:
    """`LogRatio`: opposite ratios at the clip."""
    mechanism, middle = log_ratio.LogRatio(1.0, gaussian_noise(epsilon, delta)), middle_of(adjacency)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        return standardised(oracle.log_posterior_ratio(mechanism, position, position + DIRECTION), 1.0, middle)

    record, other, rest = ({"x": side * DIRECTION} for side in (1, -1, 0))
    tables = tables_of(adjacency, record, other, rest)
    return Pair("LogRatio", adjacency, tables, program, NOTHING, Law(Gaussian), model=Linear(), noise=noise)


def counts(epsilon: float, delta: float, adjacency: Adjacency, noise: str) -> Pair:
    """`NoisyCount`: a record that counts, and one that does not; either moves the count by one."""
    mechanism = noisy_count.NoisyCount(0.5, gaussian_noise(epsilon, delta))

    def program(oracle: Any, query: jax.Array) -> jax.Array:
        return standardised(oracle.sum(mechanism, lambda scale, row: scale * row, query), 1.0, 0.5)

    tables = tables_of(adjacency, DIRECTION, NOTHING, NOTHING)
    return Pair("NoisyCount", adjacency, tables, program, np.float32(1.0), Law(Gaussian), noise=noise)


def penalty_tests(epsilon: float, delta: float, adjacency: Adjacency, noise: str, remainder: bool) -> Pair:
    """`PenaltyTest` and `RemainderTest`: opposite ratios at the clip, and a threshold between the two sums."""
    multiplier = noise_for(lambda z: AcceptBit(z) * NUM_BITS, epsilon, delta)
    clips = 2 if adjacency is REPLACE else 1
    size = FAR / (multiplier * clips)  # how far one record may move the ratio
    radius = (2 * size) ** (1 / 3)  # of the third derivative one, the clip is radius^3 / 2
    length = radius if remainder else size
    kind = remainder_test.RemainderTest if remainder else log_ratio.PenaltyTest
    mechanism, middle = kind(1.0, multiplier), size * middle_of(adjacency)
    rest_of_ratio = np.float32(FAR**2 / 2 - middle)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        proposed = position + length * DIRECTION
        return count_true(lambda: oracle.accept(mechanism, position, proposed, rest_of_ratio), NUM_BITS)

    record, other, rest = ({"x": side * size / length * DIRECTION} for side in (1, -1, 0))
    tables = tables_of(adjacency, record, other, rest)
    law = Law(lambda z: AcceptBit(z) * NUM_BITS, num_bits=NUM_BITS)
    name = "RemainderTest" if remainder else "PenaltyTest"
    return Pair(name, adjacency, tables, program, NOTHING, law, model=Linear(), noise=noise)


def barker_bits(epsilon: float, delta: float, adjacency: Adjacency) -> Pair:
    """`BarkerBit`: log-odds at the two ends of what one record may move, around a fair coin."""
    sensitivity = 1 / noise_for(lambda z: LogisticBit(1 / z) * NUM_BITS, epsilon, delta)
    clip = sensitivity / (2 if adjacency is REPLACE else 1)
    mechanism, middle = barker_bit.BarkerBit(clip), clip * middle_of(adjacency)

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        proposed = position + DIRECTION
        return count_true(lambda: oracle.accept(mechanism, position, proposed, np.float32(-middle)), NUM_BITS)

    record, other, rest = ({"x": side * 1.01 * clip * DIRECTION} for side in (1, -1, 0))
    tables = tables_of(adjacency, record, other, rest)
    law = Law(lambda z: LogisticBit(1 / z) * NUM_BITS, num_bits=NUM_BITS)
    return Pair("BarkerBit", adjacency, tables, program, NOTHING, law, model=Linear())


def barker_tests(epsilon: float, delta: float, noise: str) -> Pair:
    """`BarkerTest` on all records: the bit is one threshold of the Gaussian release that is charged."""
    variance, records = 3.2, 8

    def event(spread: float) -> Event:
        return BarkerTest(records, records, variance, spread**-2) * NUM_BITS

    fraction = noise_for(event, epsilon, delta) ** -2
    mechanism = barker_test.BarkerTest(records, variance, fraction)
    clip = np.sqrt(fraction * records) / records

    def program(oracle: Any, position: jax.Array) -> jax.Array:
        proposed = position + DIRECTION
        return count_true(lambda: oracle.accept(mechanism, position, proposed, BARKER_REST), NUM_BITS)

    record, other, rest = ({"x": side * 1.01 * clip * DIRECTION} for side in (1, -1, 0))
    tables = replace(record, other, rest, records - 1)
    law = Law(event, num_bits=NUM_BITS)
    return Pair("BarkerTest", REPLACE, tables, program, NOTHING, law, model=Linear(), noise=noise)


Make = Callable[[], Pair]


def catalogue(epsilon: float = 1.0, delta: float = DELTA) -> Iterator[Make]:
    """Yield what makes each pair at a claimed epsilon: the exact noise everywhere, other modes on one mechanism."""
    for adjacency in (REPLACE, ADD):
        for make in (sums, gradients, curvatures):
            for accelerate in (False, True):
                yield partial(make, epsilon, delta, adjacency, "exact", accelerate)
        for make in (ratios, counts, poisson):
            yield partial(make, epsilon, delta, adjacency, "exact")
        yield partial(spherical_sums, epsilon, delta, adjacency)
        for how in ("loop", "chains"):
            yield partial(twice, epsilon, delta, adjacency, "exact", how)
        for remainder in (False, True):
            yield partial(penalty_tests, epsilon, delta, adjacency, "exact", remainder)
        yield partial(barker_bits, epsilon, delta, adjacency)
    for make in (fixed_batches, minibatch_ratios, barker_tests):
        yield partial(make, epsilon, delta, "exact")
    for adjacency in (REPLACE, ADD):
        for accelerate in (False, True):
            yield partial(in_blocks, sums, epsilon, delta, adjacency, accelerate)
    for adjacency in (REPLACE, ADD):
        for accelerate in (False, True):
            yield partial(bins, epsilon, delta, adjacency, "exact", accelerate)
    for accelerate in (False, True):
        yield partial(of_some, sums, epsilon, delta, accelerate)
