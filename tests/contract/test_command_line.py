"""The `dpmcmc` command: answers on stdout, errors on stderr with an exit code and no traceback."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from dpmcmc.accounting import Adjacency, Gaussian, Ledger, PoissonGaussian, epsilon
from dpmcmc.cli.main import run
from dpmcmc.cli.output import print_table

DP_HMC = "plan dp-hmc --epsilon 4 --delta 1e-6 --noise-ratio 31.6 --noise-gradient 174 --leapfrog 25"


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process; returns (exit code, stdout, stderr)."""

    def call(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", *line.split()])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def test_plan_answers_with_the_steps_under_each_accountant(command):
    code, out, _ = command(DP_HMC + " --json")
    answer = json.loads(out)
    assert code == 0
    assert answer["steps"] == 377
    assert answer["by_accountant"]["exact"] == 377
    assert answer["by_accountant"]["zcdp"] == 273
    assert answer["adjacency"] == "replace_one"


def test_plan_prints_adjacency_with_epsilon(command):
    code, out, _ = command(DP_HMC)
    assert code == 0
    assert "377 steps within epsilon = 4, delta = 1e-06, replace-one adjacency" in out


def test_every_chain_is_paid_for(command):
    _, out, _ = command(DP_HMC + " --chains 4 --json")
    assert json.loads(out)["steps"] == 377 // 4


@pytest.mark.parametrize(
    ("line", "cheapest"),
    [
        ("plan dp-penalty --epsilon 2 --delta 1e-6 --noise-ratio 31.622776601683796", 201),
        ("plan dp-penalty --epsilon 2 --delta 1e-6 --noise-ratio 31.622776601683796 --hide-ratio", 276),
        ("plan dp-barker --epsilon 1 --delta 1e-6 --sensitivity 0.02", 400),
        ("plan subsampled-barker --epsilon 0.1 --delta 1e-6 --batch-size 1000 --population 1000000", 100_000),
        (
            "plan minibatch-penalty --epsilon 1 --delta 1e-6 --noise-multiplier 2 --batch-size 100 --population 10000",
            1400,
        ),
        ("plan dp-sgld --epsilon 1 --delta 1e-6 --rate 0.01 --noise-over-clip 2", 500),
    ],
)
def test_every_sampler_can_be_planned(command, line, cheapest):
    code, out, _ = command(line + " --json")
    answer = json.loads(out)
    assert code == 0
    assert answer["steps"] >= cheapest
    assert answer["steps"] == max(answer["by_accountant"].values())


@pytest.mark.parametrize(
    "line",
    [
        "gaussian --noise-multiplier 10 --steps 100",
        "accept-bit --noise-multiplier 10 --steps 100",
        "poisson --rate 0.01 --noise-over-clip 1 --steps 100",
        "poisson --rate 0.01 --noise-over-clip 1 --steps 100 --adjacency add_or_remove_one",
        "fixed-batch --batch-size 10 --population 1000 --noise-multiplier 1 --steps 100",
        "logistic-bit --sensitivity 0.1 --steps 100",
        "barker --batch-size 100 --population 10000 --steps 100",
    ],
)
def test_epsilon_of_every_event(command, line):
    code, out, _ = command(f"epsilon {line} --delta 1e-6 --json")
    answer = json.loads(out)
    assert code == 0
    assert answer["epsilon"] == min(answer["by_accountant"].values())
    assert answer["epsilon"] == answer["by_accountant"][answer["accountant"]]
    table = command(f"epsilon {line} --delta 1e-6")[1]
    assert f"{answer['epsilon']:.6g}" in table
    assert answer["adjacency"].replace("_", "-") in table


def test_epsilon_of_an_event_in_a_file(command, tmp_path):
    event = Gaussian(20.0) * 50 + PoissonGaussian(0.1, 3.0, Adjacency.ADD_OR_REMOVE_ONE) * 7
    (tmp_path / "event.json").write_text(event.to_json())
    line = f"epsilon event {tmp_path / 'event.json'} --delta 1e-5 --adjacency add_or_remove_one --json"
    assert json.loads(command(line)[1])["epsilon"] == epsilon(event, 1e-5)


def test_ledger_round_trip(command, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert command(f"ledger init {url} --dataset patients --epsilon 2 --delta 1e-6")[0] == 0
    Ledger(url).reserve("patients", Gaussian(20.0) * 10, description="a pilot").settle()
    code, out, _ = command(f"ledger show {url} --json")
    (account,) = json.loads(out)
    assert code == 0
    assert account["dataset"] == "patients"
    assert account["epsilon_spent"] == epsilon(Gaussian(20.0) * 10, 1e-6)
    entries = json.loads(command(f"ledger history {url} --json")[1])
    assert [entry["kind"] for entry in entries] == ["register", "reserve", "settle"]
    assert "a pilot" in command(f"ledger history {url} --dataset patients")[1]
    assert "patients" in command(f"ledger show {url}")[1]


def test_a_ledger_whose_total_is_kept_by_a_filter(command, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    line = f"ledger init {url} --dataset patients --epsilon 2 --delta 1e-6 --json"
    (account,) = json.loads(command(f"{line} --adaptive")[1])
    assert account["adaptive"] is True
    code, _, err = command(line)
    assert code != 0
    assert "kept by a filter" in err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("epsilon gaussian --noise-multiplier 0 --delta 1e-6", "noise_multiplier=0.0 must be > 0"),
        ("epsilon gaussian --noise-multiplier nan --delta 1e-6", "not NaN"),
        ("epsilon gaussian --noise-multiplier 1 --delta 0", "delta=0.0 must be strictly between 0 and 1"),
        ("epsilon gaussian --noise-multiplier 1 --delta 1", "delta=1.0 must be strictly between 0 and 1"),
        ("epsilon fixed-batch --batch-size 11 --population 10 --noise-multiplier 1 --delta 1e-6", "batch_size=11"),
        ("epsilon event no-such-file.json --delta 1e-6", "cannot be read"),
        ("plan dp-penalty --epsilon -1 --delta 1e-6 --noise-ratio 1", "epsilon=-1.0 must be >= 0"),
        ("ledger show mysql://server/book", "sqlite:///"),
        ("ledger show sqlite:///no-such-folder/ledger.db", "dpmcmc ledger init"),
        ("ledger init sqlite:///ledger.db --dataset patients", "--epsilon and --delta together"),
    ],
)
def test_errors_are_one_line_on_stderr(command, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(line)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.startswith("dpmcmc: ")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_and_the_module_are_the_same():
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    line = [sys.executable, "-m", "dpmcmc", "epsilon", "gaussian", "--noise-multiplier", "-3", "--delta", "1e-6"]
    result = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "dpmcmc: noise_multiplier=-3.0 must be > 0 and finite\n"


def test_names_with_brackets_are_printed_whole(capsys):
    print_table("Posterior", ["parameter", "mean"], [["ward[south]", "0.5"], ["1|ward[0]", "[bold]"]])
    out = capsys.readouterr().out
    for name in ("ward[south]", "1|ward[0]", "[bold]"):
        assert name in out


def test_a_name_is_not_broken_where_closer_columns_hold_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    columns = ["parameter", "mean", "sd", "q5", "q95", "data", "privacy", "prior"]
    row = ["station[B]", "0.000557", "0.00516", "-0.00779", "0.00912", "84%", "15%", "1%"]
    print_table("Posterior", columns, [row])
    out = capsys.readouterr().out
    assert [cell for cell in [*columns, *row] if cell not in out] == []


def test_demo_goes_from_a_table_to_a_report_until_the_budget_is_used_up(command, tmp_path, monkeypatch):
    monkeypatch.setattr("dpmcmc.cli.demo.NUM_PATIENTS", 20_000)
    target = tmp_path / "demo"
    code, out, _ = command(f"demo --output {target}")
    assert code == 0
    assert f"The run is in {target / 'runs' / '1'}: draws, summary, certificate, settings, report.html." in out
    assert "epsilon = 2 of 4 is spent" in out
    assert f"Open {target / 'report.html'}" in out
    page = (target / "report.html").read_text()
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert "default-src 'none'" in page, "the page itself forbids requests"
    certificate = json.loads((target / "runs" / "1" / "certificate.json").read_text())
    assert 1.99 < certificate["epsilon"] <= 2.0

    shown = re.search(r"dpmcmc (fit .*?)\n\n", out, re.DOTALL)
    assert shown
    again = shlex.split(shown[1].replace("\\\n", " "))
    monkeypatch.setattr(sys, "argv", ["dpmcmc", *again[:-1], str(target / "mine"), "--dry-run"])
    with pytest.raises(SystemExit) as stopped:
        run()
    assert not stopped.value.code, "the command that it shows is one"

    code, out, _ = command(f"demo --output {target}")
    assert code == 0
    assert "epsilon = 2.93 of 4 is spent" in out, "the second run continues the same ledger"
    assert (target / "runs" / "2" / "draws.nc").exists()

    book = Ledger(f"sqlite:///{target / 'ledger.db'}")
    book.reserve("patients", Gaussian(2.5), description="someone else").settle()
    before = len(book.history())
    code, _, err = command(f"demo --output {target}")
    assert code == 3
    assert f"has spent epsilon={book.account('patients').epsilon_spent:.6g} of 4" in err
    assert f"{book.account('patients').epsilon_left:.6g} is left" in err
    assert f"delete the folder {str(target)!r} to start anew" in err
    assert len(book.history()) == before
    (tmp_path / "file").touch()
    code, _, err = command(f"demo --output {tmp_path / 'file'}")
    assert code == 2
    assert "is not a folder that can be written" in err


def test_parts_of_a_dataset_share_its_budget_and_their_history(command, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    assert command(f"ledger init {url} --dataset admissions --epsilon 1 --delta 1e-6")[0] == 0
    for year in ("a2025", "a2026"):
        assert command(f"ledger init {url} --dataset {year} --part-of admissions")[0] == 0
        Ledger(url).reserve(year, Gaussian(20.0), description="run").settle()
    Ledger(url).reserve("admissions", Gaussian(20.0), description="all").settle()
    one, both = (f"spent {float(epsilon(Gaussian(20.0) * times, 1e-6)):.4g} of 1" for times in (1, 2))
    _, out, _ = command(f"ledger history {url}")
    settled = [line for line in out.splitlines() if " settle " in line]
    assert [line.rpartition("-> ")[2] for line in settled] == [one, one, both]
    assert command(f"ledger history {url} --dataset a2025")[1] == "".join(
        f"{line}\n" for line in out.splitlines() if "a2025" in line
    )
    shown = json.loads(command(f"ledger show {url} --dataset a2026 --json")[1])[0]
    assert (shown["part_of"], shown["spent"]) == ("admissions", (Gaussian(20.0) * 2).to_dict())
    for wrong in ("--part-of admissions", "--dataset a2027 --part-of admissions --epsilon 1 --delta 1e-6"):
        code, _, err = command(f"ledger init {url} {wrong}")
        assert code == 2
        assert "a part has --dataset and --part-of alone" in err
