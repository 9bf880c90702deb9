"""Posteriors of `fit` at a budget that pays for everything, against the exact ones: distance, coverage, time."""

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc import zoo
from dpmcmc.diagnostics import mmd
from dpmcmc.fitting import prepare_fit
from experiments.beyond import mixture, problems
from experiments.beyond.floor import best_shift
from experiments.machinery.study import Cell, Configuration, Rows, Study

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
FLOOR = "floor"
PLUG_IN = "private_laplace, plug-in"
"""The same draws as noise-aware ones, without the width of the noise."""

FORMULA = "formula"
"""`fit` as it is called for a table and a formula, with nothing chosen."""

FREE = ("private_laplace", "sketch")
"""Methods whose draws cost nothing, so that there may be as many as one likes."""


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a repeat, problem, method, epsilon and length of a chain; every repeat has its own records."""
    c = configuration
    own = [cell for repeat in range(_most(c)) for label in c["problems"] for cell in _own(c, label, repeat)]
    chains = [
        cell for repeat in range(c["num_repeats"]) for label in c["problems"] for cell in _chains(c, label, repeat)
    ]
    return own + chains


def _own(c: Configuration, label: str, repeat: int) -> list[Cell]:
    problem = c["problems"][label]
    if repeat >= problem.get("num_repeats", c["num_repeats"]):
        return []
    has_floor = problem["has_floor"] and repeat < c["num_repeats"]
    methods = [*problem["methods"], FLOOR] if has_floor else problem["methods"]
    return [
        _cell(c, label, repeat, method, epsilon, c["most_draws"])
        for method in methods
        for epsilon in problem["epsilons"]
    ]


def _chains(c: Configuration, label: str, repeat: int) -> list[Cell]:
    problem = c["problems"][label]
    return [
        _cell(c, label, repeat, method, epsilon, num_steps)
        for method in problem.get("chains", ())
        for epsilon in problem["chain_epsilons"]
        for num_steps in c["num_steps"][method]
    ]


def _most(c: Configuration) -> int:
    return max(problem.get("num_repeats", c["num_repeats"]) for problem in c["problems"].values())


def _cell(c: Configuration, label: str, repeat: int, method: str, epsilon: float, num_steps: int) -> Cell:
    problem = c["problems"][label]
    return {
        "problem": label,
        "dimension": problem["dimension"],
        "num_records": problem["num_records"],
        "method": method,
        "epsilon": epsilon,
        "num_steps": num_steps,
        "repeat": repeat,
        "name": problem["name"],
        "delta": c["delta"],
        "num_reference": c["num_reference"],
        "most_draws": c["most_draws"],
        "seed": c["seed"],
    }


def run(cell: Cell) -> Rows:
    """Fit once, and compare with draws of the exact posterior and with the position that made the records."""
    problem, rng = problems.made(cell), np.random.default_rng([cell["seed"], cell["repeat"], 1])
    if cell["name"].endswith("mixture"):
        return [_mixture(cell, problem, rng)]
    law = problems.regular(problem)
    reference = (law or problem.law).draw(rng, cell["num_reference"])
    if law is not None and cell["method"] == FLOOR:
        shift = best_shift(law, cell["epsilon"], cell["delta"], rng)
        draws = law.draw(rng, cell["most_draws"], shift)
        return [_row(FLOOR, draws, reference, problem, rng) | {"seconds": 0.0}]
    begun = time.perf_counter()
    if cell["method"] == FORMULA:
        row = _row(FORMULA, _fit_formula(cell, problem), reference, problem, rng)
        return [row | {"seconds": time.perf_counter() - begun}]
    post = _fit(cell, problem)
    seconds = time.perf_counter() - begun
    draws = np.asarray(post.draws["position"], np.float64)[:, post.num_warmup :]
    draws = draws[:, :: max(1, -(-draws.shape[1] * draws.shape[0] // cell["most_draws"]))].reshape(-1, draws.shape[-1])
    rows = [_row(cell["method"], draws, reference, problem, rng) | {"seconds": seconds}]
    if cell["method"] == "private_laplace":
        scale = post.settings["stages"][0]["scale"]
        bare = draws.mean(axis=0) + (draws - draws.mean(axis=0)) / scale
        rows.append(_row(PLUG_IN, bare, reference, problem, rng) | {"seconds": seconds})
    return rows


STUDY = Study("posteriors", cells, run)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return quartiles by problem, method and epsilon; of chains the length that an oracle would have taken."""
    table = table.assign(method=table["reported"])
    by = ["problem", "dimension", "num_records", "method", "epsilon"]
    medians = table.groupby([*by, "num_steps"], sort=False)["mmd"].median().reset_index()
    best = medians.loc[medians.groupby(by, sort=False)["mmd"].idxmin(), [*by, "num_steps"]]
    groups = table.merge(best, on=[*by, "num_steps"]).groupby(by, sort=False)
    result = groups.agg(
        mmd_median=("mmd", "median"),
        mmd_q25=("mmd", lambda values: values.quantile(0.25)),
        mmd_q75=("mmd", lambda values: values.quantile(0.75)),
        coverage95=("covered", "mean"),
        seconds=("seconds", "median"),
        repeats=("repeat", "nunique"),
    )
    return result.reset_index().rename(columns={"num_records": "n"})


