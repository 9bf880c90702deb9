"""`audit_schema` and `dpmcmc schema audit`: noisy counts of cells that do not fit, charged like any other release."""

import json
import math
import sys

import numpy as np
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.cli.main import run
from dpmcmc.errors import BudgetExceeded, InvalidArgument, UnknownDataset
from dpmcmc.schema import Column, Schema

SIZE = 8000
RNG = np.random.default_rng(1)
TABLE = pd.DataFrame(
    {
        "who": np.arange(SIZE) // 2,
        "age": np.where(np.arange(SIZE) % 4 == 0, 130, 50),
        "ward": np.where(np.arange(SIZE) % 2 == 0, "north", "Nord"),
        "readmitted": np.where(RNG.random(SIZE) < 0.3, "J", "N"),
        "note": "",
    }
)
COLUMNS = {
    "age": Column(kind="number", lower=0, upper=120),
    "ward": Column(kind="category", categories=("north", "south")),
    "readmitted": Column(kind="boolean", true=("yes",), false=("no",)),
    "note": Column(kind="category", categories=("a", "b"), missing="category"),
}
SCHEMA = Schema(COLUMNS)
EXPECTED = {
    "age": {"missing": 0, "unknown": 0, "clamped": 0.25},
    "ward": {"missing": 0, "unknown": 0.5},
    "readmitted": {"missing": 0, "unknown": 1},
    "note": {"missing": 1, "unknown": 0},
}
BUDGET = dp.Budget(1.0, 1e-6)


def check_counts(audit, size=SIZE):
    """Within five standard deviations of the noise, one false alarm in 200,000 for each of nine counts."""
    assert list(audit.counts) == list(EXPECTED)
    for name, shares in EXPECTED.items():
        assert list(audit.counts[name]) == list(shares)
        for problem, share in shares.items():
            assert abs(audit.counts[name][problem] - share * size) < 5 * audit.noise_sd
    frame = audit.to_frame()
    assert list(frame.columns) == ["missing", "unknown", "clamped"]
    assert math.isnan(frame.loc["ward", "clamped"])


def test_counts_noise_and_price():
    audit = dp.audit_schema(TABLE, SCHEMA, epsilon=0.2, budget=BUDGET)
    check_counts(audit)
    assert audit.num_records == SIZE
    assert 0.199 < audit.certificate.epsilon <= 0.2
    assert audit.certificate.delta == 1e-6
    assert audit.noise_sd < 0.02 * SIZE


def test_warnings_are_of_what_is_clearly_there_and_not_stated():
    audit = dp.audit_schema(TABLE, SCHEMA, epsilon=1.0, budget=BUDGET)
    age, ward, readmitted = audit.warnings
    assert age.startswith("age: about 25 % outside the bounds and moved to them")
    assert ward.startswith("ward: about 50 % unknown; the categories stated are north, south")
    assert readmitted == "readmitted: about 100 % unknown; true, yes count as true; false, no as false"
    assert all(words in str(audit) for words in (age, ward, readmitted, audit.certificate.statement))


def test_a_schema_that_fits_has_no_warning():
    fits = Schema({"who": Column(kind="integer", lower=0, upper=SIZE)})
    assert dp.audit_schema(TABLE, fits, epsilon=0.1, budget=BUDGET).warnings == ()


def test_where_the_number_of_records_is_private_it_is_released_with_noise():
    options = {"adjacency": "add_or_remove_one", "capacity": 10_000}
    audit = dp.audit_schema(TABLE, SCHEMA, epsilon=0.5, budget=BUDGET, **options)
    check_counts(audit)
    assert 0 < abs(audit.num_records - SIZE) < 5 * audit.noise_sd


def test_persons_count_by_the_share_of_their_rows():
    audit = dp.audit_schema(TABLE, Schema(COLUMNS, person="who"), epsilon=0.5, budget=BUDGET)
    check_counts(audit, SIZE / 2)
    assert audit.num_records == SIZE / 2
    assert "person (who" in audit.certificate.statement


def test_it_is_charged_once_and_refused_where_the_budget_is_spent():
    book = dp.Ledger.in_memory()
    book.register("t", dp.Budget(0.3, 1e-6), "replace_one")
    audit = dp.audit_schema(TABLE, SCHEMA, epsilon=0.2, ledger=book, dataset="t")
    assert float(book.account("t").epsilon_spent) == pytest.approx(float(audit.certificate.epsilon))
    with pytest.raises(BudgetExceeded):
        dp.audit_schema(TABLE, SCHEMA, epsilon=0.3, ledger=book, dataset="t")
    with pytest.raises(UnknownDataset):
        dp.audit_schema(TABLE, SCHEMA, epsilon=0.1, ledger=book, dataset="u")
    with pytest.raises(InvalidArgument, match="epsilon=0 must be > 0"):
        dp.audit_schema(TABLE, SCHEMA, epsilon=0, ledger=book, dataset="t")
    assert float(book.account("t").epsilon_spent) == pytest.approx(float(audit.certificate.epsilon))


# At the shell.


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    TABLE.to_csv("t.csv", index=False)
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml())

    def call(*words: str) -> tuple[int, str, str]:
        start = ["dpmcmc", "schema", "audit", "s.toml", "--ledger", "sqlite:///book.db"]
        monkeypatch.setattr(sys, "argv", [*start, *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


GRANT = ["--grant-epsilon", "1", "--grant-delta", "1e-6"]


def test_at_the_shell(command):
    code, out, _ = command("--data", "t.csv", "--epsilon", "0.5", *GRANT)
    assert code == 0
    assert "t.csv: cells that do not fit the schema, of 8,000 records" in out
    assert "Each count has noise with a standard deviation of" in out
    assert "Warning: readmitted: about 100 % unknown; true, yes count as true; false, no as false." in out
    assert "(0.5, 1e-06)-differentially private" in out
    code, out, _ = command("--data", "t.csv", "--epsilon", "0.1", "--json")
    answer = json.loads(out)
    assert code == 0
    assert set(answer) == {"counts", "num_records", "noise_sd", "warnings", "certificate"}
    assert answer["certificate"]["epsilon"] == pytest.approx(0.1)
    code, _, err = command("--data", "t.csv", "--epsilon", "0.9")
    assert code == 3
    assert "t" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "nowhere.csv", "--epsilon", "0.1", *GRANT], "no such file or folder"),
        (["--data", "t.csv", "--epsilon", "0.1", "--grant-epsilon", "1"], "--grant-delta together"),
        (["--data", "t.csv", "--epsilon", "0.1"], "sqlite:///book.db"),
    ],
)
def test_refusals_at_the_shell(command, words, said):
    code, _, err = command(*words)
    assert code == 2
    assert said in err
