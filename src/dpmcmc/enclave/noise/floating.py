"""Noise by floating point, for tests: its last bits give away those of what it is added to."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from dpmcmc.enclave.arithmetic.int64 import Wide, negate
from dpmcmc.enclave.noise.discrete_gaussian import Law


def from_float(value: jax.Array) -> Wide:
    """Return the integer nearest to `value`, exactly, for |value| < 2^62; what is not finite becomes zero."""
    size = jnp.abs(jnp.rint(jnp.where(jnp.isfinite(value), value, 0)))
    size = jnp.minimum(size, 2.0**62)
    high = jnp.floor(size * 2.0**-32)
    unsigned = Wide(high.astype(jnp.int32), (size - high * 2.0**32).astype(jnp.uint32))
    opposite = negate(unsigned)
    return Wide(*(jnp.where(value < 0, minus, plus) for minus, plus in zip(opposite, unsigned, strict=True)))


def plain(key: jax.Array, scale: float | Law, shape: tuple[int, ...]) -> Wide:
    """A float32 normal: at most 2^23 values, none beyond 5.42 standard deviations. For tests."""
    return from_float(jax.random.normal(key, shape, jnp.float32) * _single(scale))


def _single(scale: float | Law) -> ArrayLike:
    return scale.scale if isinstance(scale, Law) else np.float32(scale)
