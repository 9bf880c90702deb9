"""End to end: `fit` on two neighbouring tables, some thousands of times, and an attacker who sees saved folders alone.

    python benchmarks/audit_fits.py --fits 1100 --output benchmarks/results/audit_fits.csv

The tables have 40 rows and differ in one: its answer is yes, or no. Each fit is saved, and the attacker reads the
folder and nothing else. Of the draws he takes mean, standard deviation and quantiles, and what they say of the root of
the released scores: the likelihood that was released has the precision of the draws less that of the prior, and its
mean is that root, by how many of its own standard deviations of noise (the share of privacy in config.toml) it lies
from zero, and the same times its precision, which is how the logarithm of the likelihood ratio of the two tables grows
with it. Of config.toml he takes everything else that differs from run to run. A quarter of the fits are his to learn
from, by a linear discriminant; on the others he is held to what he said. The page report.html, which takes longer than
the fit and is made of the same draws, is left out. One row for each fit is written, so that what he saw can be looked
at again, and `--judge` reads the rows of an earlier run. A file that has rows is gone on with.
"""

import argparse
import csv
import tempfile
import time
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.audits.fits import judge

RECORDS, DELTA = 40, 1e-6
PRIOR_PRECISION = 0.25
"""Of the intercept, whose prior is normal with a standard deviation of two."""
OF_PILOT = ("misfit", "disagreement", "moved", "radius", "cut", "other_bounds", "fits")
"""What config.toml says of the way there."""
NOT_SAID = -1.0
"""A number that a run does not state, which tells something too."""
SCHEMA = {"x": {"kind": "number", "lower": -1, "upper": 1}, "y": {"kind": "boolean"}}


def table(side: int) -> pd.DataFrame:
    """Return one of the two tables: half of the others say yes, and the first one says yes or no."""
    y = np.arange(RECORDS) % 2 == 0
    y[0] = side == 0
    return pd.DataFrame({"x": np.where(np.arange(RECORDS) % 4 < 2, -1.0, 1.0), "y": y})


def one_fit(side: int, epsilon: float, formula: str, sampler: str, steps: int) -> dict[str, float]:
    """Fit, save, and return what the folder shows."""
    schema = dp.Schema({name: dp.Column(**column) for name, column in SCHEMA.items()})
    data = dp.PrivateData.from_table(table(side), schema=schema, budget=dp.Budget(epsilon, DELTA))
    options = {"family": "bernoulli", "sampler": sampler, "num_steps": steps, "allow_low_accuracy": True}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dp.fit(formula, data, epsilon=epsilon, delta=DELTA, progress=False, **options).save(Path(place) / "run")
        return seen_in(Path(place) / "run")


def seen_in(folder: Path) -> dict[str, float]:
    """Return the features that the attacker takes from a folder."""
    draws = dp.Posterior.load(folder).matrix()[:, 0]
    mean, sd = float(draws.mean()), float(draws.std()) + 1e-9
    low, middle, high = np.quantile(draws, (0.1, 0.5, 0.9))
    settings = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    pilot, quality = settings["pilot"], settings["quality"]
    noise = max(quality["parameters"]["intercept"].get("shares", {}).get("privacy", 0.5), 1e-3) ** 0.5 * sd
    root = mean / max(1 - PRIOR_PRECISION * sd**2, 0.1)
    return {
        "mean": mean,
        "log_sd": float(np.log(sd)),
        "low": float(low),
        "middle": float(middle),
        "high": float(high),
        "root": root,
        "root_in_noise": root / noise,
        "root_times_precision": root / noise**2,
        "log_noise": float(np.log(noise)),
        "predicted_error": float(quality.get("predicted_error", NOT_SAID)),
        **{name: float(pilot.get(name, NOT_SAID)) for name in OF_PILOT},
    }


def rows_in(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the features that a file has of the fits of each table."""
    rows = np.loadtxt(path, delimiter=",", ndmin=2, skiprows=1)
    return rows[rows[:, 0] == 0, 1:], rows[rows[:, 0] == 1, 1:]


def main() -> None:
    """Fit as often as is asked for, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1000, help="of each table")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--formula", default="y ~ 1", help="with an intercept, which is looked at")
    parser.add_argument("--sampler", default="auto")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--judge", action="store_true", help="read the rows of an earlier run")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    dp.Posterior.report = lambda _, path, **__: path  # type: ignore[method-assign]
    if not options.judge:
        fit_on(options)
    print(judge(*rows_in(options.output), options.epsilon, DELTA))


def fit_on(options: argparse.Namespace) -> None:
    """Write a row for each fit, after those that are there; both tables in turn."""
    start, is_new = time.perf_counter(), not options.output.exists()
    done = 0 if is_new else min(map(len, rows_in(options.output)))
    with options.output.open("a", newline="") as file:
        writer = csv.writer(file)
        for number in range(done, options.fits):
            if time.perf_counter() - start > options.seconds:
                break
            asked = options.epsilon, options.formula, options.sampler, options.steps
            both = [one_fit(side, *asked) for side in (0, 1)]
            if is_new:
                writer.writerow(["side", *both[0]])
                is_new = False
            writer.writerows([side, *(f"{one:.7g}" for one in found.values())] for side, found in enumerate(both))
            file.flush()
            if number % 50 == 0:
                print(f"{number} fits of each table, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
