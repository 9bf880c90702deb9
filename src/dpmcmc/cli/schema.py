"""``dpmcmc schema``: what the owner of a table states about its columns."""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.column import Column
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

app = typer.Typer(help="What is stated about the columns of a table, in a TOML file.", no_args_is_help=True)

Output: TypeAlias = Annotated[Path, typer.Option(help="The TOML file to write; one that is there is left alone.")]
Person: TypeAlias = Annotated[str | None, typer.Option(help="The column that names the person a row belongs to.")]
MaxRows: TypeAlias = Annotated[int, typer.Option("--max-rows-per-person", help="Rows of one person that count.", min=1)]

STATED = """\
# What is stated about the columns of a table. These are public facts, known without the data: change them as you know
# better, never by looking at private rows. `dpmcmc schema check` reads this file.
"""
INFERRED = """\
# This schema was INFERRED from data that were declared public: its bounds and categories are those of that file, which
# counts as published. They hold for private rows of the same kind only as far as you know that without looking.
"""
WHY_NOT = (
    "schema infer reads bounds and categories off the rows, and what is read off private rows tells about them: the "
    "highest income is somebody's. If the file is public (an earlier release, made-up rows) say so with "
    "--public-data FILE; if it is not, state what the data dictionary says with `dpmcmc schema new --columns ...`"
)


@app.command()
def new(
    columns: Annotated[
        str,
        typer.Option(
            help="name:number:LOWER:UPPER, name:integer:LOWER:UPPER, name:boolean or name:category:A|B|C, with commas "
            "between; further facts as :missing=indicator:fill=25:unit=kg."
        ),
    ],
    output: Output,
    person: Person = None,
    max_rows: MaxRows = 1,
) -> None:
    """Write a schema from a data dictionary. No data are opened."""
    stated = [_column(each) for each in columns.split(",") if each.strip()]
    names = [name for name, _ in stated]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"--columns names {', '.join(twice)} more than once; expected each once")
    schema = Schema.from_dict({"columns": dict(stated), "person": person, "max_rows_per_person": max_rows})
    _write(schema, output, STATED)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The TOML file.")], json: AsJson = False) -> None:
    """Read a schema, and show what it states."""
    schema = Schema.read(file)
    if json:
        columns = {name: {"bounds": column.bounds, **_facts(column)} for name, column in schema.columns.items()}
        print_json({"columns": columns, "person": schema.person, "max_rows_per_person": schema.max_rows_per_person})
        return
    rows = [
        [name, column.kind, _range(column), _missing(column), column.unit] for name, column in schema.columns.items()
    ]
    persons = (
        f"A record is a person, named by {schema.person}; of one person {schema.max_rows_per_person} rows count."
        if schema.person is not None
        else "A record is a row."
    )
    print_table(f"{file}: {len(rows)} columns", ["column", "kind", "values", "missing values", "unit"], rows, persons)


@app.command()
def infer(
    file: Annotated[Path | None, typer.Argument(help="Not read: a public file is given by --public-data.")] = None,
    public_data: Annotated[Path | None, typer.Option(help="A file that you declare public.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="The TOML file to write; one that is there is left alone.")
    ] = None,
    person: Person = None,
    max_rows: MaxRows = 1,
) -> None:
    """Guess a schema from a file that is public."""
    if public_data is None or file is not None:
        raise InvalidArgument(WHY_NOT)
    if output is None:
        raise InvalidArgument("--output is missing; expected the TOML file to write")
    _refuse_to_overwrite(output)
    from dpmcmc.enclave.tables.public import schema_of_public_data

    schema, left_out = schema_of_public_data(public_data, person, max_rows)
    _write(schema, output, INFERRED)
    for name, reason in left_out.items():
        typer.echo(f"left out {name}: {reason}")


def _column(written: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the facts of a column from ``name:kind:...``."""
    name, _, rest = written.strip().partition(":")
    kind, *parts = rest.split(":")
    facts: dict[str, Any] = {"kind": kind}
    plain = [part for part in parts if "=" not in part]
    if kind in ("number", "integer") and len(plain) == 2:
        facts["lower"], facts["upper"] = (_number(part) for part in plain)
    elif kind == "category" and len(plain) == 1:
        facts["categories"] = plain[0].split("|")
    elif plain or not name:
        raise InvalidArgument(
            f"--columns {written.strip()!r} must be name:number:LOWER:UPPER, name:integer:LOWER:UPPER, name:boolean or "
            "name:category:A|B|C"
        )
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            facts[key] = _fill(kind, value) if key == "fill" else value
    return name, facts


def _number(text: str) -> Any:
    """Return a number, or the text as it is, which the schema refuses with its name."""
    try:
        return float(text)
    except ValueError:
        return text


def _fill(kind: str, text: str) -> Any:
    if kind == "boolean":
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    return text if kind == "category" else _number(text)


def _refuse_to_overwrite(output: Path) -> None:
    if output.exists():
        raise InvalidArgument(f"--output {str(output)!r} is there already; give another name, or move it away")


def _write(schema: Schema, output: Path, header: str) -> None:
    _refuse_to_overwrite(output)
    try:
        output.write_text(f"{header}\n{schema.to_toml()}", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"--output {str(output)!r} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {output}: {len(schema.columns)} columns")


def _facts(column: Column) -> dict[str, Any]:
    return {
        "kind": column.kind,
        "levels": list(column.levels),
        "missing": column.missing,
        "stand_in": column.stand_in,
        "unit": column.unit,
        "description": column.description,
    }


def _range(column: Column) -> str:
    if column.kind == "category":
        return ", ".join(column.levels)
    lower, upper = column.bounds
    return "false, true" if column.kind == "boolean" else f"{lower:g} to {upper:g}"


def _missing(column: Column) -> str:
    if column.kind == "category":
        return f"{column.missing}: {column.levels[int(column.stand_in)]}"
    stand_in = {0.0: "false", 1.0: "true"}[column.stand_in] if column.kind == "boolean" else f"{column.stand_in:g}"
    return f"{column.missing}: {stand_in}"
