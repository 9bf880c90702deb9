"""Figures 6.1 and 6.3 to 6.9."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from dpmcmc.diagnostics import plot_contour
from experiments.dp_mcmc_thesis_2021.published import compare
from experiments.dp_mcmc_thesis_2021.studies import (
    BANANAS,
    CIRCLE,
    CLIPPING,
    EASY,
    EXACT,
    FULL_DATA,
    HARD,
    HARDER,
    LABELS,
)
from experiments.machinery import pictures
from experiments.machinery.clip_figure import clip_product
from experiments.machinery.study import Configuration, Product, Study, Tables, Target


def setting(table: pd.DataFrame, configuration: Configuration) -> str:
    """Return the words of a caption that say how the chains were run."""
    c = configuration
    sizes = [f"{size:,}" for size in sorted(set(table.num_records))]
    chains = table.groupby(["model", "sampler", "reading", "epsilon"]).size().max()
    return (
        f"{chains} chains, each with a budget of its own and judged by itself, medians with "
        f"quartiles; n = {' or '.join(sizes)}, delta = {c['delta_over_records']:g} / n, replace-one; a smaller epsilon "
        "is the beginning of the same chains; start points around the truth."
    )


def exact(tables: Tables, configuration: Configuration) -> Product:  # noqa: ARG001
    """Figure 6.1: the posteriors in the plane."""
    table = tables["exact"]
    figure, panels = pictures.grid(1, len(table), width=4.4, height=3.8)
    for ax, row in zip(panels[0], table.itertuples(), strict=True):
        plot_contour(np.asarray(row.draws), ax=ax)
        pictures.dress(ax, xlabel="theta 1", ylabel="theta 2" if ax is panels[0, 0] else "", title=row.model)
    caption = "Regions with 50 % and 90 % of 2,000 exact draws of the posteriors in the plane. " + ", ".join(
        f"{row.model}: n = {row.num_records:,}" for row in table.itertuples()
    )
    lines = [f"- {r.model}: standard deviations {r.sd_1:.3g} and {r.sd_2:.3g}." for r in table.itertuples()]
    return Product(caption + ".", "\n".join(lines), figure, table.drop(columns="draws"))


def lines(
    study: Study, models: tuple[str, ...], measure: str, ylabel: str, samplers: tuple[str, ...] = tuple(LABELS)
) -> Callable[[Tables, Configuration], Product]:
    """Return what draws a measure against epsilon, one panel a model, as published above and counted better below."""

    def make(tables: Tables, configuration: Configuration) -> Product:
        table = tables[study.name]
        readings = [("published",)] if measure != "mmd" else [("published",), ("tight", "accept bit")]
        shown = [model for model in models if model in set(table.model)]
        height = 3.6 if len(readings) > 1 else 4.6
        figure, panels = pictures.grid(len(readings), len(shown), width=4.8, height=height, sharey="row")
        for row, reading in enumerate(readings):
            for column, model in enumerate(shown):
                ax = panels[row, column]
                for index, sampler in enumerate(samplers):
                    part = table[(table.model == model) & (table.sampler == sampler) & table.reading.isin(reading)]
                    if len(part) and part[measure].notna().any():
                        shift = 0.06 * (index - 2.5)
                        pictures.medians(ax, part, "epsilon", measure, index=index, label=LABELS[sampler], shift=shift)
                counted = "" if len(readings) == 1 else ", as published" if row == 0 else ", best count"
                pictures.dress(
                    ax,
                    xlabel="epsilon" if row == len(readings) - 1 else "",
                    ylabel=ylabel if column == 0 else "",
                    title=model + counted,
                )
        for ax in panels[:, 0]:  # shared by the row, so not before all of it is drawn
            ax.set_ylim(bottom=0)
        pictures.legend_above(figure, panels[0, 0], 3)
        caption = f"{ylabel[0].upper()}{ylabel[1:]} against epsilon. {setting(table, configuration)}"
        if measure == "mmd":
            longest = configuration["most_steps"]["dp_barker"]
            caption += (
                f" Best count: accept bits for full data, tight subsampling for batches (up to {longest:,} steps)."
            )
        if "clipped" in measure:
            caption += " Shares are exact counts over the whole chain, which only simulated records allow."
        best = f"{winners(table)}\n\n" if measure == "mmd" else ""
        return Product(caption, best + compare(table, measure), figure, medians(table, measure))

    return make


def winners(table: pd.DataFrame) -> str:
    """Say who has the lowest median, as published and with the best count, and at how many epsilons."""
    lines = []
    for title, readings in (("as published", ("published",)), ("best count", ("tight", "accept bit"))):
        part = table[table.reading.isin(readings)]
        middle = part.groupby(["model", "epsilon", "sampler"], sort=False).mmd.median().unstack()
        first = middle.idxmin(axis=1).groupby("model", sort=False).value_counts(sort=False)
        named = [f"{model} {LABELS[sampler]} at {count}" for (model, sampler), count in first.items()]
        lines.append(f"- Lowest median, {title}, at how many epsilons: {', '.join(named)}.")
    return "\n".join(lines)


def medians(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return medians and extremes of a measure."""
    keys = ["model", "sampler", "reading", "epsilon"]
    groups = table.groupby(keys, sort=False)
    fixed = groups[["steps_allowed", "steps", "epsilon_that_holds"]].first()
    found = groups[measure].agg(["median", "min", "max", "count"])
    return fixed.join(found).reset_index()


