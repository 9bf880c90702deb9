"""What the owner of a table says about its columns: public facts, stated and never read off the data.

A schema is written in TOML or in Python. It says for each column what it holds, in which bounds or categories, and what
a missing value stands for; and, where one person owns several rows, which column names the person and how many count.
"""

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self, cast

import tomli_w

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument

KINDS = ("number", "integer", "boolean", "category")
MISSING = ("none", "fill", "category", "indicator")
MISSING_CATEGORY = "(missing)"
"""The category that missing values of a categorical column get under the policy ``category``."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        kind: ``number``, ``integer``, ``boolean`` or ``category``.
        lower: the lowest value that counts; whatever is lower is moved up to it. For numbers and integers.
        upper: the highest value that counts.
        categories: all values of a categorical column, in order; anything else counts as missing.
        missing: what a missing value becomes: ``none`` (the column has none; one that turns up all the same becomes
            the middle of the bounds or the first category, silently, since an error would tell), ``fill`` (the value
            `fill`), ``category`` (a category of its own), ``indicator`` (`fill`, and a further column that says so).
        fill: the value that stands for a missing one.
        unit: in what it is measured, for people.
        description: what it means, for people.
    """

    kind: str
    lower: float | None = None
    upper: float | None = None
    categories: tuple[str, ...] = ()
    missing: str = "none"
    fill: float | str | None = None
    unit: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        validation.choice("kind", self.kind, KINDS)
        validation.choice("missing", self.missing, MISSING)
        object.__setattr__(self, "categories", tuple(str(each) for each in self.categories))
        if self.kind in ("number", "integer"):
            self._check_bounds()
        elif self.lower is not None or self.upper is not None:
            raise InvalidArgument(f"lower and upper are for numbers and integers, not for kind={self.kind!r}")
        if self.kind == "category":
            self._check_categories()
        elif self.categories:
            raise InvalidArgument(f"categories are for kind='category', not for kind={self.kind!r}")
        self._check_missing()

    @property
    def levels(self) -> tuple[str, ...]:
        """All categories, the one for missing values last, if there is one."""
        return (*self.categories, MISSING_CATEGORY) if self.missing == "category" else self.categories

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the column as it is stored: of its values, of 0 and 1, or of the codes of its levels."""
        if self.kind == "category":
            return 0.0, float(max(len(self.levels) - 1, 1))
        return (0.0, 1.0) if self.kind == "boolean" else cast(tuple[float, float], (self.lower, self.upper))

    def _check_bounds(self) -> None:
        if self.lower is None or self.upper is None:
            raise InvalidArgument(
                f"kind={self.kind!r} needs lower and upper: state the bounds that are known without the data"
            )
        lower, upper = validation.number("lower", self.lower), validation.number("upper", self.upper)
        if not (lower < upper and math.isfinite(lower) and math.isfinite(upper)):
            raise InvalidArgument(f"lower={lower!r} must be < upper={upper!r}, and both finite")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def _check_categories(self) -> None:
        if len(self.categories) < 2 or len(set(self.categories)) != len(self.categories):
            raise InvalidArgument(f"categories={self.categories!r} must be at least two, each once")

    def _check_missing(self) -> None:
        if self.missing == "category" and self.kind != "category":
            raise InvalidArgument(f"missing='category' is for kind='category', not for kind={self.kind!r}")
        if self.missing not in ("fill", "indicator"):
            if self.fill is not None:
                raise InvalidArgument(f"fill={self.fill!r} is for missing='fill' and missing='indicator'")
            return
        if self.kind == "category":
            validation.choice("fill", self.fill, self.categories)
        else:
            lower, upper = self.bounds
            if not lower <= validation.number("fill", self.fill) <= upper:
                validation.refuse("fill", self.fill, f"must be between {lower:g} and {upper:g}")


@dataclass(frozen=True)
class Schema:
    """The columns of a table that may be used, by name; others are not read.

    Attributes:
        columns: the columns.
        person: the column that names the person a row belongs to; None where every row is a person's only one.
        max_rows_per_person: how many rows of one person count.
    """

    columns: Mapping[str, Column]
    person: str | None = None
    max_rows_per_person: int = 1

    def __post_init__(self) -> None:
        if not self.columns:
            raise InvalidArgument("columns is empty; expected at least one column")
        object.__setattr__(self, "columns", dict(self.columns))
        rows = validation.integer("max_rows_per_person", self.max_rows_per_person, at_least=1)
        if self.person is None and rows != 1:
            validation.refuse("max_rows_per_person", rows, "needs person=, the column that names the person")
        if self.person in self.columns:
            validation.refuse(
                "person", self.person, "must not be a column of its own: who somebody is explains nothing"
            )

    @classmethod
    def read(cls, source: "Schema | Mapping[str, Any] | str | os.PathLike[str]") -> Self:
        """Return a schema as it is, from plain values, or from a TOML file."""
        if isinstance(source, cls):
            return source
        if not isinstance(source, Mapping):
            path = Path(cast(Any, source))
            try:
                source = tomllib.loads(path.read_text(encoding="utf-8"))
            except OSError as error:
                raise InvalidArgument(f"schema={str(path)!r} cannot be read: {error.strerror}") from error
            except tomllib.TOMLDecodeError as error:
                raise InvalidArgument(f"schema={str(path)!r} is not TOML: {error}") from error
        return cls.from_dict(cast(Mapping[str, Any], source))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Build a schema from plain values: a table ``columns``, and perhaps ``person`` and ``max_rows_per_person``."""
        unknown = sorted(set(plain) - {field.name for field in fields(cls)})
        columns = plain.get("columns")
        if unknown or not isinstance(columns, Mapping):
            raise InvalidArgument(
                "a schema has the table columns, and perhaps person and max_rows_per_person"
                + (f"; it has no {', '.join(unknown)}" if unknown else "")
            )
        named = cast(Mapping[str, Any], columns)
        read = {name: _column(name, values) for name, values in named.items()}
        return cls(read, plain.get("person"), plain.get("max_rows_per_person", 1))

    def to_toml(self) -> str:
        """Return the schema as TOML; `read` reads it back."""
        return tomli_w.dumps(_without_blanks({**asdict(self)}))

    def restricted(self, names: Sequence[str]) -> Self:
        """Return the schema of some of the columns."""
        missing = [name for name in names if name not in self.columns]
        if missing:
            raise InvalidArgument(f"the schema has no column {', '.join(missing)}; it has {', '.join(self.columns)}")
        kept = {name: self.columns[name] for name in self.columns if name in names}
        return type(self)(kept, self.person, self.max_rows_per_person)


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
