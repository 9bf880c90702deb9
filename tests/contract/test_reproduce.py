"""`dpmcmc reproduce`: cells are run once, a stopped run goes on, and what is asked for by a wrong name is refused."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpmcmc.cli import reproduce as command
from dpmcmc.cli.main import app
from dpmcmc.errors import InvalidArgument

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def importable():
    sys.path.insert(0, str(ROOT))
    yield
    sys.path.remove(str(ROOT))


def counting_study(folder: Path, fails_at: int | None = None):
    from experiments.machinery.study import Study

    def run(cell):
        with (folder / "runs").open("a") as file:
            file.write(f"{cell['number']}\n")
        if cell["number"] == fails_at:
            raise KeyboardInterrupt
        return [{"square": cell["number"] ** 2}, {"square": -1}]

    return Study("squares", lambda c: [{"number": i, "seed": c["seed"]} for i in range(c["count"])], run)


def runs(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "runs").read_text().split()]


def test_a_stopped_run_goes_on_and_repeats_nothing(tmp_path) -> None:
    from experiments.machinery.runner import Effort, run_study

    stopped, whole = counting_study(tmp_path, fails_at=2), counting_study(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_study(stopped, {"count": 4, "seed": 1}, tmp_path, Effort(1))
    assert runs(tmp_path) == [0, 1, 2]
    so_far = run_study(whole, {"count": 4, "seed": 1}, tmp_path, Effort(0))
    assert (so_far.finished, so_far.total, list(so_far.table.square)) == (2, 4, [0, -1, 1, -1])
    assert runs(tmp_path) == [0, 1, 2]
    table = run_study(whole, {"count": 4, "seed": 1}, tmp_path, Effort(1)).table
    assert runs(tmp_path) == [0, 1, 2, 2, 3]
    assert list(table.square) == [0, -1, 1, -1, 4, -1, 9, -1]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "squares.csv"), table)
    run_study(whole, {"count": 2, "seed": 2}, tmp_path, Effort(1))  # another seed is another cell
    assert runs(tmp_path)[5:] == [0, 1]


def test_processes_share_the_cells(tmp_path) -> None:
    from experiments.dp_mcmc_thesis_2021.accountants import ACCOUNTS
    from experiments.machinery.runner import Effort, run_study

    asked = {("minibatch", "published"): 828, ("dp_barker", "barker_2019"): 1687, ("dp_penalty", "exact"): 702}
    every = [one for one in ACCOUNTS.cells({}) if one["epsilon"] == 4.0]
    study = replace(ACCOUNTS, cells=lambda _: [one for one in every if (one["algorithm"], one["accountant"]) in asked])
    table = run_study(study, {}, tmp_path, Effort(2)).table
    assert dict(zip(zip(table.algorithm, table.accountant, strict=True), table.steps, strict=True)) == asked


def test_configurations_of_quick_runs_change_what_they_name(tmp_path) -> None:
    from experiments.machinery.study import Paper

    (tmp_path / "configuration.toml").write_text("a = 1\n[b]\nc = 2\nd = 3\n[quick]\na = 5\n[quick.b]\nd = 7\n")
    paper = Paper("p", "P", tmp_path)
    assert paper.configuration() == {"a": 1, "b": {"c": 2, "d": 3}}
    assert paper.configuration(quick=True) == {"a": 5, "b": {"c": 2, "d": 7}}
    (tmp_path / "more.toml").write_text("[e]\nf = 1\n[quick.e]\nf = 2\n")
    assert paper.configuration() == {"a": 1, "b": {"c": 2, "d": 3}, "e": {"f": 1}}
    assert paper.configuration(quick=True) == {"a": 5, "b": {"c": 2, "d": 7}, "e": {"f": 2}}


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch) -> None:
    from experiments.beyond.peers import diffprivlib
    from experiments.beyond.real_tables import Question

    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    with pytest.raises(InvalidArgument, match=r"diffprivlib cannot be imported.*dpmcmc\[peers\]"):
        next(diffprivlib(Question("adult", "over_50k ~ age", "bernoulli"), 1.0, 0, {}))


def test_every_target_is_listed_and_wrong_names_are_refused() -> None:
    listed = CliRunner().invoke(app, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert "dp-hmc/figure-1" in listed.output
    for arguments in (["dp-hmc/figure-99"], ["nobody"], [], ["dp-hmc", "--all"]):
        refused = CliRunner().invoke(app, ["reproduce", *arguments])
        assert isinstance(refused.exception, InvalidArgument), arguments


def test_without_a_clone_it_says_what_to_do(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c" / "reproduce.py"))
    refused = CliRunner().invoke(app, ["reproduce", "--list"])
    assert isinstance(refused.exception, InvalidArgument)
    assert "clone" in str(refused.exception)


def test_a_very_small_experiment_writes_everything(tmp_path) -> None:
    from experiments.dp_hmc_2021.figure_1 import METROPOLIS, TARGET
    from experiments.machinery.runner import Effort, run_study, write
    from experiments.machinery.study import merged

    paper = __import__("experiments.dp_hmc_2021", fromlist=["PAPER"]).PAPER
    tiny = merged(
        paper.configuration(quick=True),
        {"num_records": 500, "epsilons": [15.0], "most_steps": {"dp_penalty": 20}, "segments": {"dp_penalty": 20}},
    )
    study = replace(
        METROPOLIS, cells=lambda c: [one for one in METROPOLIS.cells(c) if one["sampler"] == "dp_penalty"][:1]
    )
    found = run_study(study, tiny, tmp_path, Effort(1))
    table = found.table
    assert list(table.reading) == ["published", "accept bit"]
    assert np.all((table.mmd > 0) & (table.mmd < 1.5) & (table.epsilon_that_holds <= 15))
    write(paper, TARGET, TARGET.make({"metropolis": table}, tiny), [found], tmp_path)
    for name in ("figure-1.png", "figure-1.svg", "figure-1.csv", "figure-1.md", "metropolis.csv"):
        assert (tmp_path / name).stat().st_size > 100, name
    again = run_study(study, tiny, tmp_path / "again", Effort(1)).table
    pd.testing.assert_frame_equal(again, table)  # a cell is a pure function of its settings


def test_repeats_that_run_together_keep_their_starts_and_their_rows(tmp_path, monkeypatch) -> None:
    from experiments.dp_hmc_2021 import PAPER
    from experiments.dp_hmc_2021.figure_1 import METROPOLIS
    from experiments.machinery import budgets, cells
    from experiments.machinery.study import merged

    changes = {"num_records": 500, "epsilons": [15.0], "num_repeats": {"metropolis": 3}}
    tiny = merged(PAPER.configuration(quick=True), changes | {"most_steps": {"dp_penalty": 20}})
    wanted = [one for one in METROPOLIS.cells(tiny) if (one["sampler"], one["model"]) == ("dp_penalty", "banana")]
    assert [[one["repeat"] for one in job.cells] for job in cells.jobs(METROPOLIS, wanted, tmp_path)] == [[0], [1], [2]]
    both, last = cells.jobs(METROPOLIS, wanted, tmp_path, together=2)
    assert ([one["repeat"] for one in both.cells], [one["repeat"] for one in last.cells]) == ([0, 1], [2])
    seen = []
    original = budgets.run_chains
    monkeypatch.setattr(budgets, "run_chains", lambda *a, **k: seen.append(original(*a, **k)) or seen[-1])
    both.do()
    place = budgets.of_cell(wanted[0])
    assert np.array_equal(seen[0].starts, np.concatenate([place.starts(0, 4), place.starts(1, 4)]))
    table, _ = cells.table(METROPOLIS, wanted[:2], tmp_path)
    for repeat, chains in enumerate(seen[0].groups(4)):
        accepted = table[(table.repeat == repeat) & (table.reading == "accept bit")].acceptance.item()
        assert accepted == chains.is_accepted.mean()
    assert cells.jobs(METROPOLIS, wanted, tmp_path, together=2)[0].cells == last.cells


def test_a_job_that_fails_does_not_stop_the_others(tmp_path) -> None:
    from experiments.machinery.cells import Job
    from experiments.machinery.runner import Effort, run_jobs

    fine, wrong, environment = tmp_path / "fine.json", tmp_path / "wrong.json", dict(os.environ)
    with pytest.raises(TypeError):
        run_jobs([Job(len, [{}], [wrong]), Job(partial(map, dict), [{"a": 1}], [fine])], Effort(2))
    assert fine.exists()
    assert not wrong.exists()
    assert dict(os.environ) == environment, "settings of the processes stay behind"


def test_what_is_not_finished_in_time_is_given_up(tmp_path) -> None:
    from experiments.machinery.cells import Job
    from experiments.machinery.runner import Effort, run_jobs

    started = time.monotonic()
    endless = [Job(partial(map, time.sleep), [600.0], [tmp_path / f"{one}.json"]) for one in range(3)]
    run_jobs(endless, Effort(2, minutes=0.02))
    run_jobs(endless, Effort(1, minutes=0.0))
    assert time.monotonic() - started < 60
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_quick_run_makes_everything_within_ten_minutes() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "dpmcmc", "reproduce", "--all", "--quick", "--fresh"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 600
