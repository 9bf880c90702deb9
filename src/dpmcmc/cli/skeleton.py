"""A schema to fill in, from the names of a file's columns alone: no row is read."""

from pathlib import Path
from typing import Any

from dpmcmc.errors import InvalidArgument

HEADER = """\
# A schema to fill in. Only the names of the columns were read, from {file}; if that file has no header these are a
# row: delete this file then. For each column that a model needs take away the "# " in front, choose a kind, and state
# bounds or categories from the data dictionary, never from private rows. Columns that stay comments are never read.
# `dpmcmc schema check` reads this file. Kinds:
#   number, integer: lower, upper    date: lower, upper as "2024-01-31"    boolean    category: categories
"""
BOUNDS = "# lower = 0\n# upper = 1"
PARTS = {
    "number": BOUNDS,
    "integer": BOUNDS,
    "boolean": "",
    "date": '# lower = "2000-01-01"\n# upper = "2029-12-31"',
    "category": '# categories = ["a", "b"]',
}


def skeleton(file: Path, delimiter: str, decimal: str) -> str:
    """Return the text of a schema that states nothing yet."""
    from dpmcmc.enclave.tables import files  # loads PyArrow, which other commands do without

    found = files.column_types(files.paths_of(file)[0], delimiter)
    _refuse_a_row([name for name, _ in found])
    stated = {"delimiter": delimiter, "decimal": decimal}
    about = "".join(f"{name} = {_quoted(value)}\n" for name, value in stated.items() if value)
    return "\n".join([HEADER.format(file=file.name) + about, *(_column(name, kept) for name, kept in found)])


def _refuse_a_row(names: list[str]) -> None:
    """Refuse a first line that cannot be names. It is not quoted: it may be a row."""
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
    lines = [f"# [columns.{_quoted(name)}]", f'# kind = "{kind}"', PARTS[kind]]
    return "\n".join(line for line in lines if line) + "\n"


def _kind(kept: str) -> str:
    if kept.startswith(("int", "uint")):
        return "integer"
    if kept.startswith(("float", "double", "half", "decimal")):
        return "number"
    if kept.startswith(("date", "timestamp")):
        return "date"
    return "boolean" if kept == "bool" else "category" if kept.startswith("dictionary") else "number"


def _quoted(text: str) -> str:
    """Return a basic string of TOML."""
    import json

    return json.dumps(text, ensure_ascii=False)
