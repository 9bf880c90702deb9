"""The look of all pictures: that of `dpmcmc.diagnostics`, and a caption under each."""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpmcmc.diagnostics.plots import STYLE

COLOURS: tuple[str, ...] = STYLE["colours"]
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Series differ in colour, in marker and in dash, so that no reader depends on colour."""

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 3)))
SIZE: int = STYLE["font_size"]


def grid(rows: int, columns: int, *, width: float = 5.4, height: float = 4.0, **options: Any) -> tuple[Figure, Any]:
    """Return a figure with panels, an array of shape (rows, columns), that is legible at half its size."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def style(index: int) -> dict[str, Any]:
    """Return the look of the series of that number."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[(index + index // len(COLOURS)) % len(DASHES)],
        "linewidth": STYLE["line"]["linewidth"],
        "markersize": 8,
    }


def dress(ax: Axes, *, xlabel: str = "", ylabel: str = "", title: str = "") -> Axes:
    """Give a panel its labels and the house look."""
    ax.set_xlabel(xlabel, fontsize=SIZE)
    ax.set_ylabel(ylabel, fontsize=SIZE)
    if title:
        ax.set_title(title, fontsize=SIZE)
    ax.tick_params(labelsize=SIZE - 2)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    return ax


def legend_above(figure: Figure, ax: Axes, columns: int, *more: Axes) -> None:
    """Put one legend for all panels above them, with the series of the panels that are named."""
    found = [each.get_legend_handles_labels() for each in (ax, *more)]
    handles, labels = ([one for each in found for one in each[part]] for part in (0, 1))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=SIZE, frameon=False)


def medians(ax: Axes, table: pd.DataFrame, x: str, y: str, *, index: int, label: str, shift: float = 0.0) -> None:
    """Draw the median of y against x with bars from the lower to the upper quartile."""
    groups = table.groupby(x)[y]
    middle, low, high = groups.median(), groups.quantile(0.25), groups.quantile(0.75)
    at = middle.index.to_numpy(float)
    at = at * (1 + shift) if ax.get_xscale() == "log" else at + shift
    bars = np.stack([middle - low, high - middle])
    ax.errorbar(at, middle, yerr=bars, label=label, capsize=3, elinewidth=1.2, **style(index))


def save(figure: Figure, caption: str, place: Path) -> None:
    """Write a figure with its caption as PNG and SVG; the SVG is the same for the same figure."""
    width = int(figure.get_figwidth() * 72 / (0.55 * (SIZE - 2)))
    figure.supxlabel(textwrap.fill(caption, width), fontsize=SIZE - 2, x=0.01, ha="left", color="0.25")
    with rc_context({"svg.hashsalt": place.name, "svg.fonttype": "none"}):
        figure.savefig(place.with_suffix(".png"), dpi=100)
        figure.savefig(place.with_suffix(".svg"), metadata={"Date": None})
