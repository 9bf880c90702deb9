"""`dpmcmc schema new --from-header`: a schema to fill in, from names alone."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from dpmcmc.cli.main import run
from dpmcmc.schema import Schema

CELL = "Zdenka"


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", "schema", "new", *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def uncommented(text: str) -> str:
    """Return a skeleton as somebody fills it in who takes every proposal."""
    head, *columns = text.split("# [columns.")
    return head + "".join("[columns." + column.replace("\n# ", "\n") for column in columns)


def test_a_skeleton_has_the_names_and_no_cell(command):
    Path("a.csv").write_text(f'age,name of patient,"a ""quoted"" one"\n34,{CELL},1\n')
    code, out, _ = command("--from-header", "a.csv", "--output", "a.toml")
    text = Path("a.toml").read_text()
    assert code == 0
    assert "No row was read." in out
    assert CELL not in text + out
    assert "34" not in text
    assert list(Schema.read(_write(uncommented(text))).columns) == ["age", "name of patient", 'a "quoted" one']


def test_semicolons_and_decimal_commas_are_stated(command):
    Path("a.csv").write_text("alter;kosten\n34;1,5\n")
    _, out, _ = command("--from-header", "a.csv", "--delimiter", ";", "--decimal", ",")
    schema = Schema.read(_write(uncommented(out)))
    assert (schema.delimiter, schema.decimal) == (";", ",")
    assert list(schema.columns) == ["alter", "kosten"]


def test_stored_types_propose_kinds(command):
    table = pd.DataFrame({"age": [1.5], "number": [1], "smoker": [True], "day": [pd.Timestamp("2024-01-01")]})
    table.assign(ward=pd.Categorical([CELL])).to_parquet("a.parquet")
    _, out, _ = command("--from-header", "a.parquet")
    schema = Schema.read(_write(uncommented(out)))
    kinds = {name: column.kind for name, column in schema.columns.items()}
    assert kinds == {"age": "number", "number": "integer", "smoker": "boolean", "day": "date", "ward": "category"}
    assert CELL not in out


@pytest.mark.parametrize("first", ["34,north,1", "age,,ward", "age,age", ""])
def test_a_first_line_that_is_no_header_is_refused_and_not_quoted(command, first):
    Path("a.csv").write_text(f"{first}\n35,south,0\n")
    code, out, err = command("--from-header", "a.csv")
    assert code == 2
    assert "does not hold the names" in err
    assert "north" not in out + err


def test_columns_or_a_header_not_both(command):
    for words in ((), ("--columns", "age:number:0:1", "--from-header", "a.csv")):
        code, _, err = command(*words)
        assert code == 2
        assert "--columns, or --from-header FILE" in err


def _write(text: str) -> Path:
    place = Path("filled.toml")
    place.write_text(text)
    return place
