"""A law in the plane by quadrature: exact up to the size of a cell, which is checked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpmcmc.errors import InvalidArgument
from dpmcmc.zoo.problem import Vector

LogDensity: TypeAlias = Callable[[Vector, Vector], NDArray[np.float64]]

CELLS, COARSE_CELLS = 300, 60
"""On either axis, of the law and while the box is fitted."""

NEGLIGIBLE = 1e-12
"""Cells whose density is below this part of the largest are left out when the grid is fitted."""

STRIDE = 6
"""The sum over every sixth cell on either axis must be that over all, to one in a thousand. For a normal peak this
holds if its standard deviation is more than four cells: then the cells add less than 0.005 of its variance."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A law with a constant density on each cell of a regular grid."""

    first: Vector
    second: Vector
    probabilities: NDArray[np.float64]
    """Of the cells around the midpoints `first` x `second`."""

    @classmethod
    def of(cls, log_density: LogDensity, lower: Vector, upper: Vector) -> Self:
        """Return the law of an unnormalised log-density, on the part of the box where the density is not negligible.

        `log_density` takes the midpoints on both axes and returns a table.
        """
        for _ in range(8):
            axes, density = _evaluate(log_density, lower, upper, COARSE_CELLS)
            inside = [np.flatnonzero(density.max(axis=1 - side) > NEGLIGIBLE) for side in range(2)]
            width = (upper - lower) / COARSE_CELLS
            low = np.array([axis[kept[0]] for axis, kept in zip(axes, inside, strict=True)]) - width
            high = np.array([axis[kept[-1]] for axis, kept in zip(axes, inside, strict=True)]) + width
            if np.all(high - low > 0.9 * (upper - lower)):
                break
            lower, upper = np.maximum(low, lower), np.minimum(high, upper)
        axes, density = _evaluate(log_density, lower, upper, CELLS)
        probabilities = density / density.sum()
        coarse = probabilities[STRIDE // 2 :: STRIDE, STRIDE // 2 :: STRIDE].sum() * STRIDE**2
        if abs(coarse - 1) > 1e-3:
            raise InvalidArgument(
                f"log_density is too narrow for {CELLS} x {CELLS} cells; lower the temperature or the number of records"
            )
        return cls(axes[0], axes[1], probabilities)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return independent draws, shape (num_draws, 2): a cell, and a uniform place in it."""
        cumulative = np.cumsum(self.probabilities)
        chosen = np.searchsorted(cumulative, rng.uniform(0, cumulative[-1], num_draws), side="right")
        rows, columns = np.unravel_index(chosen, self.probabilities.shape)
        middle = np.stack([self.first[rows], self.second[columns]], axis=1)
        return middle + (rng.uniform(size=middle.shape) - 0.5) * self._width

    @property
    def mean(self) -> Vector:
        """The mean of the two coordinates."""
        return np.array([self.first @ self.probabilities.sum(axis=1), self.second @ self.probabilities.sum(axis=0)])

    @property
    def variances(self) -> Vector:
        """The variances of the two coordinates."""
        sides = [(self.first, self.probabilities.sum(axis=1)), (self.second, self.probabilities.sum(axis=0))]
        central = [weights @ (axis - axis @ weights) ** 2 for axis, weights in sides]
        return np.array(central) + self._width**2 / 12

    def marginal_cdf(self, coordinate: int, value: Vector) -> Vector:
        """Return P(coordinate <= value)."""
        axis, width = (self.first, self.second)[coordinate], self._width[coordinate]
        edges = np.append(axis - width / 2, axis[-1] + width / 2)
        heights = np.append(0.0, np.cumsum(self.probabilities.sum(axis=1 - coordinate)))
        return np.interp(value, edges, heights)

    @property
    def _width(self) -> Vector:
        return np.array([self.first[1] - self.first[0], self.second[1] - self.second[0]])


def _evaluate(
    log_density: LogDensity, lower: Vector, upper: Vector, cells: int
) -> tuple[list[Vector], NDArray[np.float64]]:
    """Return the midpoints on both axes, and the density there over its largest value."""
    steps = (np.arange(cells) + 0.5) / cells
    axes = [low + steps * (high - low) for low, high in zip(lower, upper, strict=True)]
    table = log_density(axes[0], axes[1])
    return axes, np.exp(table - table.max())
