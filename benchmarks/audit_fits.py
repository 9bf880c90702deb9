"""End to end: `fit` on two neighbouring tables, some thousands of times, and an attacker who sees saved folders alone.

    python benchmarks/audit_fits.py --fits 1000 --output benchmarks/results/audit_fits.csv

The tables have 40 rows and differ in one: its answer is yes, or no. Each fit is saved, and the attacker reads
summary.csv and draws.nc of the folder and nothing else: means, standard deviations and quantiles of the draws. A
quarter of the fits are his to learn from, by a linear discriminant; on the others he is held to what he said. The
page report.html, which takes longer than the fit and is made of the same draws, is left out. One row for each fit is
written, so that what he saw can be looked at again, and `--judge` reads the rows of an earlier run.
"""

import argparse
import csv
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.audits.fits import judge

RECORDS, DELTA = 40, 1e-6
SCHEMA = {"x": {"kind": "number", "lower": -1, "upper": 1}, "y": {"kind": "boolean"}}


def table(side: int) -> pd.DataFrame:
    """Return one of the two tables: half of the others say yes, and the first one says yes or no."""
    y = np.arange(RECORDS) % 2 == 0
    y[0] = side == 0
    return pd.DataFrame({"x": np.where(np.arange(RECORDS) % 4 < 2, -1.0, 1.0), "y": y})


def one_fit(side: int, epsilon: float, formula: str, sampler: str, steps: int) -> list[float]:
    """Fit, save, and return what the folder shows."""
    schema = dp.Schema({name: dp.Column(**column) for name, column in SCHEMA.items()})
    data = dp.PrivateData.from_table(table(side), schema=schema, budget=dp.Budget(epsilon, DELTA))
    options = {"family": "bernoulli", "sampler": sampler, "num_steps": steps, "even_if_useless": True}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dp.fit(formula, data, epsilon=epsilon, delta=DELTA, progress=False, **options).save(Path(place) / "run")
        return seen_in(Path(place) / "run")


def seen_in(folder: Path) -> list[float]:
    """Return the features that the attacker takes from a folder."""
    draws = dp.Posterior.load(folder).matrix()
    features = [draws.mean(axis=0), np.log(draws.std(axis=0) + 1e-9), *np.quantile(draws, (0.1, 0.5, 0.9), axis=0)]
    return [float(number) for number in np.concatenate(features)]


def main() -> None:
    """Fit as often as is asked for, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1000, help="of each table")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--formula", default="y ~ 1")
    parser.add_argument("--sampler", default="auto")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--judge", action="store_true", help="read the rows of an earlier run")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    dp.Posterior.report = lambda _, path, **__: path  # type: ignore[method-assign]
    if not options.judge:
        start = time.perf_counter()
        with options.output.open("w", newline="") as file:
            writer = csv.writer(file)
            for number in range(options.fits):
                if time.perf_counter() - start > options.seconds:
                    break
                for side in (0, 1):
                    asked = options.epsilon, options.formula, options.sampler, options.steps
                    writer.writerow([side, *(f"{one:.7g}" for one in one_fit(side, *asked))])
                file.flush()
                if number % 50 == 0:
                    print(f"{number} fits of each table, {time.perf_counter() - start:.0f} s", flush=True)
    rows = np.loadtxt(options.output, delimiter=",", ndmin=2)
    print(judge(rows[rows[:, 0] == 0, 1:], rows[rows[:, 0] == 1, 1:], options.epsilon, DELTA))


if __name__ == "__main__":
    main()
