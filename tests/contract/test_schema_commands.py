"""`dpmcmc schema`: a file from a data dictionary, a check, and a guess from public data alone."""

import json
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from dpmcmc.cli.main import run
from dpmcmc.enclave.tables import read_table
from dpmcmc.schema import Column, Schema

COLUMNS = "age:number:0:120:unit=years,ward:category:a|b|c:missing=category, smoker:boolean,visits:integer:0:50"


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run the command in an empty folder; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpmcmc", "schema", *words])
        with pytest.raises(SystemExit) as stopped:
            run()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def test_new_writes_what_the_dictionary_says(command, tmp_path):
    code, out, _ = command(
        "new", "--columns", COLUMNS, "--person", "patient", "--max-rows-per-person", "4", "--output", "patients.toml"
    )
    assert code == 0
    assert out == "wrote patients.toml: 4 columns\n"
    assert Schema.read("patients.toml") == Schema(
        {
            "age": Column(kind="number", lower=0, upper=120, unit="years"),
            "ward": Column(kind="category", categories=("a", "b", "c"), missing="category"),
            "smoker": Column(kind="boolean"),
            "visits": Column(kind="integer", lower=0, upper=50),
        },
        person="patient",
        max_rows_per_person=4,
    )
    assert (tmp_path / "patients.toml").read_text().startswith("# What is stated about the columns")


def test_the_help_of_new_can_be_read(command):
    words = " ".join(command("new", "--help")[1].replace("│", " ").split())
    assert "date:FIRST:LAST" in words  # ":date:" alone would become a picture
    assert "category:A|B|C" in words


def test_check_tells_all_problems_at_once(command, tmp_path):
    (tmp_path / "s.toml").write_text('delimiter = ";"\n')
    assert "the schema states no column yet" in command("check", "s.toml")[2]
    columns = '[columns.a]\nkind = "?"\n[columns.b]\nkind = "boolean"\ntrue = "ja"\nfalse = ["nein"]\n'
    (tmp_path / "s.toml").write_text(columns)
    err = command("check", "s.toml")[2]
    assert "column 'a': kind='?' must be one of" in err
    assert "column 'b': true='ja' must be a list of texts, as in true = [\"ja\"]" in err


def test_new_takes_fills(command):
    columns = (
        "a:number:-1:1e2:missing=indicator:fill=2.5,b:boolean:missing=fill:fill=true,c:category:1|2:missing=fill:fill=2"
    )
    assert command("new", "--columns", columns, "--output", "s.toml")[0] == 0
    assert [column.fill for column in Schema.read("s.toml").columns.values()] == [2.5, True, "2"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("age", "column 'age': kind='' must be one of"),
        ("age:number", "column 'age': kind='number' needs lower and upper"),
        ("age:number:0", "--columns 'age:number:0' must be name:number:LOWER:UPPER"),
        ("age:number:a:b", "column 'age': lower='a' must be a number"),
        ("age:number:5:1", "column 'age': lower=5.0 must be < upper=1.0"),
        ("age:date", "column 'age': kind='date' needs lower and upper"),
        ("ward:category:a", "column 'ward': categories=('a',) must be at least two"),
        ("a:boolean:0:1", "must be name:number:LOWER:UPPER"),
        (":boolean", "must be name:number:LOWER:UPPER"),
        ("a:boolean:colour=red", "column 'a' must be a table with some of"),
        ("a:boolean,a:boolean", "--columns names a more than once"),
        ("", "at least one"),
    ],
)
def test_new_refuses(command, tmp_path, columns, words):
    code, _, err = command("new", "--columns", columns, "--output", "s.toml")
    assert code == 2
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_files_are_not_written_over(command, tmp_path):
    (tmp_path / "s.toml").write_text("mine")
    for words in (["new", "--columns", "a:boolean"], ["infer", "--public-data", "t.csv"]):
        code, _, err = command(*words, "--output", "s.toml")
        assert code == 2
        assert "already exists" in err
    assert (tmp_path / "s.toml").read_text() == "mine"
    code, _, err = command("new", "--columns", "a:boolean", "--output", "nowhere/s.toml")
    assert code == 2
    assert "cannot be written: No such file or directory" in err


