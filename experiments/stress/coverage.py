"""How often 95 % intervals hold the truth, family by family, and whether the predicted error is that which one has.

    python -m experiments.stress.coverage --workers 16 [--time-limit 480] [--families "weibull censored,gaussian"]

Rows and noise are new in each run; sums and noise are emulated (`emulated`). Every run is a line of a file in
`results/cells`, and is not made again; `results/coverage.csv` has them all. The first `COMPARED` tables of a family
have the exact posterior beside them, by importance sampling.
"""

import argparse
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.model import FAMILIES
from experiments.stress import store
from experiments.stress.emulated import Emulated, private_data
from experiments.stress.judge import Priors, judged
from experiments.stress.problems import Problem
from experiments.stress.reference import Reference, by_importance
from experiments.stress.workers import work_through

MORE_ROWS = {
    "negative_binomial": 50_000,
    "zero_inflated_poisson": 50_000,
    "hurdle_poisson": 50_000,
    "hurdle_negative_binomial": 100_000,
    "zero_inflated_negative_binomial": 100_000,
}
"""Families whose table of 20,000 rows would be refused at epsilon 1."""

NOT_CLAMPED = {"student_t": (-20.0, 20.0)}
"""Bounds of a response where the usual ones would clamp some dozens of a table, and the rows not be the model's."""

OF_FAMILIES: Mapping[str, Problem] = {
    family: Problem(
        family,
        MORE_ROWS.get(family, 20_000),
        constant=0.5 if "hurdle" in family else 0.0,
        response_bounds=NOT_CLAMPED.get(family),
    )
    for family in FAMILIES
}
SURVIVAL = ("weibull", "lognormal", "exponential", "piecewise_exponential(0.5, 1.5)")
PERSONS = {"gaussian": 0.7, "bernoulli": 0.9, "poisson": 0.7}
"""Families with effects of persons, and the standard deviation of intercepts."""

OF_TIMES: Mapping[str, Problem] = {
    f"{family.split('(')[0]} {name}": Problem(family, censored=until, enters=enters)
    for family in SURVIVAL
    for name, until, enters in (("censored", 3.0, False), ("late entry", 4.0, True))
}
OF_PERSONS: Mapping[str, Problem] = {
    f"{family} {name} of persons": Problem(family, persons=(5, spread), person_slopes=slopes, numbers=2)
    for family, spread in PERSONS.items()
    for name, slopes in (("intercepts", None), ("slopes", 0.4))
}
OF_GROUPS: Mapping[str, Problem] = {
    f"{family} 20 sites": Problem(family, groups=(20, 0.5)) for family in ("gaussian", "bernoulli", "poisson")
}
TABLES: Mapping[str, Problem] = {**OF_FAMILIES, **OF_TIMES, **OF_PERSONS, **OF_GROUPS}
EPSILONS = (1.0, 2.0, 8.0)
FIRST, COMPARED, BLOCK = 1000, 50, 25
LIMITS, RARE = (0.92, 0.98), 1e-4


class Unit(NamedTuple):
    """Some tables of a family."""

    name: str
    seeds: tuple[int, ...]


@lru_cache(maxsize=1)
def _prepared(name: str) -> tuple[dict[float, Emulated], Priors]:
    data = private_data(TABLES[name], 0)
    at = {epsilon: Emulated(TABLES[name], epsilon, data) for epsilon in EPSILONS}
    return at, Priors(TABLES[name], at[1.0].model)


def do(unit: Unit, deadline: float) -> None:
    """Make the runs of a unit that are not there yet."""
    at, priors = _prepared(unit.name)
    problem = TABLES[unit.name]
    for seed in unit.seeds:
        left = [epsilon for epsilon in EPSILONS if seed not in store.by_seed(_path(unit.name, epsilon))]
        if not left or time.time() > deadline:
            continue
        records = at[1.0].records(seed)
        found = by_importance(at[1.0], records) if seed < FIRST + COMPARED else None
        for epsilon in left:
            drawn = at[epsilon].fit(records, seed)
            beside = _own(drawn) if found is None else found
            result = judged(problem, drawn.quality, drawn.draws, beside, priors)
            line = {name: result[name] for name in ("verdict", "inside", "intervals", "predicted")}
            if found is not None and found.is_valid:
                line |= {"error": result["error"], "right": result["right"], "honest": result["honest"]}
            store.append(_path(unit.name, epsilon), {"seed": seed, **line})


