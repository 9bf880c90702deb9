"""The distance of a sketch from the posterior of the mixture of two normal laws, on grids around both of its modes."""

from collections.abc import Callable

import numpy as np

from dpmcmc import zoo
from dpmcmc.fitting.strategies.sketch.draws import Sketched
from dpmcmc.zoo.mixture import condensed

CELLS = 400
REACH = 8.0
"""How far the grid goes from a mode of the mixture, in standard deviations."""


def total_variation(problem: zoo.Problem, posterior: Sketched, rng: np.random.Generator) -> float:
    """Return the distance on grids around both modes, which (theta1 + theta2, -theta2) takes to each other."""
    places, weights = condensed(problem.records.astype(np.float64))

    def exact(positions: np.ndarray) -> np.ndarray:
        log_prior = -0.5 * (positions[:, 0] ** 2 / 10 + positions[:, 1] ** 2)
        return log_prior + problem.model.temperature * np.concatenate(
            [_log_likelihood(part, places, weights) for part in np.array_split(positions, 64)]
        )

    axes = _fitted_box(exact, problem.centre)
    one = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=1)
    other = np.stack([one[:, 0] + one[:, 1], -one[:, 1]], axis=1)
    cells = np.concatenate([one[one[:, 1] >= 0], other[one[:, 1] >= 0]])
    expected = exact(cells)
    expected = np.exp(expected - expected.max())
    found = posterior.weigh(cells, np.zeros(len(cells)), posterior.replicates(rng)).weights.mean(axis=1)
    return 0.5 * float(np.abs(found - expected / expected.sum()).sum())


def _log_likelihood(positions: np.ndarray, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    first, second = positions[:, :1], positions.sum(axis=1, keepdims=True)
    return np.logaddexp(-0.25 * (places - first) ** 2, -0.25 * (places - second) ** 2) @ weights


def _fitted_box(log_density: Callable[[np.ndarray], np.ndarray], centre: np.ndarray) -> list[np.ndarray]:
    """Return the axes of a grid around the mode next to the truth, as wide as the density is there."""
    middle, deviation = centre.astype(np.float64), np.array([1.0, 1.0])
    for _ in range(8):
        axes = [m + np.linspace(-REACH, REACH, 60) * d for m, d in zip(middle, deviation, strict=True)]
        points = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=1)
        points = points[points[:, 1] >= 0]
        values = log_density(points)
        mass = np.exp(values - values.max())
        middle = mass @ points / mass.sum()
        deviation = np.maximum(np.sqrt(mass @ (points - middle) ** 2 / mass.sum()), deviation * REACH / 30)
    return [m + np.linspace(-REACH, REACH, CELLS) * d for m, d in zip(middle, deviation, strict=True)]
