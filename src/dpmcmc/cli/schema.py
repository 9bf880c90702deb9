"""``dpmcmc schema``: what the owner of a table states about its columns."""

from collections.abc import Sized
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from dpmcmc.cli import schema_audit
from dpmcmc.cli.options import names_options
from dpmcmc.cli.output import AsJson, print_json, print_table
from dpmcmc.cli.skeleton import skeleton
from dpmcmc.column import Column
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema

if TYPE_CHECKING:
    from dpmcmc.enclave.tables.names import Comparison

app = typer.Typer(help="Schemas: bounds and categories of a table's columns, in a TOML file.", no_args_is_help=True)
app.command(name="audit")(schema_audit.audit)

Output: TypeAlias = Annotated[
    Path | None, typer.Option(help="TOML file to write (default: print it); existing files are not overwritten.")
]
Person: TypeAlias = Annotated[str | None, typer.Option(help="The column that names the person a row belongs to.")]
MaxRows: TypeAlias = Annotated[
    int, typer.Option("--max-rows-per-person", help="Maximum number of rows that are used per person.", min=1)
]
Delimiter: TypeAlias = Annotated[str, typer.Option(help="Field separator of a CSV file (default: a comma).")]
Decimal: TypeAlias = Annotated[str, typer.Option(help="Decimal mark of numbers in text files (default: a point).")]

STATED = """\
# What is stated about the columns of a table. These are public facts, known without the data: change them as you know
# better, never by looking at private rows. `dpmcmc schema check` reads this file.
"""
INFERRED = """\
# This schema was INFERRED from data that were declared public: its bounds and categories are those of that file, which
# counts as published. They hold for private rows of the same kind only as far as you know that without looking.
"""
WHY_NOT = (
    "schema infer reads bounds and categories off the rows, and that would disclose private rows: the "
    "highest income is somebody's. If the file is public (an earlier release, synthetic rows) say so with "
    "--public-data FILE; if it is not, state what the data dictionary says with `dpmcmc schema new --columns ...`"
)


