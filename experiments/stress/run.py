"""Fit every problem at every budget, new rows and new noise each time, and say how often the result is right.

    python -m experiments.stress.run                      # all problems, emulated; resumes where it stopped
    python -m experiments.stress.run --problems "rare" --epsilons 1,4 --runs 5

Sums and noise are emulated in floating point (`emulated`); everything else is the library's own. Each problem and
budget is a row of `results/cells/`, and is not run again; `results/summary.csv` has them all.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dpmcmc.diagnostics.quality import Grade
from dpmcmc.diagnostics.summary import coordinates
from experiments.stress.emulated import Emulated
from experiments.stress.models import MODELS, ModelProblem
from experiments.stress.problems import PROBLEMS, Problem
from experiments.stress.reference import reference

ALL: dict[str, Problem | ModelProblem] = {**PROBLEMS, **MODELS}

FOLDER = Path(__file__).parent / "results"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FAR, WORST = 4.0, 8.0
"""Own standard deviations from the reference from which on a parameter is off, and badly off."""

WIDTHS = (0.7, 1.5)
"""Between these factors of what it should be, a standard deviation is right."""

FEASIBLE = 0.5
"""The predicted error below which a run can be right."""


def one_run(name: str, emulated: Emulated, seed: int) -> dict[str, object]:
    """Fit one table, and hold the result against the exact posterior of the same rows."""
    problem, records = ALL[name], emulated.records(seed)
    started = time.process_time()
    drawn = emulated.fit(records, seed)
    seconds = time.process_time() - started
    quality = drawn.quality
    means = {name: values.mean(axis=(0, 1)) for name, values in drawn.draws.items()}
    exact, method = reference(name, seed, emulated.model, records, means)
    off, widths, errors, inside = [], [], [], []
    for key, values in coordinates(drawn.draws).items():
        grade = quality.parameters.get(key, Grade())
        if any("identified" in reason or "prior" in reason for reason in grade.reasons):
            continue
        its = coordinates({each: found[None] for each, found in exact.items()})[key]
        own, width = float(values.std()), float(its.std())
        moved = float(values.mean() - its.mean())
        off.append(abs(moved / own))
        errors.append(moved / width)
        widths.append(own / np.sqrt(width**2 + grade.shares.get("privacy", 0.0) * own**2))
        if key in problem.truth:
            low, high = np.quantile(values, [0.025, 0.975])
            inside.append(low <= problem.truth[key] <= high)
    is_right = bool(off) and max(off) <= FAR and all(WIDTHS[0] <= width <= WIDTHS[1] for width in widths)
    marked = sum(any("identified" in reason for reason in grade.reasons) for grade in quality.parameters.values())
    return {
        "right": is_right and quality.verdict != "bad",
        "honest": quality.verdict == "bad" or (not problem.holds and quality.verdict == "fair"),
        "would_be_right": is_right and not marked,
        "alarm": quality.verdict == "bad" or marked > 0,
        "off": max(off, default=0.0),
        "inside": sum(inside),
        "intervals": len(inside),
        "error": float(np.sqrt(np.mean(np.square(errors)))) if errors else np.nan,
        "predicted": np.nan if quality.predicted_error is None else quality.predicted_error,
        "seconds": seconds,
        "reference": method,
        "worst_width": max(widths, key=lambda width: abs(np.log(width)), default=1.0),
        "reasons": " ".join(quality.reasons),
    }


def cell(name: str, epsilon: float, runs: int) -> dict[str, object]:
    """Return the row of one problem at one budget."""
    problem = ALL[name]
    emulated = Emulated(problem, epsilon)
    expected = emulated.strategy.expected_error
    base = {
        "problem": name,
        "family": problem.family,
        "n": problem.size,
        "d": emulated.strategy.dimension,
        "epsilon": epsilon,
        "runs": runs,
        "floor_error": expected,
    }
    if expected > 1:
        return {**base, "refused": runs, "right": 0, "honest": 0, "wrong": 0, "false_alarms": 0}
    found = pd.DataFrame([one_run(name, emulated, seed) for seed in range(runs)])
    found.to_csv(_place(name, epsilon, runs, "csv"), index=False)
    return {**base, **counted(found)}


def _place(name: str, epsilon: float, runs: int, ending: str) -> Path:
    return FOLDER / "cells" / f"{name} {epsilon:g} {runs}.{ending}".replace(" ", "_")


def counted(found: pd.DataFrame) -> dict[str, object]:
    """Return how the runs of a cell ended; those without a reference, with a Pareto k above .5, do not count."""
    is_held = found["reference"] != "laplace"
    held = found[is_held]
    wrong = ~held["right"] & ~held["honest"]
    return {
        "refused": 0,
        "without_reference": int((~is_held).sum()),
        "right": int(held["right"].sum()),
        "honest": int((~held["right"] & held["honest"]).sum()),
        "wrong": int(wrong.sum()),
        "false_alarms": int((held["alarm"] & held["would_be_right"]).sum()),
        "worst_own_sds": float(held["off"].where(wrong, 0.0).max()) if len(held) else 0.0,
        "coverage95": found["inside"].sum() / max(found["intervals"].sum(), 1),
        "intervals": int(found["intervals"].sum()),
        "predicted_error": float(np.sqrt((held["predicted"] ** 2).mean())),
        "measured_error": float(np.sqrt((held["error"] ** 2).mean())),
        "reference": " ".join(sorted(set(found["reference"]))),
        "seconds": float(found["seconds"].median()),
    }


def summarise(table: pd.DataFrame) -> str:
    """Return the whole in a few lines."""
    runs = table["runs"].sum()
    feasible = table[(table["predicted_error"] < FEASIBLE) & (table["refused"] == 0)]
    held = table.dropna(subset=["coverage95"])
    coverage = (held["coverage95"] * held["intervals"]).sum() / held["intervals"].sum()
    lines = [
        f"{runs} runs of {table['problem'].nunique()} problems: right {table['right'].sum()}, honest "
        f"{table['honest'].sum()}, refused {table['refused'].sum()}, wrong {table['wrong'].sum()} "
        f"({table['wrong'].sum() / runs:.2%}), false alarms {table['false_alarms'].sum() / runs:.2%}",
        f"of {feasible['runs'].sum()} feasible runs right {feasible['right'].sum() / feasible['runs'].sum():.1%}; "
        f"95 % intervals hold {coverage:.1%}",
    ]
    return "\n".join(lines)


def main() -> None:
    """Run what is not finished, and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default="", help="only those whose names hold this")
    parser.add_argument("--epsilons", default=",".join(map(str, EPSILONS)))
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    cells = FOLDER / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    for epsilon in map(float, arguments.epsilons.split(",")):
        for name in ALL:
            place = _place(name, epsilon, arguments.runs, "json")
            if arguments.problems in name and not place.exists():
                row = cell(name, epsilon, arguments.runs)
                pd.Series(row).to_json(place)
                print(pd.Series(row).to_dict(), flush=True)  # noqa: T201
    rows = [pd.read_json(place, typ="series") for place in sorted(cells.glob("*.json"))]
    runs_of = [place.with_suffix(".csv") for place in sorted(cells.glob("*.json"))]
    rows = [
        {**row, **counted(pd.read_csv(place))} if place.exists() else dict(row)
        for row, place in zip(rows, runs_of, strict=True)
    ]
    table = pd.DataFrame(rows).sort_values(["problem", "epsilon"])
    table.to_csv(FOLDER / "summary.csv", index=False, float_format="%.4g")
    print(summarise(table))  # noqa: T201


if __name__ == "__main__":
    main()
