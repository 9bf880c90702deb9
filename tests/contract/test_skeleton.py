"""`dpmcmc schema new --from-header`: a schema to fill in, from names alone."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from dpmcmc.cli.main import run
from dpmcmc.errors import InvalidArgument
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
    head, *columns = text.split("# [columns.")
    return head + "".join("[columns." + column.replace("\n# ", "\n") for column in columns)


def filled(text: str) -> str:
    """Return a skeleton as somebody fills it in who knows what the columns hold."""
    dates = re.sub(r'(kind = "date"\nlower = )"\?"(\nupper = )"\?"', r'\1"2020-01-01"\2"2029-12-31"', uncommented(text))
    numbers = dates.replace('kind = "?"', 'kind = "number"').replace('lower = "?"', "lower = 0")
    return numbers.replace('upper = "?"', "upper = 100").replace("categories = []", 'categories = ["a", "b"]')


def test_a_skeleton_has_the_names_and_no_cell(command):
    Path("a.csv").write_text(f'age,name of patient,"a ""quoted"" one"\n34,{CELL},1\n')
    code, out, _ = command("--from-header", "a.csv", "--output", "a.toml")
    text = Path("a.toml").read_text()
    assert code == 0
    assert "No row was read." in out
    assert CELL not in text + out
    assert "34" not in text
    assert list(Schema.read(_write(filled(text))).columns) == ["age", "name of patient", 'a "quoted" one']


def test_what_is_not_filled_in_is_no_statement(command):
    table = pd.DataFrame(
        {"text": ["a"], "age": [1.5], "day": [pd.Timestamp("2024-01-01")], "ward": pd.Categorical(["a"])}
    )
    for name in table.columns:
        table[[name]].to_parquet("a.parquet")
        _, out, _ = command("--from-header", "a.parquet")
        with pytest.raises(InvalidArgument, match=name):
            Schema.read(_write(uncommented(out)))


def test_a_skeleton_that_is_all_comments_says_so(command):
    Path("a.csv").write_text("age,ward\n34,north\n")
    _, out, _ = command("--from-header", "a.csv")
    with pytest.raises(InvalidArgument, match="states no column yet"):
        Schema.read(_write(out))


def test_semicolons_and_decimal_commas_are_stated(command):
    Path("a.csv").write_text("alter;kosten\n34;1,5\n")
    _, out, _ = command("--from-header", "a.csv", "--delimiter", ";", "--decimal", ",")
    schema = Schema.read(_write(filled(out)))
    assert (schema.delimiter, schema.decimal) == (";", ",")
    assert list(schema.columns) == ["alter", "kosten"]


def test_a_delimiter_that_is_not_stated_is_noticed(command):
    Path("a.csv").write_text("alter;kosten\n34;1,5\n")
    code, out, err = command("--from-header", "a.csv")
    assert code == 2
    assert "--delimiter ';'" in err
    assert "kosten" not in out + err


def test_persons_are_named_and_are_no_column(command):
    Path("a.csv").write_text("patient,age\np1,34\n")
    _, out, _ = command("--from-header", "a.csv", "--person", "patient", "--max-rows-per-person", "3")
    schema = Schema.read(_write(filled(out)))
    assert (schema.person, schema.max_rows_per_person, list(schema.columns)) == ("patient", 3, ["age"])
    code, _, err = command("--from-header", "a.csv", "--person", "nobody")
    assert code == 2
    assert "--person 'nobody' is not a column" in err
    assert "p1" not in err


def test_stored_types_propose_kinds(command):
    table = pd.DataFrame({"age": [1.5], "number": [1], "smoker": [True], "day": [pd.Timestamp("2024-01-01")]})
    table.assign(ward=pd.Categorical([CELL])).to_parquet("a.parquet")
    _, out, _ = command("--from-header", "a.parquet")
    schema = Schema.read(_write(filled(out)))
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
