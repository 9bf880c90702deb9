"""Pictures of draws: marginal densities, joint contours, traces, ranks; and of ranks over data sets.

One look throughout: draws in the colours of Okabe and Ito, which colour-blind readers can tell apart, and the reference
in black dashes. Each function draws on the Axes that it is given, or on a Figure of its own, and leaves pyplot alone.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy import stats

from dpmcmc import validation
from dpmcmc.diagnostics import smoothing
from dpmcmc.diagnostics.arguments import Array, Draws, Sample, read, read_pair
from dpmcmc.diagnostics.calibration import Calibration
from dpmcmc.diagnostics.ranks import rank_counts
from dpmcmc.errors import InvalidArgument

STYLE: dict[str, Any] = {
    "colours": ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"),
    "line": {"linewidth": 2.2},
    "reference": {"color": "black", "linestyle": (0, (4, 2)), "linewidth": 2.0},
    "trace": {"linewidth": 1.0, "alpha": 0.85},
    "fill": (0.25, 0.55),
    "font_size": 14,
    "panel": (4.4, 3.2),
}
"""The look of every picture; `panel` is the size of one, in inches."""

REGIONS = (0.9, 0.5)
"""Shares of the draws inside the contours."""

MOST_PANELS = 8
"""Coordinates in one picture; more could not be read."""


def plot_density(
    draws: Draws,
    *,
    reference: Draws | None = None,
    coordinate: int = 0,
    by_chain: bool = False,
    label: str = "draws",
    ax: Axes | None = None,
) -> Axes:
    """Draw the marginal density of one coordinate; a coordinate that never moves is a vertical line.

    Args:
        draws: see `dpmcmc.diagnostics.Draws`.
        reference: draws from the posterior that it should have, in black dashes.
        coordinate: which, counted over all parameters in their order.
        by_chain: one line per chain, instead of one for all chains together.
        label: what the legend calls the draws.
        ax: where to draw; None for a new Figure, which is ``plot_density(...).figure``.
    """
    sample, other = _read(draws, reference)
    index = _index("coordinate", coordinate, sample)
    ax = new_axes() if ax is None else ax
    parts = sample.chains if by_chain else sample.pooled[None]
    for i, part in enumerate(parts):
        colour = colour_of(i)
        name = f"chain {i}" if by_chain else label
        _draw_density(ax, part[:, index], fill=len(parts) == 1, color=colour, label=name, **STYLE["line"])
    if other is not None:
        _draw_density(ax, other.pooled[:, index], fill=False, label="reference", **STYLE["reference"])
    ax.set_ylim(bottom=0)
    ax.set_yticks([])
    return dress(ax, xlabel=sample.labels[index], ylabel="density", legend=other is not None or len(parts) > 1)


def plot_contour(
    draws: Draws,
    *,
    reference: Draws | None = None,
    coordinates: tuple[int, int] = (0, 1),
    label: str = "draws",
    ax: Axes | None = None,
) -> Axes:
    """Draw the regions of highest density of two coordinates that hold 50 % and 90 % of the draws.

    Draws that never move in one of the coordinates are points. The other arguments are those of `plot_density`.
    """
    sample, other = _read(draws, reference)
    first, second = (_index("coordinates", coordinate, sample) for coordinate in coordinates)
    ax = new_axes() if ax is None else ax
    _draw_regions(ax, sample.pooled[:, [first, second]])
    if other is not None:
        _draw_outlines(ax, other.pooled[:, [first, second]])
    handles = _handles(label, reference=True) if other is not None else None
    return dress(ax, xlabel=sample.labels[first], ylabel=sample.labels[second], legend=handles)


def plot_trace(draws: Draws, *, coordinate: int = 0, ax: Axes | None = None) -> Axes:
    """Draw one coordinate against the number of the draw, one line per chain."""
    sample, _ = _read(draws, None)
    index = _index("coordinate", coordinate, sample)
    ax = new_axes() if ax is None else ax
    for i, chain in enumerate(sample.chains):
        ax.plot(chain[:, index], color=colour_of(i), label=f"chain {i}", **STYLE["trace"])
    ax.margins(x=0)
    return dress(ax, xlabel="draw", ylabel=sample.labels[index], legend=False)


def plot_chain_ranks(draws: Draws, *, coordinate: int = 0, ax: Axes | None = None) -> Axes:
    """Draw how the ranks of each chain's draws among all spread, one line per chain: evenly if the chains agree."""
    sample, _ = _read(draws, None)
    index = _index("coordinate", coordinate, sample)
    ax = new_axes() if ax is None else ax
    ranks = rank_counts(sample.chains[:, :, index])
    for i, counts in enumerate(ranks.counts):
        ax.stairs(counts, ranks.edges, color=colour_of(i), label=f"chain {i}", baseline=None, linewidth=1.6)
    ax.axhline(ranks.expected, label="even", **{**STYLE["reference"], "linewidth": 1.2})
    ax.set_ylim(0, 1.15 * ranks.counts.max())
    ax.margins(x=0)
    return dress(ax, xlabel=f"rank of {sample.labels[index]}", ylabel="draws", legend=False)


