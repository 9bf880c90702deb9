"""Noise on the lattice: the discrete Gaussian, in integers alone.

`discrete_gaussian` draws from N_Z(0, s^2), P(x) proportional to exp(-x^2 / (2 s^2)) over the integers (Canonne, Kamath
and Steinke 2020, Definition 1). It has no loop and no branch that depends on a draw, no floating point, and hence the
same bits on CPU and GPU. One table holds the law of a small scale; larger scales are sums

    X = X_0 + L X_1 + ... + L^(k-1) X_(k-1) + L^k X_k,    L = 128,

of independent draws, X_0 ... X_(k-1) of scale 256 and X_k of the scale that makes the variances add up to s^2
(Micciancio and Walter 2017 sum lattice Gaussians alike). The distance from the ideal law is below 2e-20 in total
variation for every scale; `total_variation_bound` computes it and `noise.md` proves it.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.accounting.event import Approximation, Event, RatioApproximation
from dpmcmc.enclave.arithmetic.int64 import Wide, add, shift_left, widen

TABLE_BITS = 12
THRESHOLD_BITS = 83
"""A draw reads 96 bits: an index into the table, a sign, and a number to compare with the index's threshold."""

STEP_BITS = 7
BASE_SCALE = 2 ** (STEP_BITS + 1)
"""Scale of all but the last summand. Twice the step L: the shifted copies overlap to within exp(-2 pi^2 * 2.36)."""

FARTHEST = 16.0
"""Standard deviations out to which the noise is compared with a Gaussian; what lies beyond has probability 1e-55."""

_TABLE_SIZE = 2**TABLE_BITS
_LARGEST_TABLE_SCALE = 400  # 10.24 standard deviations fit into the table
_MAX_SCALE = 2.0**44
_MOST_LEVELS = 6  # summands of scale 256 at the largest scale
_DIGITS = Context(prec=100)


# --- the tables, made on the host in exact arithmetic ---------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Alias table (Walker 1977) of |X| for X of one scale: index i gives i if v < thresholds[i], else aliases[i].

    With the index uniform on 2^12 and v on 2^83 every probability is a whole multiple of 2^-95.
    """

    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    def words(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Return three rows of words: the alias over the top 19 bits of the threshold, its middle and its low word."""
        packed = [
            [alias << 19 | threshold >> 64, threshold >> 32 & 0xFFFFFFFF, threshold & 0xFFFFFFFF]
            for alias, threshold in zip(self.aliases, self.thresholds, strict=True)
        ]
        return np.array(packed, np.uint32).T


@lru_cache(maxsize=64)
def table(variance: Fraction) -> Table:
    """Return the table of |X|, X ~ N_Z(0, variance) cut off at 2^12."""
    return alias_table(_integer_weights(variance))


def alias_table(weights: list[int]) -> Table:
    """Return the table of a law on 0, 1, 2 ... whose probabilities are these integers over 2^95."""
    weights = weights + [0] * (_TABLE_SIZE - len(weights))
    full = 2**THRESHOLD_BITS
    thresholds, aliases = [0] * _TABLE_SIZE, list(range(_TABLE_SIZE))
    small = [i for i, weight in enumerate(weights) if weight < full]
    large = [i for i, weight in enumerate(weights) if weight >= full]
    while small:  # fill what the small index leaves of its column from a large one
        index, donor = small.pop(), large[-1]
        thresholds[index], aliases[index] = weights[index], donor
        weights[donor] -= full - weights[index]
        if weights[donor] < full:
            small.append(large.pop())
    return Table(tuple(thresholds), tuple(aliases))  # a full column has threshold 0 and is its own alias


def _integer_weights(variance: Fraction) -> list[int]:
    """Integers near 2^95 P(|X| = i) that add up to 2^95: rounded down, and the rest given to zero.

    P(|X| = i) is proportional to exp(-i^2 / (2 variance)), one half of it at i = 0, which has one sign and not two.
    """
    total = 2 ** (TABLE_BITS + THRESHOLD_BITS)
    with localcontext(_DIGITS):
        rate = Decimal(variance.denominator) / Decimal(variance.numerator)
        ratio, curve = (-rate / 2).exp(), (-rate).exp()
        masses, mass = [Decimal("0.5")], Decimal(1)
        for _ in range(_TABLE_SIZE - 1):
            mass *= ratio
            ratio *= curve
            masses.append(mass)
        unit = total / sum(masses, start=Decimal(0))
        weights = [int(mass * unit) for mass in masses]
    weights[0] += total - sum(weights)
    return weights


@dataclass(frozen=True)
class Plan:
    """How one scale is drawn: `num_base` summands of scale 256, then one of variance `top_variance`."""

    num_base: int
    top_variance: Fraction


@lru_cache(maxsize=64)
def plan(scale: float) -> Plan:
    """Return the fewest summands whose variances add up to scale^2, exactly, within the table's range."""
    if validation.positive("scale", scale) > _MAX_SCALE:
        validation.refuse("scale", scale, f"must be <= 2^{math.log2(_MAX_SCALE):.0f} steps of the lattice")
    rest, num_base = Fraction(scale) ** 2, 0
    while rest > _LARGEST_TABLE_SCALE**2:
        rest = (rest - BASE_SCALE**2) / 4**STEP_BITS
        num_base += 1
    return Plan(num_base, rest)


