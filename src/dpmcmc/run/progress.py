"""The progress display of a run: it shows public facts and post-processing of releases, never records."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

Answer = TypeVar("Answer")

SECONDS_BETWEEN_LINES = 5.0
"""Seconds between progress lines of a run without a terminal."""


class Watcher:
    """Shows the progress of a run: a bar in a terminal, otherwise a line every few seconds, or nothing."""

    def __init__(self, name: str, total: int, price: str, bar: "Progress | None", console: "Console | None") -> None:
        self._name, self._total, self._price = name, total, price
        self._bar, self._console = bar, console
        self._task = bar.add_task(name, total=total, pace="compiling") if bar else None
        self._started = self._last = time.monotonic()
        self._done = self._accepted = self._before = 0.0

    def update(self, steps: int, acceptance: float, is_new: bool = True) -> None:
        """Count further steps and their acceptance rate.

        The speed excludes stored steps, which took no time, and the first ones, which include pilot and compilation.
        """
        now = time.monotonic()
        if not is_new or not self._done:
            self._before += steps
            self._started = now
        self._done += steps
        self._accepted += steps * acceptance
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=self._done, pace=self._pace(now))
        elif self._console and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            line = f"{self._name} {self._done:.0f}/{self._total}: {self._pace(now)}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def stage(self, words: str) -> None:
        """Show the current stage while there are no steps of a chain to count."""
        now = time.monotonic()
        if self._bar and self._task is not None:
            self._bar.update(self._task, pace=words)
        elif self._console and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._console.print(f"{self._name}: {words}", highlight=False, soft_wrap=True)

    def counted(self, words: str, number: int, ask: Callable[..., Answer]) -> Callable[..., Answer]:
        """Return `ask` with a progress line before each call: its number of all calls."""
        turns = count(1)

        def asked(*question: Any) -> Answer:
            self.stage(f"{words} {next(turns)} of {number}")
            return ask(*question)

        return asked

    def _pace(self, now: float) -> str:
        timed = self._done - self._before
        speed = f"{timed / max(now - self._started, 1e-9):.3g} steps/s, " if timed else ""
        share = self._accepted / self._done  # 1 for independent draws and for samplers without an accept test
        accepted = f"{share:.0%} accepted, " if share < 1 else ""
        return f"{speed}{accepted}{self._done / self._total:.0%} of {self._price}"


@contextmanager
def watch(name: str, total: int, price: str, show: bool) -> Generator[Watcher]:
    """Yield the progress display of a run, on standard error."""
    if not show:
        yield Watcher(name, total, price, None, None)
        return
    from rich.console import Console  # it takes a while to load
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield Watcher(name, total, price, None, console)
        return
    columns = (
        TextColumn("{task.description} {task.completed:.0f}/{task.total}"),
        BarColumn(bar_width=8),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        yield Watcher(name, total, price, bar, None)