def plot_ranks(
    calibration: Calibration, *, coordinate: int = 0, num_bins: int = 20, label: str = "ranks", ax: Axes | None = None
) -> Axes:
    """Draw the ranks of the truth among draws as a histogram: flat where a method is calibrated.

    A valley means that it is too sure of itself, a hill that it is not sure enough, a slope that it is off. The grey
    band holds every bar of a calibrated method with a chance of about 99 %.
    """
    index = validation.integer("coordinate", coordinate, at_least=0)
    if index >= len(calibration.labels):
        validation.refuse(
            "coordinate", coordinate, f"must be below {len(calibration.labels)}, the coordinates there are"
        )
    num_bins = validation.integer("num_bins", num_bins, at_least=2)
    ax = new_axes() if ax is None else ax
    ranks = calibration.ranks[:, index]
    lowest, highest = stats.binom.interval(1 - 0.01 / num_bins, len(ranks), 1 / num_bins)
    ax.axhspan(float(lowest), float(highest), color="black", alpha=0.12, linewidth=0)
    ax.hist(
        ranks, bins=np.linspace(0, 1, num_bins + 1).tolist(), color=colour_of(0), alpha=STYLE["fill"][1], label=label
    )
    ax.axhline(len(ranks) / num_bins, label="calibrated", **STYLE["reference"])
    ax.set_xlim(0, 1)
    return dress(ax, xlabel=f"rank of {calibration.labels[index]}", ylabel="data sets", legend=True)


def plot_pairs(draws: Draws, *, reference: Draws | None = None, label: str = "draws") -> Figure:
    """Return a Figure with every marginal density on the diagonal and every pair's contours below it."""
    sample, other = _read(draws, reference)
    size = _few(sample)
    if size == 1:
        figure = _figure(1, 1)
        plot_density(draws, reference=reference, label=label, ax=figure.subplots())
        return figure
    figure = _figure(size, size)
    panels = figure.subplots(size, size, squeeze=False, sharex="col")
    for row in range(size):
        for column in range(size):
            ax = panels[row, column]
            if column > row:
                ax.remove()
            elif column == row:
                plot_density(draws, reference=reference, coordinate=row, ax=ax)
            else:
                plot_contour(draws, reference=reference, coordinates=(column, row), ax=ax)
            if 0 < column < row:  # the numbers stand at the left of the row
                ax.sharey(panels[row, 0])
                ax.tick_params(labelleft=False)
            if column <= row:
                _keep_outer(ax, bottom=row == size - 1, left=column == 0 < row)
    handles = _handles(label, reference=other is not None)
    figure.legend(handles=handles, loc="upper right", fontsize=STYLE["font_size"], frameon=False)
    return figure


def plot_traces(draws: Draws, *, reference: Draws | None = None) -> Figure:
    """Return a Figure with a row for each coordinate: its density chain by chain, and its traces."""
    sample, _ = _read(draws, reference)
    size = _few(sample)
    figure = _figure(size, 2)
    panels = figure.subplots(size, 2, squeeze=False, width_ratios=(2, 3))
    for row in range(size):
        plot_density(draws, reference=reference, coordinate=row, by_chain=True, ax=panels[row, 0])
        plot_trace(draws, coordinate=row, ax=panels[row, 1])
        _keep_outer(panels[row, 1], bottom=row == size - 1, left=True)
        if row and (legend := panels[row, 0].get_legend()):
            legend.remove()
    return figure


def _read(draws: Draws, reference: Draws | None) -> tuple[Sample, Sample | None]:
    return (read("draws", draws), None) if reference is None else read_pair(draws, reference)


