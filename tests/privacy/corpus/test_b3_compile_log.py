"""B3: the private number of records is in what the compiler logs.

The attack: under add-or-remove-one the number of records is private. With `jax_log_compiles` JAX prints the shapes of
what it compiles, and the names of files in its compilation cache are hashes of programs, shapes and all.

What must happen: of 4321 records in 5000 stated places neither logs, representations and errors show the number, nor
does the cache: the same files, of about the same sizes, whatever the number.

False alarms: the number is looked for where no digit, letter or dot stands beside it; of the numbers that the logs
have on their own (times, line numbers) none was 4321 in any run.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

N, STATED = 4321, 5000

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
import jax, jax.numpy as jnp, numpy as np
from dpmcmc.enclave import GradientSum, LogRatio, PenaltyTest, SubsampledGradientSum, Sum
from vaults import add_or_remove_vault

class Logistic:
    temperature = 1.0
    def log_prior(self, t):
        return -0.5 * jnp.sum(t**2)
    def log_likelihood(self, t, r):
        return jax.nn.log_sigmoid(r["x"] @ t * r["y"])

draws = np.random.default_rng(0)
rows = {"x": draws.normal(size=(6000, 2)).astype(np.float32), "y": draws.choice([-1.0, 1.0], 6000).astype(np.float32)}
vault = add_or_remove_vault({name: leaf[: int(sys.argv[1])] for name, leaf in rows.items()}, int(sys.argv[2]))
LONG = np.zeros((int(sys.argv[2]), 2), np.float32)
print(repr(vault), repr(vault.facts))

def program(oracle, t):
    return (
        oracle.sum(Sum(1.0, 2.0), lambda r: r["x"]),
        oracle.force(GradientSum(1.0, 2.0), t),
        oracle.force(SubsampledGradientSum.poisson(1.0, 2.0, 0.1), t),
        oracle.accept(PenaltyTest(1.0, 2.0), t, t + 1),
    )

vault.run(program, jnp.zeros(2), model=Logistic())
for wrong in (
    lambda oracle, t: oracle.sum(Sum(1.0, 2.0), lambda r: r["z"]),
    lambda oracle, t: oracle.sum(Sum(1.0, 2.0), lambda r: r["x"] @ jnp.zeros(3)),
    lambda oracle, t: oracle.sum(Sum(1.0, 2.0), lambda r: jnp.asarray(LONG)[:, 0]),
    lambda oracle, t: jax.debug.print("{}", t),
):
    try:
        vault.run(wrong, jnp.zeros(2), model=Logistic())
    except Exception as error:
        print(type(error).__name__, error)
    else:
        raise SystemExit("a wrong program ran")
"""

FIRST = "from dpmcmc.enclave.core.self_test import check_machine; check_machine()"
"""The first process on a machine compiles a long self-test too, whatever its table, and leaves a stamp."""


def process(program, cache, *given):
    """What a process writes that compiles into a cache, on a machine that is this cache's home."""
    environment = os.environ | {
        "XDG_CACHE_HOME": str(cache.parent),
        "JAX_LOG_COMPILES": "1",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", program, *map(str, given)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def run(n, cache):
    """What a process with n records writes, and the files in its compilation cache with their sizes."""
    text = process(PROGRAM, cache, n, STATED)
    files = {path.name: path.stat().st_size for path in cache.rglob("*") if not path.name.endswith("-atime")}
    shutil.rmtree(cache)
    return text, files


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    cache = tmp_path_factory.mktemp("number") / "cache"  # one path for both: names in it depend on it
    process(FIRST, cache)
    shutil.rmtree(cache)
    return {n: run(n, cache) for n in (N, N - 1)}


def test_nothing_that_is_written_shows_the_number(runs):
    text, _ = runs[N]
    assert "Finished XLA compilation" in text or "Compiling" in text, "compilations are not logged"
    shown = [line for line in text.splitlines() if re.search(rf"(?<![\w.]){N}(?![\w.])", line)]
    assert not shown, f"{len(shown)} lines, of which the first is: {shown[0][:300]}"


def test_the_compilation_cache_is_that_of_a_neighbour(runs):
    (_, files), (_, others) = runs[N], runs[N - 1]
    assert files, "nothing was cached"
    assert files.keys() == others.keys(), f"{len(files.keys() ^ others.keys())} of {len(files)} files have other names"
    for name, size in files.items():  # of one program twice too, sizes differ by half a percent
        assert abs(size - others[name]) <= 0.05 * size
