"""What the real tables show: errors against epsilon, and whether `fit` is as near as its peers."""

from typing import Any

import numpy as np
import pandas as pd

from experiments.beyond.real_data import REFERENCES, STUDY
from experiments.beyond.verdicts import AS_NEAR, FURTHER, NEARER, holm, verdicts, with_hindsight, without_hindsight
from experiments.machinery import pictures
from experiments.machinery.study import Configuration, Product, Tables, Target

ERRORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Marked on the axis."""

ACROSS = 4
"""Tables beside each other."""

NAMES = {
    "fit": "fit (dpmcmc)",
    "dp_sgd": "DP-SGD (jax_privacy)",
    "diffprivlib": "diffprivlib",
    "dp_gd": "DP-GD",
    "noise_aware": "noise-aware statistics",
}


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw errors and overlaps against epsilon; of the peers, the setting that turned out best."""
    c = configuration["real_data"]
    table = tables["real_posteriors"]
    best, default = with_hindsight(table), without_hindsight(table, c["defaults"])
    judged = {name: verdicts(one, **c["test"]) for name, one in (("best", best), ("default", default))}
    summary = pd.concat([_summary(best, "best with hindsight"), _summary(default, "default")], ignore_index=True)
    summary = summary.drop_duplicates(["table", "method", "epsilon", "setting"])  # a default may be the best
    caption = (
        f"Coefficients of regressions on public tables at epsilon in all, delta = {c['delta']:g}, replace-one "
        f"(diffprivlib: delta = 0). Above: how far they are from the posterior means without privacy, in its standard "
        f"deviations, median over coefficients. Below: how much of its 95 % intervals those of fit share. Medians and "
        f"quartiles of {table['repeat'].nunique()} repeats of the noise. Of the peers the best setting with hindsight. "
        f"Rings: announced as useless beforehand. First run when the code was frozen: "
        f"{', '.join(_words(name) for name in c['first_run_when_frozen'])}."
    )
    words = [_judged(judged[name], name, c) for name in judged]
    words += ["## All medians", _medians(summary), _references(tables.get("real_references"))]
    return Product(caption, "\n\n".join(filter(None, words)), _figure(best), _with_verdicts(summary, judged["best"]))


def _summary(table: pd.DataFrame, chosen: str) -> pd.DataFrame:
    groups = table.groupby(["table", "method", "epsilon"], sort=False)
    has_draws = "overlap" in table
    found = groups.agg(
        announced=("announced", "all"),
        setting=("setting", "first"),
        median_error=("median_error", "median"),
        median_error_q25=("median_error", lambda values: values.quantile(0.25, interpolation="lower")),
        median_error_q75=("median_error", lambda values: values.quantile(0.75, interpolation="higher")),
        largest_error=("largest_error", "median"),
        overlap=("overlap" if has_draws else "median_error", "median"),
        width=("width" if has_draws else "median_error", "median"),
        seconds=("seconds", "median"),
        repeats=("repeat", "nunique"),
    )
    return found.reset_index().assign(chosen=chosen)


