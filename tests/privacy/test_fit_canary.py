"""A row with a name and a number that occur nowhere else goes through `dpmcmc fit`, and not a byte of it comes out.

In runs that succeed, are refused, fail and are interrupted: not in what they print, log and raise, in tracebacks, the
ledger, run folders, checkpoints, temporary files, nor in JAX's compilation cache. The shortest traces have four bytes,
and about 10^4 bytes of what is searched are random: a false alarm has a chance of less than 10^-4 (20 x 10^4 / 2^32).
"""

import gzip
import os
import sqlite3
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from canary import INCOME, NAME, NUMBER, TRACES, WEIGHT, numbers, search, traces_in

from dpmcmc.enclave.core import self_test

NUM_ROWS = 400

SCHEMA = f"""
person = "name"
max_rows_per_person = 2
[columns]
income = {{ kind = "number", lower = {INCOME[0]}, upper = {INCOME[1]} }}
weight = {{ kind = "number", lower = {WEIGHT[0]}, upper = {WEIGHT[1]} }}
ward = {{ kind = "category", categories = ["north", "south"], missing = "category" }}
readmitted = {{ kind = "boolean" }}
"""

PROGRAM = """
import logging, os, signal, sys, traceback
logging.basicConfig(level=logging.DEBUG)
from dpmcmc.cli.main import app
from dpmcmc.run import progress

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are deaf to it
update, presses = progress.Watcher.update, 0
progress.SECONDS_BETWEEN_LINES = 0.0

def press(*arguments, **options):
    for _ in range(presses):
        os.kill(os.getpid(), signal.SIGINT)
    return update(*arguments, **options)

progress.Watcher.update = press

def fit(what, formula, *words, data="patients.csv", epsilon="1.5", output=None):
    print(f"=== {what}", flush=True)
    line = ["fit", formula, "--data", os.path.join(os.environ["PRIVATE"], data), "--schema", "patients.toml"]
    line += ["--ledger", "sqlite:///ledger.db", "--dataset", "patients", "--grant-epsilon", "4"]
    line += ["--grant-delta", "1e-5", "--epsilon", epsilon, "--output", f"runs/{what}", "--allow-low-accuracy", *words]
    try:
        print("=> returned", app(line, standalone_mode=False), flush=True)
    except BaseException as error:
        traceback.print_exc()
        print("=> raised", type(error).__name__, repr(error), vars(error), flush=True)

FORMULA = "readmitted ~ income + weight + ward"
GLM = ("--family", "bernoulli", "--steps", "20")
fit("success", FORMULA, *GLM)
fit("dry", FORMULA, *GLM, "--dry-run")
fit("refused", FORMULA, *GLM, epsilon="3.9")
fit("useless", FORMULA, *GLM[:2], "--chains", "0")
fit("malformed", FORMULA, *GLM, data="malformed.csv")
fit("unreadable", FORMULA, *GLM, data="unreadable.parquet")
fit("no-column", FORMULA, *GLM, data="headless.csv")
for presses in (1, 2):
    fit(f"interrupted-{presses}", FORMULA, *GLM, epsilon="1")
"""