def _own(drawn: Any) -> Reference:
    """Return a result as its own reference, where only its intervals are of interest."""
    values = coordinates(drawn.draws)
    means, sds = ({name: float(moment(each)) for name, each in values.items()} for moment in (np.mean, np.std))
    return Reference("none", False, 0.0, means, sds)


def _path(name: str, epsilon: float) -> Any:
    return store.place("coverage", name, f"{epsilon:g}")


def row(name: str, epsilon: float) -> dict[str, Any] | None:
    """Return the line of a family and a budget; None if there are no runs."""
    found = pd.DataFrame(store.by_seed(_path(name, epsilon)).values())
    if found.empty:
        return None
    said = found[(found["verdict"] != "bad") & (found["intervals"] > 0)]
    below, above = _outside(said["inside"].to_numpy(float), said["intervals"].to_numpy(float))
    result = {
        "family": name,
        "n": TABLES[name].size,
        "epsilon": epsilon,
        "runs": len(found),
        "intervals": int(said["intervals"].sum()),
        "coverage95": said["inside"].sum() / max(said["intervals"].sum(), 1),
        "p_below_92": below,
        "p_above_98": above,
        **{verdict: int((found["verdict"] == verdict).sum()) for verdict in ("good", "fair", "bad")},
    }
    found["error"] = found.get("error")
    compared = found[found["verdict"] != "bad"].dropna(subset=["error", "predicted"])
    for label, some in (("good", compared[compared["verdict"] == "good"]), ("not_bad", compared)):
        measured, predicted = (np.sqrt((some[key].astype(float) ** 2).mean()) for key in ("error", "predicted"))
        result |= {f"compared_{label}": len(some), f"ratio_{label}": measured / predicted if len(some) else np.nan}
    return result


def _outside(inside: np.ndarray, intervals: np.ndarray) -> tuple[float, float]:
    """Return how probable a coverage so low is at 92 %, and one so high at 98 %; by normal laws.

    Intervals of one run depend on each other: the variance is that between runs, and not less than if they did not.
    """
    if len(inside) < 2:
        return 1.0, 1.0
    number, mean = intervals.sum(), inside.sum() / intervals.sum()
    between = np.sum((inside - mean * intervals) ** 2) / number**2
    sds = [np.sqrt(max(between, limit * (1 - limit) / number)) for limit in LIMITS]
    return float(norm.cdf((mean - LIMITS[0]) / sds[0])), float(norm.sf((mean - LIMITS[1]) / sds[1]))


def beside_earlier(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the lines of earlier runs whose cells are not here, in the order of `TABLES`."""
    place, keys = store.FOLDER / "coverage.csv", ["family", "epsilon"]
    if place.exists():
        table = pd.concat([table, pd.read_csv(place)]).drop_duplicates(keys)
    order = {name: number for number, name in enumerate(TABLES)}
    return table.sort_values(keys[::-1], key=lambda column: column.map(order) if column.name == "family" else column)


def main() -> None:
    """Run what is not there yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--families", default=",".join(TABLES), help="names, with commas between them; all if left out")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds; runs that have begun are finished")
    arguments = parser.parse_args()
    units: list[Unit] = []
    for name in arguments.families.split(","):
        done = [set(store.by_seed(_path(name, epsilon))) for epsilon in EPSILONS]
        seeds = [seed for seed in range(FIRST, FIRST + arguments.runs) if any(seed not in each for each in done)]
        units += [Unit(name, tuple(seeds[start : start + BLOCK])) for start in range(0, len(seeds), BLOCK)]
    left = work_through(do, units, arguments.workers, arguments.time_limit)
    rows = [row(name, epsilon) for epsilon in EPSILONS for name in TABLES]
    table = pd.DataFrame([each for each in rows if each is not None])
    if table.empty:
        return
    beside_earlier(table).to_csv(store.FOLDER / "coverage.csv", index=False, float_format="%.4g")
    outside = table[(table["p_below_92"] < RARE) | (table["p_above_98"] < RARE)]
    print(table.to_string())  # noqa: T201
    print(f"outside {LIMITS[0]:.0%} to {LIMITS[1]:.0%} at {RARE:g}: {len(outside)}; units left {len(left)}")  # noqa: T201


if __name__ == "__main__":
    main()
