"""`fit` on public tables, against the posterior without privacy and beside point estimates of other libraries."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting import prepare_fit
from dpmcmc.zoo.reference import nuts_reference
from experiments.beyond import peers
from experiments.beyond.real_tables import Question, question
from experiments.machinery import pictures
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

TAILS = (0.025, 0.975)
"""Of a 95 % interval."""

ERRORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Marked on the axis."""

NAMES = {"fit": "fit (dpmcmc)", "dp_sgd": "DP-SGD (jax_privacy)", "diffprivlib": "diffprivlib"}


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a repeat, table, method and epsilon; the records are always the same, the noise is not."""
    c = configuration["real_data"]
    return [
        {
            "table": table,
            "method": method,
            "epsilon": epsilon,
            "repeat": repeat,
            "delta": c["delta"],
            "seed": c["seed"],
            **c["tables"][table],
            "settings": c.get(method, {}),
        }
        for method in c["methods"]
        for repeat in range(c["num_repeats"])
        for table in c["asked"]
        for epsilon in c["epsilons"]
    ]


def run(cell: Cell) -> Rows:
    """Fit once, by one method, and say how far off it is."""
    return run_together([cell])[0]


def run_together(repeats: list[Cell]) -> list[Rows]:
    """Run repeats of one setting: programs of `fit` are traced and compiled once, and its budget divided once."""
    cell = repeats[0]
    asked = question(cell["table"], cell["formula"], cell["family"])
    sequences = [np.random.SeedSequence([cell["seed"], each["repeat"]]) for each in repeats]
    seeds = [int(one.generate_state(1)[0] >> 1) for one in sequences]
    if cell["method"] == "fit":
        return [[row] for row in _fitted(asked, cell, seeds)]
    return [list(_estimated(asked, cell, seed)) for seed in seeds]


def _estimated(asked: Question, cell: Cell, seed: int) -> Iterator[dict[str, Any]]:
    """Return what a peer finds, setting by setting."""
    options = (asked, cell["epsilon"], seed, cell["settings"])
    found = peers.dp_sgd(*options, cell["delta"]) if cell["method"] == "dp_sgd" else peers.diffprivlib(*options)
    started = time.perf_counter()
    for setting, position in found:
        estimate = asked.named(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)).iloc[0]
        seconds = time.perf_counter() - started
        yield {"setting": setting, "announced": False, **_errors(asked, estimate), "seconds": seconds}
        started = time.perf_counter()


def _fitted(asked: Question, cell: Cell, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Fit with the sampler that is chosen by itself; where it announces that it would be useless, all the same."""
    data = dp.PrivateData.without_guarantee(asked.records, bounds=asked.schema.bounds, schema=asked.schema)
    prepare = partial(
        prepare_fit, asked.formula, data, family=asked.family, epsilon=cell["epsilon"], delta=cell["delta"]
    )
    exact = asked.exact[asked.coefficients].quantile(TAILS)
    lengths = exact.iloc[1] - exact.iloc[0]
    started = time.perf_counter()
    try:
        prepared, announced = prepare(), False
    except BudgetUnreachable:
        prepared, announced = prepare(even_if_useless=True), True
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = replace(prepared, seed=seed, insecure_seed=seed).run(progress=False)
        seconds = time.perf_counter() - started
        draws = post.to_pandas()
        found = draws[asked.coefficients].quantile(TAILS)
        shared = np.minimum(exact.iloc[1], found.iloc[1]) - np.maximum(exact.iloc[0], found.iloc[0])
        yield {
            "setting": prepared.sampler,
            "announced": announced,
            **_errors(asked, draws[list(asked.exact)].mean()),
            "overlap": float(np.mean(np.maximum(shared, 0.0) / lengths)),
            "width": float(((found.iloc[1] - found.iloc[0]) / lengths).median()),
            "seconds": seconds,
        }
        started = time.perf_counter()


def _errors(asked: Question, found: "pd.Series[float]") -> dict[str, float]:
    """Return how far estimates are from the exact posterior means, in its standard deviations, over coefficients."""
    off = ((found - asked.exact.mean()).abs() / asked.exact.std())[asked.coefficients]
    return {"median_error": float(off.median()), "largest_error": float(off.max())}


STUDY = Study("real_posteriors", cells, run, run_together)


