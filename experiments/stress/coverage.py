"""How often 95 % intervals hold the truth, family by family, and whether the predicted error is that which one has.

    python -m experiments.stress.coverage --runs 200

Rows and noise are new in each run; sums and noise are emulated (`emulated`). Writes `results/coverage.csv`, resumes.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from dpmcmc.diagnostics.summary import coordinates
from experiments.stress.emulated import Emulated
from experiments.stress.problems import PROBLEMS

OUTPUT = Path(__file__).parent / "results" / "coverage.csv"
EPSILONS = (1.0, 2.0, 8.0)
RARE = 1e-4


def cell(name: str, epsilon: float, runs: int) -> dict[str, object]:
    """Return how many intervals of all runs hold the truth, those of marked parameters left out."""
    problem = PROBLEMS[name]
    emulated = Emulated(problem, epsilon)
    held: list[bool] = []
    verdicts: list[str] = []
    for seed in range(1000, 1000 + runs):
        drawn = emulated.fit(emulated.records(seed), seed)
        verdicts.append(drawn.quality.verdict)
        for key, values in coordinates(drawn.draws).items():
            grade = drawn.quality.parameters.get(key)
            if key in problem.truth and verdicts[-1] != "bad" and (grade is None or grade.verdict != "bad"):
                low, high = np.quantile(values, [0.025, 0.975])
                held.append(bool(low <= problem.truth[key] <= high))
    count, size = sum(held), len(held)
    # intervals of one run depend on each other: the test takes each run for one and a half of them
    factor = 1.5 * runs / max(size, 1)
    low, high = (float(f(count * factor, size * factor)) for f in (_not_below, _not_above)) if size else (1.0, 1.0)
    return {
        "family": problem.family,
        "n": problem.size,
        "epsilon": epsilon,
        "runs": runs,
        "intervals": size,
        "coverage95": count / max(size, 1),
        "p_below_92": low,
        "p_above_98": high,
        **{verdict: verdicts.count(verdict) for verdict in ("good", "fair", "bad")},
    }


def _not_below(count: float, size: float) -> float:
    return float(binom.cdf(int(count), int(size), 0.92))


def _not_above(count: float, size: float) -> float:
    return float(binom.sf(int(count) - 1, int(size), 0.98))


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--families", default="")
    arguments = parser.parse_args()
    rows = pd.read_csv(OUTPUT).to_dict("records") if OUTPUT.exists() else []
    done = {(row["family"], row["epsilon"]) for row in rows}
    for epsilon in EPSILONS:
        for name in (name for name in PROBLEMS if name.endswith("plain") and arguments.families in name):
            if (PROBLEMS[name].family, epsilon) not in done:
                rows.append(cell(name, epsilon, arguments.runs))
                print(rows[-1], flush=True)  # noqa: T201
                OUTPUT.parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame(rows).to_csv(OUTPUT, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