def _with_verdicts(summary: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Return the medians, those of `fit` with what was found of it beside the best of the peers with hindsight."""
    if judged.empty:
        return summary
    kept = [
        "table",
        "epsilon",
        "peer",
        "ratio",
        "ratio_low",
        "ratio_high",
        "p_further",
        "p_nearer",
        "verdict",
        "said_bad",
    ]
    return summary.merge(judged[kept].assign(method="fit"), how="left", on=["table", "epsilon", "method"])


def _heading(which: str, c: Configuration) -> list[str]:
    if which == "best":
        return ["## Beside the best peer with hindsight", ""]
    named = "; ".join(f"{NAMES[method]}: {setting}" for method, setting in c["defaults"].items())
    return ["## Beside the best peer without hindsight", "", f"Without hindsight they take: {named}.", ""]


def _judged(judged: pd.DataFrame, which: str, c: Configuration) -> str:
    """Say cell by cell whether `fit` is as near."""
    if judged.empty:
        return ""
    level, count = c["test"]["level"], judged["verdict"].value_counts()
    sure = int(holm(judged["p_further"].to_numpy(), level).sum())
    of_all = f"{len(judged)} cells of table and epsilon"
    lines = [
        *_heading(which, c),
        f"In {count.get(NEARER, 0)} of {of_all} `fit` is nearer, in {count.get(AS_NEAR, 0)} as near within the spread "
        f"of the repeats, in {count.get(FURTHER, 0)} further off: one-sided Mann-Whitney tests of the repeats at "
        f"{level:.0%} a cell, so that of cells in which both have one law {level:.0%} are said to be further. At "
        f"{level:.0%} for all cells together (Holm) {sure} are. Intervals of the ratios are 95 %, by bootstrap. There "
        f"are {judged['repeats'].min()} repeats and more; few of them find nothing, whatever is there.",
        "",
        "| table | epsilon | fit | best peer | its error | ratio | p, further | verdict |",
        "|---" * 8 + "|",
    ]
    for row in judged.sort_values(["table", "epsilon"], kind="stable").itertuples():
        verdict = f"{row.verdict}{'; announced as useless' * row.announced}"
        verdict += f"; {row.said_bad:.0%} of the runs say that they are bad" if row.said_bad > 0 else ""
        lines.append(
            f"| {_marked(row.table, c)} | {row.epsilon:g} | {row.fit:.2f} | {NAMES[row.peer]}: {row.setting} | "
            f"{row.of_peer:.2f} | {row.ratio:.2f} ({row.ratio_low:.2f} to {row.ratio_high:.2f}) | "
            f"{row.p_further:.2g} | {verdict} |"
        )
    return "\n".join(lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _marked(name: str, c: Configuration) -> str:
    return f"{_words(name)} (first run when frozen)" if name in c["first_run_when_frozen"] else _words(name)


def _medians(summary: pd.DataFrame) -> str:
    lines = [
        "| table | epsilon | method | chosen | error, median / largest | shared interval | width | seconds | useless |",
        "|---" * 9 + "|",
    ]
    for row in summary.sort_values(["table", "epsilon"], kind="stable").itertuples():
        has_draws = row.method in ("fit", "noise_aware")
        shared, width = (f"{value:.2f}" if has_draws else "" for value in (row.overlap, row.width))
        lines.append(
            f"| {_words(row.table)} | {row.epsilon:g} | {NAMES[row.method]}: {row.setting} | "
            f"{'' if has_draws else row.chosen} | {row.median_error:.2f} / {row.largest_error:.2f} | {shared} "
            f"| {width} | {row.seconds:.1f} | {'announced' if row.announced else ''} |"
        )
    return "\n".join(lines)


def _references(references: pd.DataFrame | None) -> str:
    if references is None:
        return ""
    lines = ["The posterior without privacy is the normal one at its mode. NUTS on the same records differs by:", ""]
    lines += [
        f"- {_words(row.table)} ({row.num_records:,} records, {row.num_coefficients} coefficients): means by at most "
        f"{row.mean_gap:.3f} standard deviations, standard deviations by at most {row.width_gap:.1%}"
        for row in references.itertuples()
    ]
    return "\n".join(lines)


def _figure(table: pd.DataFrame) -> Any:
    names = list(dict.fromkeys(table["table"]))
    across = min(ACROSS, len(names))
    bands = -(-len(names) // across)
    methods = [method for method in NAMES if (table["method"] == method).any()]
    figure, axes = pictures.grid(2 * bands, across, height=3.2, sharex=True, sharey="row")
    for place in range(bands * across):
        above, below = axes[2 * (place // across) : 2 * (place // across) + 2, place % across]
        if place >= len(names):
            above.set_visible(False)
            below.set_visible(False)
            continue
        own = table[table["table"] == names[place]]
        _errors(above, own, methods)
        _overlaps(below, own)
        pictures.dress(above, ylabel="error (sd)" if place % across == 0 else "", title=_words(names[place]))
        pictures.dress(below, xlabel="epsilon", ylabel="shared interval" if place % across == 0 else "")
    pictures.legend_above(figure, axes[0, 0], len(methods))
    return figure


RING = {"s": 260, "facecolors": "none", "edgecolors": "0.25", "linewidths": 1.6}


def _errors(ax: Any, own: pd.DataFrame, methods: list[str]) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.axhline(1.0, color="0.6", linewidth=1)
    for index, method in enumerate(methods):
        one = own[own["method"] == method]
        one = one[np.isfinite(one["median_error"])]
        shift = 0.04 * (index - (len(methods) - 1) / 2)
        if len(one):
            pictures.medians(ax, one, "epsilon", "median_error", index=index, label=NAMES[method], shift=shift)
        else:
            ax.errorbar([], [], label=NAMES[method], capsize=3, elinewidth=1.2, **pictures.style(index))
    useless = _useless(own)
    ax.scatter(useless["epsilon"] * (1 - 0.02 * (len(methods) - 1)), useless["median_error"], **RING)
    ax.set_yticks(ERRORS, [f"{error:g}" for error in ERRORS])
    ax.minorticks_off()


def _overlaps(ax: Any, own: pd.DataFrame) -> None:
    ax.axhline(1.0, color="0.6", linewidth=1)
    pictures.medians(ax, own[own["method"] == "fit"], "epsilon", "overlap", index=0, label="")
    useless = _useless(own)
    ax.scatter(useless["epsilon"], useless["overlap"], **RING)
    ax.set_ylim(0.0, 1.05)
    ticks = sorted(own["epsilon"].unique())
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _useless(own: pd.DataFrame) -> pd.DataFrame:
    fits = own[(own["method"] == "fit") & own["announced"].astype(bool)]
    return fits.groupby("epsilon")[["median_error", "overlap"]].median().reset_index()


TARGET = Target("real-data", "regressions on public tables, beside other libraries", (REFERENCES, STUDY), make)
