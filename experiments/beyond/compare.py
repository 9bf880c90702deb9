"""Run `fit` and its peers on the real tables, on many cores; whatever is finished stays, and is not run again.

    python -m experiments.beyond.compare tables                    # fetches the tables into examples/cache
    python -m experiments.beyond.compare run --workers 16          # all, or what is missing of it
    python -m experiments.beyond.compare run --workers 16 --repeats 5 --epsilons 1 4 --methods fit dp_gd --tables adult
    python -m experiments.beyond.compare ablation --workers 16     # each of the ways of fit taken away in turn
    dpmcmc reproduce beyond/real-data beyond/ablation --finished   # pages and pictures of what there is

Running needs neither matplotlib nor pip, and of the peers only those that are named with `--methods`: folders of
finished cells, `results/cells`, can be put together from several machines.
"""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.beyond import ablation, real_data
from experiments.beyond.more_tables import copy_all
from experiments.machinery import cells
from experiments.machinery.study import Cell, Paper, Study
from experiments.stress.workers import work_through

PAPER = Paper("beyond", "", Path(__file__).parent)
"""Where things are; pictures need more."""

AT_ONCE = 10
"""Repeats of one setting that a process does in a row, with what it has compiled and read."""

COSTS = {"dp_sgd": 6, "dp_gd": 4, "noise_aware": 4, "fit": 3, "diffprivlib": 1}
"""Which methods take longest: they are begun first."""

LARGE = ("homes", "credit")
"""The same of tables."""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tables", "run", "ablation"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=1e6, help="after which nothing more is begun")
    parser.add_argument("--repeats", type=int, help="as real_data.toml has them, unless given")
    parser.add_argument("--epsilons", type=float, nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--references", action="store_true", help="check posteriors without privacy by NUTS as well")
    parser.add_argument("--quick", action="store_true", help="at reduced size, into a folder apart")
    asked = parser.parse_args()
    settings = changed(PAPER.configuration(quick=asked.quick), vars(asked))
    if asked.what == "tables":
        copy_all(settings["real_data"]["asked"])
        return
    compared = (real_data.REFERENCES, real_data.STUDY) if asked.references else (real_data.STUDY,)
    studies = (ablation.STUDY,) if asked.what == "ablation" else compared
    left = run(studies, settings, asked.workers, asked.minutes, quick=asked.quick)
    print(f"{left} of the units were not begun or failed")  # noqa: T201


def changed(configuration: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with what the command line asks for."""
    names = {"num_repeats": "repeats", "epsilons": "epsilons", "methods": "methods", "asked": "tables"}
    given = {name: asked[option] for name, option in names.items() if asked.get(option)}
    return {**configuration, "real_data": {**configuration["real_data"], **given}}


def run(studies: Sequence[Study], settings: Mapping[str, Any], workers: int, minutes: float, *, quick: bool) -> int:
    """Run what is missing, and return how many units were not finished."""
    folder = str(PAPER.output(quick=quick))
    units = [unit for study in studies for unit in _units(study, settings, folder)]
    return len(work_through(do, sorted(units, key=_cost, reverse=True), workers, 60 * minutes))


Unit = tuple[str, str, list[Cell]]
"""The name of a study, the folder for what it finds, and cells that a process does in a row."""


def _units(study: Study, settings: Mapping[str, Any], folder: str) -> list[Unit]:
    """Return the cells that are missing, some repeats of one setting together."""
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in study.cells(settings):
        if not cells.path_of(Path(folder), study, cell).exists():
            alike = (cell["table"], cell.get("method"), cell.get("epsilon") if "method" in cell else cell.get("way"))
            groups.setdefault(alike, []).append(cell)
    starts = [(group, start) for group in groups.values() for start in range(0, len(group), AT_ONCE)]
    return [(study.name, folder, group[start : start + AT_ONCE]) for group, start in starts]


def _cost(unit: Unit) -> float:
    cell = unit[2][0]
    return COSTS.get(cell.get("method", ""), 100) * (4 if cell["table"] in LARGE else 1)


def do(unit: Unit, deadline: float) -> None:
    """Run the cells of a unit one by one, until the time is over."""
    name, folder, found = unit
    study = {study.name: study for study in (real_data.REFERENCES, real_data.STUDY, ablation.STUDY)}[name]
    for cell in found:
        if time.time() > deadline:
            return
        cells.jobs(study, [cell], Path(folder))[0].do()


if __name__ == "__main__":
    main()
