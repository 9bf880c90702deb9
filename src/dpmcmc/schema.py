"""What the owner of a table says about its columns: public facts, stated and never read off the data.

A schema is written in TOML or in Python. It says for each column what it holds, in which bounds or categories, and what
a missing value stands for; and, where one person owns several rows, which column names the person and how many count.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, cast

import tomli_w

from dpmcmc import missing_cells, validation
from dpmcmc.column import KINDS, MISSING, MISSING_CATEGORY, Column
from dpmcmc.errors import InvalidArgument
from dpmcmc.html import card, line

__all__ = ["KINDS", "MISSING", "MISSING_CATEGORY", "OF_PERSON", "PRESENT", "SEED", "SEEDS", "Column", "Schema"]

DELIMITERS = (",", ";", "\t", "|", " ", ":")

PRESENT = "present"
"""The leaf that says which of a person's places hold a row."""

SEED, SEEDS = "(seed)", 2**24
"""The leaf with a number of a person's own, below `SEEDS`, that follows from the name alone; draws begin with it."""

OF_PERSON = frozenset({PRESENT, SEED})
"""The leaves of a person that no row has."""

PERSON, OCCUPIED = "(person)", "(occupied)"
"""What rows on their way into slots have beside their leaves: whose they are, and whether anybody is there."""


SHOWN = 20
"""How many columns a schema shows of itself."""


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a table that may be used, by name; others are not read.

    Attributes:
        columns: the columns.
        person: the column that names the person a row belongs to; None if every person has one row.
        max_rows_per_person: the number of rows of one person that are used.
        delimiter: the field separator of a text file, such as ``;`` (default: a comma, in TSV a tab).
        decimal: the decimal mark of numbers in text files, ``.`` (the default) or ``,``.
    """

    columns: Mapping[str, Column]
    person: str | None = None
    max_rows_per_person: int = 1
    delimiter: str = ""
    decimal: str = ""

    def __post_init__(self) -> None:
        if not isinstance(cast(Any, self.columns), Mapping) or not self.columns:
            validation.refuse("columns", self.columns, "must be a mapping from names to columns, at least one")
        object.__setattr__(self, "columns", dict(self.columns))
        for name, column in self.columns.items():
            validation.text("name of a column", name)
            if not isinstance(cast(Any, column), Column):
                validation.refuse(f"columns[{name!r}]", column, "must be a Column")
        made = [f"{name}_missing" for name in self.columns if self.columns[name].missing == "indicator"]
        made += [PERSON, OCCUPIED, *([] if self.person is None else [PRESENT, SEED])]
        if self.person is not None:
            validation.text("person", self.person)
        rows = validation.integer("max_rows_per_person", self.max_rows_per_person, at_least=1)
        if self.person is None and rows != 1:
            validation.refuse("max_rows_per_person", rows, "needs person=, the column that names the person")
        if self.person in self.columns:
            validation.refuse(
                "person", self.person, "must not be a column of its own: who somebody is explains nothing"
            )
        if self.delimiter != "":
            validation.choice("delimiter", self.delimiter, DELIMITERS)
        if self.decimal != "":
            validation.choice("decimal", self.decimal, (".", ","))
        for name in self.columns:
            if name in made or missing_cells.is_hidden(name):
                raise InvalidArgument(f"column {name!r} has the name of a column that dpmcmc makes; rename it")

    def __repr__(self) -> str:
        shown = [f"  {line(f'{name}: {column.values_in_words}', 76)}" for name, column in self.columns.items()]
        more = [f"  and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
        return "\n".join([f"Schema with {len(shown)} columns, for every {self.unit}", *shown[:SHOWN], *more])

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        return card("Schema", [(name, column.values_in_words) for name, column in self.columns.items()])

    @property
    def unit(self) -> str:
        """The unit of protection, in words: a record, or a person with all their rows."""
        if self.person is None:
            return "record"
        most = self.max_rows_per_person
        return f"person ({self.person}, of whom at most {most} row{'s count' if most > 1 else ' counts'})"

    @property
    def read_columns(self) -> list[str]:
        """The columns that are read from a table: those stated, and the one that names persons."""
        return [*self.columns, *([] if self.person is None else [self.person])]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds of every leaf of the table's records by name, including those of `missing_cells`."""
        of_person = {} if self.person is None else {PRESENT: (0.0, 1.0), SEED: (0.0, SEEDS - 1.0)}
        return self.row_bounds | of_person

    @property
    def row_bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds of every leaf of one row."""
        leaves: dict[str, tuple[float, float]] = {}
        for name, column in self.columns.items():
            leaves[name] = column.bounds
            if column.missing == "indicator":
                leaves[f"{name}_missing"] = (0.0, 1.0)
        return leaves | missing_cells.bounds(leaves)

    @classmethod
    def read(cls, source: "Schema | Mapping[str, Any] | str | os.PathLike[str]") -> Self:
        """Return a schema as it is, from plain values, or from a TOML file.

        Args:
            source: a `Schema`, a dictionary for one, or the path of a file.
        """
        if isinstance(source, cls):
            return source
        if not isinstance(source, Mapping):
            source = _toml(source)
        return cls.from_dict(source)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Build a schema from plain values.

        Args:
            plain: a table ``columns`` and, optionally, the other attributes.
        """
        others = [field.name for field in fields(cls) if field.name != "columns"]
        unknown = sorted(set(plain) - {"columns", *others})
        if not unknown and not plain.get("columns", {}):
            raise InvalidArgument("the schema states no column yet; expected [columns.NAME] with a kind, for each one")
        columns = plain.get("columns")
        if unknown or not isinstance(columns, Mapping):
            raise InvalidArgument(
                f"a schema has the table columns, and perhaps {', '.join(others)}"
                + (f"; it has no {', '.join(unknown)}" if unknown else "")
            )
        named = cast(Mapping[str, Any], columns)
        read: dict[str, Column] = {}
        problems: list[str] = []
        for name, values in named.items():
            try:
                read[name] = _column(name, values)
            except InvalidArgument as error:
                problems.append(str(error))
        if problems:
            raise InvalidArgument("; ".join(problems))
        return cls(read, **{name: plain[name] for name in others if name in plain})

    def to_toml(self) -> str:
        """Return the schema as TOML; `read` reads it back."""
        return tomli_w.dumps(_without_blanks({**asdict(self)}))

    def restricted(self, names: Sequence[str]) -> Self:
        """Return the schema of some of the columns.

        Args:
            names: the columns that are kept.
        """
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise InvalidArgument(f"the schema has no column {', '.join(missing)}; it has {', '.join(self.columns)}")
        kept = {name: self.columns[name] for name in self.columns if name in names}
        return replace(self, columns=kept)


