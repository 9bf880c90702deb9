"""Lattices: the points on which contributions lie when they are added up, in integers.

A record's contribution is rounded to granularity * k with an integer k, |k| <= bound, and the k are added up exactly:
the sum is the same whatever the chunk size, the order of the rows or the number of shards, and one record moves it by
at most 2 * bound (replace-one) or bound (add or remove one), in integers. core/gate.md and noise/noise.md have
the proofs.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from dpmcmc import validation

MIN_SCALE_BITS, MAX_SCALE_BITS = 16, 40
"""Noise scales are powers of two in this range: below it the lattice is felt, above it nothing is gained."""

LEAST_NOISE, MOST_NOISE = 2.0**-8, 2.0**30
"""Between these the noise over the clip has a lattice: of a scale in that range, with a bound from 2^10 to 2^24."""

TARGET_BOUND = 2**20  # finer than float32 contributions need, and 2047 rows of it fit in an int32
_MAX_BOUND = 2**24  # a float32 holds every integer up to it


@partial(jax.tree_util.register_dataclass, data_fields=["granularity"], meta_fields=["bound", "scale"])
@dataclass(frozen=True)
class Lattice:
    """The points granularity * k with integer k.

    `bound` and `scale` alone decide the privacy, and are constants. The granularity, which only gives them a unit, may
    be a traced number: a clip that grows with the distance of two positions moves the granularity.
    """

    granularity: ArrayLike
    bound: int
    """The largest l2 norm of one record's k."""
    scale: float = 0.0
    """The standard deviation of the noise, in steps of the lattice."""

    def __post_init__(self) -> None:
        validation.integer("bound", self.bound, at_least=1)
        validation.non_negative("scale", self.scale)
        if isinstance(self.granularity, float | int):
            validation.positive("granularity", self.granularity)

    def refined(self, factor: int) -> "Lattice":
        """Return a lattice that is finer by a factor; bound and scale grow alike; their ratio decides the privacy."""
        return Lattice(self.granularity / factor, self.bound * factor, self.scale * factor)


def noise_over_clip(noise_multiplier: float, clips_moved: float) -> float:
    """Return the noise in clips: its multiple of the sensitivity, times the clips a neighbour moves the sum by."""
    least, most = LEAST_NOISE / clips_moved, MOST_NOISE / clips_moved
    if not least <= validation.positive("noise_multiplier", noise_multiplier) <= most:
        words = f"must be between {least:g} and {most:g} for a lattice to hold the noise"
        validation.refuse("noise_multiplier", noise_multiplier, words)
    return noise_multiplier * clips_moved


def gradient_lattice(clip: ArrayLike, noise_over_clip: float, num_records: int) -> Lattice:
    """Return the lattice for a clipped sum with noise of standard deviation noise_over_clip * clip.

    The noise scale is a power of two s = 2^p, the granularity sigma / s and the bound floor(clip / granularity), so
    that s / bound >= noise_over_clip exactly. p is the largest for which the bound is at most 2^20.
    """
    ratio = Fraction(validation.positive("noise_over_clip", noise_over_clip))
    bits = math.floor(math.log2(TARGET_BOUND) + math.log2(ratio))
    scale = 2 ** min(max(bits, MIN_SCALE_BITS), MAX_SCALE_BITS)
    bound = math.floor(scale / ratio)
    if not 2**10 <= bound <= _MAX_BOUND:
        validation.refuse("noise_over_clip", noise_over_clip, "must be between 2^-8 and 2^30 for a lattice to hold it")
    check_records(num_records, bound)
    return Lattice(single(times(clip, float(ratio) / scale)), bound, float(scale))


def check_records(num_records: int, bound: int) -> None:
    """Refuse numbers of records with which a sum of bounded contributions could overflow."""
    if validation.integer("num_records", num_records, at_least=1) * bound >= 2**62:
        validation.refuse("num_records", num_records, f"must be < 2^62 / {bound}, or an exact sum could overflow")


def times(number: ArrayLike, factor: float) -> Any:
    """Multiply in float64 what is known now, in its own type what is traced."""
    return number * factor if isinstance(number, jax.Array) else validation.positive("clip", number) * factor


def single(number: Any) -> Any:
    """Round a number that is known now to float32, so that host and device mean the same granularity."""
    return number if isinstance(number, jax.Array) else float(np.float32(number))
