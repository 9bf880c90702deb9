"""Posteriors of `fit` at a budget that pays for everything, against the exact ones: distance, coverage, time."""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.diagnostics import mmd
from experiments.machinery import pictures
from experiments.machinery.study import Cell, Configuration, Product, Rows, Study, Tables, Target

LEVEL = 0.95
FLOOR = 0.02
"""What the estimate of the distance is between two samples of one law, about."""

PRIOR_VARIANCE, NEWTON_STEPS = 10.0, 12
"""Of the zoo's regression."""

SLOPES = 2.0
"""The length of the vector of coefficients that the records of the regressions are made with."""

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
}
"""Distances that the best method ought to stay below, by problem and epsilon."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a repeat, problem, method and epsilon; every repeat has records of its own."""
    c = configuration
    return [
        {
            "problem": label,
            "dimension": problem["dimension"],
            "num_records": problem["num_records"],
            "method": method,
            "epsilon": epsilon,
            "repeat": repeat,
            "name": problem["name"],
            "delta": c["delta"],
            "num_reference": c["num_reference"],
            "most_draws": c["most_draws"],
            "most_steps": c["most_steps"],
            "num_chains": c["num_chains"],
            "seed": c["seed"],
        }
        for repeat in range(c["num_repeats"])
        for label, problem in c["problems"].items()
        for method in problem["methods"]
        for epsilon in problem["epsilons"]
    ]


