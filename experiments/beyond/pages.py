"""What the posteriors show: distances beside the aims and the floor, and coverage."""

import math
from typing import Any

import pandas as pd

from experiments.beyond.posteriors import FLOOR, FORMULA, LEVEL, PLUG_IN, STUDY, summary
from experiments.machinery import pictures
from experiments.machinery.study import Configuration, Product, Tables, Target

TARGETS = {
    ("gaussian", 1.0): 0.08,
    ("gaussian", 4.0): 0.035,
    ("banana", 1.0): 0.03,
    ("logistic_10", 1.0): 0.21,
    ("logistic_10", 4.0): 0.07,
    ("logistic_10", 10.0): 0.03,
    ("logistic_30", 1.0): 0.29,
    ("logistic_30", 4.0): 0.085,
    ("logistic_30", 10.0): 0.04,
    ("logistic_100", 4.0): 0.16,
    ("logistic_100", 10.0): 0.065,
    ("mixture_tempered", 0.1): 0.01,
    ("mixture", 1.0): 0.15,
    ("mixture", 4.0): 0.04,
    ("mixture", 10.0): 0.02,
}
"""Distances that the best method ought to stay below, by problem and epsilon; of the mixtures total variations."""

NEAR = 1.5
"""How many times the floor is near it."""

OWN = (FORMULA, "private_laplace", "sketch")
NAMES = {
    FORMULA: "weighted scores of a formula",
    "private_laplace": "private Laplace",
    "sketch": "sketch",
    "dp_hmc": "DP-HMC, oracle's length",
    "dp_penalty": "DP-penalty, oracle's length",
    "dp_langevin": "DP-Langevin, oracle's length",
    FLOOR: "floor",
}
COVERED = {
    FORMULA: "formula, noise-aware",
    "private_laplace": "noise-aware",
    PLUG_IN: "plug-in",
    "sketch": "sketch, noise-aware",
}


def make_summary(tables: Tables, configuration: Configuration) -> Product:
    """Draw the distances against epsilon, and say which aims are met."""
    table = tables[STUDY.name]
    found = summary(table)
    caption = (
        "MMD to the exact posterior (mixtures: total variation) of posteriors that cost epsilon in all, pilot and "
        f"chains included, at delta = {configuration['delta']:g}, replace-one; medians and quartiles of "
        f"{configuration['num_repeats']} repeats and more, each with records of its own. Floor: one release of the "
        "right sum by an oracle. Of chains the better of two lengths, in hindsight."
    )
    kept = found.drop(columns="repeats")
    return Product(caption, _verdicts(found), _distances(found), kept)


def make_coverage(tables: Tables, configuration: Configuration) -> Product:
    """Draw how often the intervals hold the true parameter."""
    found = summary(tables[STUDY.name])
    found = found[found["method"].isin(list(COVERED))]
    caption = (
        f"How often {LEVEL:.0%} intervals of private posteriors hold the parameter that made the records, over "
        f"coordinates and repeats; delta = "
        f"{configuration['delta']:g}, replace-one. Grey: 92 to 98 %."
    )
    wide = found.pivot_table(
        index=["problem", "dimension", "n", "epsilon"], columns="method", values="coverage95", sort=False
    )
    return Product(caption, _held(found), _coverage(found), wide.reset_index())


