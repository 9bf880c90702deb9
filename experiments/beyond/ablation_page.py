"""What it costs to take away each of the ways of `fit`: a table and a picture."""

from typing import Any

import numpy as np
import pandas as pd

from experiments.beyond.ablation import STUDY, WAYS
from experiments.beyond.verdicts import further_by_chance, ratio
from experiments.machinery import pictures
from experiments.machinery.study import Configuration, Product, Tables, Target

WHOLE = "all of it"
LEVEL, NUM_RESAMPLES = 0.05, 10_000


def make(tables: Tables, configuration: Configuration) -> Product:
    """Show by how much errors grow, way by way."""
    table = tables[STUDY.name]
    summary = pd.DataFrame(_costs(table))
    c = configuration["ablation"]
    caption = (
        "By how much the error grows when one of the ways of fit is taken away: median error in standard deviations of "
        f"the posterior without privacy, over that of fit as it is, {table['repeat'].nunique()} repeats of the noise, "
        f"95 % intervals by bootstrap; delta = {c['delta']:g}, replace-one, sums emulated in floating point."
    )
    return Product(caption, _words(summary), _figure(summary), summary)


def _costs(table: pd.DataFrame) -> Any:
    for (name, epsilon), own in table.groupby(["table", "epsilon"], sort=False):
        whole = own[own["way"] == WHOLE]
        for way in WAYS:
            one = own[own["way"] == way]
            if one.empty or whole.empty:
                continue
            errors = {"median": "median_error", "largest": "largest_error"}
            found = {word: (one[column].to_numpy(), whole[column].to_numpy()) for word, column in errors.items()}
            yield {
                "table": name,
                "epsilon": epsilon,
                "way": way,
                "median_error": float(np.median(found["median"][0])),
                "largest_error": float(np.median(found["largest"][0])),
                **ratio(*found["median"], NUM_RESAMPLES),
                "ratio_largest": ratio(*found["largest"], NUM_RESAMPLES)["ratio"],
                "p_further": further_by_chance(*found["median"]),
                "p_nearer": further_by_chance(*found["median"][::-1]),
                "width": float(one["width"].median()),
                "own_error": float(np.sqrt(np.mean(one["own_error"] ** 2))),
                "bad": float((one["setting"] == "bad").mean()),
                "repeats": len(one),
            }


def _words(summary: pd.DataFrame) -> str:
    others = summary[summary["way"] != WHOLE]
    lines = []
    for way, own in others.groupby("way", sort=False):
        mean = float(np.exp(np.log(own["ratio"]).mean()))
        worse, better = int((own["p_further"] < LEVEL).sum()), int((own["p_nearer"] < LEVEL).sum())
        lines.append(
            f"- {way.capitalize()}: {mean:.2f} times the error in the geometric mean over {len(own)} cells of table "
            f"and epsilon; larger in {worse} of them, smaller in {better} (one-sided Mann-Whitney, {LEVEL:.0%} each)."
        )
    lines += [
        "",
        "| table | epsilon | taken away | error, median / largest | ratio | p, further | width | own error | bad |",
        "|---" * 9 + "|",
    ]
    for row in summary.sort_values(["table", "epsilon"], kind="stable").itertuples():
        times = "" if row.way == WHOLE else f"{row.ratio:.2f} ({row.ratio_low:.2f} to {row.ratio_high:.2f})"
        chance = "" if row.way == WHOLE else f"{row.p_further:.2g}"
        away = "nothing" if row.way == WHOLE else row.way
        lines.append(
            f"| {row.table} | {row.epsilon:g} | {away} | {row.median_error:.2f} / {row.largest_error:.2f} | "
            f"{times} | {chance} | {row.width:.2f} | {row.own_error:.2f} | {row.bad:.0%} |"
        )
    lines += [
        "",
        "Own error: how far means are off in units of what intervals are wider than those without privacy, root mean "
        "square over coefficients and repeats; about one where intervals know their noise. Bad: how often the verdict "
        "says so.",
    ]
    return "\n".join(lines)


def _figure(summary: pd.DataFrame) -> Any:
    names = list(dict.fromkeys(summary["table"]))
    ways = [way for way in WAYS if way != WHOLE]
    figure, axes = pictures.grid(1, len(names), height=4.0, sharey=True)
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.axhline(1.0, color="0.6", linewidth=1)
        for index, way in enumerate(ways):
            own = summary[(summary["table"] == name) & (summary["way"] == way)].sort_values("epsilon")
            bars = [own["ratio"] - own["ratio_low"], own["ratio_high"] - own["ratio"]]
            at = own["epsilon"] * (1 + 0.04 * (index - (len(ways) - 1) / 2))
            ax.errorbar(at, own["ratio"], yerr=np.maximum(bars, 0), label=way, capsize=3, **pictures.style(index))
        ticks = sorted(summary["epsilon"].unique())
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
        ax.minorticks_off()
        pictures.dress(ax, xlabel="epsilon", ylabel="times the error" if ax is axes[0, 0] else "", title=name)
    pictures.legend_above(figure, axes[0, 0], 3)
    return figure


TARGET = Target("ablation", "what each of the ways of fit is worth", (STUDY,), make)
