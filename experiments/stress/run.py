"""Fit every problem at every budget, new rows and new noise each time, and say how often the result is right.

    python -m experiments.stress.run --workers 16                     # all problems; resumes where it stopped
    python -m experiments.stress.run --workers 16 --time-limit 480    # stops by itself
    python -m experiments.stress.run --problems "rare" --epsilons 1,4 --runs 2 --workers 1
    python -m experiments.stress.run --nuts 0                         # sooner: importance sampling where it will do

Sums and noise are emulated in floating point (`emulated`); everything else is the library's own. Every run is a line of
a file in `results/cells`, and is not made again; `results/summary.csv` has them all, and keeps the rows of problems
whose runs are not there.
"""

import argparse
import time
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom

from experiments.stress import store
from experiments.stress.emulated import Emulated, private_data
from experiments.stress.judge import RARE, Priors, one_run
from experiments.stress.models import MODELS, ModelProblem
from experiments.stress.problems import PROBLEMS, Problem
from experiments.stress.reference import Reference, exact
from experiments.stress.terms import TERMS
from experiments.stress.workers import work_through

ALL: dict[str, Problem | ModelProblem] = {**PROBLEMS, **TERMS, **MODELS}
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
BY_NUTS = 2
"""Of so many tables of a problem the reference is by NUTS where it can be."""

FEASIBLE = 0.5
"""The oracle's error below which a run can be right."""

LONG = 130.0
"""About how many seconds a process works on one unit: what it compiles is for all of it."""

COLUMNS = [
    *("problem", "family", "n", "d", "epsilon", "runs", "right", "honest", "wrong", "refused", "false_alarms"),
    *("worst_own_sds", "coverage95", "floor_error", "predicted_error", "measured_error", "reference", "seconds"),
    *("without_reference", "intervals"),
]


class Unit(NamedTuple):
    """What a process does at a time: some tables of a problem, at all budgets."""

    name: str
    seeds: tuple[int, ...]
    epsilons: tuple[float, ...]
    nuts: int = BY_NUTS
    """Of so many tables the reference is by NUTS where it can be."""


class Prepared:
    """A problem at its budgets, with what was compiled for it."""

    def __init__(self, name: str, *, keeps: bool = True) -> None:
        self.name, self.problem, self.keeps = name, ALL[name], keeps
        self.data = private_data(self.problem, 0)
        self.at = lru_cache(maxsize=None)(lambda epsilon: Emulated(self.problem, epsilon, self.data, name))
        self.priors = Priors(self.problem, self.at(1.0).model)

    def reference(self, records: Any, seed: int, nuts: int = BY_NUTS) -> Reference:
        """Return the reference of a table, from its file if it is there; of the first few by NUTS where it can be."""
        path = store.place("references", self.name)
        kept = store.by_seed(path) if self.keeps else {}
        if seed in kept:
            return Reference.from_plain(kept[seed])
        started = time.process_time()
        noises = {f"{epsilon:g}": self.at(epsilon).noise_at_whole_budget for epsilon in EPSILONS}
        found = exact(self.at(1.0), records, noises, nuts=seed < nuts)
        seconds = round(time.process_time() - started, 2)
        if self.keeps:
            store.append(path, {"seed": seed, **found.to_plain(), "seconds": seconds})
        return found


@lru_cache(maxsize=1)  # the data of one problem at a time
def _prepared(name: str) -> Prepared:
    return Prepared(name)


def do(unit: Unit, deadline: float) -> None:
    """Make the runs of a unit that are not there yet."""
    prepared = _prepared(unit.name)
    for seed in unit.seeds:
        open_ = [epsilon for epsilon in unit.epsilons if seed not in store.by_seed(_path(unit.name, epsilon))]
        records = None
        for epsilon in open_:
            if time.time() > deadline:
                return
            emulated = prepared.at(epsilon)
            line: dict[str, Any] = {"seed": seed, "d": emulated.dimension, "expected": emulated.expected_error}
            if emulated.expected_error > 1 and seed > 0:
                store.append(_path(unit.name, epsilon), {**line, "refused": True})
                continue
            records = emulated.records(seed) if records is None else records
            found = prepared.reference(records, seed, unit.nuts)
            if emulated.expected_error > 1:  # one reference, for the oracle's error
                line["refused"] = True
            else:
                line |= one_run(emulated, records, seed, found, prepared.priors)
            line |= {"floor": found.floors.get(f"{epsilon:g}"), "reference": found.method, "valid": found.is_valid}
            store.append(_path(unit.name, epsilon), line)
            if not line.get("right", True):
                print(unit.name, line, flush=True)  # noqa: T201


def _path(name: str, epsilon: float) -> Any:
    return store.place("runs", name, f"{epsilon:g}")


def units(names: list[str], epsilons: tuple[float, ...], runs: int, nuts: int = BY_NUTS) -> list[Unit]:
    """Return what is left to do, longest first: some seeds of a problem at a time, one where a run is long."""
    found: list[tuple[float, Unit]] = []
    for name in names:
        kept = [set(store.by_seed(_path(name, epsilon))) for epsilon in epsilons]
        seeds = [seed for seed in range(runs) if any(seed not in done for done in kept)]
        cost = expected_seconds(ALL[name])
        block = int(np.clip(LONG / cost, 1, runs))
        for first in range(0, len(seeds), block):
            some = tuple(seeds[first : first + block])
            found.append((cost * len(some), Unit(name, some, epsilons, nuts)))
    return [unit for _, unit in sorted(found, key=lambda each: -each[0])]