@app.command()
@names_options
def new(
    columns: Annotated[
        str | None,
        typer.Option(
            help="NAME:KIND with commas between, where KIND is number:LOWER:UPPER, integer:LOWER:UPPER, "
            "date:FIRST:LAST, boolean or category:A|B|C. Further facts follow as :missing=indicator:fill=25:unit=kg, "
            ":true=ja:false=nein or :format=%d/%m/%Y."
        ),
    ] = None,
    from_header: Annotated[
        Path | None, typer.Option(help="Instead of --columns: a file from which only the column names are read.")
    ] = None,
    output: Output = None,
    person: Person = None,
    max_rows: MaxRows = 1,
    delimiter: Delimiter = "",
    decimal: Decimal = "",
) -> None:
    """Write a schema from a data dictionary, or a template to fill in from the column names of a file."""
    if (columns is None) == (from_header is None):
        raise InvalidArgument("say what the columns are: --columns, or --from-header FILE for a schema to fill in")
    about = {"person": person, "max_rows_per_person": max_rows, "delimiter": delimiter, "decimal": decimal}
    if from_header is not None:
        _write_skeleton(skeleton(from_header, about), output)
        return
    stated = [_column(each) for each in str(columns).split(",") if each.strip()]
    names = [name for name, _ in stated]
    if not names:
        raise InvalidArgument("--columns is empty; expected at least one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"--columns names {', '.join(twice)} more than once; expected each once")
    _write(Schema.from_dict({"columns": dict(stated), **about}), output, STATED)


@app.command()
@names_options
def check(
    file: Annotated[Path, typer.Argument(help="The TOML file.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Table whose column names and types are compared with the schema; costs nothing."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Check a schema and show its columns; with --data, compare them with those of a table."""
    schema = Schema.read(file)
    compared = None if data is None else _compare(data, schema)
    if json:
        columns = {name: {"bounds": column.bounds, **_facts(column)} for name, column in schema.columns.items()}
        answer = {"columns": columns, "person": schema.person, "max_rows_per_person": schema.max_rows_per_person}
        print_json(answer if compared is None else {**answer, "data": asdict(compared)})
    else:
        _show(file, schema)
    if compared is None:
        return
    if not json:
        _show_comparison(str(data), schema, compared)
    if not compared.fits:
        raise typer.Exit(2)


def _show(file: Path, schema: Schema) -> None:
    rows = [
        [name, column.kind, _range(column), _missing(column), column.unit] for name, column in schema.columns.items()
    ]
    persons = (
        f"A record is a person, named by {schema.person}; of one person {schema.max_rows_per_person} rows count."
        if schema.person is not None
        else "A record is a row."
    )
    print_table(f"{file}: {_counted(rows)}", ["column", "kind", "values", "missing becomes", "unit"], rows, persons)


def _compare(data: Path, schema: Schema) -> "Comparison":
    from dpmcmc.enclave.tables.names import compare_names  # loads JAX, which a check of the schema alone can do without

    return compare_names(data, schema)


def _show_comparison(data: str, schema: Schema, compared: "Comparison") -> None:
    """Say which columns are not there, which cannot be read, and which are not used."""
    for name, near in compared.absent.items():
        hint = f" Did you mean {near!r}?" if near is not None else ""
        typer.echo(f"missing: {data} has no column {name!r}.{hint}")
    if set(compared.absent) == set(schema.read_columns):
        typer.echo(
            "None of the columns is there. The first line of a CSV file must hold the names; if they are not separated "
            'by commas, state it in the schema, such as delimiter = ";"'
        )
    for reason in compared.refused.values():
        typer.echo(f"not readable: {reason}")
    if compared.unused:
        typer.echo(f"not in the schema, so never read: {', '.join(compared.unused)}")
    if (
        schema.delimiter == ";"
        and schema.decimal == ""
        and any(one.kind == "number" for one in schema.columns.values())
    ):
        typer.echo(
            'Numbers are read with a decimal point, so 1,5 is missing: if they are written so, state decimal = ","'
        )
    if compared.fits:
        typer.echo(
            f"{data} has all columns that the schema states. `dpmcmc schema audit` counts cells that do not fit."
        )


@app.command()
def infer(
    file: Annotated[Path | None, typer.Argument(help="Not read; give a public file with --public-data.")] = None,
    public_data: Annotated[Path | None, typer.Option(help="File that you declare public.")] = None,
    output: Output = None,
    person: Person = None,
    max_rows: MaxRows = 1,
    delimiter: Delimiter = "",
    decimal: Decimal = "",
) -> None:
    """Infer a schema from a public file."""
    if public_data is None or file is not None:
        raise InvalidArgument(WHY_NOT)
    _refuse_to_overwrite(output)
    from dpmcmc.enclave.tables.public import schema_of_public_data

    schema, left_out = schema_of_public_data(public_data, person, max_rows, delimiter, decimal)
    _write(schema, output, INFERRED)
    for name, reason in left_out.items():
        typer.echo(f"left out {name}: {reason}", err=output is None)


def _column(written: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the facts of a column from ``name:kind:...``."""
    name, _, rest = written.strip().partition(":")
    kind, *parts = rest.split(":")
    facts: dict[str, Any] = {"kind": kind}
    plain = [part for part in parts if "=" not in part]
    if kind in ("number", "integer") and len(plain) == 2:
        facts["lower"], facts["upper"] = (_number(part) for part in plain)
    elif kind == "date" and len(plain) == 2:
        facts["lower"], facts["upper"] = plain
    elif kind == "category" and len(plain) == 1:
        facts["categories"] = plain[0].split("|")
    elif plain or not name:
        raise InvalidArgument(
            f"--columns {written.strip()!r} must be name:number:LOWER:UPPER, name:integer:LOWER:UPPER, name:boolean, "
            "name:date:FIRST:LAST or name:category:A|B|C"
        )
    for part in parts:
        key, equals, value = part.partition("=")
        if equals:
            facts[key] = _fact(kind, key, value)
    return name, facts


def _number(text: str) -> Any:
    """Return a number, or the text as it is, which the schema refuses with its name."""
    try:
        return float(text)
    except ValueError:
        return text


def _fact(kind: str, key: str, text: str) -> Any:
    """Return what stands behind the equals sign: a list of words, the value of a fill, or a text."""
    if key in ("true", "false"):
        return text.split("|")
    return _fill(kind, text) if key == "fill" else text


def _fill(kind: str, text: str) -> Any:
    if kind == "boolean":
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    return text if kind == "category" else _number(text)


def _refuse_to_overwrite(output: Path | None) -> None:
    if output is not None and output.exists():
        raise InvalidArgument(f"--output {str(output)!r} already exists; choose another name, or move it away")


def _write(schema: Schema, output: Path | None, header: str) -> None:
    """Write a schema to a new file, or print it."""
    text = f"{header}\n{schema.to_toml()}"
    if output is None:
        typer.echo(text, nl=False)
        return
    _write_new(output, text)
    typer.echo(f"wrote {output}: {_counted(schema.columns)}")


def _write_new(output: Path, text: str) -> None:
    _refuse_to_overwrite(output)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"--output {str(output)!r} cannot be written: {error.strerror}") from error


def _write_skeleton(text: str, output: Path | None) -> None:
    """Write a schema to fill in to a new file, or print it."""
    if output is None:
        typer.echo(text, nl=False)
        return
    _write_new(output, text)
    typer.echo(f"wrote {output}: fill it in, then `dpmcmc schema check {output}`. No row was read.")


_HOW_MISSING = {"none": " (none expected)", "indicator": ", and marked"}
"""What is said beside the value that stands for a missing one."""


def _counted(columns: Sized) -> str:
    return f"{len(columns)} column" + ("" if len(columns) == 1 else "s")


def _facts(column: Column) -> dict[str, Any]:
    return {
        "kind": column.kind,
        "levels": list(column.levels),
        "words": column.words if column.kind == "boolean" else {},
        "missing": column.missing,
        "stand_in": column.stand_in,
        "unit": column.unit,
        "description": column.description,
    }


def _range(column: Column) -> str:
    if column.kind == "category":
        return ", ".join(column.levels)
    if column.kind == "boolean":
        return f"{column.words_for(False)} or {column.words_for(True)}"
    return column.range_in_words + (f", written as {column.format}" if column.format else "")


def _missing(column: Column) -> str:
    if column.missing == "integrate":
        law = f"normal({column.mean:g}, {column.sd:g})" if column.sd is not None else ""
        shares = column.probabilities or (() if column.mean is None else (1 - column.mean, column.mean))
        return f"average over {law or ', '.join(f'{share:g}' for share in shares)}"
    if column.kind == "category":
        stand_in = column.levels[int(column.stand_in)]
    elif column.kind == "boolean":
        stand_in = "true" if column.stand_in else "false"
    else:
        stand_in = column.in_words(column.stand_in)
    return f"{stand_in}{_HOW_MISSING.get(column.missing, '')}"
