"""Logistic regressions with many parameters for their rows and budget: with the public guess of slopes, and without it.

    python -m benchmarks.many_parameters --sizes 12 --rows 8000 --output benchmarks/results/many_parameters.csv
    python -m benchmarks.many_parameters --sizes 100 --rows 100000 --kinds even --repeats 3 --output FILE

Sums are emulated in floating point (`experiments.stress.emulated`). Each table has its own rows, coefficients and
noise; the exact posterior is taken to be the normal one at the mode. Distances are in standard deviations of that
posterior (`error`), root mean square over coefficients, or in those of the draws (`own`); `held` is the share of true
coefficients in 95 % intervals.
"""

import argparse
import contextlib
import csv
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import expit

import dpmcmc as dp
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.run.progress import Watcher
from experiments.stress.emulated import FloatRun

KINDS = ("even", "one factor", "pairs", "twice the same")
"""Columns: independent; correlations of a half throughout; five pairs with one of 0.95; a column that stands twice."""

LENGTH, INTERCEPT, PRIOR_SD, DELTA = 2.0, -0.5, 1.5, 1e-6
DRAWS = 4000


def names_of(size: int) -> list[str]:
    """Return the names of the columns."""
    return [f"x{number}" for number in range(1, size)]


def table_of(kind: str, size: int, rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table, and the coefficients that it was made with, the intercept first."""
    rng = np.random.default_rng(seed)
    columns = rng.uniform(-1, 1, (rows, size - 1))
    if kind == "one factor":
        columns = np.clip((rng.normal(size=(rows, 1)) + rng.normal(size=columns.shape)) / 4, -1, 1)
    if kind == "pairs":
        columns = rng.normal(size=columns.shape) / 3
        for first in range(0, min(10, size - 2), 2):
            columns[:, first + 1] = 0.95 * columns[:, first] + np.sqrt(1 - 0.95**2) * columns[:, first + 1]
        columns = np.clip(columns, -1, 1)
    if kind == "twice the same":
        columns[:, 1] = columns[:, 0]
    slopes = rng.normal(size=size - 1)
    truth = np.append(INTERCEPT, LENGTH * slopes / np.linalg.norm(slopes))
    table = pd.DataFrame(columns, columns=names_of(size))
    return table.assign(y=rng.uniform(size=rows) < expit(INTERCEPT + columns @ truth[1:])), truth


def exact(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and the covariance there, with the prior of a formula."""
    size = table.shape[1]
    rows = np.column_stack([np.ones(len(table)), table[names_of(size)]])
    point, precision = np.zeros(size), np.eye(size)
    for _ in range(10):
        chances = expit(rows @ point)
        precision = rows.T @ (rows * (chances * (1 - chances))[:, None]) + np.eye(size) / PRIOR_SD**2
        point = point + np.linalg.solve(precision, rows.T @ (table["y"] - chances) - point / PRIOR_SD**2)
    return point, np.linalg.inv(precision)


class Fitted(NamedTuple):
    """A fit of a table."""

    expected: float
    """What is said of the error beforehand."""
    verdict: str
    draws: np.ndarray
    """Shape (draws, parameters), the intercept first."""
    off: np.ndarray
    """Errors of the means in standard deviations of the exact posterior."""
    sds: np.ndarray
    """Of the exact posterior."""
    truth: np.ndarray


def fitted(kind: str, size: int, rows: int, seed: int, epsilon: float = 1.0) -> Fitted:
    """Fit a table with the noise of its seed."""
    table, truth = table_of(kind, size, rows, seed)
    number = dp.Column(kind="number", lower=-1, upper=1)
    schema = dp.Schema({**dict.fromkeys(names_of(size), number), "y": dp.Column(kind="boolean")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(1e6, 0.5))
        options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "num_chains": 4, "num_steps": DRAWS // 4}
        formula = "y ~ " + " + ".join(names_of(size))
        found = prepare_fit(formula, data, family="bernoulli", allow_low_accuracy=True, **options).strategy
        leaves = [jnp.asarray(leaf) for leaf in data._in_order()]  # synthetic rows: nobody's
        records = jax.tree.unflatten(jax.tree.structure(data.facts.record), leaves)
        run = FloatRun(records, seed, float(data.facts.clips_moved))
        drawn = found.draw(run, Watcher("", 1, "", None, None), lambda: False, seed)
    draws = np.column_stack([np.ravel(drawn.draws[name]) for name in ["intercept", *names_of(size)]])
    mode, covariance = exact(table)
    sds = np.sqrt(np.diag(covariance))
    return Fitted(found.expected_error, drawn.quality.verdict, draws, (draws.mean(axis=0) - mode) / sds, sds, truth)


def without_guess() -> contextlib.AbstractContextManager[Any]:
    """Take the guess away."""
    return mock.patch.object(Release, "near", lambda self, *_, **__: self)


def row_of(one: Fitted) -> dict[str, Any]:
    """Return what is reported of a fit."""
    widths = one.draws.std(axis=0)
    low, high = np.quantile(one.draws, (0.025, 0.975), axis=0)
    own = one.off * one.sds / widths
    return {
        "expected": round(one.expected, 3),
        "verdict": one.verdict,
        "error": round(float(np.sqrt(np.mean(one.off**2))), 3),
        "own": round(float(np.sqrt(np.mean(own**2))), 3),
        "worst_own": round(float(np.abs(own).max()), 3),
        "width": round(float(np.median(widths / one.sds)), 3),
        "held": round(float(np.mean((low <= one.truth) & (one.truth <= high))), 4),
    }


def main() -> None:
    """Read what is asked for, and write the rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12])
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--guesses", nargs="+", choices=("with", "without"), default=["with", "without"])
    parser.add_argument("--output", type=Path, required=True, help="a table; rows that it has are kept")
    options = parser.parse_args()
    written = options.output.exists()
    with options.output.open("a", newline="") as file:
        writer = None
        for size in options.sizes:
            for kind in options.kinds:
                for guess in options.guesses:
                    for seed in range(options.repeats):
                        with without_guess() if guess == "without" else contextlib.nullcontext():
                            found = fitted(kind, size, options.rows, seed, options.epsilon)
                        about = {"kind": kind, "d": size, "n": options.rows, "epsilon": options.epsilon, "guess": guess}
                        row = {**about, "seed": seed, **row_of(found)}
                        writer = writer or csv.DictWriter(file, list(row))
                        if not written:
                            writer.writeheader()
                            written = True
                        writer.writerow(row)
                        file.flush()


if __name__ == "__main__":
    main()
