"""Maximum mean discrepancy between two samples, in flat memory.

MMD(p, q)^2 = E k(x, x') + E k(y, y') - 2 E k(x, y) with the Gaussian kernel k(x, y) = exp(-|x - y|^2 / (2 s^2)). It is
zero if and only if p = q (Gretton et al. 2012). The minus sign is missing where the thesis prints the kernel
(Räisä 2021), not where its code computes it.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.spatial.distance import cdist

from dpmcmc import validation
from dpmcmc.diagnostics.arguments import Array, Draws, generator, read_pair
from dpmcmc.errors import InvalidArgument

ROWS, COLUMNS = 256, 1024
"""A block of distances: 2 MB, small enough to stay in a core's cache while it is squared, exponentiated and summed."""


def mmd(draws: Draws, reference: Draws, rng: np.random.Generator, *, num_bandwidth_points: int = 500) -> float:
    """Return the MMD as Räisä et al. (2021) and Räisä (2021) estimate it.

    sqrt(abs(U)), where U is `squared_mmd_unbiased` at the bandwidth of `median_bandwidth`. All draws enter the sums.

    The absolute value makes it positive where the samples agree: 1000 exact draws against 1000 score about 0.02, and no
    smaller value means anything. The bandwidth is drawn anew by every call and depends on the sample that is tested;
    to compare samplers closely, use `squared_mmd_unbiased` with one bandwidth for all.

    Args:
        draws: the sample to judge; chains are pooled, as in the papers, which first discard half of each.
        reference: draws from the posterior that it should have; 1000 exact ones in the papers.
        rng: picks the points for the bandwidth.
        num_bandwidth_points: 500 in the papers' code; the text of the thesis says 50.
    """
    bandwidth = median_bandwidth(draws, reference, rng, num_points=num_bandwidth_points)
    return math.sqrt(abs(squared_mmd_unbiased(draws, reference, bandwidth)))


def median_bandwidth(draws: Draws, reference: Draws, rng: np.random.Generator, *, num_points: int = 500) -> float:
    """Return the median of |x_i - y_i| over `num_points` pairs, the bandwidth of Räisä et al. (2021).

    The points x_i of `draws` and y_i of `reference` are drawn independently and with replacement. There are as many
    distances as points: the papers compare pair by pair, not each with each.
    """
    generator("rng", rng)
    num_points = validation.integer("num_points", num_points, at_least=1)
    first, second = (sample.pooled for sample in read_pair(draws, reference))
    x = first[rng.integers(len(first), size=num_points)]
    y = second[rng.integers(len(second), size=num_points)]
    bandwidth = float(np.median(np.linalg.norm(x - y, axis=1)))
    if bandwidth == 0:
        raise InvalidArgument(
            "draws and reference coincide in more than half of the pairs, so their median distance is 0 and cannot be "
            "a bandwidth; call squared_mmd_unbiased with a bandwidth of your own"
        )
    return bandwidth


def squared_mmd_unbiased(draws: Draws, reference: Draws, bandwidth: float) -> float:
    """Return the unbiased estimate of the squared MMD (Gretton et al. 2012, Lemma 6).

    With n draws x and m reference draws y,

        U = 2/(n (n-1)) sum_{i<j} k(x_i, x_j) + 2/(m (m-1)) sum_{i<j} k(y_i, y_j) - 2/(n m) sum_{i,j} k(x_i, y_j).

    If the two laws are the same it is negative more often than not. Its mean is the squared MMD if the draws of each
    sample are independent and the bandwidth was not chosen by looking at them; draws of a chain, which resemble their
    neighbours, raise it.

    Args:
        draws: the sample to judge; chains are pooled.
        reference: draws from the posterior that it should have.
        bandwidth: the s of the kernel, a length in the space of the parameters.
    """
    # a power of two can be divided out without rounding; what is left of the bandwidth is near one
    remainder, exponent = math.frexp(validation.positive("bandwidth", bandwidth))
    x, y = (np.ldexp(sample.pooled, -exponent) for sample in read_pair(draws, reference))
    n, m, factor = len(x), len(y), -1 / (2 * remainder**2)
    within = 2 * _sum_within(x, factor) / (n * (n - 1)) + 2 * _sum_within(y, factor) / (m * (m - 1))
    return within - 2 * _sum_between(x, y, factor) / (n * m)


def _sum_between(x: Array, y: Array, factor: float) -> float:
    """Return the sum of exp(factor |x_i - y_j|^2) over all i and j."""
    return _sum_rows(len(x), lambda start: _sum_blocks(x[start : start + ROWS], y, factor))


def _sum_within(x: Array, factor: float) -> float:
    """Return the sum of exp(factor |x_i - x_j|^2) over i < j."""

    def row(start: int) -> float:
        here, after = x[start : start + ROWS], x[start + ROWS :]
        return (_sum_blocks(here, here, factor) - len(here)) / 2 + _sum_blocks(here, after, factor)

    return _sum_rows(len(x), row)


def _sum_blocks(rows: Array, columns: Array, factor: float) -> float:
    starts = range(0, len(columns), COLUMNS)
    return math.fsum(_sum_block(rows, columns[start : start + COLUMNS], factor) for start in starts)


def _sum_block(rows: Array, columns: Array, factor: float) -> float:
    # differences, not |x|^2 + |y|^2 - 2 x.y, which loses all digits where draws are far from the origin
    block = cdist(rows, columns, "sqeuclidean")
    np.multiply(block, factor, out=block)
    np.exp(block, out=block)
    return float(block.sum())


def _sum_rows(num_rows: int, row: Callable[[int], float]) -> float:
    """Add up rows of blocks on all cores, as they release the interpreter's lock; the sum is the same on any number."""
    starts = range(0, num_rows, ROWS)
    cores = os.cpu_count() or 1
    if len(starts) == 1:
        return row(0)
    with ThreadPoolExecutor(max_workers=min(cores, len(starts))) as pool:
        return math.fsum(pool.map(row, starts))
