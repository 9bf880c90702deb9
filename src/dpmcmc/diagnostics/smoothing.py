"""Densities of draws for pictures: counted on a grid, then smoothed, so that a million draws are quick too."""

import numpy as np
from scipy.ndimage import gaussian_filter

from dpmcmc.diagnostics.arguments import Array

CELLS = {1: 512, 2: 160}
CENTRAL = (0.001, 0.999)
"""The quantiles between which a picture is drawn, so that one stray draw does not squeeze it."""

FACTOR = {1: 0.9, 2: 0.75}
"""Of n^(-1/(4+d)) times the spread: Silverman's (1986) in one dimension; less in two, where posteriors may be bent."""


def density(values: Array) -> tuple[list[Array], Array] | None:
    """Return the middles of the cells along each axis and a Gaussian kernel density; None if a coordinate is constant.

    Smoothing carries mass over the bounds of a bounded parameter; read pictures there with care.
    """
    num_draws, dimension = values.shape
    widths = [FACTOR[dimension] * _spread(column) * num_draws ** (-1 / (4 + dimension)) for column in values.T]
    if min(widths) == 0:
        return None
    edges = [_edges(column, width, CELLS[dimension]) for column, width in zip(values.T, widths, strict=True)]
    counts, _ = np.histogramdd(values, bins=edges, density=True)
    in_cells = [max(1.0, width / float(axis[1] - axis[0])) for width, axis in zip(widths, edges, strict=True)]
    return [(axis[1:] + axis[:-1]) / 2 for axis in edges], np.asarray(
        gaussian_filter(counts, in_cells, mode="constant")
    )


def crop(axes: list[Array], heights: Array, least: float) -> tuple[list[Array], Array]:
    """Return the part of a density on a plane that holds every cell above `least`, and a margin."""
    for axis in range(2):
        above = np.flatnonzero((heights >= least).any(axis=1 - axis))
        margin = 2 + len(above) // 20
        kept = slice(max(0, int(above[0]) - margin), int(above[-1]) + margin + 1)
        heights = heights[kept] if axis == 0 else heights[:, kept]
        axes = [values[kept] if i == axis else values for i, values in enumerate(axes)]
    return axes, heights


def _spread(column: Array) -> float:
    """Return the smaller of two deviations, the second from the quartiles, where that is not zero.

    What varies by no more than rounding is constant.
    """
    if np.ptp(column) <= 1e-12 * np.abs(column).max():
        return 0.0
    deviation, quartiles = float(column.std()), np.quantile(column, (0.25, 0.75))
    robust = float(quartiles[1] - quartiles[0]) / 1.349
    return min(deviation, robust) if robust > 0 else deviation


def _edges(column: Array, width: float, num_cells: int) -> Array:
    low, high = np.quantile(column, CENTRAL)
    return np.linspace(float(low) - 4 * width, float(high) + 4 * width, num_cells + 1)


def levels(heights: Array, masses: tuple[float, ...]) -> list[float]:
    """Return, in increasing order, the heights above which lie these shares of a density's mass on an even grid."""
    falling = np.sort(heights.ravel())[::-1]
    total = np.cumsum(falling)
    return sorted({float(falling[np.searchsorted(total, mass * total[-1])]) for mass in masses})
