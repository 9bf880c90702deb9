"""Spherical Laplace noise on the lattice: P(v) nearly proportional to exp(-|v| / scale), |v| the l2 norm.

It is a mixture of discrete Gaussians. With u from a Gamma law of shape (d + 1) / 2 and mean d + 1, a Gaussian of
variance u scale^2 in d dimensions has exactly this density; here u takes values on a grid of equal steps in its
logarithm, which is as good: a trapezoidal rule on an analytic function. One secret number, drawn from a table of
integers, selects the standard deviation, and `discrete_gaussian` does the rest. `noise.md`, 7, has the proof.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc import validation
from dpmcmc.accounting.event import Approximation, Event, RatioApproximation
from dpmcmc.enclave.noise.discrete_gaussian import (
    TABLE_BITS,
    THRESHOLD_BITS,
    Law,
    alias_table,
    law,
    lookup,
    total_variation_bound,
)

PER_OCTAVE, ALIKE = (6, 8, 10, 12, 16, 20, 24), 1e-5
"""Components for each doubling of the standard deviation: the fewest that come so near to the ideal density. Scales are
powers of two in releases, so that one scale's components are another's, and their tables are made once."""

NEGLIGIBLE = 1e-13
"""The probability of what is left out at either end."""

LEAST_SCALE = 8.0
"""Lattice steps below which a component is left out: so narrow a Gaussian is not a rounded one any more."""


@dataclass(frozen=True)
class Mixture:
    """The components of the noise, given the number of dimensions and a scale in lattice steps."""

    num_coordinates: int
    scale: float

    @property
    def farthest(self) -> float:
        """Scales out to which the noise is compared with the ideal law."""
        return float(special.gammainccinv(self.num_coordinates, NEGLIGIBLE)) + self.num_coordinates**0.5

    @cached_property
    def per_octave(self) -> int:
        """How many components there are for each doubling of the standard deviation."""
        enough = [number for number in PER_OCTAVE if relative_error(self.farthest, number) <= ALIKE]
        return enough[0] if enough else PER_OCTAVE[-1]

    @cached_property
    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of all u that matter in double precision, and the probabilities of their components."""
        shape, step = (self.num_coordinates + 1) / 2, _step(self.per_octave)
        grid = step * np.arange(-round(100 / step), round(8 / step))
        logs = shape * grid - np.exp(grid) / 2
        return grid, np.exp(logs - special.logsumexp(logs))

    @property
    def _kept(self) -> np.ndarray:
        grid, shares = self._all
        below, above = np.cumsum(shares), np.cumsum(shares[::-1])[::-1]
        return (below > NEGLIGIBLE) & (above > NEGLIGIBLE) & (self.scale * np.exp(grid / 2) >= LEAST_SCALE)

    @property
    def standard_deviations(self) -> list[float]:
        """Of the components, in lattice steps."""
        places = np.flatnonzero(self._kept) - round(100 / _step(self.per_octave))
        return [self.scale * 2.0 ** (int(place) / self.per_octave) for place in places]

    @property
    def weights(self) -> list[int]:
        """The components' probabilities as multiples of 2^-95; what rounding leaves has the likeliest."""
        shares = self._all[1][self._kept]
        total = 2 ** (TABLE_BITS + THRESHOLD_BITS)
        weights = [int(share * 2**60) << (TABLE_BITS + THRESHOLD_BITS - 60) for share in shares / shares.sum()]
        weights[int(np.argmax(shares))] += total - sum(weights)
        return weights

    @property
    def approximation(self) -> Event:
        """How far the noise is from a rounded spherical Laplace vector: the event to add to that of the latter."""
        size, scale = self.num_coordinates, self.scale
        grid, shares = self._all
        farthest = self.farthest
        beyond = float(shares @ special.chdtrc(size, (farthest * np.exp(-grid / 2)) ** 2))
        beyond += float(special.gammaincc(size, max(farthest - size**0.5 / scale, 0.0)))
        left_out = float(shares[~self._kept].sum()) + len(self.weights) * 2.0**-59
        drawn = max(total_variation_bound(size, each) for each in self.standard_deviations)
        of_mass = _relative_error_of_mass(size, self.per_octave)
        factor = 2 * relative_error(farthest, self.per_octave) + 2 * of_mass + size**0.5 / (2 * scale)
        return Approximation(1.001 * (beyond + left_out + drawn)) + RatioApproximation(1.001 * factor)


def _step(per_octave: int) -> float:
    """Return the step between the logarithms of neighbouring u, squares of standard deviations."""
    return 2 * math.log(2) / per_octave


def relative_error(farthest: float, per_octave: int) -> float:
    """Return by which share a mixture over all steps differs from exp(-t) at most, for t up to `farthest` (`noise.md`).

    2 / (1 - e^(-w p)) e^(-w p) (cos p)^(-1/2) e^(t (1 - cos p)) for every p below a quarter turn, w = 2 pi / step.
    """
    turns = np.linspace(0.05, 1.5, 2000)
    rate = 2 * math.pi / _step(per_octave) * turns
    logs = -rate - np.log(np.cos(turns)) / 2 + farthest * (1 - np.cos(turns)) - np.log(-np.expm1(-rate))
    return 2 * math.exp(float(logs.min()))


def _relative_error_of_mass(size: int, per_octave: int) -> float:
    """Return the same of the sum of the components' masses: 2 / (1 - e^(-w p)) e^(-w p) (cos p)^(-(d + 1) / 2)."""
    turns = np.linspace(0.05, 1.5, 2000)
    rate = 2 * math.pi / _step(per_octave) * turns
    logs = -rate - np.log(np.cos(turns)) * (size + 1) / 2 - np.log(-np.expm1(-rate))
    return 2 * math.exp(float(logs.min()))


class MixtureLaw(NamedTuple):
    """A mixture as arguments of a program: the table that selects a component, and the components' own laws."""

    choice: Any
    laws: Law

    def select(self, key: jax.Array) -> tuple[Law, jax.Array]:
        """Return the law of a component that is drawn here, and the key to draw from it with: each is used once."""
        selecting, drawing = jax.random.split(key)
        number = jnp.abs(lookup(self.choice, jax.random.bits(selecting, (3,), jnp.uint32)))
        return jax.tree.map(lambda each: jnp.asarray(each)[number], self.laws), drawing


@lru_cache(maxsize=512)
def _component(standard_deviation: float) -> Law:
    return law.__wrapped__(standard_deviation)


@lru_cache(maxsize=16)
def mixture_law(num_coordinates: int, scale: float) -> MixtureLaw:
    """Return spherical Laplace noise of a scale in lattice steps as arguments of a program."""
    mixture = Mixture(validation.integer("num_coordinates", num_coordinates, at_least=1), scale)
    each = [_component(one) for one in mixture.standard_deviations]
    laws = Law(*(np.stack(parts) for parts in zip(*each, strict=True)))
    return MixtureLaw(alias_table(mixture.weights).words(), laws)
