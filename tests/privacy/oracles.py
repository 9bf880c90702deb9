"""Slow, plain versions of what the enclave computes: to compare with."""

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np


def reference_discrete_gaussian(variance: Fraction, below: Callable[[int], int] = secrets.randbelow) -> int:
    """Return one exact draw from N_Z(0, variance) on the host (Canonne, Kamath and Steinke 2020, Algorithms 1 to 3).

    `below(n)` returns a uniform integer in [0, n). Slow, and its time depends on the draw: to check the sampler with.
    """
    width = math.isqrt(math.floor(variance)) + 1
    while True:
        draw = _reference_laplace(width, below)
        if _reference_exponential_coin((abs(draw) - variance / width) ** 2 / (2 * variance), below):
            return draw


def _reference_laplace(width: int, below: Callable[[int], int]) -> int:
    """One draw with P(x) proportional to exp(-|x| / width): Algorithm 2 with s = 1, t = width."""
    while True:
        offset = below(width)
        if not _reference_exponential_coin(Fraction(offset, width), below):
            continue
        blocks = 0
        while _reference_exponential_coin(Fraction(1), below):
            blocks += 1
        size, negative = offset + width * blocks, below(2)
        if size or not negative:
            return -size if negative else size


def _reference_exponential_coin(rate: Fraction, below: Callable[[int], int]) -> bool:
    """One coin of probability exp(-rate): Algorithm 1."""
    while rate > 1:
        if not _reference_exponential_coin(Fraction(1), below):
            return False
        rate -= 1
    count = 1
    while below(rate.denominator * count) < rate.numerator:
        count += 1
    return count % 2 == 1


def ball_passes(bound: int, row: Sequence[int]) -> bool:
    """Say whether the gate lets a vector pass, by what `gate.Ball` says of itself, in integers of any size."""
    coarse = max(0, bound.bit_length() - 15)
    largest = -(-(bound + 1) // 2**coarse)
    drop = 0
    while len(row) * (largest**2 // 2**drop + 1) >= 2**31:
        drop += 1
    steps = [-(-min(abs(int(entry)), bound + 1) // 2**coarse) for entry in row]
    energy = (len(row) if drop else 0) + sum(step**2 // 2**drop for step in steps)
    return energy <= bound**2 // 4**coarse // 2**drop


def held(bound: int, rows: Any) -> Any:
    """Return vectors, along the last axis, as the gate leaves them: 64-bit integers."""
    flat = np.asarray(rows).astype(np.int64).reshape(-1, np.shape(rows)[-1])
    passes = np.array([ball_passes(bound, row.tolist()) for row in flat], bool)
    return np.where(passes[:, None], flat, 0).reshape(np.shape(rows))


def minibatch_sensitivity(clip: float, weight: float, batch_size: int, unsampled: float = 1.0) -> float:
    """Return by how much replacing one record moves ``weight * sum r - variance / 2``, where abs(r) <= clip.

    It is 2 a L + 2 a^2 f (1 - 1/b) L^2 with a = weight, L = clip, f = unsampled, attained at r = L, r' = -L and all
    other entries equal to L. Räisä (2021), Lemma 1, has 3 in place of the second 2, and f = 1.
    """
    linear = 2 * weight * clip
    return linear + 2 * weight**2 * unsampled * (1 - 1 / batch_size) * clip**2