def _index(name: str, coordinate: int, sample: Sample) -> int:
    index = validation.integer(name, coordinate, at_least=0)
    if index >= len(sample.labels):
        validation.refuse(name, coordinate, f"must be below {len(sample.labels)}, the number of coordinates of draws")
    return index


def _few(sample: Sample) -> int:
    size = len(sample.labels)
    if size > MOST_PANELS:
        raise InvalidArgument(
            f"draws of {size} coordinates must be at most {MOST_PANELS} to be legible in one picture; choose some"
        )
    return size


def colour_of(i: int) -> str:
    """Return the colour of the line of that number."""
    return STYLE["colours"][i % len(STYLE["colours"])]


def _figure(rows: int, columns: int) -> Figure:
    width, height = STYLE["panel"]
    return Figure(figsize=(width * columns, height * rows), layout="constrained")


def new_axes() -> Axes:
    """Return Axes on a Figure of their own."""
    return _figure(1, 1).subplots()


def _draw_density(ax: Axes, values: Array, *, fill: bool, **options: Any) -> None:
    found = smoothing.density(values[:, None])
    if found is None:
        ax.axvline(float(np.median(values)), **options)
        return
    (middles,), heights = found
    ax.plot(middles, heights, **options)
    if fill:
        ax.fill_between(middles, heights, color=options["color"], alpha=STYLE["fill"][0], linewidth=0)


def _draw_regions(ax: Axes, values: Array) -> None:
    found = smoothing.density(values)
    colour = colour_of(0)
    if found is None:
        ax.plot(*values.T, ".", color=colour)
        return
    bounds = smoothing.levels(found[1], REGIONS)
    (x, y), heights = smoothing.crop(*found, bounds[0])
    fills = [to_rgba(colour, alpha) for alpha in STYLE["fill"][-len(bounds) :]]
    ax.contourf(x, y, heights.T, levels=[*bounds, 1.01 * float(heights.max())], colors=fills)
    ax.contour(x, y, heights.T, levels=bounds, colors=colour, linewidths=STYLE["line"]["linewidth"])


def _draw_outlines(ax: Axes, values: Array) -> None:
    found = smoothing.density(values)
    style = STYLE["reference"]
    if found is None:
        ax.plot(*values.T, "x", color=style["color"])
        return
    bounds = smoothing.levels(found[1], REGIONS)
    (x, y), heights = smoothing.crop(*found, bounds[0])
    options: dict[str, Any] = {"linestyles": [style["linestyle"]], "linewidths": style["linewidth"]}
    ax.contour(x, y, heights.T, levels=bounds, colors=style["color"], **options)


def _handles(label: str, *, reference: bool) -> list[Line2D]:
    own = Line2D([], [], color=colour_of(0), label=label, **STYLE["line"])
    return [own, Line2D([], [], label="reference", **STYLE["reference"])] if reference else [own]


def dress(ax: Axes, *, xlabel: str, ylabel: str, legend: bool | Sequence[Line2D] | None) -> Axes:
    """Give a panel its labels, its ticks, and its legend, if it has one."""
    size = STYLE["font_size"]
    ax.set_xlabel(xlabel, fontsize=size)
    ax.set_ylabel(ylabel, fontsize=size)
    ax.tick_params(labelsize=size - 2)
    ax.spines[["top", "right"]].set_visible(False)
    for axis, most in ((ax.xaxis, 3), (ax.yaxis, 4)):
        axis.get_offset_text().set_fontsize(size - 2)
        if len(axis.get_major_locator()()) > 0:
            axis.set_major_locator(MaxNLocator(most))
    if legend:
        handles = legend if isinstance(legend, Sequence) else ax.get_legend_handles_labels()[0]
        # above the panel, where it hides nothing
        options: dict[str, Any] = {
            "loc": "lower center",
            "bbox_to_anchor": (0.5, 1.0),
            "ncols": 3,
            "columnspacing": 1.2,
        }
        ax.legend(handles=handles, fontsize=size - 2, frameon=False, **options)
    return ax


def _keep_outer(ax: Axes, *, bottom: bool, left: bool) -> None:
    """Take the labels off panels that share them with the panel below or to the left, and the legend."""
    if not bottom:
        ax.set_xlabel("")
    if not left:
        ax.set_ylabel("")
    if legend := ax.get_legend():
        legend.remove()
