"""Figure 2: the banana at the largest epsilon, sampler by sampler: the best, the median and the worst repeat."""

import numpy as np
import pandas as pd

from dpmcmc.diagnostics import plot_contour, plot_density
from experiments.dp_hmc_2021.figure_1 import LANGEVIN, METROPOLIS, PUBLISHED
from experiments.machinery import pictures
from experiments.machinery.chains import of_cell
from experiments.machinery.study import Configuration, Product, Tables, Target


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw marginals and contours, and tabulate how wide the draws are."""
    table = pd.concat(tables.values(), ignore_index=True)
    table = table[(table.model == "banana") & (table.epsilon == max(configuration["epsilons"]))]
    c = configuration
    reference = of_cell(METROPOLIS.cells(c)[0]).reference
    shown = {
        label: table[(table.sampler == name) & (table.reading == count)] for (name, count), label in PUBLISHED.items()
    }
    shown = {label: part.sort_values("mmd") for label, part in shown.items() if len(part)}
    figure, panels = pictures.grid(3, len(shown), width=4.6, height=3.4)
    rows = []
    for column, (label, found) in enumerate(shown.items()):
        chosen = {"best": found.iloc[0], "median": found.iloc[len(found) // 2], "worst": found.iloc[-1]}
        for kind, row in chosen.items():
            draws = np.asarray(row.draws)
            rows.append(
                {
                    "sampler": label,
                    "repeat": kind,
                    "mmd": row.mmd,
                    **{f"sd_ratio_{i + 1}": draws[:, i].std() / reference[:, i].std() for i in range(2)},
                }
            )
        for coordinate in range(2):
            ax = panels[coordinate, column]
            for index, (kind, row) in enumerate(chosen.items()):
                plot_density(np.asarray(row.draws), coordinate=coordinate, label=kind, ax=ax)
                ax.lines[-1].set(color=pictures.COLOURS[index], linestyle=pictures.DASHES[index])
            for patch in list(ax.collections):
                patch.remove()
            plot_density(reference, coordinate=coordinate, label="exact", ax=ax)
            ax.lines[-1].set(color="black", linewidth=1.5)
            for patch in list(ax.collections):
                patch.remove()
            ax.set_ylim(0, 1.05 * max(line.get_ydata().max() for line in ax.lines))
            pictures.dress(ax, xlabel=f"theta {coordinate + 1}", title=label if coordinate == 0 else "")
            if ax.get_legend():
                ax.get_legend().remove()
        plot_contour(np.asarray(chosen["median"].draws), reference=reference, ax=panels[2, column])
        pictures.dress(panels[2, column], xlabel="theta 1", ylabel="theta 2" if column == 0 else "")
        if panels[2, column].get_legend():
            panels[2, column].get_legend().remove()
    middle, half = (reference.max(axis=0) + reference.min(axis=0)) / 2, 0.75 * np.ptp(reference, axis=0)
    for column in range(len(shown)):  # one stray chain must not hide the rest
        for row, coordinate in ((0, 0), (1, 1), (2, 0)):
            panels[row, column].set_xlim(middle[coordinate] - half[coordinate], middle[coordinate] + half[coordinate])
        panels[2, column].set_ylim(middle[1] - half[1], middle[1] + half[1])
    pictures.legend_above(figure, panels[0, 0], 4)
    caption = (
        f"Banana, n = {c['num_records']:,}, epsilon = {max(c['epsilons']):g} as each paper counts. Rows one and two: "
        "marginal densities of the best, median and worst repeat by MMD; row three: regions with 50 % and 90 % of the "
        "draws of the median repeat, against the exact posterior in dashes. DP-SGLD as published runs at half the "
        f"temperature; it and DP-SGNHT stop after {c['most_steps'].get('dp_sgld', 0):,} steps."
    )
    widths = pd.DataFrame(rows)
    lines = [
        f"- {row.sampler}, {row.repeat}: MMD {row.mmd:.3f}; standard deviations {row.sd_ratio_1:.2f} and "
        f"{row.sd_ratio_2:.2f} of the exact ones."
        for row in widths.itertuples()
    ]
    return Product(caption, "\n".join(lines), figure, widths)


TARGET = Target("figure-2", "posteriors on the banana", (LANGEVIN, METROPOLIS), make)
