"""Natural numbers of any size in 32-bit code: exact products and comparisons where 64 bits are too few."""

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide

Limbs: TypeAlias = list[jax.Array]
"""A natural number in base 2^16, the lowest digit first, each digit in a uint32."""


def limbs(value: Wide | jax.Array | int) -> Limbs:
    """Return the digits of a natural number: a constant, entries of 32 bits or of 64."""
    if isinstance(value, int):
        digits = max(1, -(-value.bit_length() // 16))
        return [jnp.uint32(value >> (16 * digit) & 0xFFFF) for digit in range(digits)]
    words = (value.low, value.high) if isinstance(value, Wide) else (value,)
    return [part for word in words for part in (word.astype(jnp.uint32) & 0xFFFF, word.astype(jnp.uint32) >> 16)]


def times(first: Limbs, second: Limbs) -> Limbs:
    """Return the product. A column adds up two digits of 16 bits for each pair: far from an overflow."""
    columns: Limbs = [jnp.uint32(0)] * (len(first) + len(second))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            product = a * b
            columns[i + j] = columns[i + j] + (product & 0xFFFF)
            columns[i + j + 1] = columns[i + j + 1] + (product >> 16)
    carry, digits = jnp.uint32(0), []
    for column in columns:
        total = column + carry
        digits.append(total & 0xFFFF)
        carry = total >> 16
    return digits


def minus(first: Limbs, second: Limbs) -> Limbs:
    """Return first - second, where second is not larger."""
    borrow, digits = jnp.uint32(0), []
    for a, b in _aligned(first, second):
        left = a + np.uint32(2**16) - b - borrow
        digits.append(left & 0xFFFF)
        borrow = 1 - (left >> 16)
    return digits


def less(first: Limbs, second: Limbs) -> jax.Array:
    """Say whether first < second."""
    result: Any = False
    for a, b in _aligned(first, second):
        result = (a < b) | ((a == b) & result)
    return result


def shifted_right(value: Limbs, bits: int) -> Wide:
    """Return floor(value / 2^bits), where that is below 2^63."""
    whole, rest = divmod(bits, 16)
    kept = [*value[whole:], *[jnp.uint32(0)] * 5]
    a, b, c, d = (((kept[i] >> rest) | (kept[i + 1] << (16 - rest))) & 0xFFFF for i in range(4))
    return Wide((c | d << 16).astype(jnp.int32), a | b << 16)


def _aligned(first: Limbs, second: Limbs) -> list[tuple[jax.Array, jax.Array]]:
    length, zero = max(len(first), len(second)), jnp.uint32(0)
    return list(
        zip([*first, *[zero] * (length - len(first))], [*second, *[zero] * (length - len(second))], strict=True)
    )
