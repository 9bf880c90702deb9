"""Everyday tables whose models do not quite hold, beside the estimates of the likelihood: how often `fit` says so.

python -m experiments.stress.misfit --runs 4

Through the vault, with a new table and new noise each time. Wrong is more than four own standard deviations from the
estimate of the likelihood in a parameter that is not marked, where the verdict is not bad.
"""

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator
from scipy import special

import dpmcmc as dp
from dpmcmc.errors import BudgetUnreachable

EPSILONS = (0.5, 1.0, 2.0, 4.0)
FAR = 4.0
RESULTS = Path(__file__).parent / "results" / "misfit.csv"
COLUMNS = ["table", "n", "epsilon", "runs", "refused", "bad", "wrong", "marked", "largest_own_sds", "rms_own_sds"]


class Table(NamedTuple):
    """A table, what is stated of it, and what is fitted."""

    family: str
    size: int
    bounds: dict[str, tuple[float, float]]
    make: Callable[[Generator, int], dict[str, np.ndarray]]


def missing_square(rng: Generator, size: int) -> dict[str, np.ndarray]:
    """Log-odds with a square that the formula lacks."""
    x, w = rng.normal(size=(2, size)).clip(-5, 5)
    return {"x": x, "w": w, "y": rng.random(size) < special.expit(-2.5 + x + 0.5 * x**2 + 0.4 * w)}


def expenditure(rng: Generator, size: int) -> dict[str, np.ndarray]:
    """Food on income: curved, and wider where there is more of it."""
    x = rng.lognormal(6.7, 0.5, size).clip(100, 9000)
    return {"x": x, "y": 8 * x**0.62 + 0.1 * x**0.9 * rng.normal(size=size)}


def wages(rng: Generator, size: int) -> dict[str, np.ndarray]:
    """Wages in levels, on schooling and experience."""
    x, w = rng.integers(8, 21, size).astype(float), rng.uniform(0, 40, size)
    return {"x": x, "w": w, "y": np.exp(1.2 + 0.08 * x + 0.03 * w - 0.0005 * w**2 + 0.35 * rng.normal(size=size))}


def contaminated(rng: Generator, size: int) -> dict[str, np.ndarray]:
    """One error in twelve is twice as wide."""
    x, w = rng.normal(size=(2, size)).clip(-5, 5)
    return {
        "x": x,
        "w": w,
        "y": 0.5 * x - 0.3 * w + np.where(rng.random(size) < 0.08, 2.2, 1.0) * rng.normal(size=size),
    }


def curved(rng: Generator, size: int) -> dict[str, np.ndarray]:
    """A skewed predictor, and a mean that is not linear in it; nothing else."""
    x, w = rng.lognormal(0, 0.8, size).clip(0, 20), rng.normal(size=size).clip(-4, 4)
    return {"x": x, "w": w, "y": 3 * np.sqrt(x) + 0.5 * w + 2 * rng.normal(size=size)}


TABLES = {
    "missing square": Table("bernoulli", 20_000, {"x": (-5, 5), "w": (-5, 5)}, missing_square),
    "expenditure": Table("gaussian", 20_000, {"x": (0, 10_000), "y": (0, 8000)}, expenditure),
    "wages": Table("gaussian", 15_000, {"x": (0, 25), "w": (0, 50), "y": (0, 200)}, wages),
    "contaminated": Table("gaussian", 12_000, {"x": (-5, 5), "w": (-5, 5), "y": (-15, 15)}, contaminated),
    "curved": Table("gaussian", 20_000, {"x": (0, 20), "w": (-4, 4), "y": (-20, 40)}, curved),
}


def likelihood(family: str, columns: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the estimates of the likelihood; the default priors move them by a tenth of a standard deviation."""
    names = [name for name in columns if name != "y"]
    rows, y = np.column_stack([np.ones(len(columns["y"])), *(columns[name] for name in names)]), columns["y"]
    if family == "gaussian":
        found = np.linalg.lstsq(rows, y, rcond=None)[0]
        return dict(zip(["intercept", *names, "sigma"], [*found, float(np.std(y - rows @ found))], strict=True))
    found = np.zeros(rows.shape[1])
    for _ in range(25):
        p = special.expit(rows @ found)
        found = found + np.linalg.solve(rows.T @ (rows * (p * (1 - p))[:, None]), rows.T @ (y - p))
    return dict(zip(["intercept", *names], found, strict=True))


def tried(name: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Fit a table so often, and count."""
    table, counts, own = TABLES[name], dict.fromkeys(("refused", "bad", "wrong", "marked"), 0), list[float]()
    for seed in range(runs):
        columns = table.make(np.random.default_rng(seed), table.size)
        columns = {
            key: np.clip(values, *table.bounds[key]) if key in table.bounds else values
            for key, values in columns.items()
        }
        stated = {key: dp.Column(kind="number", lower=low, upper=high) for key, (low, high) in table.bounds.items()}
        schema = dp.Schema({"y": dp.Column(kind="boolean"), **stated})
        data = dp.PrivateData.from_table(pd.DataFrame(columns), schema=schema, budget=dp.Budget(epsilon, 1e-6))
        formula = "y ~ " + " + ".join(key for key in columns if key != "y")
        try:
            posterior = dp.fit(formula, data, family=table.family, epsilon=epsilon, delta=1e-6, progress=False)
        except BudgetUnreachable:
            counts["refused"] += 1
            continue
        draws, grades = posterior.to_pandas(), posterior.quality.parameters
        off = {
            key: abs(draws[key].mean() - mean) / draws[key].std()
            for key, mean in likelihood(table.family, columns).items()
        }
        is_bad = posterior.quality.verdict == "bad"
        counts["bad"] += is_bad
        counts["marked"] += any(grade.reasons for grade in grades.values())
        counts["wrong"] += not is_bad and any(far > FAR and not grades[key].reasons for key, far in off.items())
        own += off.values()
    size = {
        "largest_own_sds": float(max(own)) if own else None,
        "rms_own_sds": float(np.sqrt(np.mean(np.square(own)))) if own else None,
    }
    return {"table": name, "n": table.size, "epsilon": epsilon, "runs": runs, **counts, **size}


def main() -> None:
    """Fit all tables at all budgets, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4)
    runs = parser.parse_args().runs
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for name in TABLES:
            for epsilon in EPSILONS:
                row = {
                    key: f"{value:.3g}" if isinstance(value, float) else value
                    for key, value in tried(name, epsilon, runs).items()
                }
                print(row, flush=True)  # noqa: T201
                writer.writerow(row)
                file.flush()


if __name__ == "__main__":
    main()