def test_check_shows_what_is_stated(command, tmp_path):
    command("new", "--columns", COLUMNS, "--person", "patient", "--output", "s.toml")
    code, out, _ = command("check", "s.toml")
    assert code == 0
    assert "s.toml: 4 columns" in out
    assert "0 to 120" in out
    assert "(missing)" in out
    assert "named by patient" in out
    code, out, _ = command("check", "s.toml", "--json")
    answer = json.loads(out)
    assert answer["columns"]["age"]["bounds"] == [0, 120]
    assert answer["columns"]["smoker"]["words"]["y"] == 1
    assert answer["person"] == "patient"
    (tmp_path / "bad.toml").write_text("[columns.a]\nkind='number'\nlower=2\nupper=1")
    code, _, err = command("check", "bad.toml")
    assert code == 2
    assert err.startswith("dpmcmc: column 'a': lower=2.0 must be < upper=1.0")


def test_dates_are_shown_as_dates(command):
    command("new", "--columns", "admitted:date:2023-01-01:2024-12-31:format=%d.%m.%Y", "--output", "s.toml")
    code, out, _ = command("check", "s.toml")
    assert code == 0
    words = " ".join(out.replace("│", " ").split())
    assert "2023-01-01 to" in words
    assert "%d.%m.%Y" in words
    assert "2024-01-01 (none expected)" in words
    code, _, err = command("new", "--columns", "admitted:date:2023-01-01:2024-12-31:format=%d.%m")
    assert code == 2
    assert "format='%d.%m' must have %d, %m and %Y once each" in err


# A guess, from public data alone.