@pytest.fixture
def folders(tmp_path):
    """Where the private table is, and where everything that a run may write goes."""
    private, outside = tmp_path / "private", tmp_path / "outside"
    for folder in (private, *(outside / name for name in ("work", "home", "tmp", "cache"))):
        folder.mkdir(parents=True)
    rng = np.random.default_rng(17)
    table = pd.DataFrame(
        {
            "name": [f"p{number}" for number in rng.integers(0, NUM_ROWS // 2, NUM_ROWS)],
            "income": rng.uniform(*INCOME, NUM_ROWS).round(1),
            "weight": rng.uniform(*WEIGHT, NUM_ROWS).round(1),
            "ward": rng.choice(["north", "south"], NUM_ROWS),
            "readmitted": rng.integers(0, 2, NUM_ROWS),
        }
    ).astype({"readmitted": object})
    table.loc[NUM_ROWS // 3] = [NAME, float(NUMBER), float(NUMBER), NAME, NAME]
    text = table.to_csv(index=False)
    assert text.count(NAME) == 3
    (private / "patients.csv").write_text(text)
    (private / "malformed.csv").write_text(f"{text}{NAME},{NUMBER},{NUMBER},{NAME},{NAME},{NAME}\n")
    (private / "headless.csv").write_text(f"{NAME},{NUMBER},{NUMBER},{NAME},{NAME}\n" * 3)
    (private / "unreadable.parquet").write_bytes(b"PAR1" + f"{NAME} {NUMBER}".encode() + struct.pack("<d", 123456.789))
    (outside / "work" / "patients.toml").write_text(SCHEMA)
    return private, outside


def run(program: str, private: Path, outside: Path) -> None:
    """Run a program whose every output lands below one folder, on a machine that was tested before."""
    stamp = self_test._stamp()
    if stamp is not None and stamp.exists():
        copy = outside / "home" / "dpmcmc" / "self-test" / stamp.name
        copy.parent.mkdir(parents=True)
        copy.touch()
    environment = {
        **os.environ,
        "PRIVATE": str(private),
        "HOME": str(outside / "home"),
        "DPMCMC_STATE": str(outside / "state"),
        "TMPDIR": str(outside / "tmp"),
        "XDG_CACHE_HOME": str(outside / "home"),
        "JAX_COMPILATION_CACHE_DIR": str(outside / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_LOG_COMPILES": "1",
        "JAX_TRACEBACK_FILTERING": "off",
    }
    with (outside / "stdout").open("wb") as out, (outside / "stderr").open("wb") as err:
        subprocess.run(
            [sys.executable, "-c", program], cwd=outside / "work", env=environment, stdout=out, stderr=err, check=True
        )


def test_no_byte_of_the_row_comes_out(folders) -> None:
    private, outside = folders
    run(PROGRAM, private, outside)
    out, err = (outside / "stdout").read_text(), (outside / "stderr").read_text()
    endings = {part.split("\n")[0]: part for part in out.split("=== ")[1:]}
    assert "The run is in runs/success" in endings["success"]
    assert "Nothing was charged" in endings["dry"]
    assert "=> raised BudgetExceeded" in endings["refused"]
    for what in ("useless", "malformed", "unreadable", "no-column"):
        assert "=> raised InvalidArgument" in endings[what]
    assert "=> returned 130" in endings["interrupted-2"], "stopped at once"
    assert "Compiling" in err, "the logs of JAX were on"
    assert "Traceback" in err

    found, searched = search(outside)
    assert found == []
    for part in (
        "draws.nc in HDF5",
        "draws.parquet in Parquet",
        "draws.csv",
        "certificate.json",
        "config.toml",
        "ledger.db",
        "state/runs",
        "unfinished",
        "stdout as it is",
        "stderr as it is",
    ):
        assert any(part in name for name in searched), part
    assert sum(name.startswith("cache") and "unpacked" in name for name in searched) >= 3, "the cache was unpacked"


LEAK = """
import os, sys
sys.argv = ["dpmcmc", "fit", "model.py:leaky", "--data", os.path.join(os.environ["PRIVATE"], "patients.csv")]
sys.argv += ["--schema", "patients.toml", "--ledger", "sqlite:///ledger.db", "--epsilon", "1", "--output", "run"]
from dpmcmc.cli.main import run
try:
    run()
except SystemExit:
    pass
"""


def test_a_model_that_reads_the_file_by_itself_would_be_caught(folders) -> None:
    """The control: a leak on the way from the table to standard error is seen."""
    private, outside = folders
    leaky = "import os, pathlib\nraise ValueError((pathlib.Path(os.environ['PRIVATE']) / 'headless.csv').read_text())\n"
    (outside / "work" / "model.py").write_text(leaky)
    run(LEAK, private, outside)
    found, _ = search(outside)
    assert any(each.startswith("stderr as it is: 'Quenby Zorn'") for each in found)
    assert any("'123456.789' in utf-8" in each for each in found)


def test_every_form_of_the_row_would_be_caught() -> None:
    for what, sequence in TRACES.items():
        assert what in traces_in(b"before" + sequence + b"after")
    assert len(set(TRACES.values())) > 60
    assert traces_in(f"Mr {NAME.upper()}".encode()) == [], "and nothing else is"


def test_every_place_would_be_searched(tmp_path) -> None:
    single = np.array([0.5, numbers()["income scaled"], 0.25], np.float32)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "plain").write_bytes(single.tobytes())
    (tmp_path / "cache").write_bytes(zlib.compress(single.tobytes() * 9))
    (tmp_path / "log.gz").write_bytes(gzip.compress(f"cannot read {NUMBER}".encode()))
    (tmp_path / f"{NAME}.txt").touch()
    with h5py.File(tmp_path / "draws.nc", "w") as file:
        file.create_dataset("posterior/x", data=np.tile(single, (100, 1)), compression="gzip")
    pd.DataFrame({"x": np.tile(single, 100)}).to_parquet(tmp_path / "draws.parquet")
    pd.DataFrame({"x": np.tile(single, 100)}).to_csv(tmp_path / "draws.csv", index=False)
    (tmp_path / "others").mkdir()
    pd.DataFrame({"x": [1, 2], NAME: [3, 4]}).to_csv(tmp_path / "others" / "draws.csv")
    pd.DataFrame({"x": [1.0, NAME]}, dtype=object).to_csv(tmp_path / "others" / "summary.csv")
    with h5py.File(tmp_path / "attributes.nc", "w") as file:
        file.create_group("posterior").attrs["who"] = NAME
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("CREATE TABLE entries (what TEXT, price REAL)")
        connection.execute("INSERT INTO entries VALUES (?, ?)", ("a run", float(NUMBER)))
    connection.close()
    found, _ = search(tmp_path)
    for file in ("deep/er/plain", "cache unpacked", "log.gz unpacked", f"{NAME}.txt", "draws.nc in HDF5", "ledger.db"):
        assert any(each.startswith(file) for each in found), file
    for file in (
        "attributes.nc in HDF5",
        "draws.parquet in Parquet",
        "draws.csv",
        "others/draws.csv",
        "others/summary",
    ):
        assert any(each.startswith(file) for each in found), file
