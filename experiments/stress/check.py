"""Hold references that are not NUTS against NUTS, on one table a problem.

    python -m experiments.stress.check --workers 16 [--time-limit 480]

Resumes where it stopped, and writes `results/references.csv`.
"""

import argparse
from typing import Any

import pandas as pd

from experiments.stress import store
from experiments.stress.emulated import Emulated
from experiments.stress.reference import NUTS_UP_TO, checked
from experiments.stress.run import ALL
from experiments.stress.workers import work_through

SEED, MOST = 0, 4_000_000
"""The table, and records times parameters up to which NUTS is taken for a check."""


def do(name: str, deadline: float) -> None:
    """Check one problem."""
    del deadline
    emulated = Emulated(ALL[name], 1.0)
    found = checked(emulated, emulated.records(SEED))
    line = {"seed": SEED, "problem": name, "n": ALL[name].size, "d": emulated.dimension, **found._asdict()}
    store.append(store.place("checks", name), line)


def names() -> list[str]:
    """Return the problems to check, largest first."""
    sizes = {name: ALL[name].size * (4 + getattr(ALL[name], "numbers", 4)) for name in ALL}
    wanted = [name for name in ALL if _has_spread(name) or NUTS_UP_TO < sizes[name] <= MOST]
    return sorted(wanted, key=lambda name: -sizes[name])


def _has_spread(name: str) -> bool:
    problem: Any = ALL[name]
    return bool(getattr(problem, "groups", None) or getattr(problem, "spreads", None))


def main() -> None:
    """Check what is not checked yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds; checks that have begun are finished")
    arguments = parser.parse_args()
    left = [name for name in names() if not store.by_seed(store.place("checks", name))]
    work_through(do, left, arguments.workers, arguments.time_limit)
    rows = [line for name in names() for line in store.by_seed(store.place("checks", name)).values()]
    table = pd.DataFrame(rows)
    table.to_csv(store.FOLDER / "references.csv", index=False, float_format="%.4g")
    print(table.to_string())  # noqa: T201


if __name__ == "__main__":
    main()
