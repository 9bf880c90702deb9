"""Noise by floating point: hardened, for which only a computational argument speaks, and plain, for tests."""

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide, from_float


def hardened(key: jax.Array, scale: float, shape: tuple[int, ...]) -> Wide:
    """(N1 + N2 + N3 + N4) / 2 from four fresh keys, rounded to the lattice (Holohan and Braghin 2021).

    Recovering the summands from the sum is thought infeasible; nothing bounds the distance from the ideal law.
    """
    normals = jax.vmap(lambda fresh: jax.random.normal(fresh, shape, jnp.float32))(jax.random.split(key, 4))
    return from_float(jnp.sum(normals, axis=0) * np.float32(scale / 2))


def plain(key: jax.Array, scale: float, shape: tuple[int, ...]) -> Wide:
    """A float32 normal: at most 2^23 values, none beyond 5.42 standard deviations. For tests."""
    return from_float(jax.random.normal(key, shape, jnp.float32) * np.float32(scale))
