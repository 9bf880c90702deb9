"""Figure 6.7: accuracy, deviation and epsilon of the published SGHMC over its step size and its friction."""

import numpy as np
import pandas as pd

from experiments.dp_sghmc_thesis import costs
from experiments.dp_sghmc_thesis.posteriors import BATCH, MARGINALS
from experiments.dp_sghmc_thesis.published import softmax_sghmc
from experiments.dp_sghmc_thesis.radon import radon
from experiments.machinery import pictures
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

READINGS = {"published": "its own reading", "whole_gradient": "with its clip, 2L"}
LONG_ENOUGH = 2.0
BREAKS_ABOVE = 0.66
"""The friction above which the thesis sees accuracies fall."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a step-size multiplier and friction."""
    c, radon_settings = configuration["sweep"], configuration["radon"]
    fixed = {name: radon_settings[name] for name in ("prior_variance", "burn_in", "num_inner")}
    fixed |= {name: c[name] for name in ("num_steps", "clip", "runs")} | {"seed": configuration["seed"]}
    return [
        {"multiplier": multiplier, "friction": friction} | fixed
        for friction in c["frictions"]
        for multiplier in c["multipliers"]
    ]


def run(cell: Cell) -> Rows:
    """Return the accuracy of each run, from the mean of its last draws, and its deviations."""
    data = radon(cell["seed"])
    starts = 0.1 * np.random.default_rng([cell["seed"], 10]).standard_normal((cell["runs"], 15))
    steps = cell["multiplier"] * np.arange(1, cell["num_steps"] + 1) ** (-1 / 3)
    sampler = softmax_sghmc(data, 1 / cell["prior_variance"], BATCH, cell["num_inner"])
    positions = sampler(starts, steps, cell["friction"], cell["clip"], cell["seed"]).astype(np.float64)
    last = positions[:, int(cell["burn_in"] * positions.shape[1]) :]
    half = positions[:, positions.shape[1] // 2 :]
    return [
        {"accuracy": data.accuracy(draws.mean(axis=0)), "deviations": own.std(axis=0).tolist()}
        for draws, own in zip(last, half, strict=True)
    ]


SWEEP = Study("sweep", cells, run)


def cost_cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a reading and ratio of friction to step size, on which alone the cost depends."""
    c, radon_settings = configuration["sweep"], configuration["radon"]
    fixed = {name: radon_settings[name] for name in ("rate", "num_inner", "delta")}
    fixed |= {name: c[name] for name in ("num_steps", "clip")} | {"num_records": 9831, "multiplier": 1.0}
    ratios = sorted({friction / multiplier for friction in c["frictions"] for multiplier in c["multipliers"]})
    return [{"reading": reading, "friction": ratio} | fixed for reading in READINGS for ratio in ratios]


def run_costs(cell: Cell) -> Rows:
    """Return the epsilon."""
    return [{"epsilon": costs.cost(cell, cell["delta"])}]


COSTS = Study("sweep_costs", cost_cells, run_costs)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw accuracy, deviation and epsilon against the friction, one line a step size."""
    c, table = configuration["sweep"], tables["sweep"].copy()
    exact = np.array(next(row["deviations"] for _, row in tables["posteriors"].iterrows() if row["sampler"] == "HMC"))
    table["gap"] = [float(np.mean(np.abs(np.array(own) - exact))) for own in table["deviations"]]
    found = table.groupby(["multiplier", "friction"])[["accuracy", "gap"]].mean().reset_index()
    prices = tables["sweep_costs"].set_index(["reading", "friction"])["epsilon"]
    for reading in READINGS:
        found[reading] = [prices[reading, row.friction / row.multiplier] for row in found.itertuples()]
    figure, panels = pictures.grid(1, 3, width=5.6, height=4.4)
    measures = {"accuracy": "accuracy", "gap": "difference of deviations", "published": "epsilon, own reading"}
    for ax, (measure, label) in zip(panels[0], measures.items(), strict=True):
        ax.set_xscale("log")
        for index, (multiplier, part) in enumerate(found.groupby("multiplier")):
            ax.plot(part.friction, part[measure], label=f"beta = {multiplier:g}", **pictures.style(index))
        pictures.dress(ax, xlabel="friction C", ylabel=label)
    for ax in panels[0, 1:]:
        ax.set_yscale("log")
    pictures.legend_above(figure, panels[0, 0], len(c["multipliers"]))
    caption = (
        f"The published SGHMC on the radon data, T = {c['num_steps']}, J = {configuration['radon']['num_inner']}, L = "
        f"{c['clip']:g}, steps beta t^(-1/3), means of {c['runs']} runs: accuracy; the mean absolute difference of the "
        "15 posterior standard deviations from those of HMC; epsilon at delta = "
        f"{configuration['radon']['delta']:g} as the thesis counts it, which is not what its clip costs."
    )
    return Product(caption, _summary(found), figure, found)


def _summary(found: pd.DataFrame) -> str:
    calm, wild = found[found.friction < BREAKS_ABOVE], found[found.friction > BREAKS_ABOVE]
    largest = wild[wild.multiplier == wild.multiplier.max()]
    long = calm[calm.multiplier >= LONG_ENOUGH]
    word = "**Holds**" if largest.accuracy.max() < long.accuracy.min() - 0.1 else "**Does not hold**"
    lines = [
        f"{word}: accuracies fall at large steps above C = {BREAKS_ABOVE}, to {largest.accuracy.min():.3f}, and not "
        f"before. With beta of {LONG_ENOUGH:g} and more they are {long.accuracy.min():.3f} to "
        f"{long.accuracy.max():.3f} up to C = {long.friction.max():g}; smaller steps have not got there after so many.",
        "",
        "| beta | C | accuracy | difference of deviations | epsilon, " + " | epsilon, ".join(READINGS.values()) + " |",
        "|---" * 6 + "|",
    ]
    lines += [
        f"| {row.multiplier:g} | {row.friction:g} | {row.accuracy:.3f} | {row.gap:.2f} | {row.published:.3g} | "
        f"{row.whole_gradient:.3g} |"
        for row in found.itertuples()
    ]
    return "\n".join(lines)


FIGURE = Target("figure-6-7", "Figure 6.7, step size and friction", (SWEEP, COSTS, MARGINALS), make)
