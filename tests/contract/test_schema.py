"""Schemas: what they state, TOML and back, and everything that is refused."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import MISSING_CATEGORY, Column, Schema

AGE = Column(kind="number", lower=0, upper=120, unit="years", description="age at admission")
WARD = Column(kind="category", categories=("a", "b"), missing="category")
SCHEMA = Schema(
    {
        "age": AGE,
        "ward": WARD,
        "smoker": Column(kind="boolean", missing="indicator", fill=False),
        "visits": Column(kind="integer", lower=0, upper=7, missing="fill", fill=0),
        'the "odd" one': Column(kind="category", categories=("x", "y"), missing="fill", fill="y"),
    },
    person="patient",
    max_rows_per_person=5,
    delimiter=";",
    decimal=",",
)


@pytest.mark.parametrize("schema", [SCHEMA, Schema({"age": AGE})])
def test_toml_and_back(schema, tmp_path):
    (tmp_path / "s.toml").write_text(schema.to_toml(), encoding="utf-8")
    assert Schema.read(tmp_path / "s.toml") == schema
    assert Schema.read(str(tmp_path / "s.toml")) == schema
    assert Schema.read(schema) is schema


NUMBERS = st.builds(
    lambda lower, width, kind, unit: Column(kind=kind, lower=lower, upper=lower + width, unit=unit),
    st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.sampled_from(["number", "integer"]), st.text(),
)  # fmt: skip
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1)
CATEGORIES = st.builds(
    lambda words, missing: Column(kind="category", categories=tuple(words), missing=missing),
    st.lists(WORDS, min_size=2, unique=True).filter(lambda words: MISSING_CATEGORY not in words),
    st.sampled_from(["none", "category"]),
)  # fmt: skip


@given(st.dictionaries(WORDS.map("c{}".format), NUMBERS | CATEGORIES, min_size=1, max_size=4))
def test_any_schema_survives_toml(columns):
    schema = Schema(columns)
    assert Schema.from_dict(tomllib.loads(schema.to_toml())) == schema


def test_plain_values():
    plain = {"columns": {"age": {"kind": "number", "lower": 0, "upper": 120}, "ward": WARD}}
    assert Schema.read(plain).columns["age"].bounds == (0.0, 120.0)
    assert Schema.read(plain).columns["ward"] is WARD


def test_bounds_of_leaves():
    assert SCHEMA.bounds == {
        "age": (0, 120), "ward": (0, 2), "smoker": (0, 1), "smoker_missing": (0, 1), "visits": (0, 7),
        "the \"odd\" one": (0, 1), "present": (0, 1), "(seed)": (0, 2**24 - 1), "(missing cells 1-6 of 6)": (0, 63),
    }  # fmt: skip
    assert WARD.levels == ("a", "b", MISSING_CATEGORY)


@pytest.mark.parametrize(
    ("column", "stand_in"),
    [
        (AGE, 60.0),
        (WARD, 2.0),
        (Column(kind="integer", lower=0, upper=7), 3.0),
        (Column(kind="integer", lower=-3, upper=0), -2.0),
        (Column(kind="boolean"), 0.0),
        (Column(kind="boolean", missing="fill", fill=True), 1.0),
        (Column(kind="category", categories=("a", "b")), 0.0),
        (Column(kind="category", categories=("a", "b"), missing="indicator", fill="b"), 1.0),
        (Column(kind="number", lower=-3e38, upper=3e38), 0.0),
        (Column(kind="number", lower=0, upper=1, missing="fill", fill=0.25), 0.25),
    ],
)
def test_what_a_missing_value_is_stored_as(column, stand_in):
    assert column.stand_in == stand_in
    assert column.bounds[0] <= column.stand_in <= column.bounds[1]


def test_where_a_column_is_held_while_others_vary():
    assert Column(kind="number", lower=14, upper=60, missing="integrate", mean=27, sd=5).typical == 27
    assert Column(kind="category", categories=("a", "b"), missing="category").typical == 0
    assert Column(kind="number", lower=0, upper=10, missing="fill", fill=3).typical == 3
    assert Column(kind="integer", lower=0, upper=9).typical == 4


def test_some_of_the_columns():
    some = SCHEMA.restricted(["ward", "age"])
    assert list(some.columns) == ["age", "ward"]
    assert (some.person, some.max_rows_per_person, some.delimiter, some.decimal) == ("patient", 5, ";", ",")
    with pytest.raises(InvalidArgument, match="has no column agee; it has age, ward"):
        SCHEMA.restricted(["agee"])


def test_words_of_a_boolean():
    usual = Column(kind="boolean")
    assert (usual.words_for(True), usual.words_for(False)) == ("true, yes, y, t, 1", "false, no, n, f, 0")
    stated = Column(kind="boolean", true=["Ja", 1], false=["Nein", 2])
    assert stated.words == {"true": 1, "false": 0, "ja": 1, "1": 1, "nein": 0, "2": 0}
    schema = Schema({"x": stated})
    assert Schema.from_dict(tomllib.loads(schema.to_toml())) == schema
    assert 'true = [\n    "Ja",\n    "1",\n]' in schema.to_toml()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"kind": "text"}, "kind='text' must be one of boolean, category, date, integer, number"),
        ({"kind": "date"}, "kind='date' needs lower and upper"),
        ({"kind": "timestamp"}, "kind='timestamp' is not a kind: state kind='date'"),
        ({"kind": "number"}, "needs lower and upper: state the bounds"),
        ({"kind": "number", "lower": 0}, "needs lower and upper"),
        ({"kind": "number", "lower": 3, "upper": 1}, r"lower=3\.0 must be < upper=1\.0"),
        ({"kind": "number", "lower": 1, "upper": 1}, "cannot vary explains nothing"),
        ({"kind": "number", "lower": 0, "upper": float("inf")}, "finite"),
        ({"kind": "number", "lower": 0, "upper": 1e39}, "finite"),
        ({"kind": "number", "lower": 1e9, "upper": 1e9 + 1}, "still apart as single-precision"),
        ({"kind": "number", "lower": float("nan"), "upper": 1}, "lower=nan must be a number"),
        ({"kind": "number", "lower": "0", "upper": 1}, "lower='0' must be a number"),
        ({"kind": "integer", "lower": 0.5, "upper": 3}, "must be whole numbers"),
        ({"kind": "boolean", "lower": 0, "upper": 1}, "lower and upper are for numbers"),
        ({"kind": "boolean", "categories": ["a", "b"]}, "categories are for kind='category'"),
        ({"kind": "category"}, "must be at least two"),
        ({"kind": "category", "categories": "abc"}, "categories='abc' must be a list of texts"),
        ({"kind": "category", "categories": [True, False]}, "must be a list of texts"),
        ({"kind": "category", "categories": ["a"]}, "must be at least two"),
        ({"kind": "category", "categories": ["a", "a"]}, "each once"),
        ({"kind": "category", "categories": ["1", 1]}, "each once"),
        ({"kind": "category", "categories": ["a", ""]}, "must not be blank"),
        ({"kind": "category", "categories": ["a", " b"]}, "must not be blank nor begin or end with a space"),
        (
            {"kind": "category", "categories": ["a", MISSING_CATEGORY], "missing": "category"},
            "which missing values get",
        ),
        (
            {"kind": "boolean", "missing": "drop"},
            "missing='drop' must be one of category, fill, indicator, integrate, none",
        ),
        ({"kind": "boolean", "missing": "category"}, "missing='category' is for kind='category'"),
        ({"kind": "boolean", "fill": True}, "fill=True is for missing='fill'"),
        ({"kind": "boolean", "missing": "fill"}, "missing='fill' needs fill"),
        ({"kind": "boolean", "missing": "fill", "fill": 0.5}, r"fill=0\.5 must be true or false"),
        ({"kind": "number", "lower": 0, "upper": 1, "missing": "fill"}, "missing='fill' needs fill"),
        ({"kind": "number", "lower": 0, "upper": 1, "missing": "fill", "fill": 2}, "fill=2 must be between 0 and 1"),
        ({"kind": "integer", "lower": 0, "upper": 1, "missing": "fill", "fill": 0.5}, "whole number"),
        ({"kind": "category", "categories": ["a", "b"], "missing": "fill", "fill": "c"}, "must be one of a, b"),
        ({"kind": "boolean", "true": ["ja"]}, "must be stated together"),
        ({"kind": "boolean", "true": [], "false": ["nein"]}, "must be stated together"),
        ({"kind": "boolean", "true": ["ja"], "false": ["JA"]}, "each word once, whatever its case"),
        ({"kind": "boolean", "true": "ja", "false": ["nein"]}, "true='ja' must be a list of texts"),
        ({"kind": "boolean", "true": ["ja"], "false": [" nein"]}, "must not be blank nor begin or end with a space"),
        ({"kind": "number", "lower": 0, "upper": 1, "true": ["ja"]}, "true and false are for kind='boolean'"),
        ({"kind": "boolean", "unit": 3}, "unit=3 must be a text"),
        ({"kind": "boolean", "description": None}, "description=None must be a text"),
    ],
)
def test_columns_that_are_refused(facts, words):
    with pytest.raises(InvalidArgument, match=words):
        Column(**facts)
    with pytest.raises(InvalidArgument, match=f"column 'x': .*{words}"):
        Schema.read({"columns": {"x": facts}})


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({}, "states no column yet"),
        ({"columns": 3}, "has the table columns"),
        ({"columns": {}}, "states no column yet"),
        ({"columns": {"x": AGE}, "persn": "p"}, "it has no persn"),
        ({"columns": {"x": 3}}, "column 'x' must be a table with some of categories"),
        ({"columns": {"x": {"kind": "boolean", "bound": 3}}}, "column 'x' must be a table"),
        ({"columns": {"x": {"lower": 3}}}, "column 'x' has no kind"),
        ({"columns": {" ": AGE}}, "name of a column=' ' must be a text"),
        ({"columns": {"x": AGE}, "person": "x"}, "must not be a column of its own"),
        ({"columns": {"x": AGE}, "person": 3}, "person=3 must be a text"),
        ({"columns": {"x": AGE}, "max_rows_per_person": 2}, "needs person="),
        ({"columns": {"x": AGE}, "person": "p", "max_rows_per_person": 0}, "must be >= 1"),
        ({"columns": {"x": AGE}, "person": "p", "max_rows_per_person": 1.5}, "must be an integer"),
        ({"columns": {"x": AGE}, "delimiter": ";;"}, "delimiter=';;' must be one of"),
        ({"columns": {"x": AGE}, "decimal": ";"}, "decimal=';' must be one of"),
        ({"columns": {"present": AGE}, "person": "p"}, "'present' has the name of a column that dpmcmc makes"),
        ({"columns": {"(missing cells 1-1 of 1)": AGE}}, "has the name of a column that dpmcmc makes"),
        (
            {"columns": {"x": {"kind": "boolean", "missing": "indicator", "fill": True}, "x_missing": AGE}},
            "'x_missing' has the name of a column that dpmcmc makes",
        ),
    ],
)
def test_schemas_that_are_refused(plain, words):
    with pytest.raises(InvalidArgument, match=words):
        Schema.read(plain)


def test_columns_of_python_are_checked_too():
    with pytest.raises(InvalidArgument, match=r"columns\['x'\]=3 must be a Column"):
        Schema({"x": 3})
    with pytest.raises(InvalidArgument, match=r"columns=\[\] must be a mapping"):
        Schema([])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory; `dpmcmc schema new` writes one"),
        (b"a = ", "is not TOML"),
        (b"x,y\n1,2\n", r"is not TOML \(line 1, column 2\)"),
        (b"\xff\xfe", "is not a text file in UTF-8"),
    ],
)
def test_files_that_are_refused(content, words, tmp_path):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgument, match=words):
        Schema.read(path)


@pytest.mark.parametrize("nonsense", [3, None, b"s.toml", ["a"]])
def test_things_that_are_no_schema(nonsense):
    with pytest.raises(InvalidArgument, match=f"schema is a {type(nonsense).__name__}; expected a Schema"):
        Schema.read(nonsense)


def test_schemas_and_columns_show_themselves_on_one_screen() -> None:
    column = Column(kind="number", lower=18, upper=90, unit="year")
    assert repr(column) == "Column(kind='number', lower=18.0, upper=90.0, unit='year')"
    assert eval(repr(column)) == column  # noqa: S307, a text of this test
    lines = repr(Schema({f"x{number}": column for number in range(40)}, person="id")).splitlines()
    assert lines[0] == "Schema with 40 columns, for every person (id, of whom at most 1 row counts)"
    assert lines[1] == "  x0: number, 18 to 90 year"
    assert lines[-1] == "  and 20 more"
    assert len(lines) == 22
    wide = Schema({"<b>": Column(kind="category", categories=tuple(f"level {number}" for number in range(99)))})
    assert max(map(len, repr(wide).splitlines())) <= 80
    assert "&lt;b&gt;" in wide._repr_html_()