def _fit(cell: Cell, problem: zoo.Problem) -> dp.Posterior:
    data = dp.PrivateData(problem.records, bounds=problem.bounds, budget=dp.Budget(cell["epsilon"], cell["delta"]))
    is_free = cell["method"] in FREE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it expects to be far off it says so, and is measured all the same
        return dp.fit(
            problem.model,
            data,
            epsilon=cell["epsilon"],
            sampler=cell["method"],
            num_chains=4 if is_free else 1,  # every chain would be paid for: one gets furthest
            num_steps=cell["num_steps"],
            allow_low_accuracy=True,
            progress=False,
        )


def _fit_formula(cell: Cell, problem: zoo.Problem) -> np.ndarray:
    """Return draws of a logistic regression, intercept first, from its records as a table."""
    names = [f"x{number}" for number in range(1, problem.dimension)]
    table = pd.DataFrame(problem.records["x"], columns=names).assign(y=problem.records["y"] == 1)
    schema = dp.Schema(
        {**{name: dp.Column(kind="number", lower=-1, upper=1) for name in names}, "y": dp.Column(kind="boolean")}
    )
    budget = dp.Budget(cell["epsilon"], cell["delta"])
    data = dp.PrivateData.from_table(table, schema=schema, budget=budget)
    formula = "y ~ " + " + ".join(names)
    options = {"family": "bernoulli", "num_chains": 4, "num_steps": cell["most_draws"] // 4}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dp.fit(formula, data, epsilon=cell["epsilon"], allow_low_accuracy=True, progress=False, **options)
    return np.column_stack([np.asarray(found.draws[name], np.float64).reshape(-1) for name in ["intercept", *names]])


def _mixture(cell: Cell, problem: zoo.Problem, rng: np.random.Generator) -> dict[str, Any]:
    """Return the total variation of a sketch: its density is known, on which no reference draws are needed."""
    data = dp.PrivateData(problem.records, bounds=problem.bounds, budget=dp.Budget(cell["epsilon"], cell["delta"]))
    begun = time.perf_counter()
    prepared = prepare_fit(problem.model, data, epsilon=cell["epsilon"], sampler="sketch", allow_low_accuracy=True)
    with data.reserve(prepared.event) as paid:
        posterior, points, _ = prepared.strategy.stages.run(paid, rng)  # pyright: ignore[reportAttributeAccessIssue]
    seconds = time.perf_counter() - begun
    draws = points.draw(rng, cell["most_draws"])
    return {
        "reported": cell["method"],
        "mmd": mixture.total_variation(problem, posterior, rng),
        "covered": float(np.mean(_holds(draws, problem.centre))),
        "seconds": seconds,
    }


def _row(
    reported: str, draws: np.ndarray, reference: np.ndarray, problem: zoo.Problem, rng: np.random.Generator
) -> dict[str, Any]:
    gap = (draws.mean(axis=0) - reference.mean(axis=0)) / reference.std(axis=0)
    return {
        "reported": reported,
        "mmd": mmd(draws, reference, rng),
        "covered": float(np.mean(_holds(draws, problem.centre))),
        "covered_without_privacy": float(np.mean(_holds(reference, problem.centre))),
        "mean_error": float(np.sqrt(np.mean(gap**2))),
        "width": float(np.median(draws.std(axis=0) / reference.std(axis=0))),
    }


def _holds(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    low, high = np.quantile(draws, TAILS, axis=0)
    return (low <= truth) & (truth <= high)
