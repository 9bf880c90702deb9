"""How step sizes change over a run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.kernels.base import Kernel


def radical_inverse(index: jax.Array) -> jax.Array:
    """Return the Halton sequence of base two: the bits of `index` mirrored at the binary point, in [0, 1)."""
    bits = jnp.asarray(index, jnp.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        bits = ((bits >> shift) & np.uint32(mask)) | ((bits & np.uint32(mask)) << shift)
    bits = (bits >> 16) | (bits << 16)
    return (bits >> 8).astype(jnp.float32) * 2.0**-24


def halton(index: jax.Array, shift: jax.Array) -> jax.Array:
    """Return the randomised Halton sequence: shifted by a random number in [0, 1), modulo one (Owen 2017)."""
    return jnp.mod(radical_inverse(index) + shift, 1.0)


class Stage(NamedTuple):
    """A kernel and its number of steps; a run can have several stages, each of which continues from the one before."""

    kernel: Kernel
    num_steps: int


def polynomial_steps(
    initial: float, *, exponent: float, num_steps: int, floor: float = 0.0, num_levels: int = 16
) -> list[tuple[float, int]]:
    """Return the step sizes max(initial * t^-exponent, floor), t = 1 ... num_steps, as (step size, repetitions).

    The price of a step is fixed when a program is traced, so the schedule is a staircase: the steps are cut into at
    most `num_levels` runs of equal ratio of step sizes, each of which takes its mean. `initial` is the paper's eta_1.
    """
    initial = validation.positive("initial", initial)
    exponent = validation.positive("exponent", exponent)
    floor = validation.non_negative("floor", floor)
    num_steps = validation.integer("num_steps", num_steps, at_least=1)
    num_levels = validation.integer("num_levels", num_levels, at_least=1)
    if floor > initial:
        validation.refuse("floor", floor, f"must be <= initial={initial!r}")
    sizes = np.maximum(initial * np.arange(1, num_steps + 1) ** -exponent, floor)
    depth = np.log(sizes[0] / sizes)
    level = np.minimum((depth / max(depth[-1], 1e-12) * num_levels).astype(int), num_levels - 1)
    return [(float(sizes[level == one].mean()), int(np.sum(level == one))) for one in np.unique(level)]
