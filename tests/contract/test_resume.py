"""`fit` with a run folder, `resume` and the command of that name: stopped by Ctrl-C, refused, finished, given back."""

import secrets
import shutil
import signal
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from test_fit import MODEL, SCHEMA, TABLE

import dpmcmc as dp
from dpmcmc.cli.main import run
from dpmcmc.errors import BudgetExceeded, InvalidArgument, ResumeRefused, RunInterrupted
from dpmcmc.fitting import prepare_fit, run_in_folder
from dpmcmc.run import folder as run_folder
from dpmcmc.run import plan

FORMULA = "readmitted ~ smoker"
FIT = {
    "family": "bernoulli",
    "epsilon": 2.0,
    "sampler": "dp_langevin",
    "num_steps": 40,
    "allow_low_accuracy": True,
    "progress": False,
}
BUDGET = dp.Budget(4.0, 1e-6)
FILES = ["certificate.json", "config.toml", "draws.csv", "draws.nc", "draws.parquet", "report.html", "summary.csv"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table and a schema, to be in; runs in it have the same noise, so that they can be compared."""
    monkeypatch.chdir(tmp_path)
    usual = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda count: bytes(range(32)) if count == 32 else usual(count))
    monkeypatch.setattr(secrets, "randbits", lambda _: 5)
    TABLE.to_csv("patients.csv", index=False)
    (tmp_path / "patients.toml").write_text(SCHEMA.to_toml())
    return tmp_path


def vault(source="patients.csv", ledger="sqlite:///ledger.db", **options):
    options = {"dataset": "patients", "budget": BUDGET, **options}
    return dp.PrivateData.from_table(source, schema="patients.toml", ledger=ledger, **options)


def kinds(url="sqlite:///ledger.db") -> list[str]:
    return [entry.kind for entry in dp.Ledger(url).history("patients")]


@contextmanager
def ctrl_c(times=1):
    """Press Ctrl-C in the third segment of a run."""

    class Pressing(plan.Plan):
        def segments(self, paid, size):
            for number, segment in enumerate(super().segments(paid, size)):
                if number == 2:
                    for _ in range(times):
                        signal.raise_signal(signal.SIGINT)  # in this thread: each one is noticed
                yield segment

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are deaf to it
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan, "Plan", Pressing)
            yield
    finally:
        signal.signal(signal.SIGINT, usual)


def names(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def full_disk(*_):
    raise OSError(28, "No space left on device")


def test_stopped_three_times_it_gives_the_draws_of_one_go(place) -> None:
    whole = dp.fit(FORMULA, vault(dataset="whole"), output="whole", **FIT)
    assert names(place / "whole") == FILES
    with ctrl_c(), pytest.raises(RunInterrupted, match="stopped after 6 of 40 steps; `dpmcmc resume runs/x`"):
        dp.fit(FORMULA, vault(), output="runs/x", **FIT)
    with ctrl_c(times=2), pytest.raises(KeyboardInterrupt):
        dp.resume("runs/x", vault(), progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_folder, "put", full_disk)
        with pytest.raises(RunInterrupted, match="No space left on device; `dpmcmc resume"):
            dp.resume("runs/x", vault(), progress=False)
    assert kinds() == ["register", "reserve"]
    resumed = dp.resume("runs/x", vault(), progress=False)
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(values, resumed.draws[name])
    assert resumed.certificate == whole.certificate
    assert resumed.settings["pilot"] == whole.settings["pilot"]
    assert names(place / "runs" / "x") == FILES
    assert kinds() == ["register", "reserve", "settle"]
    again = dp.resume("runs/x", vault())
    np.testing.assert_array_equal(again.draws["smoker"], whole.draws["smoker"])
    assert kinds() == ["register", "reserve", "settle"]
    with pytest.raises(InvalidArgument, match="a saved run is not overwritten"):
        dp.fit(FORMULA, vault(), output="runs/x", **FIT)


def test_what_is_not_as_it_was_is_refused_and_costs_nothing(place) -> None:
    fit = {name: value for name, value in FIT.items() if name != "family"}
    with ctrl_c(), pytest.raises(RunInterrupted):
        dp.fit(MODEL, vault(), output="x", **fit)
    changed = TABLE.copy()
    changed.loc[17, "readmitted"] = not changed.loc[17, "readmitted"]
    with pytest.raises(ResumeRefused, match="begun with other records"):
        dp.resume("x", vault(changed), MODEL, progress=False)
    steeper = dp.Model(
        lambda theta: 1.001 * MODEL.log_prior(theta),
        MODEL.log_likelihood,
        sample_prior=MODEL.sample_prior,
        position=MODEL.position,
    )
    with pytest.raises(ResumeRefused, match="begun with another program"):
        dp.resume("x", vault(), steeper, progress=False)
    with pytest.raises(ResumeRefused, match="begun with another program"):
        dp.resume("x", vault(), MODEL, init=np.ones(3), progress=False)
    with pytest.raises(InvalidArgument, match="was not a formula"):
        dp.resume("x", vault(), progress=False)
    with pytest.raises(ResumeRefused, match="Resume it with the ledger that it was charged to"):
        dp.resume("x", vault(ledger="sqlite:///other.db"), MODEL, progress=False)
    with pytest.raises(ResumeRefused, match="not an unfinished run"):
        dp.resume("y", vault(), MODEL)
    (place / "elsewhere").mkdir()
    moved = shutil.copytree(place / "x", place / "elsewhere" / "x")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPMCMC_STATE", str(place / "elsewhere"))
        with pytest.raises(ResumeRefused, match="the key of its noise is not there"):
            dp.resume(moved, vault(), MODEL)
    assert kinds() == ["register", "reserve"]
    assert kinds("sqlite:///other.db") == ["register"]
    stopped = dp.resume("x", vault(), MODEL, stop=True, progress=False)
    assert stopped.draws["position"].shape == (2, 6, 3)
    assert dp.Ledger("sqlite:///ledger.db").account("patients").spent == stopped.certificate.event
    assert stopped.certificate.epsilon < 1.5, "the pilot and six of forty steps"
    assert names(place / "x") == FILES


@pytest.mark.slow
def test_where_nobody_could_resume_it_a_run_is_saved_all_the_same(place) -> None:
    data = dp.PrivateData.without_guarantee(
        {name: TABLE[name].to_numpy(np.float32) for name in ("age", "smoker", "readmitted")},
        bounds={"age": (18, 90), "smoker": (0, 1), "readmitted": (0, 1)},
    )
    prepared = prepare_fit(MODEL, data, epsilon=2.0, num_steps=2, allow_low_accuracy=True, insecure_seed=1)
    posterior = run_in_folder(prepared, "x", progress=False)
    assert names(place / "x") == FILES
    np.testing.assert_array_equal(dp.resume("x", data).draws["position"], posterior.draws["position"])


def test_a_charge_that_is_refused_leaves_no_folder(place) -> None:
    with pytest.raises(BudgetExceeded):
        dp.fit(FORMULA, vault(), output="runs/x", **{**FIT, "epsilon": 5.0})
    assert not (place / "runs" / "x").exists()
    assert kinds() == ["register"]


@pytest.fixture
def command(monkeypatch, capsys):
    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


WORDS = (
    *("fit", FORMULA, "--family", "bernoulli", "--data", "patients.csv", "--schema", "patients.toml"),
    *("--ledger", "sqlite:///ledger.db", "--grant-epsilon", "4", "--grant-delta", "1e-6"),
    *("--epsilon", "2", "--sampler", "dp_langevin", "--steps", "40", "--allow-low-accuracy", "--output", "runs/x"),
)


def test_the_command(command, place, monkeypatch) -> None:
    with ctrl_c():
        code, _, err = command(*WORDS)
    assert code == 130
    assert "stopped after 6 of 40 steps; `dpmcmc resume runs/x` continues the run at no further charge" in err
    assert "unfinished" in names(place / "runs" / "x")
    published = b"".join(file.read_bytes() for file in (place / "runs").rglob("*") if file.is_file())
    assert bytes(range(32)) not in published
    assert b"patients.csv" not in published, "paths, and passwords of ledgers, are nobody's business"
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with ctrl_c(times=2):
        code, _, err = command("resume", "../runs/x")
    assert code == 130
    assert "stopped at once; `dpmcmc resume" in err
    monkeypatch.chdir(elsewhere)
    code, out, _ = command("resume", "../runs/x", "--stop")
    assert code == 0
    assert "smoker" in out
    assert "1e-06)-differentially private" in out
    monkeypatch.chdir(place)
    saved = dp.Posterior.load("runs/x")
    assert saved.is_accepted.shape == (2, 6), "what was drawn is kept, and what was not used is given back"
    assert dp.Ledger("sqlite:///ledger.db").account("patients").spent == saved.certificate.event
    assert kinds() == ["register", "reserve", "settle"]
    code, out, _ = command("resume", "runs/x")
    assert code == 0
    assert out.startswith("The run is finished: there is nothing to do, and nothing was charged.")
    code, _, err = command("resume", "runs/nothing")
    assert (code, err) == (2, "dpmcmc: 'runs/nothing' is not a run folder: no such folder\n")
    code, _, err = command("resume", "elsewhere")
    assert code == 2
    assert "is not an unfinished run" in err
