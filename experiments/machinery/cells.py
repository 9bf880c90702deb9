"""Finished cells on disk: one file each, written whole or not at all, so that an interrupted run goes on."""

import hashlib
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from experiments.machinery.study import Cell, Rows, Study


def identity(study: Study, cell: Cell) -> str:
    """Return the name of a cell: it changes with everything that its result depends on but the code."""
    text = json.dumps([study.name, cell], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def path_of(folder: Path, study: Study, cell: Cell) -> Path:
    """Return where the result of a cell is kept."""
    return folder / "cells" / study.name / f"{identity(study, cell)}.json"


class Job(NamedTuple):
    """Cells that are run at once, and where the rows of each are kept."""

    run: Callable[[list[Cell]], list[Rows]]
    cells: list[Cell]
    places: list[Path]

    def do(self) -> None:
        """Run the cells and keep their rows; each took its share of the seconds."""
        started = time.perf_counter()
        found = self.run(self.cells)
        seconds = (time.perf_counter() - started) / len(self.cells)
        for cell, rows, place in zip(self.cells, found, self.places, strict=True):
            place.parent.mkdir(parents=True, exist_ok=True)
            draft = place.with_suffix(".part")
            draft.write_text(json.dumps({"cell": cell, "rows": rows, "seconds": seconds}), encoding="utf-8")
            draft.replace(place)


def jobs(study: Study, cells: list[Cell], folder: Path, together: int = 1) -> list[Job]:
    """Return what is to be done for the cells that have not been run, up to so many of them at once where they can."""
    left = [cell for cell in cells if not path_of(folder, study, cell).exists()]
    groups: dict[str, list[Cell]] = {}
    for cell in left:
        alike = {name: value for name, value in cell.items() if name != "repeat"} if study.run_together else cell
        groups.setdefault(json.dumps(alike, sort_keys=True), []).append(cell)
    run = study.run_together or partial(_one_by_one, study.run)
    parts = [group[start : start + together] for group in groups.values() for start in range(0, len(group), together)]
    if together == 1:  # in the order of the study: all settings of one repeat, then the next
        parts = [[cell] for cell in left]
    return [Job(run, part, [path_of(folder, study, cell) for cell in part]) for part in parts]


def _one_by_one(run: Callable[[Cell], Rows], cells: list[Cell]) -> list[Rows]:
    return [run(cell) for cell in cells]


def table(study: Study, cells: list[Cell], folder: Path) -> tuple[pd.DataFrame, float]:
    """Return the tidy table of all cells, one row a row, settings first; and the seconds that they took together."""
    kept = [json.loads(path_of(folder, study, cell).read_text(encoding="utf-8")) for cell in cells]
    columns = [name for name in kept[0]["cell"] if not isinstance(kept[0]["cell"][name], (dict, list))]
    rows = [{name: one["cell"][name] for name in columns} | row for one in kept for row in one["rows"]]
    return pd.DataFrame(rows), sum(one["seconds"] for one in kept)