def _distances(found: pd.DataFrame) -> Any:
    problems = list(dict.fromkeys(found["problem"]))
    figure, axes = pictures.grid(-(-len(problems) // 4), 4, height=3.4, width=4.2, sharey=True)
    for ax, problem in zip(axes.flat, problems, strict=False):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlim=(0.08, 20), ylim=(8e-4, 1.1))
        own = found[found["problem"] == problem]
        for index, (method, name) in enumerate(NAMES.items()):
            one = own[own["method"] == method].sort_values("epsilon")
            if one.empty:
                continue
            at = one["epsilon"] * (1 + 0.03 * (index - 2))
            bars = [one["mmd_median"] - one["mmd_q25"], one["mmd_q75"] - one["mmd_median"]]
            look = pictures.style(index) | ({"color": "0.5", "marker": ""} if method == FLOOR else {})
            ax.errorbar(at, one["mmd_median"], yerr=bars, label=name, capsize=3, elinewidth=1.2, **look)
        aims = {epsilon: aim for (name, epsilon), aim in TARGETS.items() if name == problem}
        ax.plot(list(aims), list(aims.values()), "k_", markersize=16, markeredgewidth=2, label="aim")
        distance = "total variation" if problem.startswith("mixture") else "MMD"
        _mark(ax, own)
        pictures.dress(ax, xlabel="epsilon", ylabel=distance, title=problem.replace("_", " "))
    for ax in axes.flat[len(problems) :]:
        ax.set_visible(False)
    _legend(figure, axes)
    return figure


def _coverage(found: pd.DataFrame) -> Any:
    problems = [name for name in dict.fromkeys(found["problem"]) if not name.startswith("mixture")]
    figure, axes = pictures.grid(2, -(-len(problems) // 2), height=3.4, width=4.2, sharey=True)
    for ax, problem in zip(axes.flat, problems, strict=False):
        ax.set_xscale("log")
        ax.axhspan(0.92, 0.98, color="0.9")
        own = found[found["problem"] == problem]
        for index, (method, name) in enumerate(COVERED.items()):
            one = own[own["method"] == method].sort_values("epsilon")
            if not one.empty:
                ax.plot(one["epsilon"], one["coverage95"], label=name, **pictures.style(index))
        _mark(ax, own)
        pictures.dress(ax, xlabel="epsilon", ylabel="held", title=problem.replace("_", " "))
    for ax in axes.flat[len(problems) :]:
        ax.set_visible(False)
    _legend(figure, axes)
    return figure


def _mark(ax: Any, own: pd.DataFrame) -> None:
    """Write the epsilons of a problem under its panel; those that would run into the next are left out."""
    ticks = sorted(own["epsilon"].unique())
    shown = [tick for tick, after in zip(ticks, [*ticks[1:], math.inf], strict=True) if after > 2 * tick]
    ax.set_xticks(shown, [f"{tick:g}" for tick in shown])
    ax.set_xticks([], minor=True)


def _legend(figure: Any, axes: Any) -> None:
    series = {name: line for ax in axes.flat for line, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        series.values(), series.keys(), loc="outside upper center", ncols=4, fontsize=pictures.SIZE, frameon=False
    )


def _verdicts(found: pd.DataFrame) -> str:
    """Say of each problem and epsilon which aim is met, how far the floor is, and whether any chain is better."""
    lines = ["| problem | epsilon | method | MMD | aim | floor | best chain | repeats |", "|---" * 8 + "|"]
    counts = {"met": 0, "missed": 0}
    for (problem, epsilon), own in found.groupby(["problem", "epsilon"], sort=False):
        ours = own[own["method"].isin(OWN)]
        if ours.empty:
            continue
        best = ours.loc[ours["mmd_median"].idxmin()]
        aim = TARGETS.get((str(problem), float(epsilon)))
        floor = own.loc[own["method"] == FLOOR, "mmd_median"]
        chains = own[~own["method"].isin([*OWN, FLOOR, PLUG_IN])]
        word = ""
        if aim is not None:
            word = "met" if best["mmd_median"] <= aim else "missed"
            counts[word] += 1
        of_floor = "" if floor.empty else f"{floor.iloc[0]:.3f}" + _times(best["mmd_median"], floor.iloc[0])
        of_chain = ""
        if not chains.empty:
            chain = chains.loc[chains["mmd_median"].idxmin()]
            of_chain = f"{chain['mmd_median']:.3f}, {chain['method']}"
        lines.append(
            f"| {problem} | {epsilon:g} | {best['method']} | {best['mmd_median']:.3f} ({best['mmd_q25']:.3f} to "
            f"{best['mmd_q75']:.3f}) | {'' if aim is None else f'{aim:g}, {word}'} | {of_floor} | {of_chain} | "
            f"{int(best['repeats'])} |"
        )
    return f"{counts['met']} aims of {sum(counts.values())} are met.\n\n" + "\n".join(lines)


def _times(value: float, floor: float) -> str:
    ratio = value / floor if floor > 0 else math.inf
    return f" ({ratio:.1f} times it)" if ratio > NEAR else ""


def _held(found: pd.DataFrame) -> str:
    lines = ["| problem | epsilon | method | held | repeats |", "|---" * 5 + "|"]
    lines += [
        f"| {row.problem} | {row.epsilon:g} | {COVERED[str(row.method)]} | {row.coverage95:.1%} | {row.repeats} |"
        for row in found.itertuples()
    ]
    return "\n".join(lines)


SUMMARY = Target("summary", "private posteriors at a fraction of the epsilon", (STUDY,), make_summary)
COVERAGE = Target("coverage", "posteriors that know their own noise", (STUDY,), make_coverage)