PUBLIC = pd.DataFrame(
    {
        "id": ["a", "a", "b", "c"],
        "age": [31.25, 40.0, None, 87.5],
        "visits": [0, 1, 17, 3],
        "smoker": ["yes", "no", "no", None],
        "ward": ["x", "y", "x", "NA"],
        "constant": [1, 1, 1, 1],
        "day": pd.to_datetime(["2020-01-01"] * 4),
    }
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_infer_holds_every_value(command, tmp_path, kind):
    getattr(PUBLIC, f"to_{kind}")(tmp_path / f"t.{kind}", index=False)
    code, out, _ = command("infer", "--public-data", f"t.{kind}", "--person", "id", "--output", "s.toml")
    assert code == 0
    schema = Schema.read("s.toml")
    assert schema.person == "id"
    assert schema.columns["age"] == Column(kind="number", lower=31, upper=88, missing="indicator", fill=59.5)
    assert schema.columns["visits"] == Column(kind="integer", lower=0, upper=17)
    assert schema.columns["smoker"] == Column(kind="boolean", missing="indicator", fill=False)
    assert schema.columns["ward"] == Column(kind="category", categories=("x", "y"), missing="category")
    assert "left out constant: it holds fewer than two" in out
    assert "left out day" in out
    header = (tmp_path / "s.toml").read_text().splitlines()[0]
    assert header.startswith("# This schema was INFERRED from data that were declared public")
    read_table(tmp_path / f"t.{kind}", schema)


def test_without_an_output_a_schema_is_printed(command, tmp_path):
    PUBLIC.to_csv(tmp_path / "t.csv", index=False)
    code, out, err = command("infer", "--public-data", "t.csv")
    assert code == 0
    assert set(Schema.from_dict(tomllib.loads(out)).columns) == {"id", "age", "visits", "smoker", "ward"}
    assert "left out constant" in err
    code, out, _ = command("new", "--columns", "a:boolean:true=ja|oui:false=nein", "--delimiter", ";")
    assert code == 0
    words = Column(kind="boolean", true=("ja", "oui"), false=("nein",))
    assert Schema.from_dict(tomllib.loads(out)) == Schema({"a": words}, delimiter=";")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_infer_reads_semicolons_and_takes_none_for_a_category_among_texts(command, tmp_path):
    (tmp_path / "t.csv").write_text("cost;insurance;beds;ok\n1,5;none;None;Y\n2,5;state;3;n\n;private;4;none\n")
    code, _, _ = command("infer", "--public-data", "t.csv", "--delimiter", ";", "--decimal", ",", "--output", "s.toml")
    assert code == 0
    assert Schema.read("s.toml") == Schema(
        {
            "cost": Column(kind="number", lower=1.5, upper=2.5, missing="indicator", fill=2),
            "insurance": Column(kind="category", categories=("none", "private", "state")),
            "beds": Column(kind="integer", lower=3, upper=4, missing="indicator", fill=3),
            "ok": Column(kind="boolean", missing="indicator", fill=False),
        },
        delimiter=";",
        decimal=",",
    )


# The names of a file, for nothing.


def test_check_warns_of_decimal_commas_where_fields_are_separated_by_semicolons(command, tmp_path):
    (tmp_path / "t.csv").write_text("cost;ward\n1,5;a\n")
    for delimiter, decimal, warns in ((";", "", True), (";", ",", False), (";", ".", False)):
        Path("s.toml").unlink(missing_ok=True)
        marks = ("--delimiter", delimiter, "--decimal", decimal)
        command("new", "--columns", "cost:number:0:9,ward:category:a|b", *marks, "--output", "s.toml")
        code, out, _ = command("check", "s.toml", "--data", "t.csv")
        assert code == 0
        assert ("so 1,5 is missing" in out) == warns


def test_check_compares_names(command, tmp_path):
    command("new", "--columns", COLUMNS, "--person", "patient", "--output", "s.toml")
    (tmp_path / "t.csv").write_text("patient,age,ward,smoker,visits,note\nSECRET,1,a,yes,2,x\n")
    code, out, _ = command("check", "s.toml", "--data", "t.csv")
    assert code == 0
    assert "t.csv has all columns that the schema states" in out
    assert "not in the schema, so never read: note" in out
    (tmp_path / "t.csv").write_text("patient,Age ,wards,visits\nSECRET,1,a,2\n")
    code, out, _ = command("check", "s.toml", "--data", "t.csv")
    assert code == 2
    assert "missing: t.csv has no column 'age'. Did you mean 'Age '?" in out
    assert "missing: t.csv has no column 'ward'. Did you mean 'wards'?" in out
    assert "missing: t.csv has no column 'smoker'.\n" in out
    assert "SECRET" not in out
    code, out, _ = command("check", "s.toml", "--data", "t.csv", "--json")
    assert code == 2
    assert json.loads(out)["data"] == {
        "absent": {"age": "Age ", "ward": "wards", "smoker": None}, "unused": ["Age ", "wards"], "refused": {}
    }  # fmt: skip


@pytest.mark.parametrize("content", ["SECRET,1,a,yes,2\nSECRET,2,b,no,3\n", "patient;age;ward;SECRET;visits\n", ""])
def test_check_tells_no_name_of_a_file_without_a_header(command, tmp_path, content):
    command("new", "--columns", COLUMNS, "--output", "s.toml")
    (tmp_path / "t.csv").write_text(content)
    code, out, err = command("check", "s.toml", "--data", "t.csv")
    assert code == 2
    assert "None of the columns is there. The first line of a CSV file must hold the names" in out
    assert "SECRET" not in out + err


def test_check_knows_how_a_column_is_kept(command, tmp_path):
    command("new", "--columns", "day:number:0:10,age:number:0:120", "--output", "s.toml")
    pd.DataFrame({"day": pd.to_datetime(["2020-01-01"]), "age": [3.0]}).to_parquet(tmp_path / "t.parquet")
    code, out, _ = command("check", "s.toml", "--data", "t.parquet")
    assert code == 2
    assert "not readable: column 'day' holds dates or times" in out
    code, _, err = command("check", "s.toml", "--data", "nowhere.csv")
    assert code == 2
    assert "--data 'nowhere.csv' cannot be read: no such file" in err


def test_infer_leaves_names_out(command, tmp_path):
    pd.DataFrame({"name": [f"n{i}" for i in range(60)], "x": range(60)}).to_csv(tmp_path / "t.csv", index=False)
    code, out, _ = command("infer", "--public-data", "t.csv", "--output", "s.toml")
    assert code == 0
    assert "left out name: it holds more than 50 different texts" in out
    assert list(Schema.read("s.toml").columns) == ["x"]


@pytest.mark.parametrize("words", [[], ["t.csv"], ["t.csv", "--output", "s.toml"], ["t.csv", "--public-data", "t.csv"]])
def test_infer_refuses_what_is_not_declared_public(command, tmp_path, words):
    PUBLIC.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = command("infer", *words)
    assert code == 2
    assert "--public-data FILE" in err
    assert "the highest income is somebody's" in err
    assert not (tmp_path / "s.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--public-data", "nowhere.csv", "--output", "s.toml"], "no such file"),
        (["--public-data", "t.csv", "--person", "nobody", "--output", "s.toml"], "has no column nobody"),
        (["--public-data", "e.csv", "--output", "s.toml"], "no column that a schema could state"),
    ],
)
def test_infer_refuses(command, tmp_path, words, said):
    PUBLIC.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "e.csv").write_text("a,b\n1,\n")
    code, _, err = command("infer", *words)
    assert code == 2
    assert said in err