def reference_cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a table."""
    c = configuration["real_data"]
    return [{"table": table, "seed": c["seed"], **c["tables"][table]} for table in c["references"]]


def run_reference(cell: Cell) -> Rows:
    """Hold the normal approximation of the posterior without privacy against NUTS."""
    asked = question(cell["table"], cell["formula"], cell["family"])
    records = jax.tree.map(jnp.asarray, asked.records)
    drawn = nuts_reference(asked.model, records, key=jax.random.key(cell["seed"]), num_chains=2)
    flat = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32).reshape(-1, *leaf.shape[2:]), drawn)
    exact, sampled = asked.exact[asked.coefficients], asked.named(flat)[asked.coefficients]
    return [
        {
            "num_records": asked.num_records,
            "num_coefficients": len(asked.coefficients),
            "mean_gap": float(((exact.mean() - sampled.mean()).abs() / exact.std()).max()),
            "width_gap": float((sampled.std() / exact.std() - 1).abs().max()),
        }
    ]


REFERENCES = Study("real_references", reference_cells, run_reference)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw errors and overlaps against epsilon; of the peers, the setting that turned out best."""
    table = with_hindsight(tables["real_posteriors"])
    groups = table.groupby(["table", "method", "epsilon"], sort=False)
    summary = groups.agg(
        announced=("announced", "all"),
        setting=("setting", "first"),
        median_error=("median_error", "median"),
        median_error_q25=("median_error", lambda values: values.quantile(0.25)),
        median_error_q75=("median_error", lambda values: values.quantile(0.75)),
        largest_error=("largest_error", "median"),
        overlap=("overlap", "median"),
        width=("width", "median"),
        seconds=("seconds", "median"),
        repeats=("repeat", "nunique"),
    ).reset_index()
    c = configuration["real_data"]
    caption = (
        f"Coefficients of regressions on public tables at epsilon in all, delta = {c['delta']:g}, replace-one "
        f"(diffprivlib: delta = 0). Above: how far they are from the posterior means without privacy, in its standard "
        f"deviations, median over coefficients. Below: how much of its 95 % intervals those of fit share. Medians and "
        f"quartiles of {table['repeat'].nunique()} repeats of the noise. Of the peers the best setting with hindsight. "
        f"Rings: announced as useless beforehand."
    )
    return Product(caption, _words(summary, tables.get("real_references")), _figure(table, summary), summary)


def with_hindsight(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `fit`, and of every peer those of its best setting, table by table and epsilon by epsilon."""
    peers = table[table["method"] != "fit"]
    kept = [table[table["method"] == "fit"]]
    for _, one in peers.groupby(["table", "method", "epsilon"], sort=False):
        best = one.groupby("setting")["median_error"].median().idxmin()
        kept.append(one[one["setting"] == best])
    return pd.concat(kept)


def _figure(table: pd.DataFrame, summary: pd.DataFrame) -> Any:
    names = list(dict.fromkeys(table["table"]))
    methods = [method for method in NAMES if (table["method"] == method).any()]
    figure, axes = pictures.grid(2, len(names), height=3.6, sharex=True, sharey="row")
    for column, name in enumerate(names):
        above, below = axes[:, column]
        above.set_xscale("log")
        above.set_yscale("log")
        above.axhline(1.0, color="0.6", linewidth=1)
        below.axhline(1.0, color="0.6", linewidth=1)
        own = table[table["table"] == name]
        for index, method in enumerate(methods):
            one = own[own["method"] == method]
            if len(one):
                shift = 0.04 * (index - (len(methods) - 1) / 2)
                pictures.medians(above, one, "epsilon", "median_error", index=index, label=NAMES[method], shift=shift)
        fits = own[own["method"] == "fit"]
        pictures.medians(below, fits, "epsilon", "overlap", index=0, label="")
        lines = summary[(summary["table"] == name) & (summary["method"] == "fit") & summary["announced"]]
        for ax, what, shift in ((above, "median_error", -0.02 * (len(methods) - 1)), (below, "overlap", 0.0)):
            ring = {"s": 260, "facecolors": "none", "edgecolors": "0.25", "linewidths": 1.6}
            ax.scatter(lines["epsilon"] * (1 + shift), lines[what], **ring)
        above.set_yticks(ERRORS, [f"{error:g}" for error in ERRORS])
        above.minorticks_off()
        below.set_ylim(0.0, 1.05)
        ticks = sorted(own["epsilon"].unique())
        below.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        below.minorticks_off()
        pictures.dress(above, ylabel="error (sd)" if column == 0 else "", title=name.replace("_", " "))
        pictures.dress(below, xlabel="epsilon", ylabel="shared interval" if column == 0 else "")
    pictures.legend_above(figure, axes[0, 0], len(methods))
    return figure


def _words(summary: pd.DataFrame, references: pd.DataFrame | None) -> str:
    lines = [
        "| table | epsilon | method | error, median / largest | shared interval | width | seconds | announced |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in summary.sort_values(["table", "epsilon"], kind="stable").itertuples():
        shared, width = ("" if np.isnan(value) else f"{value:.2f}" for value in (row.overlap, row.width))
        lines.append(
            f"| {row.table} | {row.epsilon:g} | {NAMES[row.method]}: {row.setting} | {row.median_error:.2f} / "
            f"{row.largest_error:.2f} | {shared} | {width} | {row.seconds:.1f} | {'useless' if row.announced else ''} |"
        )
    if references is not None:
        lines += [
            "",
            "The posterior without privacy is the normal one at its mode. NUTS on the same records differs by:",
            "",
        ]
        lines += [
            f"- {row.table} ({row.num_records:,} records, {row.num_coefficients} coefficients): means by at most "
            f"{row.mean_gap:.3f} standard deviations, standard deviations by at most {row.width_gap:.1%}"
            for row in references.itertuples()
        ]
    return "\n".join(lines)


TARGET = Target("real-data", "regressions on public tables, beside other libraries", (REFERENCES, STUDY), make)
