"""Ways to draw noise, and what may be claimed for each."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import jax

from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.noise.discrete_gaussian import Law, discrete_gaussian


class Claim(Enum):
    """What may be said of a release noised in some mode."""

    PROVEN = "an (epsilon, delta) guarantee with the stated total variation added to delta"
    NONE = "no (epsilon, delta) claim may be made"


@dataclass(frozen=True)
class Mode:
    """A way to draw noise of a given scale on the lattice, and what may be claimed for it."""

    name: str
    draw: Callable[[jax.Array, float | Law, tuple[int, ...]], Wide]
    claim: Claim


def _by_floating_point(name: str) -> Callable[[jax.Array, float | Law, tuple[int, ...]], Wide]:
    """Return a function of `noise.floating`, which is loaded when somebody asks for it."""
    return lambda *arguments: getattr(import_module("dpmcmc.enclave.noise.floating"), name)(*arguments)


MODES = {
    mode.name: mode
    for mode in (
        Mode("exact", discrete_gaussian, Claim.PROVEN),
        Mode("float", _by_floating_point("plain"), Claim.NONE),
    )
}


def draw_noise(mode: str, key: jax.Array, scale: Any, shape: tuple[int, ...] = ()) -> Wide:
    """Return privacy noise in steps of a lattice, drawn in the mode that the owner of the data chose.

    The scale is that of a Gaussian, or a mixture of such (`spherical_laplace`), of which one is selected for all of it.
    """
    if not isinstance(scale, float | Law):
        scale, key = scale.select(key)
    return MODES[mode].draw(key, scale, shape)
