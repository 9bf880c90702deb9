"""A coin of probability 1 / (1 + exp(-lambda)) in integers: the draw of a Barker test. The proof is in noise.md, 5."""

import math
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.enclave.arithmetic.int64 import Wide, magnitude

_DIGITS = Context(prec=100)

LOGISTIC_ERROR = 2.0**-58
"""Bound on |P(accept) - S(lambda)| of `bernoulli_logistic`, for every lambda (`noise.md`, 5)."""

_Pair = tuple[jax.Array, jax.Array]  # a number in [0, 2) as high and low word, the unit at bit 63


def bernoulli_logistic(key: jax.Array, log_odds: Wide, granularity: float) -> jax.Array:
    """Return True with probability S(lambda) = 1 / (1 + exp(-lambda)), lambda = granularity * log_odds.

    The granularity is a power of two from 2^-26 to 1 and |lambda| is held to 64. With a = |lambda| and a 63-bit uniform
    u the coin is u + u exp(-a) < 1, and its opposite where lambda < 0; exp(-a) is a product of four table entries, one
    for each byte of a. The same instructions run whatever lambda is.
    """
    fraction_bits = -math.log2(validation.positive("granularity", granularity))
    if fraction_bits not in range(27):
        validation.refuse("granularity", granularity, "must be a power of two from 2^-26 to 1")
    size = magnitude(log_odds)
    over = (size.high > 0) | (size.low >> int(fraction_bits) >= 64)
    exponent = jnp.where(over, np.uint32(2**32 - 1), size.low << (26 - int(fraction_bits)))
    high, low = jnp.asarray(_exponentials())
    factors = [(high[byte], low[byte]) for byte in _bytes(exponent)]
    decay = _multiply(_multiply(factors[0], factors[1]), _multiply(factors[2], factors[3]))
    words = jax.random.bits(key, (2, *log_odds.high.shape), jnp.uint32)
    uniform = words[0] >> 1, words[1]
    product = _multiply(uniform, decay)
    carry = (uniform[1] + product[1] < product[1]).astype(jnp.uint32)
    below_one = uniform[0] + product[0] + carry < np.uint32(2**31)
    return below_one ^ (log_odds.high < 0)


def _bytes(exponent: jax.Array) -> list[jax.Array]:
    """Rows of the table for the four bytes: byte j of the exponent selects row 256 j + byte."""
    return [((exponent >> (8 * j)) & 0xFF) + 256 * j for j in range(4)]


@lru_cache(maxsize=1)
def _exponentials() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """exp(-i 2^(8 j - 26)) for i < 256, j < 4, as words: two rows, high and low."""
    with localcontext(_DIGITS):
        values = [int((-Decimal(i) * Decimal(2) ** (8 * j - 26)).exp() * 2**63) for j in range(4) for i in range(256)]
    return np.array([[value >> 32 for value in values], [value & 0xFFFFFFFF for value in values]], np.uint32)


def _multiply(first: _Pair, second: _Pair) -> _Pair:
    """Return the product of two numbers, too small by less than 2^-60: the lowest partial product is left out."""
    high, low = _multiply_words(first[0], second[0])
    for one, other in ((first[0], second[1]), (first[1], second[0])):
        carried, _ = _multiply_words(one, other)
        low = low + carried
        high = high + (low < carried).astype(jnp.uint32)
    return (high << 1) | (low >> 31), low << 1


def _multiply_words(first: jax.Array, second: jax.Array) -> _Pair:
    """Return the 64-bit product of two words, by halves of 16 bits."""
    a, b, c, d = first >> 16, first & 0xFFFF, second >> 16, second & 0xFFFF
    middle = ((b * d) >> 16) + ((a * d) & 0xFFFF) + ((b * c) & 0xFFFF)
    return a * c + ((a * d) >> 16) + ((b * c) >> 16) + (middle >> 16), first * second
