"""A Dask cluster of processes of its own: a scheduler and workers, which tests start and kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client

LONGEST = 120.0
"""Seconds after which a process that does not answer is taken to hang."""


class Cluster:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workers = folder, []
        self._file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(self._file))
        self.client = None

    def __enter__(self) -> "Cluster":
        until = time.monotonic() + LONGEST
        while not self._file.exists() or not self._file.read_text().strip():
            assert time.monotonic() < until, self.words()
            time.sleep(0.05)
        self.client = Client(scheduler_file=str(self._file), timeout=LONGEST, set_as_default=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close(timeout=2)
        for process in (*self.workers, self.scheduler):
            kill(process)

    @property
    def address(self) -> str:
        return self.client.scheduler.address

    def with_workers(self, count: int, **environment: str) -> "Cluster":
        """Start workers until there are so many."""
        alive = [one for one in self.workers if one.poll() is None]
        for _ in range(count - len(alive)):
            options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--scheduler-file", str(self._file))
            here = ("--local-directory", str(self.folder))
            self.workers.append(self._start("worker", *options, *here, **environment))
        self.client.wait_for_workers(count, timeout=LONGEST)
        return self

    def words(self) -> str:
        """All that scheduler and workers wrote."""
        return "".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def _start(self, kind: str, *options: str, **environment: str) -> subprocess.Popen:
        paths = os.pathsep.join(entry for entry in sys.path if entry)
        kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
        log = (self.folder / f"{kind}-{len(self.workers)}.log").open("w")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options],
                env={**kept, "PYTHONPATH": paths, **environment},
                stdout=log,
                stderr=log,
            )


def kill(process: subprocess.Popen) -> None:
    """End a process as a loss of power would."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(60)