def expected_seconds(problem: Problem | ModelProblem) -> float:
    """Return about how long one table takes at all budgets, in seconds of one core."""
    if isinstance(problem, ModelProblem):
        return 250.0 if problem.compared is not None else 65.0
    d = 4 + problem.numbers + (problem.groups[0] if problem.groups else 0)
    return 4 + 8e-8 * problem.size * d * (d + 60)


def row(name: str, epsilon: float, runs: int) -> dict[str, Any] | None:
    """Return the line of a problem and a budget in the summary, from its runs; None if there are none."""
    problem, found = ALL[name], pd.DataFrame(store.by_seed(_path(name, epsilon)).values())
    if found.empty:
        return None
    found = found[found["seed"] < runs]
    columns = ("refused", "valid", "right", "honest", "false_alarm", "off", "inside", "intervals", "error", "verdict")
    for column in (*columns, "predicted", "seconds", "floor", "reference"):
        if column not in found:
            found[column] = np.nan
    is_refused = found["refused"].eq(True)
    made = found[~is_refused]
    held = made[made["valid"].astype(bool)]
    right, honest = held["right"].astype(bool), held["honest"].astype(bool)
    said = held[held["verdict"] != "bad"].astype({"error": float, "predicted": float, "off": float})
    both = said.dropna(subset=["error", "predicted"])
    intervals = int(said["intervals"].sum())
    return {
        "problem": name,
        "family": problem.family,
        "n": problem.size,
        "d": int(found["d"].iloc[0]),
        "epsilon": epsilon,
        "runs": len(found),
        "right": int(right.sum()),
        "honest": int((~right & honest).sum()),
        "wrong": int((~right & ~honest).sum()),
        "refused": int(is_refused.sum()),
        "false_alarms": int(held["false_alarm"].astype(bool).sum()),
        "worst_own_sds": said["off"].max() if len(said) else np.nan,
        "coverage95": said["inside"].sum() / intervals if intervals else np.nan,
        "floor_error": found["floor"].astype(float).median(),
        "predicted_error": np.sqrt((both["predicted"] ** 2).mean()) if len(both) else np.nan,
        "measured_error": np.sqrt((both["error"] ** 2).mean()) if len(both) else np.nan,
        "reference": " and ".join(sorted({each for each in found["reference"] if isinstance(each, str)})),
        "seconds": made["seconds"].astype(float).median(),
        "without_reference": len(made) - len(held),
        "intervals": intervals,
    }


def summarise(table: pd.DataFrame) -> str:
    """Return the whole in a few lines."""
    runs, refused = table["runs"].sum(), table["refused"].sum()
    feasible = table[table["floor_error"] < FEASIBLE]
    held = table.dropna(subset=["coverage95"])
    of_model = held[np.array([ALL[name].holds for name in held["problem"]], bool)]
    coverage = (of_model["coverage95"] * of_model["intervals"]).sum() / max(of_model["intervals"].sum(), 1)
    least = binom.ppf(RARE, of_model["intervals"], 0.95)
    low = of_model[of_model["coverage95"] * of_model["intervals"] < least - 0.5]
    return "\n".join(
        [
            f"{runs} runs of {table['problem'].nunique()} problems: right {table['right'].sum()}, honest "
            f"{table['honest'].sum()}, refused {refused}, wrong {table['wrong'].sum()} "
            f"({table['wrong'].sum() / runs:.2%}), without a reference {table['without_reference'].sum()}; "
            f"false alarms {table['false_alarms'].sum() / max(runs - refused, 1):.2%} of what was run",
            f"feasible, the oracle's error below {FEASIBLE}: {feasible['runs'].sum()} runs, right "
            f"{feasible['right'].sum() / max(feasible['runs'].sum(), 1):.1%}; 95 % intervals hold {coverage:.1%}",
            f"where they hold too rarely at {RARE:g}, were they independent: "
            f"{', '.join(f'{one.problem} at {one.epsilon:g}' for one in low.itertuples()) or 'nowhere'}",
        ]
    )


def _kept(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the summary whose runs are not there: they were made elsewhere."""
    path = store.FOLDER / "summary.csv"
    kept = pd.read_csv(path) if path.exists() else table.iloc[:0]
    made = pd.MultiIndex.from_frame(table[["problem", "epsilon"]])
    return kept[~pd.MultiIndex.from_frame(kept[["problem", "epsilon"]]).isin(made)]


def main() -> None:
    """Run what is not finished, and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems", default="", help="only those whose names hold one of these, with semicolons between"
    )
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument(
        "--nuts", type=int, default=BY_NUTS, help="how many tables of a problem have a reference by NUTS, if it can be"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds; runs that have begun are finished")
    arguments = parser.parse_args()
    wanted = [part.strip() for part in arguments.problems.split(";")]
    names = [name for name in ALL if any(part in name for part in wanted)]
    epsilons = tuple(map(float, arguments.epsilons.split(",")))
    left = work_through(
        do, units(names, epsilons, arguments.runs, arguments.nuts), arguments.workers, arguments.time_limit
    )
    rows = [row(name, epsilon, arguments.runs) for name in ALL for epsilon in EPSILONS]
    table = pd.DataFrame([each for each in rows if each is not None], columns=COLUMNS)
    if table.empty:
        return
    whole = pd.concat([table, _kept(table)]).sort_values(["problem", "epsilon"])
    whole.to_csv(store.FOLDER / "summary.csv", index=False, float_format="%.4g")
    print(summarise(table))  # noqa: T201
    print(f"{len(left)} of the units were not begun or given up")  # noqa: T201


if __name__ == "__main__":
    main()
