"""How probable values of one spread of group effects are, given all others: for many values by one decomposition."""

from functools import lru_cache

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.model.formula.priors import Prior

GRID = 31
"""Values of a spread among which one is drawn."""


def log_evidence(precision: Floats, tilt: Floats, effects: Floats, point: Floats, grid: Floats) -> Floats:
    """Return the logarithm of the likelihood of values of a spread, up to a constant; the parameters integrated out.

    With l the precision of effects that have the widest spread, and l + d any other, the posterior has the precision
    P + d G G^T and the tilt t - d G u: one solution with P, and the eigenvalues of G^T P^-1 G, do for every d.

    Args:
        precision: of the posterior in coordinates z, without the effects' own prior.
        tilt: the same.
        effects: how the effects move with the coordinates: (coordinates, effects).
        point: the effects where the coordinates are zero.
        grid: spreads, in increasing order.
    """
    least = grid[-1] ** -2.0
    more = (grid**-2.0 - least)[:, None]
    given = precision + least * effects @ effects.T
    solved = np.linalg.solve(given, np.column_stack([effects, tilt - least * effects @ point]))
    values, vectors = np.linalg.eigh(effects.T @ solved[:, :-1])
    values, there = np.maximum(values, 0.0), point @ vectors
    towards = (effects.T @ solved[:, -1]) @ vectors
    along = towards - more * values * there
    squares = np.sum(
        more * there * (more * values * there - 2 * towards) - more * along**2 / (1 + more * values), axis=1
    )
    own = 2 * len(point) * np.log(grid) + grid**-2.0 * float(point @ point)
    return 0.5 * (squares - np.sum(np.log1p(more * values), axis=1) - own)


@lru_cache(maxsize=64)
def wide_grid(prior: Prior) -> Floats:
    """Return spreads between far quantiles of their prior."""
    return np.geomspace(max(prior.quantile(0.001), 1e-3), prior.quantile(0.999), GRID)


def around(grid: Floats, shares: Floats) -> Floats:
    """Return a finer grid, where the distribution on a coarse one is."""
    logs, step = np.log(grid), np.log(grid[1] / grid[0])
    mean = float(shares @ logs)
    reach = 4 * max(float(np.sqrt(shares @ (logs - mean) ** 2)), step / 2)
    return np.exp(np.linspace(max(mean - reach, logs[0]), min(mean + reach, logs[-1]), len(grid)))
