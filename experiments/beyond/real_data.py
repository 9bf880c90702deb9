"""`fit` on public tables, against the posterior without privacy and beside its peers; `real_pages` shows it."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.errors import BudgetUnreachable
from dpmcmc.fitting import prepare_fit
from dpmcmc.zoo.reference import nuts_reference
from experiments.beyond import dp_gd, noisy_statistics, peers
from experiments.beyond.real_tables import Question, question
from experiments.machinery.study import Cell, Configuration, Rows, Study

TAILS = (0.025, 0.975)
"""Of a 95 % interval."""

FAMILIES = {"diffprivlib": ("bernoulli", "gaussian"), "noise_aware": ("gaussian",)}
"""Families that a peer knows, where it does not know all; neither knows persons with several rows."""


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
        if method not in FAMILIES or (c["tables"][table]["family"] in FAMILIES[method] and table not in c["persons"])
    ]


def run(cell: Cell) -> Rows:
    """Fit once, by one method, and say how far off it is."""
    asked = question(cell["table"], cell["formula"], cell["family"])
    seed = int(np.random.SeedSequence([cell["seed"], cell["repeat"]]).generate_state(1)[0] >> 1)
    if cell["method"] == "fit":
        return [_fitted(asked, cell, seed)]
    if cell["method"] == "noise_aware":
        started = time.perf_counter()
        draws = asked.named(noisy_statistics.noise_aware(asked, cell["epsilon"], seed, cell["delta"]))
        return [of_draws(asked, "Gaussian mechanism, NUTS", False, draws, time.perf_counter() - started)]
    return list(_estimated(asked, cell, seed))


def _estimated(asked: Question, cell: Cell, seed: int) -> Iterator[dict[str, Any]]:
    """Return what a peer finds, setting by setting."""
    options = (asked, cell["epsilon"], seed, cell["settings"])
    if cell["method"] == "diffprivlib":
        found = peers.diffprivlib(*options)
    else:
        found = {"dp_sgd": peers.dp_sgd, "dp_gd": dp_gd.dp_gd}[cell["method"]](*options, cell["delta"])
    started = time.perf_counter()
    for setting, position in found:
        estimate = asked.named(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)).iloc[0]
        seconds = time.perf_counter() - started
        yield {"setting": setting, "announced": False, **_errors(asked, estimate), "seconds": seconds}
        started = time.perf_counter()


@lru_cache(maxsize=8)
def _prepared(asked: Question, epsilon: float, delta: float) -> tuple[Any, bool]:
    """Return a fit with the sampler that is chosen by itself, and whether it announces that it would be useless.

    Repeats share it: programs are traced and compiled once, and the budget is divided once.
    """
    data = dp.PrivateData.without_guarantee(asked.records, bounds=asked.schema.bounds, schema=asked.schema)
    prepare = partial(prepare_fit, asked.formula, data, family=asked.family, epsilon=epsilon, delta=delta)
    try:
        return prepare(), False
    except BudgetUnreachable:
        return prepare(allow_low_accuracy=True), True


def _fitted(asked: Question, cell: Cell, seed: int) -> dict[str, Any]:
    started = time.perf_counter()
    prepared, announced = _prepared(asked, cell["epsilon"], cell["delta"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = replace(prepared, seed=seed, insecure_seed=seed).run(progress=False)
    seconds = time.perf_counter() - started
    row = of_draws(asked, prepared.sampler, announced, post.to_pandas(), seconds)
    return {**row, "said": post.quality.verdict}


def of_draws(asked: Question, setting: str, announced: bool, draws: pd.DataFrame, seconds: float) -> dict[str, Any]:
    """Return how far draws are from the posterior without privacy, and what of its intervals they share."""
    exact, found = (each[asked.coefficients].quantile(TAILS) for each in (asked.exact, draws))
    lengths = exact.iloc[1] - exact.iloc[0]
    shared = np.minimum(exact.iloc[1], found.iloc[1]) - np.maximum(exact.iloc[0], found.iloc[0])
    return {
        "setting": setting,
        "announced": announced,
        **_errors(asked, draws[list(asked.exact)].mean()),
        "overlap": float(np.mean(np.maximum(shared, 0.0) / lengths)),
        "width": float(((found.iloc[1] - found.iloc[0]) / lengths).median()),
        "seconds": seconds,
    }


def _errors(asked: Question, found: "pd.Series[float]") -> dict[str, float]:
    """Return how far estimates are from the exact posterior means, in its standard deviations, over coefficients."""
    off = ((found - asked.exact.mean()).abs() / asked.exact.std())[asked.coefficients].fillna(np.inf)  # it diverged
    return {"median_error": float(off.median()), "largest_error": float(off.max())}


STUDY = Study("real_posteriors", cells, run)


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
