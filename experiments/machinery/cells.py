"""Finished cells on disk: one file each, written whole or not at all, so that an interrupted run goes on."""

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from experiments.machinery.study import Cell, Rows, Study


def identity(study: Study, cell: Cell) -> str:
    """Return the name of a cell: it changes with everything that its result depends on but the code."""
    text = json.dumps([study.name, cell], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def path_of(folder: Path, study: Study, cell: Cell) -> Path:
    """Return where the result of a cell is kept."""
    return folder / "cells" / study.name / f"{identity(study, cell)}.json"


def run_cell(run: Callable[[Cell], Rows], cell: Cell, place: Path) -> float:
    """Run one cell, keep its rows in `place`, and return the seconds it took."""
    started = time.perf_counter()
    rows = run(cell)
    seconds = time.perf_counter() - started
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".part")
    draft.write_text(json.dumps({"cell": cell, "rows": rows, "seconds": seconds}), encoding="utf-8")
    draft.replace(place)
    return seconds


def missing(study: Study, cells: list[Cell], folder: Path) -> list[Cell]:
    """Return the cells that have not been run."""
    return [cell for cell in cells if not path_of(folder, study, cell).exists()]


def table(study: Study, cells: list[Cell], folder: Path) -> tuple[pd.DataFrame, float]:
    """Return the tidy table of all cells, one row a row, settings first; and the seconds that they took together."""
    kept = [json.loads(path_of(folder, study, cell).read_text(encoding="utf-8")) for cell in cells]
    columns = [name for name in kept[0]["cell"] if not isinstance(kept[0]["cell"][name], (dict, list))]
    rows = [{name: one["cell"][name] for name in columns} | row for one in kept for row in one["rows"]]
    return pd.DataFrame(rows), sum(one["seconds"] for one in kept)
