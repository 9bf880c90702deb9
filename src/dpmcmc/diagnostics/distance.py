"""Distances of draws from the posterior that they should have: of means, along lines, and on a grid."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.diagnostics.arguments import Array, Draws, generator, read, read_pair
from dpmcmc.errors import InvalidArgument


def mean_error(draws: Draws, reference: Draws, *, standardised: bool = False) -> float:
    """Return the Euclidean distance between the means, |mean(x) - mean(y)|.

    Räisä (2021) judges the circle model by its distance from the exact mean, Räisä et al. (2021) the others by the
    distance from the mean of the reference draws.

    Args:
        draws: the sample to judge; chains are pooled.
        reference: draws from the posterior that it should have, or its exact mean as an array of shape (coordinate,).
        standardised: divide each coordinate by the standard deviation of the reference draws, so that the error is in
            posterior standard deviations whatever the units.
    """
    if not isinstance(reference, Mapping) and np.ndim(reference) == 1:
        if standardised:
            raise InvalidArgument("standardised=True needs reference draws, of which an exact mean has no deviation")
        error = read("draws", draws).pooled.mean(axis=0) - _exact_mean(draws, reference)
    else:
        first, second = read_pair(draws, reference)
        error = first.pooled.mean(axis=0) - second.pooled.mean(axis=0)
        if standardised:
            still = np.flatnonzero(np.ptp(second.pooled, axis=0) == 0)
            if len(still) > 0:
                names = [second.labels[i] for i in still]
                raise InvalidArgument(f"reference has constant coordinates {names}, by which no error can be divided")
            error = error / second.pooled.std(axis=0, ddof=1)
    return float(np.linalg.norm(error))


def sliced_wasserstein(draws: Draws, reference: Draws, num_projections: int, rng: np.random.Generator) -> float:
    """Return the sliced Wasserstein distance of order 1 (Rabin et al. 2012).

    The mean, over `num_projections` directions u drawn uniformly from the unit sphere, of the Wasserstein distance
    between the numbers u.x and u.y, which is the area between their distribution functions. It is in the units of the
    parameters. In one dimension it is the Wasserstein distance itself.

    Args:
        draws: the sample to judge; chains are pooled.
        reference: draws from the posterior that it should have.
        num_projections: how many directions; the error of their mean falls like its root.
        rng: draws the directions. Pass equally seeded generators to compare samplers along the same ones.
    """
    generator("rng", rng)
    num_projections = validation.integer("num_projections", num_projections, at_least=1)
    first, second = (sample.pooled for sample in read_pair(draws, reference))
    directions = rng.normal(size=(num_projections, first.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    from scipy.stats import wasserstein_distance

    return float(np.mean([wasserstein_distance(first @ u, second @ u) for u in directions]))


def total_variation(draws: Draws, log_density: Callable[[Array], Any], grid: Sequence[ArrayLike]) -> float:
    """Return the total variation distance between a histogram of the draws and a density, in one or two dimensions.

    (sum over cells of |h - p| + share of draws outside the grid) / 2, where h is the share of the draws in a cell and p
    the density at its middle times its size, normalised to sum to one over the grid. Between 0 and 1.

    It errs in three ways. n independent exact draws score about sum over cells of sqrt(p (1 - p) / (2 pi n)), at most
    sqrt(cells / (2 pi n)), and not 0: fine cells need many draws. What differs only within a cell is not seen, and the
    midpoint rule errs by the square of the cell's width: coarse cells hide faults or invent them. And posterior mass
    outside the grid is ignored.

    Args:
        draws: the sample to judge, of one or two coordinates; chains are pooled.
        log_density: maps points of shape (num_points, dimension) to their log-densities, of shape (num_points,), up to
            a constant. The exact posterior of private records is itself private: use it for evaluation only.
        grid: for each coordinate, the increasing edges of its cells.
    """
    sample = read("draws", draws).pooled
    edges = [np.asarray(axis, dtype=np.float64) for axis in grid]
    if len(edges) not in {1, 2} or len(edges) != sample.shape[1]:
        raise InvalidArgument(
            f"grid of {len(edges)} axes must have one axis for each of the {sample.shape[1]} coordinates of draws, and "
            "draws at most 2; choose one or two coordinates, and write (edges,) for one"
        )
    if any(
        axis.ndim != 1 or len(axis) < 2 or not np.isfinite(axis).all() or (np.diff(axis) <= 0).any() for axis in edges
    ):
        raise InvalidArgument("grid must be increasing, finite edges of at least one cell for each coordinate")
    counts, _ = np.histogramdd(sample, bins=edges)
    inside = counts.sum() / len(sample)
    return float(np.abs(counts / len(sample) - _cell_probabilities(log_density, edges)).sum() + 1 - inside) / 2


def _cell_probabilities(log_density: Callable[[Array], Any], edges: list[Array]) -> Array:
    middles = np.meshgrid(*[(axis[1:] + axis[:-1]) / 2 for axis in edges], indexing="ij")
    widths = np.meshgrid(*[np.diff(axis) for axis in edges], indexing="ij")
    points = np.stack([middle.ravel() for middle in middles], axis=1)
    values = np.asarray(log_density(points), dtype=np.float64)
    if values.shape != (len(points),):
        raise InvalidArgument(
            f"log_density maps points of shape {points.shape} to shape {values.shape}; it must give "
            f"({len(points)},), one number a point: jax.vmap makes that of a function of one point"
        )
    if np.isnan(values).any() or values.max() in {-np.inf, np.inf}:
        raise InvalidArgument("log_density must not be NaN or +inf on the grid, nor -inf on all of it")
    weights = np.exp(values - values.max()).reshape(widths[0].shape) * np.prod(widths, axis=0)
    return weights / weights.sum()


def _exact_mean(draws: Draws, reference: Any) -> Array:
    mean = np.asarray(reference, dtype=np.float64)
    dimension = len(read("draws", draws).labels)
    if mean.shape != (dimension,) or not np.isfinite(mean).all():
        raise InvalidArgument(f"reference of shape {mean.shape} must be {dimension} finite numbers, the exact mean")
    return mean
