"""A schema to fill in, from the names of a file's columns alone: no row is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from dpmcmc.errors import InvalidArgument

HEADER = """\
# A schema to fill in. Only the names of the columns were read, from {file}; if that file has no header these are a
# row: delete this file then. For each column that a model needs take away the "# " in front, state its kind, and its
# bounds or categories from the data dictionary, never from private rows. Columns that stay comments are never read.
# `dpmcmc schema check` reads this file. Kinds:
#   number, integer: lower, upper         date: lower, upper as "2024-01-31"; format = "%d/%m/%Y" if written so
#   category: categories = ["a", "b"]     boolean: true = ["ja"], false = ["nein"] if written so
# Where cells may be empty say what they become: missing = "fill" or "indicator" with fill = 0, or missing = "category"
# Above the first column may stand: decimal = "," where numbers are written 1,5; person = "NAME", the column that says
# whose row it is, where a person may have several.
"""
BOUNDS = '# lower = "?"\n# upper = "?"'
PARTS = {"boolean": "", "category": "# categories = []"}
"""What is to be stated of a kind, if not bounds. What is not filled in is refused: no guess passes as a statement."""


def skeleton(file: Path, about: Mapping[str, Any]) -> str:
    """Return the text of a schema that states nothing of its columns yet, and of the table what is `about` it."""
    from dpmcmc.enclave.tables import files  # loads PyArrow, which other commands do without

    found = files.column_types(files.paths_of(file)[0], about["delimiter"])
    _refuse_a_row([name for name, _ in found])
    person = about["person"]
    if person is not None and person not in [name for name, _ in found]:
        raise InvalidArgument(f"--person {person!r} is not a column of --from-header {str(file)!r}")
    left_out = {None, ""} if person is not None else {None, "", about["max_rows_per_person"]}
    stated = tomli_w.dumps({name: value for name, value in about.items() if value not in left_out})
    columns = [_column(name, kept) for name, kept in found if name != person]
    return "\n".join([HEADER.format(file=file.name) + stated, *columns])


def _refuse_a_row(names: list[str]) -> None:
    """Refuse a first line that cannot be names. It is not quoted: it may be a row."""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidArgument(
            "--from-header: the first line is one field with marks in it that may separate fields; say so with "
            "--delimiter, such as --delimiter ';'"
        )
    if not names or len(set(names)) < len(names) or any(not name.strip() or _is_number(name) for name in names):
        raise InvalidArgument(
            "--from-header: the first line has empty fields, numbers or repetitions, so it does not hold the names of "
            "columns; add a header, or state the columns with --columns. If fields are not separated by commas, say so "
            "with --delimiter"
        )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _column(name: str, kept: Any) -> str:
    """Return a column as comments, with the kind that its stored type suggests."""
    kind = _kind(str(kept))
    lines = [f"# [columns.{_key(name)}]", f'# kind = "{kind}"', PARTS.get(kind, BOUNDS)]
    return "\n".join(line for line in lines if line) + "\n"


def _kind(kept: str) -> str:
    if kept.startswith(("int", "uint")):
        return "integer"
    if kept.startswith(("float", "double", "half", "decimal")):
        return "number"
    if kept.startswith(("date", "timestamp")):
        return "date"
    return "boolean" if kept == "bool" else "category" if kept.startswith("dictionary") else "?"


def _key(name: str) -> str:
    """Return a name as TOML writes it in front of an equals sign."""
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")
