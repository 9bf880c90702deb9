"""kill -9 at random points of `dpmcmc fit` and `dpmcmc resume`: the draws are those of a run that nobody killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp

COMMAND = """
import secrets, sys, time

KEYS = {{"fixed": lambda count: bytes(range(count)), "fresh": secrets.token_bytes}}
secrets.token_bytes = KEYS["fixed"]  # as insecure as it gets, so that two runs can be compared
secrets.randbits = lambda bits: 5

import jax

from dpmcmc.cli.main import run
from dpmcmc.enclave.resume.journal import Journal

usual_begin, usual_keep = Journal.begin, Journal.keep

def begin(self, *arguments):
    print("begun", flush=True)
    time.sleep({pause} / 3)
    key = usual_begin(self, *arguments)
    time.sleep({pause} / 3)
    return key

def keep(self, *arguments):
    time.sleep({pause} / 3)
    usual_keep(self, *arguments)

Journal.begin, Journal.keep = begin, keep
{mutation}
run()
"""
PAUSE = 0.15
BAD = 5
"""The exit code of a run whose verdict is bad, as that of so few rows must be."""

LONGEST = 600.0
"""Seconds after which a run that has not got on is taken to hang."""

FIT = (
    *("fit", "y ~ x", "--family", "bernoulli", "--data", "rows.csv", "--schema", "rows.toml"),
    *("--ledger", "sqlite:///ledger.db", "--grant-epsilon", "4", "--grant-delta", "1e-6"),
    *("--epsilon", "2", "--sampler", "dp_langevin", "--steps", "40", "--allow-low-accuracy", "--output", "runs/x"),
)
RESUME = ("resume", "runs/x")


def lay_out(folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(3)
    x = rng.random(400).round(3)
    pd.DataFrame({"x": x, "y": rng.random(400) < 0.3 + 0.4 * x}).to_csv(folder / "rows.csv", index=False)
    schema = dp.Schema({"x": dp.Column(kind="number", lower=0, upper=1), "y": dp.Column(kind="boolean")})
    (folder / "rows.toml").write_text(schema.to_toml())
    return folder


def start(folder: Path, words: tuple[str, ...], pause: float = 0.0, mutation: str = "") -> subprocess.Popen:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    # no compilation cache: jaxlib can wait for ever for one that several processes read
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment = {**kept, "PYTHONPATH": paths, "DPMCMC_STATE": str(folder / "private")}
    script = COMMAND.format(pause=pause, mutation=mutation)
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def ended_after(process: subprocess.Popen, seconds: float) -> Iterator[None]:
    """Terminate a process that takes longer: what waits for its output then sees the end of it."""
    timer = threading.Timer(seconds, process.terminate)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def finish(folder: Path, words: tuple[str, ...], mutation: str = "") -> None:
    with start(folder, words, mutation=mutation) as process:
        _, errors = process.communicate(timeout=LONGEST)
    assert process.returncode in {0, BAD}, errors


def kill_once(folder: Path, rng: np.random.Generator) -> None:
    """Begin the run, or go on with it, and kill it somewhere in the first or second program that it begins."""
    words = RESUME if (folder / "runs" / "x").exists() else FIT
    with start(folder, words, PAUSE) as process, ended_after(process, LONGEST):
        for _ in range(1 + int(rng.random() < 0.4)):
            while "begun" not in (line := process.stdout.readline()):
                assert line, f"it ended before it was killed: {process.stderr.read()}"
        time.sleep(rng.uniform(0, PAUSE))
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL


def draws(folder: Path) -> dict[str, np.ndarray]:
    return dict(dp.Posterior.load(folder / "runs" / "x").draws)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody killed."""
    folder = lay_out(tmp_path_factory.mktemp("kills") / "whole")
    finish(folder, FIT)
    return folder


@pytest.mark.slow  # `test_resume` stops runs too, in process
@pytest.mark.parametrize("kills", [3, 20])
def test_a_killed_run_ends_with_the_draws_of_one_that_was_not(whole: Path, kills: int) -> None:
    folder = lay_out(whole.parent / f"killed-{kills}")
    rng = np.random.default_rng(kills)
    for _ in range(kills):
        kill_once(folder, rng)
    standing = dp.Ledger(f"sqlite:///{folder / 'ledger.db'}").account("rows").standing
    assert len(standing) == 1
    finish(folder, RESUME)
    expected, found = draws(whole), draws(folder)
    assert set(expected) == set(found) == {"intercept", "x"}
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
    books = [dp.Ledger(f"sqlite:///{one / 'ledger.db'}") for one in (whole, folder)]
    assert [entry.kind for entry in books[1].history()] == ["register", "reserve", "settle"]
    assert books[0].account("rows").spent == books[1].account("rows").spent
    assert sorted(file.name for file in (folder / "runs" / "x").iterdir()) == [
        *("certificate.json", "config.toml", "draws.csv", "draws.nc", "draws.parquet", "report.html", "summary.csv")
    ]
    assert list((folder / "private" / "runs").iterdir()) == []


FRESH_NOISE = """
from dpmcmc.enclave.core import session as paid
from dpmcmc.enclave.noise import chacha20 as rng
rng.key_of = lambda secret: jax.random.wrap_key_data(
    jax.numpy.asarray(__import__("numpy").frombuffer(KEYS["fresh"](32), "uint32")), impl=rng.CHACHA20
)
"""


@pytest.mark.slow
def test_fresh_noise_on_resuming_gives_other_draws(whole: Path) -> None:
    """The control: the comparison above sees it."""
    folder = lay_out(whole.parent / "fresh")
    kill_once(folder, np.random.default_rng(1))
    finish(folder, RESUME, FRESH_NOISE)
    expected, found = draws(whole), draws(folder)
    assert not np.array_equal(found["x"], expected["x"])
