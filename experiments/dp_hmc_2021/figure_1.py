"""Figure 1: MMD and mean error against epsilon, for four samplers on two posteriors; and ours on the same axes."""

import math

import pandas as pd

from experiments.dp_hmc_2021.published import compare, orderings
from experiments.machinery import pictures
from experiments.machinery.budgets import budget_cells, run_budget_cell
from experiments.machinery.fits import fit_cells, run_fit_cell
from experiments.machinery.study import Cell, Configuration, Product, Study, Tables, Target

PUBLISHED = {
    ("dp_hmc", "published"): "DP-HMC",
    ("dp_penalty", "published"): "DP-penalty",
    ("dp_sgld_published", "published"): "DP-SGLD",
    ("dp_sgnht", "published"): "DP-SGNHT",
}
CORRECTED = {
    ("dp_hmc", "accept bit"): "DP-HMC",
    ("dp_penalty", "accept bit"): "DP-penalty",
    ("dp_sgld", "tight"): "DP-SGLD",
    ("dp_sgnht", "tight"): "DP-SGNHT",
    ("private_laplace", "fit"): "private Laplace by `fit`",
}


def _study(name: str, *samplers: str) -> Study:
    def cells(configuration: Configuration) -> list[Cell]:
        c = configuration
        return budget_cells({**c, "num_repeats": c["num_repeats"][name]}, c["problems"], samplers)

    return Study(name, cells, run_budget_cell)


METROPOLIS = _study("metropolis", "dp_hmc", "dp_penalty")
LANGEVIN = _study("langevin", "dp_sgld_published", "dp_sgld", "dp_sgnht")
FITS = Study("fits", lambda configuration: fit_cells(configuration, configuration["problems"]), run_fit_cell)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw the figure and say what it shows."""
    table = pd.concat(tables.values(), ignore_index=True)
    figure, panels = pictures.grid(2, 4, width=5.0, sharex=True)
    columns = [("mmd", PUBLISHED, "as published"), ("mmd", CORRECTED, "corrected")]
    columns += [("mean_error", PUBLISHED, "as published"), ("mean_error", CORRECTED, "corrected")]
    for row, model in enumerate(configuration["problems"]):
        for column, (measure, samplers, reading) in enumerate(columns):
            ax = panels[row, column]
            for index, ((name, count), label) in enumerate(samplers.items()):
                part = table[(table.model == model) & (table.sampler == name) & (table.reading == count)]
                if part.empty:
                    continue
                pictures.medians(ax, part, "epsilon", measure, index=index, label=label, shift=0.1 * (index - 1.5))
            name = "MMD" if measure == "mmd" else "mean error"
            pictures.dress(ax, xlabel="epsilon" if row else "", ylabel=name, title=f"{model}: {reading}")
            if measure == "mmd":
                ax.set_ylim(bottom=0)
            else:
                ax.set_yscale("log")
    pictures.legend_above(figure, panels[1, 1], 5)
    c = configuration
    found = medians(table)
    caption = (
        f"MMD and mean error, medians with quartiles of {_repeats(found, 'dp_hmc', 'dp_penalty')} repeats (stochastic "
        f"gradients {_repeats(found, 'dp_sgld', 'dp_sgnht')}, Laplace {_repeats(found, 'private_laplace')}); "
        f"{c['num_chains']} chains share the budget; n = {c['num_records']:,}, "
        f"delta = {c['delta_over_records'] / c['num_records']:.0e}, replace-one. Start points around the truth, as "
        "published, which is no private procedure; but for Laplace, which starts at the prior's centre. A smaller "
        "epsilon is the beginning of the same chains. As published: DP-SGLD at half the temperature, and an epsilon "
        "of the stochastic gradients that is overstated. Corrected: only decisions released, the right temperature, "
        f"the right count. Stochastic-gradient chains stop after {c['most_steps']['dp_sgld']:,} steps."
    )
    parts = [orderings(found), compare(table), summary(found)]
    return Product(caption, "\n\n".join(part for part in parts if part), figure, found)


def _repeats(found: pd.DataFrame, *samplers: str) -> str:
    counts = sorted(set(found[found.sampler.isin(samplers)].repeats)) or [0]
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Return medians and extremes by model, sampler and epsilon."""
    groups = table.groupby(["model", "sampler", "reading", "epsilon"], sort=False)
    fixed = groups[["steps_allowed", "steps", "epsilon_that_holds"]].first()
    found = groups["mmd"].agg(mmd_median="median", mmd_least="min", mmd_most="max", repeats="count")
    measures = ["mean_error", "acceptance", "ratios_clipped", "gradients_clipped"]
    rest = groups[[name for name in measures if name in table]].median()
    return fixed.join(found).join(rest).reset_index()


def summary(found: pd.DataFrame) -> str:
    """Return the medians of the MMD as a table."""
    found = found.pivot(index=["model", "sampler", "reading"], columns="epsilon", values="mmd_median")
    head = "| model | sampler | reading | " + " | ".join(f"{epsilon:g}" for epsilon in found.columns) + " |"
    rule = "|---" * (3 + len(found.columns)) + "|"
    lines = [
        f"| {' | '.join(names)} | " + " | ".join("" if math.isnan(value) else f"{value:.3f}" for value in row) + " |"
        for names, row in zip(found.index, found.to_numpy(), strict=True)
    ]
    return "Median MMD by epsilon:\n\n" + "\n".join([head, rule, *lines])


TARGET = Target("figure-1", "MMD and mean error against epsilon", (METROPOLIS, LANGEVIN, FITS), make)
