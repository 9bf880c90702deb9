"""Pictures of estimates: a forest of intervals, and curves with their bands; in the look of `plots`."""

from datetime import date
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from dpmcmc.diagnostics.plots import MOST_PANELS, STYLE, colour_of
from dpmcmc.errors import InvalidArgument

SIZE = 11
"""Of the letters: a forest has many names."""

COLUMNS = 3
"""Panels beside each other."""

MARKS = {"good": "o", "fair": "D", "bad": "X"}
"""How the mean is drawn, by what it is worth."""


def draw_forest(table: pd.DataFrame, inner: pd.DataFrame, label: str, reference: float) -> Figure:
    """Draw the intervals of the rows of a table, the first on top.

    Args:
        table: with the columns mean, sd and the two ends; a column verdict marks rows that are not good.
        inner: the same with a shorter interval.
        label: of the horizontal axis.
        reference: where there is no effect: 0, or 1 for ratios, which are drawn on a logarithmic axis.
    """
    figure = Figure(figsize=(7.0, 1.1 + 0.32 * len(table)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(reference, color="0.6", linewidth=1.0, linestyle=(0, (4, 2)))
    places = np.arange(len(table))[::-1]
    verdicts = table["verdict"].tolist() if "verdict" in table else ["good"] * len(table)
    colours = [colour_of(0) if verdict == "good" else "0.45" for verdict in verdicts]
    for ends, width in ((_ends(table), 1.6), (_ends(inner), 4.0)):
        ax.hlines(places, ends[0], ends[1], colors=colours, linewidth=width)
    for place, mean, verdict, colour in zip(places, table["mean"], verdicts, colours, strict=True):
        ax.plot(mean, place, marker=MARKS[verdict], color=colour, markerfacecolor="white", markersize=6)
    if reference > 0:  # ratios: half and double are as far from none
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set_yticks(places, [f"{name}" for name in table.index])
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.tick_params(labelsize=SIZE, left=False)
    ax.spines[["top", "right", "left"]].set_visible(False)
    marked = [verdict for verdict in MARKS if verdict != "good" and verdict in verdicts]
    note = f"   grey: {' and '.join(f'{MARK_WORDS[each]} {each}' for each in marked)}" if marked else ""
    ax.set_xlabel(label + note, fontsize=SIZE)
    return figure


MARK_WORDS = {"fair": "diamond", "bad": "cross"}


def panels(number: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with the given number of panels, all on one vertical scale."""
    if not 1 <= number <= MOST_PANELS:
        raise InvalidArgument(f"{number} panels must be from 1 to {MOST_PANELS} to be legible; name some columns")
    columns = min(number, COLUMNS)
    rows = -(-number // columns)
    width, height = (6.0, 4.0) if number == 1 else (4.0, 3.2)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: list[Axes] = list(np.ravel(figure.subplots(rows, columns, squeeze=False, sharey=True)))
    for spare in axes[number:]:
        spare.remove()
    return figure, axes[:number]


def draw_curves(ax: Axes, table: pd.DataFrame, name: str, by: str | None, xlabel: str, ylabel: str) -> None:
    """Draw means and intervals over the column `name`: bands over numbers, whiskers over categories.

    Args:
        ax: where.
        table: the column, perhaps `by`, then mean, sd and the two ends.
        name: the column.
        by: a column whose values have a colour each.
        xlabel: of the horizontal axis.
        ylabel: of the vertical axis.
    """
    groups: list[tuple[Any, pd.DataFrame]] = [("", table)] if by is None else list(table.groupby(by, sort=False))
    levels = list(dict.fromkeys(table[name]))
    is_number = all(isinstance(level, int | float | date) and not isinstance(level, bool) for level in levels)
    for number, (label, part) in enumerate(groups):
        low, high = _ends(part)
        colour = colour_of(number)
        if is_number:
            ax.fill_between(part[name], low, high, color=colour, alpha=STYLE["fill"][0], linewidth=0)
            ax.plot(part[name], part["mean"], color=colour, label=str(label), **STYLE["line"])
            continue
        places = np.arange(len(part)) + 0.16 * (number - (len(groups) - 1) / 2)
        ax.vlines(places, low, high, colors=colour, linewidth=2.0)
        ax.plot(places, part["mean"], "o", color=colour, label=str(label))
    if not is_number:
        crowded = sum(len(str(level)) for level in levels) > 28
        ax.set_xticks(range(len(levels)), [str(level) for level in levels], rotation=30 if crowded else 0)
        ax.set_xlim(-0.6, len(levels) - 0.4)
    ax.set_xlabel(xlabel, fontsize=SIZE)
    ax.set_ylabel(ylabel, fontsize=SIZE)
    ax.tick_params(labelsize=SIZE - 1)
    if any(isinstance(level, date) for level in levels):
        ax.tick_params(axis="x", rotation=30)
    ax.spines[["top", "right"]].set_visible(False)


def dress_panels(axes: list[Axes], by: str | None, note: str) -> None:
    """Write once what holds for all panels: what the colours are, and where other columns are held."""
    for ax in axes:
        if ax.get_subplotspec() is not None and not ax.get_subplotspec().is_first_col():  # pyright: ignore[reportOptionalMemberAccess]
            ax.set_ylabel("")
            ax.tick_params(labelleft=False)
    figure: Any = axes[0].figure
    if by is not None:
        handles, labels = axes[0].get_legend_handles_labels()
        options = {"title": by, "fontsize": SIZE - 1, "title_fontsize": SIZE - 1, "frameon": False}
        figure.legend(handles, labels, loc="outside right upper", **options)
    figure.supxlabel("\n".join(wrap(note, 24 + 40 * len(axes[:COLUMNS]))), fontsize=SIZE - 2, color="0.35")


def _ends(table: pd.DataFrame) -> tuple[Any, Any]:
    """Return the columns with the ends of the interval: those that are named by quantiles."""
    low, high = [column for column in table.columns if str(column)[:1] == "q"][:2]
    return table[low], table[high]


def draw_responses(responses: Any, classes: Any, bounds: tuple[float, float], label: str) -> Figure:
    """Draw simulated responses (draw, row): of numbers all together, of classes the share that each has in a table."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    ax = figure.subplots()
    values = np.asarray(responses, float)
    if len(classes):
        first = bounds[0]
        shares = [np.mean(values == first + place, axis=1) for place in range(len(classes))]
        box = {"facecolor": colour_of(0), "alpha": STYLE["fill"][1]}
        middle = {"color": "black"}
        ax.boxplot(
            shares, whis=(5, 95), showfliers=False, widths=0.5, patch_artist=True, boxprops=box, medianprops=middle
        )
        ax.set_xticks(range(1, len(classes) + 1), list(classes))
        ax.set_ylabel("share of a table", fontsize=SIZE)
        note = "half of the tables are within the box, 90 % within the whiskers"
    else:
        ax.hist(values.ravel(), bins=np.linspace(*bounds, 60).tolist(), color=colour_of(0), alpha=STYLE["fill"][1])
        ax.set_yticks([])
        ax.set_ylabel("responses under the prior", fontsize=SIZE)
        note = "over the stated bounds; what the prior puts beyond them is in the bars at the ends"
    ax.set_xlabel(label, fontsize=SIZE)
    ax.tick_params(labelsize=SIZE - 1)
    ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel(note, fontsize=SIZE - 2, color="0.35")
    return figure
