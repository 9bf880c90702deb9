"""Standard deviations of effects among which one is drawn: coarse at first, and finer where it is probable."""

from collections.abc import Sequence

import numpy as np

from dpmcmc.fitting.strategies.grouped_scores.grouped import Grouped
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

GRID, FEWER = 25, 11
"""Values of a standard deviation among which one is drawn: where there is one of them, and where there are two."""

REACH = 5.0
"""How far a finer grid reaches, in standard deviations of the logarithm."""


def grid(grouped: Grouped, place: int) -> Floats:
    """Return standard deviations between far quantiles of their prior."""
    prior = grouped.spreads[place].prior
    if prior.fixed is not None:
        return np.array([prior.fixed])
    number = GRID if grouped.size == 1 else FEWER
    return np.geomspace(max(prior.quantile(0.001), 1e-3), prior.quantile(0.999), number)


def around(grids: Sequence[Floats], cells: Floats, shares: Floats) -> list[Floats]:
    """Return finer grids, where the law on coarse ones is."""
    found: list[Floats] = []
    for place, own in enumerate(grids):
        if len(own) == 1:
            found.append(own)
            continue
        logs, step = np.log(cells[:, place]), np.log(own[1] / own[0])
        mean = float(shares @ logs)
        reach = REACH * max(float(np.sqrt(shares @ (logs - mean) ** 2)), step / 3)
        ends = max(mean - reach, float(np.log(own[0]))), min(mean + reach, float(np.log(own[-1])))
        found.append(np.exp(np.linspace(*ends, len(own))))
    return found


def wider(own: Floats, whole: Floats) -> Floats:
    """Return a grid that reaches twice as far, as far as the whole one does."""
    if len(own) == 1:
        return own
    times = np.sqrt(own[-1] / own[0])
    return np.geomspace(max(own[0] / times, whole[0]), min(own[-1] * times, whole[-1]), len(own))