def clipping(tables: Tables, configuration: Configuration) -> Product:
    """Figure 6.3."""
    table = tables["clipping"]
    chains = table.repeat.nunique() * configuration["clipping"]["num_chains"]
    caption = (
        "Metropolis samplers without noise whose tests clip each record's log-likelihood ratio; dashed: the guideline "
        f"of 10 %. {chains} chains, each judged by itself, of 500 (HMC) and 3,000 (random "
        "walk) steps, second halves against 2,000 exact draws."
    )
    return clip_product(table, caption, 0.1)


def circle(tables: Tables, configuration: Configuration) -> Product:
    """Figure 6.9: the circle, by the error of the mean."""
    table = tables["circle"]
    figure, panels = pictures.grid(1, 2, width=5.6)
    for index, sampler in enumerate(FULL_DATA):
        part = table[(table.sampler == sampler) & (table.reading == "published")]
        for ax, measure in zip(panels[0], ("mean_error", "ratios_clipped"), strict=True):
            pictures.medians(
                ax, part, "epsilon", measure, index=index, label=LABELS[sampler], shift=0.006 * (index - 1)
            )
    pictures.dress(panels[0, 0], xlabel="epsilon", ylabel="error of the mean")
    pictures.dress(panels[0, 1], xlabel="epsilon", ylabel="share of ratios clipped")
    pictures.legend_above(figure, panels[0, 0], 3)
    caption = f"The circle. {setting(table, configuration)}"
    return Product(caption, compare(table, "mean_error"), figure, medians(table, "mean_error"))


def gradients(tables: Tables, configuration: Configuration) -> Product:
    """Figure 6.8: gradients clipped by DP-HMC, model by model."""
    table = pd.concat([part.dropna(axis=1, how="all") for part in tables.values()], ignore_index=True)
    table = table[(table.sampler == "dp_hmc") & (table.reading == "published") & (table.epsilon == table.epsilon.max())]
    if table.empty:
        return Product("Share of records whose gradient DP-HMC clips.", "No chain of DP-HMC is finished.")
    models = [model for model in (*BANANAS, *HARDER) if model in set(table.model)]
    figure, panels = pictures.grid(1, 1, width=max(6.0, 1.6 * len(models)))
    groups = [table[table.model == model].gradients_clipped.to_numpy() for model in models]
    for index, values in enumerate(groups):
        look = pictures.style(0) | {"linestyle": "none"}
        panels[0, 0].plot(np.full(len(values), index) + np.linspace(-0.15, 0.15, len(values)), values, **look)
    panels[0, 0].set_xticks(range(len(models)), models)
    pictures.dress(panels[0, 0], ylabel="share of gradients clipped")
    panels[0, 0].set(xlim=(-0.5, len(models) - 0.5), ylim=(0, 1))
    caption = (
        "Share of records whose gradient DP-HMC clips, at positions of the chains, one point a chain. "
        f"{setting(table, configuration)} An exact count, which only simulated records allow."
    )
    return Product(caption, compare(table, "gradients_clipped"), figure, medians(table, "gradients_clipped"))


MMD, RATIOS = ("mmd", "MMD"), ("ratios_clipped", "share of ratios clipped")

TARGETS = (
    Target("figure-6-1", "the posteriors in the plane", (EXACT,), exact),
    Target("figure-6-3", "what clipping does without noise", (CLIPPING,), clipping),
    Target("figure-6-4", "MMD on flat and tempered bananas", (EASY,), lines(EASY, BANANAS, *MMD)),
    Target("figure-6-5", "MMD on harder posteriors", (HARD,), lines(HARD, HARDER, *MMD, FULL_DATA)),
    Target("figure-6-6", "clipped ratios on the bananas", (EASY,), lines(EASY, BANANAS, *RATIOS)),
    Target("figure-6-7", "clipped ratios on harder posteriors", (HARD,), lines(HARD, HARDER, *RATIOS, FULL_DATA)),
    Target("figure-6-8", "clipped gradients of DP-HMC", (EASY, HARD), gradients),
    Target("figure-6-9", "the circle", (CIRCLE,), circle),
)
