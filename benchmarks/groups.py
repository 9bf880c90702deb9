"""Random intercepts of many groups: time beside the same model without groups, and coverage over synthetic tables.

python -m benchmarks.groups time --output benchmarks/results/groups_time.csv
python -m benchmarks.groups coverage --tables 20 --output benchmarks/results/groups_coverage.csv
python -m benchmarks.groups coverage --tables 4 --only bernoulli-1000000-1000 --output large.csv

Groups have unequal sizes, one of the predictors differs between groups, and labels are private. Coverage is that of
95 % intervals for the truth that the tables were drawn with: effects of groups (added to the intercept, of which they
are deviations), coefficients, and the standard deviation of the effects.
"""

import argparse
import csv
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpmcmc as dp

GROUPS, PLAIN = "y ~ x + smoker + score + (1|site)", "y ~ x + smoker + score"
SPREAD = 0.5
CELLS = (
    ("bernoulli", 100_000, 100, 1.0),
    ("bernoulli", 200_000, 1000, 1.0),
    ("gaussian", 100_000, 100, 1.0),
    ("gaussian", 200_000, 1000, 1.0),
    ("poisson", 200_000, 500, 1.0),
    ("bernoulli", 20_000, 100, 2.0),
    ("bernoulli", 1_000_000, 1000, 1.0),
    ("gaussian", 1_000_000, 1000, 1.0),
)
"""Family, records, groups and epsilon."""


class Table:
    """A synthetic table, and the truth."""

    def __init__(self, family: str, size: int, num_groups: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.levels = [f"site {number:04d}" for number in range(num_groups)]
        shares = np.exp(rng.normal(0, 0.4, num_groups))
        group = rng.choice(num_groups, size, p=shares / shares.sum())
        x, smoker = rng.uniform(-1, 1, size), rng.random(size) < 0.4
        score = np.clip(5 + rng.normal(0, 0.9, num_groups)[group] + rng.uniform(-3, 3, size), 0, 10)
        self.effects = rng.normal(0, SPREAD, num_groups)
        self.truth = {"x": 0.8, "smoker": 0.4, "score": -0.05, "1|site_sigma": SPREAD}
        self.intercept = -0.25
        eta = self.intercept + 0.8 * x + 0.4 * smoker - 0.05 * score + self.effects[group]
        columns: dict[str, Any] = {
            "x": dp.Column(kind="number", lower=-1, upper=1),
            "smoker": dp.Column(kind="boolean"),
        }
        if family == "bernoulli":
            y, column = rng.random(size) < 1 / (1 + np.exp(-eta)), dp.Column(kind="boolean")
        elif family == "poisson":
            y, column = np.minimum(rng.poisson(np.exp(eta)), 60), dp.Column(kind="integer", lower=0, upper=60)
        else:
            y, column = np.clip(eta + rng.normal(0, 1, size), -10, 10), dp.Column(kind="number", lower=-10, upper=10)
            self.truth["sigma"] = 1.0
        columns |= {
            "score": dp.Column(kind="number", lower=0, upper=10),
            "site": dp.Column(kind="category", categories=tuple(self.levels)),
            "y": column,
        }
        self.schema = dp.Schema(columns)
        site = np.array(self.levels)[group]
        self.frame = pd.DataFrame({"x": x, "smoker": smoker, "score": score, "site": site, "y": y})

    def open(self) -> dp.PrivateData:
        """Return the table in a vault of its own."""
        return dp.PrivateData.from_table(self.frame, schema=self.schema, budget=dp.Budget(100.0, 1e-5))


def coverage(tables: int, only: str | None) -> Iterator[dict[str, Any]]:
    """Yield one row a cell and kind of parameter."""
    for number, (family, size, num_groups, epsilon) in enumerate(CELLS):
        if only and only != f"{family}-{size}-{num_groups}":
            continue
        held: dict[str, list[float]] = {}
        verdicts: list[str] = []
        for seed in range(tables):
            table = Table(family, size, num_groups, 1000 * (number + 1) + seed)
            found = dp.fit(GROUPS, table.open(), family=family, epsilon=epsilon, delta=1e-6, progress=False)
            verdicts.append(found.quality.verdict)
            draws = {name: values.reshape(-1) for name, values in found.draws.items()}
            effects = np.stack([draws[f"1|site[{level}]"] for level in table.levels]) + draws["intercept"]
            low, high = np.quantile(effects, [0.025, 0.975], axis=1)
            truth = table.effects + table.intercept
            held.setdefault("effects", []).append(float(np.mean((low < truth) & (truth < high))))
            errors = (effects.mean(axis=1) - truth) / effects.std(axis=1)
            held.setdefault("z of effects", []).append(float(np.sqrt(np.mean(errors**2))))
            for name, value in table.truth.items():
                low, high = np.quantile(draws[name], [0.025, 0.975])
                kind = {"1|site_sigma": "spread", "sigma": "shape"}.get(name, "coefficients")
                held.setdefault(kind, []).append(float(low < value < high))
                score = (draws[name].mean() - value) / draws[name].std()
                held.setdefault(f"z of {kind}", []).append(float(score))
            print(family, size, num_groups, seed, verdicts[-1], file=sys.stderr, flush=True)
        for kind in ("effects", "coefficients", "spread", "shape"):
            if kind in held:
                scores = np.array(held[f"z of {kind}"])
                yield {
                    "family": family,
                    "records": size,
                    "groups": num_groups,
                    "epsilon": epsilon,
                    "tables": tables,
                    "of": kind,
                    "coverage": round(float(np.mean(held[kind])), 4),
                    "intervals": len(held[kind]) * (num_groups if kind == "effects" else 1),
                    "root_mean_square_z": round(float(np.sqrt(np.mean(scores**2))), 3),
                    "good_or_fair": sum(verdict != "bad" for verdict in verdicts),
                }


def times(size: int, num_groups: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds of a first and of a second fit, with groups and without."""
    for family in ("bernoulli", "gaussian"):
        table = Table(family, size, num_groups, 0)
        for formula in (PLAIN, GROUPS):
            data = table.open()
            taken: list[float] = []
            for _ in range(3):
                begin = time.perf_counter()
                found = dp.fit(formula, data, family=family, epsilon=1.0, delta=1e-6, progress=False)
                taken.append(time.perf_counter() - begin)
            yield {
                "family": family,
                "formula": formula,
                "records": size,
                "groups": num_groups,
                "first_s": round(taken[0], 2),
                "again_s": round(min(taken[1:]), 2),
                "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
                "verdict": found.quality.verdict,
            }


def main() -> None:
    """Run, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("time", "coverage"))
    parser.add_argument("--tables", type=int, default=25)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--only", help="one cell of the coverage, as bernoulli-100000-100")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    made = times(given.records, given.groups) if given.what == "time" else coverage(given.tables, given.only)
    rows = [row for row in made if print(row, flush=True) is None]
    with given.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