def _toml(source: Any) -> Mapping[str, Any]:
    """Read a TOML file. Of what is wrong with it only the place is said: it may be the data, given by mistake."""
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgument(f"schema is a {type(source).__name__}; expected a Schema, a mapping, or a TOML file")
    path = Path(cast(Any, source))
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line \d+, column \d+|end of document", str(error))
        problem = f"is not TOML ({place.group() if place else 'somewhere'})"
    except ValueError:  # bytes that are no UTF-8, or a name that no file can have
        problem = "is not a text file in UTF-8"
    raise InvalidArgument(f"schema={str(path)!r} {problem}; `dpmcmc schema new` writes one")


def _column(name: str, values: Any) -> Column:
    if isinstance(values, Column):
        return values
    known = {field.name for field in fields(Column)}
    if not isinstance(values, Mapping) or set(cast(Any, values)) - known:
        raise InvalidArgument(f"column {name!r} must be a table with some of {', '.join(sorted(known))}")
    plain = cast(dict[str, Any], dict(cast(Any, values)))
    if "kind" not in plain:
        raise InvalidArgument(f"column {name!r} has no kind; expected one of {', '.join(KINDS)}")
    try:
        return Column(**plain)
    except InvalidArgument as error:
        raise InvalidArgument(f"column {name!r}: {error}") from error


def _without_blanks(plain: Any) -> Any:
    """Leave out what was not stated: TOML has no null."""
    if isinstance(plain, Mapping):
        items = cast(Mapping[str, Any], plain).items()
        return {name: _without_blanks(value) for name, value in items if value not in (None, "", ())}
    return list(cast(Any, plain)) if isinstance(plain, tuple) else plain
