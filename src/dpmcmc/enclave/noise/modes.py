"""Ways to draw noise, and what may be claimed for each."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.enclave.arithmetic.int64 import Wide, from_float
from dpmcmc.enclave.noise.discrete_gaussian import discrete_gaussian


class Claim(Enum):
    """What may be said of a release noised in some mode."""

    PROVEN = "an (epsilon, delta) guarantee with the stated total variation added to delta"
    HEURISTIC = "the noise is hardened floating point: that it hides as much is a computational argument, not a proof"
    NONE = "no (epsilon, delta) claim may be made"


@dataclass(frozen=True)
class Mode:
    """A way to draw noise of a given scale on the lattice, and what may be claimed for it."""

    name: str
    draw: Callable[[jax.Array, float, tuple[int, ...]], Wide]
    claim: Claim


def _hardened(key: jax.Array, scale: float, shape: tuple[int, ...]) -> Wide:
    """(N1 + N2 + N3 + N4) / 2 from four fresh keys, rounded to the lattice (Holohan and Braghin 2021).

    Recovering the summands from the sum is thought infeasible; nothing bounds the distance from the ideal law.
    """
    normals = jax.vmap(lambda fresh: jax.random.normal(fresh, shape, jnp.float32))(jax.random.split(key, 4))
    return from_float(jnp.sum(normals, axis=0) * np.float32(scale / 2))


def _float(key: jax.Array, scale: float, shape: tuple[int, ...]) -> Wide:
    """A float32 normal: at most 2^23 values, none beyond 5.42 standard deviations. For tests."""
    return from_float(jax.random.normal(key, shape, jnp.float32) * np.float32(scale))


MODES = {
    mode.name: mode
    for mode in (
        Mode("exact", discrete_gaussian, Claim.PROVEN),
        Mode("hardened", _hardened, Claim.HEURISTIC),
        Mode("float", _float, Claim.NONE),
    )
}


def draw_noise(mode: str, key: jax.Array, scale: float, shape: tuple[int, ...] = ()) -> Wide:
    """Return privacy noise of that scale in steps of a lattice, drawn in the mode that the owner of the data chose."""
    return MODES[mode].draw(key, scale, shape)
