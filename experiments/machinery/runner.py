"""Run what is missing of a target on all cores, then write its table, its picture and its summary."""

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from experiments.machinery import cells, pictures
from experiments.machinery.study import Cell, Configuration, Paper, Product, Study, Target

SECONDS_BETWEEN_LINES = 30.0
"""How often a run without a terminal says where it is."""


def reproduce(
    paper: Paper, targets: Iterable[Target], *, quick: bool, workers: int, output: Path, finished: bool = False
) -> list[Path]:
    """Run targets of one paper and return the summaries that were written; if `finished`, of what is there already."""
    configuration = paper.configuration(quick=quick)
    written: list[Path] = []
    done: dict[str, Results] = {}
    for target in targets:
        for study in target.studies:
            if study.name not in done:
                done[study.name] = run_study(study, configuration, output, 0 if finished else workers)
        found = {study.name: done[study.name] for study in target.studies if done[study.name].finished}
        if found:
            tables = {name: results.table for name, results in found.items()}
            product = target.make(tables, configuration)
            written.append(write(paper, target, product, [done[study.name] for study in target.studies], output))
    return written


def forget(target: Target, configuration: Configuration, output: Path) -> None:
    """Drop the finished cells of a target."""
    for study in target.studies:
        for cell in study.cells(configuration):
            cells.path_of(output, study, cell).unlink(missing_ok=True)


@dataclass(frozen=True)
class Results:
    """What a study has found so far."""

    table: pd.DataFrame
    seconds: float
    finished: int
    total: int


def run_study(study: Study, configuration: Configuration, output: Path, workers: int) -> Results:
    """Run the cells that are missing, none if there are no workers, write the table, and return what was found."""
    wanted = study.cells(configuration)
    output.mkdir(parents=True, exist_ok=True)
    if workers:
        run_cells(study, cells.missing(study, wanted, output), len(wanted), output, workers)
    finished = [cell for cell in wanted if cells.path_of(output, study, cell).exists()]
    if not finished:
        return Results(pd.DataFrame(), 0.0, 0, len(wanted))
    table, seconds = cells.table(study, finished, output)
    lists = [name for name in table if table[name].map(lambda value: isinstance(value, list)).any()]
    table.drop(columns=lists).to_csv(output / f"{study.name}.csv", index=False, float_format="%.6g")
    return Results(table, seconds, len(finished), len(wanted))


def run_cells(study: Study, left: list[Cell], total: int, output: Path, workers: int) -> None:
    """Run cells in processes of their own, each on one core; what is finished is kept whatever happens to the rest."""
    if not left:
        return
    with _Watcher(study.name, total, total - len(left)) as watcher:
        if workers == 1:
            for cell in left:
                cells.run_cell(study.run, cell, cells.path_of(output, study, cell))
                watcher.advance()
            return
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")  # one core a process
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        # what one process has compiled, the others need not
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / "dpmcmc-experiments"))
        with ProcessPoolExecutor(min(workers, len(left)), mp_context=get_context("spawn")) as pool:
            running = [
                pool.submit(cells.run_cell, study.run, cell, cells.path_of(output, study, cell)) for cell in left
            ]
            try:
                for one in as_completed(running):
                    one.result()
                    watcher.advance()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def write(paper: Paper, target: Target, product: Product, found: Sequence[Results], output: Path) -> Path:
    """Write what a target made: NAME.png and .svg, NAME.csv, and NAME.md, the summary."""
    if product.figure is not None:
        pictures.save(product.figure, product.caption, output / target.name)
    if product.table is not None and target.name not in {study.name for study in target.studies}:
        product.table.to_csv(output / f"{target.name}.csv", index=False, float_format="%.6g")
    picture = f"\n![{target.title}]({target.name}.png)\n" if product.figure is not None else ""
    summary = output / f"{target.name}.md"
    finished, total = sum(results.finished for results in found), sum(results.total for results in found)
    minutes = sum(results.seconds for results in found) / 60
    summary.write_text(
        f"# {paper.title}: {target.title}\n\n{product.caption}\n{picture}\n{product.summary.strip()}\n\n"
        f"{finished} of {total} cells are finished; they took {minutes:.1f} minutes together.\n",
        encoding="utf-8",
    )
    return summary


class _Watcher:
    """Shows how many cells are finished: a bar in a terminal, else a line now and then."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self._name, self._total, self._done = name, total, done
        self._console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last = time.monotonic()

    def __enter__(self) -> "_Watcher":
        if self._console.is_terminal:
            columns = (TextColumn("{task.description} {task.completed}/{task.total}"), BarColumn(20))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self._console)
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=self._total, completed=self._done)
        else:
            self._say()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self) -> None:
        """Take note of one more cell."""
        self._done += 1
        if self._bar and self._task is not None:
            self._bar.advance(self._task)
        elif time.monotonic() - self._last > SECONDS_BETWEEN_LINES or self._done == self._total:
            self._say()

    def _say(self) -> None:
        self._last = time.monotonic()
        self._console.print(f"{self._name}: {self._done}/{self._total} cells", highlight=False)
