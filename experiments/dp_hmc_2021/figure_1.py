"""Figure 1: MMD and mean error against epsilon, for four samplers on two posteriors; and ours on the same axes."""

import math

import pandas as pd

from experiments.dp_hmc_2021.pairs import paired
from experiments.dp_hmc_2021.published import compare, orderings
from experiments.machinery import pictures
from experiments.machinery.budgets import budget_cells, run_budget_cell, run_budget_cells
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
    ("dp_hmc_reuse", "accept bit"): "DP-HMC, gradients reused",
}
PAID = {
    ("dp_hmc", "fit"): "DP-HMC after a paid pilot",
    ("private_laplace", "fit"): "private Laplace",
    ("sketch", "fit"): "likelihood sketch",
}
COLUMNS = (
    (PUBLISHED, "as published, from near the truth"),
    (CORRECTED, "corrected, from near the truth"),
    (PAID, "by `fit`, start paid for"),
)


def _study(name: str, *samplers: str) -> Study:
    def cells(configuration: Configuration) -> list[Cell]:
        c = configuration
        return budget_cells({**c, "num_repeats": c["num_repeats"][name]}, c["problems"], samplers)

    return Study(name, cells, run_budget_cell, run_budget_cells)


METROPOLIS = _study("metropolis", "dp_hmc", "dp_penalty", "dp_hmc_reuse")
LANGEVIN = _study("langevin", "dp_sgld_published", "dp_sgld", "dp_sgnht")
FITS = Study("fits", lambda configuration: fit_cells(configuration, configuration["problems"]), run_fit_cell)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw the figure and say what it shows."""
    table = pd.concat(tables.values(), ignore_index=True)
    models, measures = list(configuration["problems"]), {"mmd": "MMD", "mean_error": "mean error"}
    rows = [(measure, model) for measure in measures for model in models]
    figure, panels = pictures.grid(len(rows), len(COLUMNS), width=6.2, height=3.4, sharex=True, sharey="row")
    for row, (measure, model) in enumerate(rows):
        for column, (samplers, title) in enumerate(COLUMNS):
            ax = panels[row, column]
            for index, ((name, count), label) in enumerate(samplers.items()):
                part = table[(table.model == model) & (table.sampler == name) & (table.reading == count)]
                number = index + len(CORRECTED) * (samplers is PAID)
                if len(part):
                    shift = 0.1 * (index - 1.5)
                    pictures.medians(ax, part, "epsilon", measure, index=number, label=label, shift=shift)
            ylabel = f"{model}: {measures[measure]}" if column == 0 else ""
            pictures.dress(ax, xlabel="epsilon" if row == len(rows) - 1 else "", ylabel=ylabel, title=title)
            if row:
                ax.set_title("")
            if measure != "mmd":
                ax.set_yscale("log")
    for ax in panels[: len(models), 0]:  # shared by the row, so not before all of it is drawn
        ax.set_ylim(bottom=0)
    pictures.legend_above(figure, panels[0, 1], 4, panels[0, 2], panels[1, 2])
    c = configuration
    found = medians(table)
    caption = (
        f"MMD and mean error, medians with quartiles of {_repeats(found, 'dp_hmc', 'dp_penalty')} repeats (stochastic "
        f"gradients {_repeats(found, 'dp_sgld', 'dp_sgnht')}, `fit` {_repeats(found, reading='fit')}); "
        f"{c['num_chains']} chains share the budget; n = {c['num_records']:,}, "
        f"delta = {c['delta_over_records'] / c['num_records']:.0e}, replace-one. Left and middle: start points around "
        "the truth, as published, which is no private procedure; right: from the prior's centre, the pilot paid for. "
        "A smaller epsilon is the beginning of the same chains. As published: DP-SGLD at half the temperature, and an "
        "epsilon of the stochastic gradients that is overstated. Corrected: only decisions released, the right "
        "temperature, the right count. Stochastic-gradient chains stop after "
        f"{c['most_steps']['dp_sgld']:,} steps. `fit` is drawn where it was run: epsilon "
        f"{', '.join(f'{epsilon:g}' for epsilon in c['fit']['epsilons'])}."
    )
    parts = [orderings(found), paired(table), compare(table), summary(found)]
    return Product(caption, "\n\n".join(part for part in parts if part), figure, found)


def _repeats(found: pd.DataFrame, *samplers: str, reading: str | None = None) -> str:
    shown = (
        found[found.reading == reading] if reading else found[found.sampler.isin(samplers) & (found.reading != "fit")]
    )
    counts = sorted(set(shown.repeats)) or [0]
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


def make_paid(tables: Tables, configuration: Configuration) -> Product:
    """Write the table of what `fit` gives."""
    c, found = configuration, medians(tables["fits"])
    caption = (
        f"What `fit` gives on the same two posteriors, from the prior's centre and with settings that follow from "
        f"public facts, pilot and chains paid for: median MMD of up to {found.repeats.max()} repeats, "
        f"{c['num_chains']} chains, n = {c['num_records']:,}, "
        f"delta = {c['delta_over_records'] / c['num_records']:.0e}, replace-one."
    )
    return Product(caption, summary(found), None, found)


PAID_TARGET = Target("paid-starts", "what `fit` gives, its start paid for", (FITS,), make_paid)
TARGET = Target("figure-1", "MMD and mean error against epsilon", (LANGEVIN, METROPOLIS, FITS), make)
