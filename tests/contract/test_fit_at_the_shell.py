"""`dpmcmc fit` when something is wrong: the message that a person at a shell needs, and no charge for nothing."""

import errno
import io
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import dpmcmc as dp
from dpmcmc.cli.main import run
from dpmcmc.run.progress import watch

NUM_RECORDS = 1000
BOOLEANS = '[columns]\nsmoker = { kind = "boolean" }\nreadmitted = { kind = "boolean" }\n'
SCHEMAS = {
    "patients": 'age = { kind = "number", lower = 18, upper = 90 }',
    "reversed": 'age = { kind = "number", lower = 90, upper = 18 }',
    "constant": 'age = { kind = "number", lower = 50, upper = 50 }',
    "unbounded": 'age = { kind = "number" }',
    "half": 'age = { kind = "number", lower = 18 }',
    "absent": 'height = { kind = "number", lower = 1, upper = 2.5 }',
    "wards": 'ward = { kind = "category", categories = ["north", "south"] }',
    "many": f'code = {{ kind = "category", categories = {[str(code) for code in range(90)]} }}',
}
FORMULA = "readmitted ~ smoker"
OTHER_CODES = {"0.05": 4, "many": 4, "4.5": 3}
"""Useless plans, and one that is above the budget; what is wrong otherwise is exit code 2."""


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run `dpmcmc fit` with a table and a choice of schemas; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    smoker = rng.random(NUM_RECORDS) < 0.4
    table = pd.DataFrame(
        {
            "age": 50.0,  # a constant column
            "smoker": smoker,
            "readmitted": rng.random(NUM_RECORDS) < np.where(smoker, 0.6, 0.3),
            "ward": rng.choice(["north", "south"], NUM_RECORDS),
            "code": rng.integers(0, 90, NUM_RECORDS),
        }
    )
    table.to_csv("patients.csv", index=False)
    table.assign(ward="elsewhere").to_csv("elsewhere.csv", index=False)
    Path("broken.parquet").write_bytes(b"PAR1 and no more")
    for name, column in SCHEMAS.items():
        Path(f"{name}.toml").write_text(f"{BOOLEANS}{column}\n")

    def call(formula: str = FORMULA, schema: str = "patients", **options: str | bool) -> tuple[int, str, str]:
        stated = {"data": "patients.csv", "dataset": "patients", "ledger": "sqlite:///ledger.db", "epsilon": "2"}
        stated |= {"grant-epsilon": "4", "grant-delta": "1e-6", "family": "bernoulli", "steps": "10", "output": "run"}
        words = [[f"--{name}", *([] if value is True else [value])] for name, value in {**stated, **options}.items()]
        line = ["dpmcmc", "fit", formula, "--schema", f"{schema}.toml", *(word for pair in words for word in pair)]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def charges() -> int:
    if not Path("ledger.db").exists():
        return 0
    return sum(entry.kind == "reserve" for entry in dp.Ledger("sqlite:///ledger.db").history())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": "0"}, "--epsilon 0.0 must be > 0"),
        ({"epsilon": "0.05"}, "would do, or"),
        ({"epsilon": "0.05"}, "nothing was spent. --allow-low-accuracy runs it anyway"),
        ({"formula": "readmitted ~ code", "schema": "many"}, "too little for 90 parameters and 1,000 records"),
        ({"formula": "readmitted ~ smokr"}, "'smokr', which is not a column of the schema; it has smoker, readmitted"),
        ({"formula": "readmitted ~ smokr"}, "Did you mean 'smoker'?"),
        ({"formula": "readmitted ~ smoker +"}, "formula='readmitted ~ smoker +' cannot be read: "),
        ({"formula": "readmitted smoker"}, "must have one ~ between response and predictors"),
        ({"schema": "reversed"}, "column 'age': lower=90.0 must be < upper=18.0"),
        ({"schema": "constant"}, "column 'age': lower=50.0 is upper=50.0 as well: a column that cannot vary"),
        ({"schema": "unbounded"}, "column 'age': kind='number' needs lower and upper: state the bounds"),
        ({"schema": "half"}, "column 'age': kind='number' needs lower and upper"),
        ({"schema": "absent"}, "--data 'patients.csv' has no column height; the schema names it"),
        ({"data": "broken.parquet"}, "--data 'broken.parquet' cannot be read; expected a whole Parquet file"),
        ({"data": "nowhere.csv"}, "--data 'nowhere.csv' cannot be read: no such file"),
        ({"adjacency": "add_or_remove_one"}, "--capacity must be stated under add_or_remove_one"),
        ({"prior": "ward[east]=normal(0, 1)", "schema": "wards"}, "priors has ward[east]"),
        ({"epsilon": "4.5"}, "dataset='patients' has spent epsilon=0 of 4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_and_costs_nothing(command, arguments, message) -> None:
    code, _, err = command(**arguments)
    assert code == OTHER_CODES.get(arguments.get("epsilon", arguments.get("schema")), 2)
    assert err.startswith("dpmcmc: ")
    assert err.count("\n") == 1
    assert message in err
    assert charges() == 0
    assert not Path("run").exists()


def test_a_dry_run_that_does_not_fit_says_so_and_what_would(command) -> None:
    dp.Ledger.create("sqlite:///ledger.db").register("patients", dp.Budget(4.0, 1e-6), "replace_one")
    code, out, _ = command(epsilon="4.5", **{"dry-run": True})
    assert code == 3
    assert "one more run of up to about epsilon 4.00 fits" in out
    assert "This run does NOT fit into what is left." in out
    code, out, _ = command(epsilon="3.5", ledger="ledger.db", **{"dry-run": True, "json": True})
    answer = json.loads(out)
    assert code == 0
    assert answer["fits"] is True
    assert answer["ledger"]["epsilon_left"] == answer["ledger"]["largest_run"] == 4.0
    assert charges() == 0


def test_a_dataset_without_a_budget_is_told_the_command(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    dp.Ledger.create("sqlite:///ledger.db")
    Path("visits.csv").write_text("a,b\n")
    line = "dpmcmc fit a~b --data visits.csv --schema s.toml --ledger ledger.db --epsilon 1 --output run"
    monkeypatch.setattr(sys, "argv", line.split())
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    message = "`dpmcmc ledger init ledger.db --dataset visits --epsilon EPSILON --delta DELTA`"
    assert message in capsys.readouterr().err


def test_the_result_as_json(command) -> None:
    """One document, on standard output alone, with what is left; a bad verdict is the exit code too."""
    code, out, _ = command(epsilon="4", json=True, yes=True, **{"allow-low-accuracy": True})
    answer = json.loads(out)
    assert code == (5 if answer["verdict"] == "bad" else 0)
    assert set(answer["summary"]) == {"intercept", "smoker"}
    assert 3.9 < answer["epsilon"] <= 4.0
    assert answer["folder"] == "run"
    assert answer["ledger"]["epsilon_spent"] == pytest.approx(answer["epsilon"])
    assert answer["ledger"]["largest_run"] < 0.5
    code, _, err = command(output="again")
    assert code == 3
    assert "fits" in err


def test_rows_that_are_not_held_are_put_into_secret_slots(command) -> None:
    slots = {"adjacency": "add_or_remove_one", "capacity": "2000", "allow-low-accuracy": True, "dry-run": True}
    code, out, _ = command(**slots, scratch=".")
    assert code == 0
    assert "They stand in secret slots of a private file and are read chunk by chunk." in out
    code, _, err = command(**slots, scratch="nowhere")
    assert code == 2
    assert "--scratch 'nowhere' cannot hold a scratch file" in err


def test_a_large_delta_is_warned_of(command) -> None:
    code, out, _ = command(delta="0.001", epsilon="3.5", **{"grant-delta": "0.001", "dry-run": True})
    assert code == 0
    assert "Warning: delta = 0.001 is not below one over the number of records; take a smaller one." in out
    assert "Warning" not in command(epsilon="3.5", **{"dry-run": True})[1]


def test_what_only_the_rows_know_is_not_said(command) -> None:
    """A category that the schema does not list is a missing value like any other."""
    told = [
        command("readmitted ~ ward", "wards", data=data, epsilon="4", **{"dry-run": True})
        for data in ("patients.csv", "elsewhere.csv")
    ]
    assert told[0] == told[1]
    assert told[0][0] == 0


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a lock on a database, as another process would."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        other.rollback()
        other.close()


def test_a_locked_ledger(command, monkeypatch) -> None:
    dp.Ledger.create("sqlite:///ledger.db").register("patients", dp.Budget(4.0, 1e-6), "replace_one")
    monkeypatch.setattr(dp.Ledger.__init__, "__defaults__", (0.2,))
    monkeypatch.setattr(dp.Ledger.create.__func__, "__defaults__", (0.2,))
    with locked("ledger.db"):
        code, out, err = command()
    assert code == 2
    assert out == ""
    assert "is locked by another process for longer than 0.2 s; nothing was charged; try again" in err
    assert charges() == 0


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_after_the_charge_loses_no_draw(command, monkeypatch) -> None:
    """And a constant column is no fault that anybody could be told of, and without a terminal progress is lines."""
    monkeypatch.setattr("dpmcmc.run.progress.SECONDS_BETWEEN_LINES", 0.0)

    def full(*_, **__):
        raise NO_SPACE

    with monkeypatch.context() as patch:
        patch.setattr(xr.DataTree, "to_netcdf", full)
        code, out, err = command("readmitted ~ age + smoker", **{"allow-low-accuracy": True})
    assert code == 2
    assert "a file cannot be written: [Errno 28] No space left on device; `dpmcmc resume run` continues the run" in err
    assert charges() == 1
    assert "pilot and private_laplace 10/10: " in err
    assert "pilot and private_laplace: pilot 3 of 7" in err
    assert "\x1b" not in out + err
    monkeypatch.setattr(sys, "argv", ["dpmcmc", "resume", "run"])
    with pytest.raises(SystemExit):
        run()
    assert dp.Posterior.load("run").draws["age"].shape == (2, 10)
    assert charges() == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_only_where_they_are_wanted(monkeypatch, no_color) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1") if no_color else monkeypatch.delenv("NO_COLOR", raising=False)
    with watch("a run", 10, "epsilon 1", show=True) as watcher:
        watcher.update(5, 1.0)
    assert "a run 5/10" in screen.getvalue()
    assert bool(re.search(r"\x1b\[(\d+;)*(3|4|9|10)\d[;m]", screen.getvalue())) is not no_color
