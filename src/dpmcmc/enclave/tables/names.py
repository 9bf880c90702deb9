"""A schema beside the names and types of a file's columns: public facts about the file, for which no row is read."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpmcmc.enclave.tables import columns, files
from dpmcmc.errors import InvalidArgument
from dpmcmc.schema import Schema


@dataclass(frozen=True)
class Comparison:
    """How the columns of a schema and of a file go together.

    Attributes:
        absent: columns of the schema that the file has not, each with the nearest name of the file, if one is near.
        unused: columns of the file that the schema does not name. Nothing is read of them.
        refused: columns of the schema that the file has, and that cannot be read as they are kept, with the reason.
    """

    absent: dict[str, str | None]
    unused: tuple[str, ...]
    refused: dict[str, str]

    @property
    def fits(self) -> bool:
        """Whether the file has what the schema states."""
        return not self.absent and not self.refused


def compare_names(path: Path, schema: Schema) -> Comparison:
    """Compare a schema with the columns of a file, or of all files of a folder.

    If the file has none of the stated columns, none of its own names are shown: its first line may be a row.
    """
    absent: dict[str, str | None] = {}
    unused: dict[str, None] = {}
    refused: dict[str, str] = {}
    for each in files.paths_of(path):
        found = files.column_types(each, schema.delimiter)
        names, stated = [name for name, _ in found], schema.read_columns
        others = [name for name in names if name not in stated] if set(names) & set(stated) else []
        for name in stated:
            if name not in names:
                absent[name] = _nearest(name, others)
        refused |= {name: reason for name, kept in found if name in stated and (reason := _refusal(name, kept, schema))}
        refused |= {name: f"column {name!r} is there more than once" for name in stated if names.count(name) > 1}
        unused |= dict.fromkeys(others)
    return Comparison(absent, tuple(unused), refused)


def _nearest(name: str, others: list[str]) -> str | None:
    by_small = {other.strip().lower(): other for other in others}
    near = difflib.get_close_matches(name.lower(), by_small, n=1)
    return by_small[near[0]] if near else None


def _refusal(name: str, kept: Any, schema: Schema) -> str:
    if name in schema.columns and schema.columns[name].kind == "date":
        return ""
    try:
        columns.value_type(name, kept)
    except InvalidArgument as refusal:
        return str(refusal)
    return ""