def run(cell: Cell) -> Rows:
    """Fit once, and compare with draws of the exact posterior and with the position that made the records."""
    problem = made(cell)
    seed = [cell["seed"], cell["repeat"]]
    reference = exact_draws(problem, np.random.default_rng([*seed, 1]), cell["num_reference"])
    data = dp.PrivateData(problem.records, bounds=problem.bounds, budget=dp.Budget(cell["epsilon"], cell["delta"]))
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it expects to be far off it says so, and is measured all the same
        post = dp.fit(
            problem.model,
            data,
            epsilon=cell["epsilon"],
            sampler=cell["method"],
            num_chains=cell["num_chains"],
            num_steps=cell["most_steps"],
            even_if_useless=True,
            progress=False,
        )
    seconds = time.perf_counter() - begun
    draws = np.asarray(post.draws["position"], np.float64)[:, post.num_warmup :]
    draws = draws[:, :: max(1, -(-draws.shape[1] * draws.shape[0] // cell["most_draws"]))].reshape(-1, draws.shape[-1])
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    low, high = np.quantile(draws, tails, axis=0)
    gap = (draws.mean(axis=0) - reference.mean(axis=0)) / reference.std(axis=0)
    return [
        {
            "mmd": mmd(draws, reference, np.random.default_rng([*seed, 2])),
            "covered": float(np.mean((low <= problem.centre) & (problem.centre <= high))),
            "covered_without_privacy": float(np.mean(_holds(reference, tails, problem.centre))),
            "mean_error": float(np.sqrt(np.mean(gap**2))),
            "width": float(np.median(draws.std(axis=0) / reference.std(axis=0))),
            "seconds": seconds,
        }
    ]


def made(cell: Cell) -> zoo.Problem:
    """Return the problem with the records of the repeat; the coefficients of a regression are those of its seed."""
    options: dict[str, Any] = {"num_records": cell["num_records"]}
    if cell["name"] == "logistic_regression":
        truth = np.random.default_rng(cell["seed"]).normal(size=cell["dimension"])
        options["truth"] = SLOPES * truth / np.linalg.norm(truth)
        options["prior_variance"] = PRIOR_VARIANCE
    return zoo.problem(cell["name"], np.random.default_rng([cell["seed"], cell["repeat"], 0]), **options)


def exact_draws(problem: zoo.Problem, rng: np.random.Generator, num_draws: int) -> np.ndarray:
    """Return draws of the posterior; of a regression, which is normal with so many records, by Newton's method."""
    if problem.name != "logistic_regression":
        return problem.sample_posterior(rng, num_draws)
    rows = np.column_stack([np.ones(len(problem.records["x"])), problem.records["x"]]).astype(float)
    position, prior_precision = problem.centre.copy(), np.eye(problem.dimension) / PRIOR_VARIANCE
    for _ in range(NEWTON_STEPS):
        chance = expit(rows @ position)
        precision = rows.T @ (rows * (chance * (1 - chance))[:, None]) + prior_precision
        position += np.linalg.solve(precision, rows.T @ (problem.records["y"] - chance) - prior_precision @ position)
    return rng.multivariate_normal(position, np.linalg.inv(precision), num_draws)


def _holds(draws: np.ndarray, tails: list[float], truth: np.ndarray) -> np.ndarray:
    low, high = np.quantile(draws, tails, axis=0)
    return (low <= truth) & (truth <= high)


STUDY = Study("posteriors", cells, run)


def make(tables: Tables, configuration: Configuration) -> Product:
    """Draw the distances against epsilon, and say which targets are met."""
    table = tables["posteriors"]
    groups = table.groupby(["problem", "dimension", "num_records", "method", "epsilon"], sort=False)
    summary = groups.agg(
        mmd_median=("mmd", "median"),
        mmd_q25=("mmd", lambda values: values.quantile(0.25)),
        mmd_q75=("mmd", lambda values: values.quantile(0.75)),
        coverage95=("covered", "mean"),
        seconds=("seconds", "median"),
    )
    summary = summary.reset_index().rename(columns={"num_records": "n"})
    caption = (
        f"MMD to the exact posterior of posteriors that cost epsilon in all, pilot and chains included, at delta = "
        f"{configuration['delta']:g}, replace-one; n = {int(table['num_records'].max()):,}; medians and quartiles of "
        f"{table['repeat'].nunique()} repeats, each with records of its own. Grey: two samples of one law."
    )
    return Product(caption, _verdicts(summary), _figure(table), summary)


def _figure(table: pd.DataFrame) -> Any:
    problems = list(dict.fromkeys(table["problem"]))
    methods = list(dict.fromkeys(table["method"]))
    figure, axes = pictures.grid(2, -(-len(problems) // 2), height=3.6, sharey=True)
    for ax, problem in zip(axes.flat, problems, strict=False):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.axhline(FLOOR, color="0.6", linewidth=1)
        own = table[table["problem"] == problem]
        for index, method in enumerate(methods):
            if (own["method"] == method).any():
                shift = 0.03 * (index - len(methods) / 2)
                one = own[own["method"] == method]
                pictures.medians(ax, one, "epsilon", "mmd", index=index, label=method, shift=shift)
        pictures.dress(ax, xlabel="epsilon", ylabel="MMD", title=problem.replace("_", ", d = "))
    for ax in axes.flat[len(problems) :]:
        ax.set_visible(False)
    series = {name: line for ax in axes.flat for line, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(
        series.values(),
        series.keys(),
        loc="outside upper center",
        ncols=len(methods),
        fontsize=pictures.SIZE,
        frameon=False,
    )
    return figure


def _verdicts(summary: pd.DataFrame) -> str:
    lines = []
    for (problem, epsilon), target in TARGETS.items():
        found = summary[(summary["problem"] == problem) & (summary["epsilon"] == epsilon)]
        if not found.empty:
            best = found.loc[found["mmd_median"].idxmin()]
            word = "met" if best["mmd_median"] <= target else "missed"
            lines.append(
                f"- {word}: {problem}, epsilon {epsilon:g}: {best['method']} {best['mmd_median']:.3f} "
                f"(quartiles {best['mmd_q25']:.3f} to {best['mmd_q75']:.3f}), aim {target:g}"
            )
    return "\n".join(lines)


TARGET = Target("table", "private posteriors at a fraction of the epsilon", (STUDY,), make)
