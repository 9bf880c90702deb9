"""Pictures over epsilon: how good samplers are at a budget, and what a run tells at every epsilon.

In the look of `plots`; lines differ by their dashes and marks as well, for whoever sees no colour.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, ScalarFormatter
from numpy.typing import ArrayLike

from dpmcmc.diagnostics.arguments import Array
from dpmcmc.diagnostics.plots import STYLE, colour_of, dress, new_axes
from dpmcmc.errors import InvalidArgument

DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (8, 2)))
MARKS = ("o", "s", "^", "D", "v", "P")
LEAST_DELTA = 1e-12
"""Below which a privacy curve is not drawn."""


def plot_distances(
    epsilons: Sequence[float],
    distances: Mapping[str, ArrayLike],
    *,
    floor: float | None = None,
    label: str = "MMD",
    ax: Axes | None = None,
) -> Axes:
    """Draw a distance from the exact posterior against epsilon, a line for each sampler.

    Args:
        epsilons: at which the samplers were run.
        distances: by the sampler's name its distances, (epsilon,), or (epsilon, repeat) of repeated runs: then the line
            is their median and the band from quartile to quartile. NaN where there was no run.
        floor: what exact draws score, in black dashes.
        label: what the distance is called.
        ax: where to draw; None for a new Figure, which is ``plot_distances(...).figure``.
    """
    places = np.asarray(epsilons, float)
    ax = new_axes() if ax is None else ax
    for i, (name, values) in enumerate(distances.items()):
        low, middle, high = np.nanquantile(_repeats(name, values, len(places)), (0.25, 0.5, 0.75), axis=1)
        style: dict[str, Any] = {
            "color": colour_of(i),
            "linestyle": DASHES[i % len(DASHES)],
            "marker": MARKS[i % len(MARKS)],
        }
        ax.plot(places, middle, label=name, markersize=6, **STYLE["line"], **style)
        ax.fill_between(places, low, high, color=colour_of(i), alpha=STYLE["fill"][0], linewidth=0)
    if floor is not None:
        ax.axhline(floor, label="exact draws", **STYLE["reference"])
    dress(ax, xlabel="epsilon", ylabel=label, legend=True)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_locator(LogLocator(subs=()))
    ax.set_ylim(bottom=0)
    return ax


def plot_privacy(curves: Mapping[str, Iterable[tuple[float, float]]], *, ax: Axes | None = None) -> Axes:
    """Draw delta against epsilon, a line for each curve: every point of it holds.

    Args:
        curves: by name the points (epsilon, delta), as ``posterior.certificate.curve`` has them.
        ax: where to draw; None for a new Figure, which is ``plot_privacy(...).figure``.
    """
    ax = new_axes() if ax is None else ax
    for i, (name, curve) in enumerate(curves.items()):
        points = np.array([point for point in curve if point[1] >= LEAST_DELTA])
        if points.size == 0:
            raise InvalidArgument(f"curves[{name!r}] has no point with delta of at least {LEAST_DELTA:g}")
        ax.plot(*points.T, color=colour_of(i), linestyle=DASHES[i % len(DASHES)], label=name, **STYLE["line"])
    dress(ax, xlabel="epsilon", ylabel="delta", legend=len(curves) > 1)
    ax.set_xlim(left=0)
    ax.set_yscale("log")
    return ax


def _repeats(name: str, values: ArrayLike, size: int) -> Array:
    found = np.asarray(values, float)
    if found.shape[:1] != (size,) or found.ndim > 2:
        raise InvalidArgument(
            f"distances[{name!r}] has the shape {found.shape}; expected ({size},) or ({size}, repeats), like epsilons"
        )
    return found.reshape(size, -1)