# --- the draw -------------------------------------------------------------------------------------------------------


class Law(NamedTuple):
    """A scale as arguments of a program, which draws `_MOST_LEVELS` summands beside the last and adds up `num_base`."""

    scale: Any
    num_base: Any
    words: Any  # of the table of the last summand


@lru_cache(maxsize=64)
def law(scale: float) -> Law:
    """Return a scale as arguments of a program: one program draws at all scales."""
    how = plan(scale)
    words = table(how.top_variance).words()
    words.setflags(write=False)
    return Law(np.float32(scale), np.int32(how.num_base), words)


def discrete_gaussian(key: jax.Array, scale: float | Law, shape: tuple[int, ...] = ()) -> Wide:
    """Return integers from N_Z(0, scale^2): the same ones whether the scale is a constant or an argument."""
    how, num_levels = (scale, _MOST_LEVELS) if isinstance(scale, Law) else (law(scale), plan(scale).num_base)
    words = jax.random.bits(key, (num_levels + 1, 3, *shape), jnp.uint32)
    total = widen(lookup(how.words, words[0]))
    base = lookup(table(Fraction(BASE_SCALE**2)), jnp.moveaxis(words[1:], 1, 0)) if num_levels else ()
    for level in range(num_levels):
        more = add(shift_left(total, STEP_BITS), widen(base[level]))
        total = Wide(*(jnp.where(level < how.num_base, *pair) for pair in zip(more, total, strict=True)))
    return total


def lookup(source: Table | Any, words: jax.Array) -> jax.Array:
    """Return the int32 draw that three words of random bits (first axis) select: this map is the whole sampler."""
    index = words[0] >> (32 - TABLE_BITS)
    packed, middle, low = jnp.asarray(source.words() if isinstance(source, Table) else source)[:, index]
    negative = (words[0] >> 19) & 1
    top = words[0] & 0x7FFFF
    threshold = packed & 0x7FFFF, middle, low
    below = (top < threshold[0]) | (
        (top == threshold[0]) & ((words[1] < threshold[1]) | ((words[1] == threshold[1]) & (words[2] < threshold[2])))
    )
    size = jnp.where(below, index, packed >> 19).astype(jnp.int32)
    return jnp.where(negative == 1, -size, size)


def total_variation_bound(num_coordinates: int, scale: float) -> float:
    """Return a bound on the distance of that many draws from N_Z(0, scale^2), each with fresh bits (`noise.md`, 3).

    It is added to delta through the event `Approximation`. Each summand: the tail that the table cuts off and the
    rounding of its probabilities. Each sum of two: 2.01 exp(-2 pi^2 w^2), w^2 = 1 / (1 / upper^2 + L^2 / base^2).
    """
    how = plan(scale)
    upper = float(how.top_variance)
    distance = _table_distance(upper)
    for _ in range(how.num_base):
        overlap = 1 / (1 / upper + 4**STEP_BITS / BASE_SCALE**2)
        distance += _table_distance(BASE_SCALE**2) + 2.01 * math.exp(-2 * math.pi**2 * overlap)
        upper = BASE_SCALE**2 + 4**STEP_BITS * upper
    return 1.001 * distance * validation.integer("num_coordinates", num_coordinates, at_least=1)


def approximation(num_coordinates: int, scale: float, beside: float = 0.0) -> Event:
    """Return how far that many draws are from a rounded Gaussian: the event to add to that of the Gaussian.

    Renyi and zCDP bounds hold for the discrete Gaussian as they are. For the sharper curve delta(epsilon) of the
    continuous Gaussian the probabilities are compared one by one: out to `FARTHEST` standard deviations they are within
    a factor e^eta, eta = FARTHEST^2 / 24 scale^2, and what lies beyond is a total variation (`noise.md`, 4).

    Args:
        num_coordinates: the number of draws.
        scale: their standard deviation, in lattice steps.
        beside: the total variation of something else that the release draws.
    """
    beyond = 2 * math.exp(-(max(FARTHEST - 0.5 / scale, 0.0) ** 2) / 2) * num_coordinates
    distance = total_variation_bound(num_coordinates, scale) + beyond + beside
    factor = FARTHEST**2 / (24 * scale * scale) + 3 * math.exp(-2 * (math.pi * scale) ** 2)
    return Approximation(distance) + RatioApproximation(1.001 * factor * num_coordinates)


def _table_distance(variance: float) -> float:
    tail = math.exp(-(_TABLE_SIZE**2) / (2 * variance)) / -math.expm1(-_TABLE_SIZE / variance)
    return 2 * tail / max(1.0, math.sqrt(2 * math.pi * variance)) + _TABLE_SIZE * 2.0 ** -(TABLE_BITS + THRESHOLD_BITS)
