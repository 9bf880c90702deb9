"""What the command says of budgets: how large one more run may be, the history in lines, and the exit codes."""

import io
import re
import sys
from pathlib import Path

import pytest
import typer

import dpmcmc as dp
from dpmcmc import errors
from dpmcmc.accounting import Gaussian, epsilon, noise_for
from dpmcmc.accounting.ledger.connection import ledger_url
from dpmcmc.cli import options
from dpmcmc.cli.budget import confirm, explained, largest_run, room_in_words, rounded_down
from dpmcmc.cli.main import run

DELTA = 1e-6
PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def gaussian(total: float) -> Gaussian:
    return Gaussian(noise_for(Gaussian, epsilon=total, delta=DELTA))


@pytest.fixture
def ledger(tmp_path, monkeypatch) -> dp.Ledger:
    monkeypatch.chdir(tmp_path)
    book = dp.Ledger.create("sqlite:///ledger.db")
    book.register("patients", dp.Budget(4.0, DELTA), "replace_one")
    return book


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("spent", [0.0, 1.0, 3.6])
def test_the_largest_run_fits_and_a_larger_one_does_not(tmp_path, spent, adaptive):
    book = dp.Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    book.register("patients", dp.Budget(4.0, DELTA), "replace_one", adaptive=adaptive)
    if spent:
        book.reserve("patients", gaussian(spent), description="a run").settle()
    account = book.account("patients")
    largest = largest_run(account)
    assert account.admits(gaussian(float(rounded_down(largest))))
    if spent or adaptive:
        assert not account.admits(gaussian(largest + 0.002))
    if spent and not adaptive:
        assert largest > account.epsilon_left, "epsilons do not add up"
    if not spent and not adaptive:
        assert largest == 4.0


def test_a_budget_that_is_used_up_has_no_room(ledger):
    ledger.reserve("patients", gaussian(4.0), description="a run").settle()
    assert room_in_words(ledger.account("patients")) == "no further run fits"
    with (
        pytest.raises(errors.BudgetExceeded, match=r"; no further run fits$"),
        explained("sqlite:///ledger.db", "patients"),
    ):
        ledger.reserve("patients", gaussian(1.0), description="another")


def call(line: str, monkeypatch, capsys) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["dpmcmc", *line.split()])
    with pytest.raises(SystemExit) as stopped:
        run()
    return stopped.value.code or 0, capsys.readouterr().out


def test_history_is_one_line_an_entry_with_the_total(ledger, monkeypatch, capsys):
    """A ledger may be named by its path; a run that gives something back lowers the total."""
    monkeypatch.setenv("COLUMNS", "40")
    first = ledger.reserve(
        "patients", gaussian(2.0), description="fit of readmitted ~ age + smoker + ward, private_laplace"
    )
    first.settle()
    ledger.reserve("patients", gaussian(0.5) * 2, description="another").settle(gaussian(0.5))
    code, out = call("ledger history ledger.db", monkeypatch, capsys)
    lines = out.splitlines()
    both = float(epsilon(gaussian(2.0) + gaussian(0.5), DELTA))
    assert code == 0
    assert len(lines) == 5
    assert re.match(
        r"#1 \d{4}-\d\d-\d\d \d\d:\d\d \S+ register patients: budget granted, epsilon 4 at delta 1e-06", lines[0]
    )
    assert lines[1].endswith("private_laplace, epsilon 2 -> spent 2 of 4")
    assert lines[4].endswith(f"another, epsilon 0.5 -> spent {both:.4g} of 4")


def test_show_says_how_large_one_more_run_may_be(ledger, monkeypatch, capsys):
    ledger.reserve("patients", gaussian(2.0), description="a run").settle()
    code, out = call("ledger show ledger.db", monkeypatch, capsys)
    assert code == 0
    assert rounded_down(largest_run(ledger.account("patients"))) in out


@pytest.mark.parametrize(
    ("stated", "url"),
    [
        ("ledger.db", "sqlite:///ledger.db"),
        ("/srv/ledger.db", "sqlite:////srv/ledger.db"),
        (r"C:\data\ledger.db", r"sqlite:///C:\data\ledger.db"),
        ("sqlite:///ledger.db", "sqlite:///ledger.db"),
        ("sqlite:/ledger.db", "sqlite:/ledger.db"),  # a slip: refused, not a file of that name
        ("postgresql://server/books", "postgresql://server/books"),
        ("postgres//user:secret@server/books", "postgres//user:secret@server/books"),  # a slip too
    ],
)
def test_a_path_is_an_sqlite_file(stated, url):
    assert ledger_url(stated) == url


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidArgument, 2),
        (errors.LedgerUnavailable, 2),
        (errors.UnknownDataset, 2),
        (errors.BudgetExceeded, 3),
        (errors.BudgetUnreachable, 4),
    ],
)
def test_exit_codes_of_errors(error, code):
    assert options.exit_code(error("words")) == code


def test_the_page_lists_every_exit_code():
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)}
    stated = {value for name, value in vars(options).items() if name.startswith("EXIT_")}
    assert listed == stated | {0, 1, 130}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_and_may_say_no(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(typer.Exit) as stopped:
        confirm(False, 2.0, "patients")
    assert stopped.value.exit_code == 1
    assert "Spend epsilon 2 of the budget of 'patients' for good?" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    confirm(False, 2.0, "patients")


def test_nobody_is_asked_with_yes_or_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    confirm(True, 2.0, "patients")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    confirm(False, 2.0, "patients")
    assert capsys.readouterr().out == ""
