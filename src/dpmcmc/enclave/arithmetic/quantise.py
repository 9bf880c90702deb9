"""From floating point to integers: what one record adds, clipped and rounded to a lattice. Nothing here is trusted.

Contributions are held a little inside the bound, so that rounding takes no honest record across it; whatever these
functions return, `core.gate` checks the integers themselves. A contribution with an entry that is not finite, or with a
square norm that is not, counts as zero: an error or a count would leak it.

All code of the enclave that makes integers of records is in this file, but for the signs of Hessians: a test
replaces it by an adversary.
"""

from math import frexp

import jax
import jax.numpy as jnp
import numpy as np
from jax import enable_x64, lax
from jax.typing import ArrayLike

from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.gate import Ball

ROW_BOUND = 127 * 256
"""The largest norm of a row in integers, and so of an entry: two signed bytes, neither of them -128."""

_LEAST_SQUARE = np.float32(2.0**-100)  # of smaller squares entries may be flushed to zero
_SHIFT = np.float32(3 * 2**22)
_SHIFT_BITS = int(_SHIFT.view(np.int32))
_MOST_SHIFTED = 2**22


def scalar(contribution: jax.Array, lattice: Lattice) -> jax.Array:
    """Return rint(y / granularity) held to [-bound, bound], entry by entry; 0 where y is not finite.

    Rounding is to even, hence symmetric: swapping the two positions of a log-ratio changes the sign and nothing else.
    """
    # a product with 1 / granularity: XLA turns some quotients into products and not others, by their shape
    per_step = 1 / jnp.asarray(lattice.granularity, contribution.dtype)
    steps = jnp.where(jnp.isfinite(contribution), contribution, 0) * per_step
    return _nearest(jnp.clip(steps, -lattice.bound, lattice.bound), lattice.bound)


def vector(contribution: jax.Array, lattice: Lattice, axis: int = -1, aim: ArrayLike | None = None) -> jax.Array:
    """Return integers near y / granularity whose norm along `axis` the gate lets pass; 0 where y is not finite.

    `aim` is `aim_of` the bound where it is an argument of the program; the lattice's is then a larger one.
    """
    contribution, length = contribution.astype(jnp.float32), contribution.shape[axis]
    power, most = aim_of(lattice.bound, length) if aim is None else jnp.asarray(aim)
    contribution, square = _with_square(contribution, axis)
    # the root of a quotient, of which neither is out of range: of a quotient by a root XLA makes an approximate one
    shorten = power * jnp.sqrt(most / jnp.maximum(square, _LEAST_SQUARE))
    scale = jnp.minimum(1 / jnp.asarray(lattice.granularity, jnp.float32), shorten)
    counts = (square < jnp.inf) & (scale >= 0)  # which no NaN is
    return _nearest(jnp.where(counts, contribution * scale, 0), lattice.bound)


def place(value: jax.Array, num_places: int) -> jax.Array:
    """Return a place in front of integers, as whole numbers: -1 where it is none of so many."""
    return jnp.where((value >= 0) & (value < num_places), value, -1).astype(jnp.int32)


def _with_square(values: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Return values, and their square norm along an axis, which is kept.

    A CPU computes the values once, where XLA would compute them for each of the two, and takes a product with ones,
    which is several times as fast as its sums.
    """
    if jax.default_backend() == "gpu" or axis not in (-1, values.ndim - 1):
        return values, jnp.sum(values * values, axis=axis, keepdims=True)
    values = lax.optimization_barrier(values)
    ones = jnp.ones((values.shape[-1], 1), values.dtype)
    return values, jnp.matmul(values * values, ones, precision=lax.Precision.HIGHEST)


def count(contribution: jax.Array, lattice: Lattice) -> jax.Array:
    """Return `bound` steps for each record that counts, and none for the others: nothing is rounded."""
    return jnp.where(contribution > 0, jnp.int32(lattice.bound), jnp.int32(0))


def rows(features: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return integers near each row over its unit, of norm <= ROW_BOUND, and the units.

    A row that is not finite becomes zero, and its unit NaN: so does all that is computed from it, and then nothing of
    the record counts, not even what it would add beside that row.

    Args:
        features: shape (records, entries).
    """
    num_entries = features.shape[1]
    target = Ball(ROW_BOUND, num_entries).reach - 1 - num_entries**0.5 / 2
    largest = jnp.max(jnp.where(jnp.isfinite(features), jnp.abs(features), jnp.inf), axis=1, keepdims=True)
    usable = (largest < jnp.inf) & (largest > 0)
    # the power of two that takes the largest entry to [2^19, 2^20), in two factors that float32 holds
    power = 146 - (lax.bitcast_convert_type(jnp.where(usable, largest, 1), jnp.int32) >> 23)
    powers = [lax.bitcast_convert_type((127 + part) << 23, jnp.float32) for part in (power >> 1, power - (power >> 1))]
    with enable_x64(True):
        exact = jnp.where(usable, features, 0).astype(jnp.float64)
        shift = powers[0].astype(jnp.float64) * powers[1].astype(jnp.float64)
        # squares of 20-bit integers add up exactly in float64, in any order: the norm's bits depend on the row alone
        norm = jnp.sqrt(_sum_of_squares(jnp.rint(exact * shift))) / shift
        steps = jnp.rint(exact * jnp.where(usable, target / norm, 0)).astype(jnp.int32)
        unit = jnp.where(usable, norm / target, jnp.where(largest > 0, jnp.nan, 0)).astype(jnp.float32)
    return steps, unit[:, 0]


def _sum_of_squares(integers: jax.Array) -> jax.Array:
    if jax.default_backend() == "gpu":
        return jnp.sum(integers * integers, axis=1, keepdims=True)
    # a product with ones: compilers for CPUs sum slowly in the layout that the rows have here, and multiply fast
    ones = jnp.ones((integers.shape[1], 1), integers.dtype)
    return jnp.matmul(integers * integers, ones, precision=lax.Precision.HIGHEST)


def aim_of(bound: int, length: int) -> np.ndarray:
    """Return a power of two near the norm that vectors are held to, and the square of that norm over the power."""
    reach = room(bound, length)
    power = 2.0 ** (frexp(reach)[1] - 2)
    return np.array([power, (reach / power) ** 2], np.float32)


def room(bound: int, length: int) -> float:
    """Return the norm that contributions are held to in floating point, so that the gate lets their integers pass."""
    return max(Ball(bound, length).reach * (1 - 2.0**-17 - length * 2.0**-22) - length**0.5 / 2, 0.0)


def _nearest(value: jax.Array, bound: int) -> jax.Array:
    """Return the whole numbers next to numbers of at most `bound`, halves to even.

    They are rounded before they are shifted: XLA would make one operation of a product and a sum that rounds, at times.
    The shift is exact and its bits are the integers, which on a CPU takes half as long as XLA's conversion with its
    rules for what no int32 holds.
    """
    whole = jnp.rint(value)
    if bound > _MOST_SHIFTED or value.dtype != jnp.float32:
        return whole.astype(jnp.int32)
    return lax.bitcast_convert_type(whole + _SHIFT, jnp.int32) - _SHIFT_BITS
