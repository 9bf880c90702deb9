"""Run what is missing of the targets on all cores, then write their tables, pictures and summaries."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from experiments.machinery import cells, pictures
from experiments.machinery.study import Configuration, Paper, Product, Study, Target

SECONDS_BETWEEN_LINES = 30.0
"""How often a run without a terminal says where it is."""


@dataclass(frozen=True)
class Effort:
    """How much is run, and how.

    Attributes:
        workers: processes; none runs nothing.
        minutes: after which what is not finished is given up; what is finished stays.
        together: up to how many repeats go into one program, where a study can do that: for an accelerator.
    """

    workers: int
    minutes: float | None = None
    together: int = 1


def reproduce(
    chosen: Sequence[tuple[Paper, Sequence[Target]]], effort: Effort, *, quick: bool, fresh: bool = False
) -> Iterator[Path]:
    """Run what is missing of the targets, all papers in one go, and yield the summaries as they are written."""
    configurations = {paper.name: paper.configuration(quick=quick) for paper, _ in chosen}
    studies = {
        (paper.output(quick=quick), study.name): (study, configurations[paper.name])
        for paper, targets in chosen
        for target in targets
        for study in target.studies
    }
    if fresh and effort.workers:
        for (output, _), (study, configuration) in studies.items():
            forget(study, configuration, output)
    jobs = [
        job
        for (output, _), (study, configuration) in studies.items()
        for job in cells.jobs(study, study.cells(configuration), output, effort.together)
    ]
    run_jobs(jobs, effort)
    for paper, targets in chosen:
        output = paper.output(quick=quick)
        for target in targets:
            found = [results(*studies[output, study.name], output) for study in target.studies]
            tables = {s.name: one.table for s, one in zip(target.studies, found, strict=True) if one.finished}
            if tables:
                yield write(paper, target, target.make(tables, configurations[paper.name]), found, output)


def forget(study: Study, configuration: Configuration, output: Path) -> None:
    """Drop the finished cells of a study."""
    for cell in study.cells(configuration):
        cells.path_of(output, study, cell).unlink(missing_ok=True)


@dataclass(frozen=True)
class Results:
    """What a study has found so far."""

    table: pd.DataFrame
    seconds: float
    finished: int
    total: int


def run_study(study: Study, configuration: Configuration, output: Path, effort: Effort) -> Results:
    """Run the cells of one study that are missing, and return what was found."""
    run_jobs(cells.jobs(study, study.cells(configuration), output, effort.together), effort)
    return results(study, configuration, output)


def results(study: Study, configuration: Configuration, output: Path) -> Results:
    """Return what a study has found so far, and write its table."""
    wanted = study.cells(configuration)
    finished = [cell for cell in wanted if cells.path_of(output, study, cell).exists()]
    if not finished:
        return Results(pd.DataFrame(), 0.0, 0, len(wanted))
    table, seconds = cells.table(study, finished, output)
    lists = [name for name in table if table[name].map(lambda value: isinstance(value, list)).any()]
    table.drop(columns=lists).to_csv(output / f"{study.name}.csv", index=False, float_format="%.6g")
    return Results(table, seconds, len(finished), len(wanted))


def run_jobs(jobs: Sequence[cells.Job], effort: Effort) -> None:
    """Run jobs; what is finished is kept whatever happens to the rest, and one that fails does not stop the others."""
    if not jobs or not effort.workers:
        return
    ends = time.monotonic() + 60 * effort.minutes if effort.minutes is not None else None
    with _Watcher(sum(len(job.cells) for job in jobs)) as watcher:
        if effort.workers > 1:
            _in_processes(jobs, effort.workers, ends, watcher)
            return
        for job in jobs:
            if ends is not None and time.monotonic() >= ends:
                return
            job.do()
            watcher.advance(len(job.cells))


def _in_processes(jobs: Sequence[cells.Job], workers: int, ends: float | None, watcher: "_Watcher") -> None:
    """Run jobs in processes of their own, each on one core."""
    settings = {
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",  # one core a process
        "OMP_NUM_THREADS": "1",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # an accelerator's memory is shared
        # what one process has compiled, the others need not
        "JAX_COMPILATION_CACHE_DIR": str(Path(tempfile.gettempdir()) / "dpmcmc-experiments"),
    }
    failures: list[BaseException] = []
    with (
        _environment(settings | os.environ),
        ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool,
    ):
        running = {pool.submit(job.do): job for job in jobs}
        try:
            for one in as_completed(running, None if ends is None else max(0.0, ends - time.monotonic())):
                failure, job = one.exception(), running[one]
                if failure is None:
                    watcher.advance(len(job.cells))
                else:
                    failures.append(failure)
                    watcher.say(f"failed: {failure!r}, at {job.cells[0]}")
        except TimeoutError:
            watcher.say("the time is over: the rest is given up")
            _stop(pool)
        except BaseException:
            _stop(pool)
            raise
    if failures:
        raise failures[0]


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile, and take them back."""
    before = dict(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _stop(pool: ProcessPoolExecutor) -> None:
    """Give up what is running: a cell is written whole or not at all."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in active_children():
        process.kill()


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

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        self._console = Console(file=sys.stderr)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last = time.monotonic()

    def __enter__(self) -> "_Watcher":
        if self._console.is_terminal:
            columns = (TextColumn("{task.description} {task.completed}/{task.total}"), BarColumn(20))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=self._console)
            self._bar.start()
            self._task = self._bar.add_task("cells", total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Take note of finished cells."""
        self._done += count
        if self._bar and self._task is not None:
            self._bar.advance(self._task, count)
        elif time.monotonic() - self._last > SECONDS_BETWEEN_LINES or self._done == self._total:
            self._last = time.monotonic()
            self.say(f"{self._done} of {self._total} cells")

    def say(self, what: str) -> None:
        """Print a line."""
        self._console.print(what, highlight=False, markup=False, soft_wrap=True)
