"""What a selection between three small models takes: the first one of a process, and others after it.

    python -m benchmarks.selection

How many runs there are is secret in real selections; here records are made up, and runs are counted. Times are those of
the processor: of several cores, what is compiled side by side takes less by the clock.
"""

import time
from unittest.mock import patch

import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.fitting.selection import Candidate

SIZE, SELECTIONS = 20_000, 4
FORMULAS = ("readmitted ~ age", "readmitted ~ age + smoker", "readmitted ~ age * smoker")
COLUMNS = {
    "age": dp.Column(kind="integer", lower=18, upper=90),
    "smoker": dp.Column(kind="boolean"),
    "readmitted": dp.Column(kind="boolean"),
}


def patients() -> pd.DataFrame:
    """Return the rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 91, SIZE), "smoker": rng.random(SIZE) < 0.3})
    table["readmitted"] = rng.random(SIZE) < 1 / (1 + np.exp(2.5 - 0.03 * table.age - 0.8 * table.smoker))
    return table


def main() -> None:
    """Select, and print how long it took."""
    data = dp.PrivateData.from_table(patients(), schema=dp.Schema(COLUMNS), budget=dp.Budget(1e6, 1e-6))
    candidates = {formula: {"model": formula, "family": "bernoulli"} for formula in FORMULAS}
    for number in range(SELECTIONS):
        runs: list[int] = []
        run = Candidate.run
        with patch.object(Candidate, "run", lambda *arguments, runs=runs, run=run: runs.append(1) or run(*arguments)):
            wall, cpu = time.perf_counter(), time.process_time()
            found = dp.select(candidates, data, epsilon=2.0, delta=1e-6, score_range=(-5, 0))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        which = found.settings["selection"]["selected"]
        print(f"selection {number + 1}: {len(runs)} runs, {cpu:.1f} s of the processor, {wall:.1f} s; {which}")


if __name__ == "__main__":
    main()
