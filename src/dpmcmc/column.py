"""One column of a table, as its owner states it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from numbers import Integral
from typing import Any, cast

import numpy as np

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument

KINDS = ("number", "integer", "boolean", "category", "date")
MISSING = ("none", "fill", "category", "indicator", "integrate")
MISSING_CATEGORY = "(missing)"
"""The category that missing values of a categorical column get under the policy ``category``."""

WORDS = {
    "true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "1": 1.0, "1.0": 1.0,
    "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "0": 0.0, "0.0": 0.0,
}  # fmt: skip
"""The words that a boolean may be written as unless others are stated, in small letters."""

TIMES = ("datetime", "time", "timestamp")

MOST_DAYS = 100_000
"""How far apart the first and the last day of a column may be."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Column:
    """One column.

    Attributes:
        kind: ``number``, ``integer`` (other values are rounded), ``boolean``, ``category``, or ``date``, which a model
            reads as the days since `lower`.
        lower: the lower bound; smaller values are clamped to it. For numbers, integers and dates.
        upper: the upper bound; larger values are clamped to it.
        categories: all values of a categorical column, in order; anything else counts as missing.
        true: the words of a boolean column that mean true, in upper or lower case (default: those of `WORDS`).
        false: the words that mean false; stated together with `true`, and then no others count but true and false.
        missing: what a missing value becomes: ``none`` (the column has none; any that occurs anyway becomes
            the middle of the bounds, false, or the first category, silently, since an error would leak), ``fill``
            (the value `fill`), ``category`` (a separate category), ``indicator`` (`fill`, and a further column,
            this one's name with ``_missing``, that says so), ``integrate`` (formulas average the likelihood of the
            row over the distribution stated here for the column). This applies to predictors: if the response of a
            formula is missing, the row contributes nothing, unless missing is a separate category.
        fill: the value that replaces a missing one: a number, true or false, or a category.
        mean: with ``integrate``, the mean of a number, which is normal and truncated at the bounds, or the
            probability that a boolean is true.
        sd: with ``integrate``, the standard deviation of a number, before truncation.
        probabilities: with ``integrate``, those of the categories, in their order.
        format: how dates are written, such as ``%d/%m/%Y`` (default: as in 2024-02-29).
        unit: the unit of measurement, for readers.
        description: what the column means, for readers.
    """

    kind: str
    lower: float | date | None = None
    upper: float | date | None = None
    categories: tuple[str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    missing: str = "none"
    fill: float | str | date | None = None
    mean: float | None = None
    sd: float | None = None
    probabilities: tuple[float, ...] = ()
    format: str = ""
    unit: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        if self.kind in TIMES:
            validation.refuse(
                "kind",
                self.kind,
                "is not a kind: state kind='date' with lower and upper for days, or make a number of a time of day in "
                "the table, such as the hours since midnight, and state kind='number' with bounds",
            )
        validation.choice("kind", self.kind, KINDS)
        validation.choice("missing", self.missing, MISSING)
        for name in ("unit", "description"):
            if not isinstance(getattr(self, name), str):
                validation.refuse(name, getattr(self, name), "must be a text")
        if self.kind in ("number", "integer"):
            self._check_bounds()
        elif self.kind == "date":
            self._check_dates()
        elif self.lower is not None or self.upper is not None:
            raise InvalidArgument(f"lower and upper are for numbers, integers and dates, not for kind={self.kind!r}")
        if self.kind == "category":
            self._check_categories()
        elif self.categories != ():
            raise InvalidArgument(f"categories are for kind='category', not for kind={self.kind!r}")
        self._check_format()
        self._check_words()
        self._check_missing()

    def __repr__(self) -> str:
        stated = ((each.name, getattr(self, each.name)) for each in fields(self))
        blank = {each.name: each.default for each in fields(self)}
        return f"Column({', '.join(f'{name}={value!r}' for name, value in stated if value != blank[name])})"

    @property
    def levels(self) -> tuple[str, ...]:
        """All categories, the one for missing values last, if there is one."""
        return (*self.categories, MISSING_CATEGORY) if self.missing == "category" else self.categories

    @property
    def values_in_words(self) -> str:
        """The values that the column may take, in words."""
        if self.kind == "category":
            return f"category: {', '.join(self.levels)}"
        return self.kind if self.kind == "boolean" else f"{self.kind}, {self.range_in_words} {self.unit}".rstrip()

    @property
    def range_in_words(self) -> str:
        """The bounds of numbers and dates, in words."""
        return f"{self.in_words(self.bounds[0])} to {self.in_words(self.bounds[1])}"

    def day(self, stored: float) -> date:
        """Return the day that a number of a column of dates stands for.

        Args:
            stored: the days since `lower`; what is not whole counts as the day that it lies in.
        """
        return as_date("lower", self.lower) + timedelta(math.floor(stored))

    def in_words(self, stored: float) -> str:
        """Return a number as it is, or for a column of dates the day that it stands for.

        Args:
            stored: the number, as records have it.
        """
        return self.day(stored).isoformat() if self.kind == "date" else f"{stored:g}"

    @property
    def words(self) -> dict[str, float]:
        """What each word of a boolean column means, in lower case."""
        if not self.true:
            return dict(WORDS)
        stated = dict.fromkeys(self.true, 1.0) | dict.fromkeys(self.false, 0.0)
        return {"true": 1.0, "false": 0.0} | {word.lower(): value for word, value in stated.items()}

    def words_for(self, meaning: bool) -> str:
        """Return the words of a boolean column that mean true, or false, separated by commas.

        Args:
            meaning: true or false.
        """
        return ", ".join(word for word, value in self.words.items() if value == meaning and not word.endswith(".0"))

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the column as it is stored: of its values, of 0 and 1, or of the codes of its levels."""
        if self.kind == "category":
            return 0.0, float(max(len(self.levels) - 1, 1))
        if isinstance(self.lower, date) and isinstance(self.upper, date):
            return 0.0, float((self.upper - self.lower).days)
        return (0.0, 1.0) if self.kind == "boolean" else cast(tuple[float, float], (self.lower, self.upper))

    @property
    def stand_in(self) -> float:
        """The number that is stored for a missing value: one within the bounds, 0 or 1, or the code of a level."""
        if self.kind == "category":
            if self.missing == "category":
                return float(len(self.categories))
            if self.probabilities:
                return float(np.argmax(self.probabilities))
            return 0.0 if self.fill is None else float(self.categories.index(str(self.fill)))
        if isinstance(self.fill, date) and isinstance(self.lower, date):
            return float((self.fill - self.lower).days)
        if self.fill is not None:
            return float(cast(Any, self.fill))
        lower, upper = self.bounds
        middle = lower / 2 + upper / 2 if self.mean is None else min(max(self.mean, lower), upper)
        if self.kind == "number":
            return middle
        return float(math.floor(middle) if self.mean is None else round(middle))

    @property
    def typical(self) -> float:
        """The number at which the column is held while others vary: what stands for a missing value, or a category."""
        return 0.0 if self.missing == "category" else self.stand_in

    def _check_bounds(self) -> None:
        if self.lower is None or self.upper is None:
            needs = f"kind={self.kind!r} needs lower and upper"
            raise InvalidArgument(f"{needs}: state the bounds that are known without the data")
        lower, upper = validation.number("lower", self.lower), validation.number("upper", self.upper)
        with np.errstate(over="ignore"):
            stored = np.float32(lower), np.float32(upper)  # what records are kept in
        if lower == upper:
            raise InvalidArgument(
                f"lower={lower!r} is upper={upper!r} as well: a column that cannot vary explains nothing; leave it out"
            )
        if not (stored[0] < stored[1] and np.isfinite(stored).all()):
            raise InvalidArgument(
                f"lower={lower!r} must be < upper={upper!r}, both finite, and still apart as single-precision numbers"
            )
        if self.kind == "integer" and not (lower.is_integer() and upper.is_integer()):
            raise InvalidArgument(f"lower={lower!r} and upper={upper!r} must be whole numbers for kind='integer'")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def _check_dates(self) -> None:
        if self.lower is None or self.upper is None:
            raise InvalidArgument("kind='date' needs lower and upper: the first and the last day that count")
        lower, upper = as_date("lower", self.lower), as_date("upper", self.upper)
        if not 0 < (upper - lower).days <= MOST_DAYS:
            raise InvalidArgument(
                f"lower={lower.isoformat()} and upper={upper.isoformat()} must be days, the first one earlier, at most "
                f"{MOST_DAYS:,} apart"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def _check_format(self) -> None:
        if self.format == "":
            return
        if self.kind != "date":
            raise InvalidArgument(f"format is for kind='date', not for kind={self.kind!r}")
        stated = self.format if isinstance(cast(Any, self.format), str) else ""
        parts = re.findall("%(.?)", stated)
        days = sorted(part.lower() for part in parts if part in "dmyY")
        if days != ["d", "m", "y"] or not set(parts) <= set("dmyYHMSf%"):
            validation.refuse(
                "format", self.format, "must have %d, %m and %Y once each, as in %d/%m/%Y, and perhaps %H:%M:%S"
            )

    def _check_categories(self) -> None:
        texts = _texts("categories", self.categories)
        if len(texts) < 2 or len(set(texts)) != len(texts):
            raise InvalidArgument(f"categories={texts!r} must be at least two, each once")
        if self.missing == "category" and MISSING_CATEGORY in texts:
            raise InvalidArgument(f"categories={texts!r} must not hold {MISSING_CATEGORY!r}, which missing values get")
        object.__setattr__(self, "categories", texts)

    def _check_words(self) -> None:
        if self.true == () and self.false == ():
            return
        if self.kind != "boolean":
            raise InvalidArgument(f"true and false are for kind='boolean', not for kind={self.kind!r}")
        true, false = _texts("true", self.true), _texts("false", self.false)
        small = [word.lower() for word in (*true, *false)]
        if not true or not false or len(set(small)) != len(small):
            stated = f"true={true!r} and false={false!r}"
            raise InvalidArgument(f"{stated} must be stated together, each word once, whatever its case")
        object.__setattr__(self, "true", true)
        object.__setattr__(self, "false", false)

    def _check_law(self) -> None:
        """Check the law that missing values are integrated over."""
        problem = _no_law(self)
        if problem:
            raise InvalidArgument(problem)
        if self.missing != "integrate":
            return
        if self.kind == "category":
            stated = tuple(validation.number("probabilities", each) for each in self.probabilities)
            if len(stated) != len(self.categories) or min(stated) < 0 or abs(sum(stated) - 1) > 1e-6:
                validation.refuse("probabilities", stated, "must be one for each category, >= 0, and add up to one")
            object.__setattr__(self, "probabilities", stated)
            return
        mean = validation.number("mean", self.mean)
        lower, upper = self.bounds
        if not lower <= mean <= upper:
            validation.refuse("mean", mean, f"must be between {lower:g} and {upper:g}")
        object.__setattr__(self, "mean", mean)
        if self.kind != "boolean":
            object.__setattr__(self, "sd", validation.positive("sd", self.sd))

    def _check_missing(self) -> None:
        if self.missing == "category" and self.kind != "category":
            raise InvalidArgument(f"missing='category' is for kind='category', not for kind={self.kind!r}")
        self._check_law()
        if self.missing not in ("fill", "indicator"):
            if self.fill is not None:
                raise InvalidArgument(f"fill={self.fill!r} is for missing='fill' and missing='indicator'")
            return
        if self.fill is None:
            raise InvalidArgument(
                f"missing={self.missing!r} needs fill: the value that stands for a missing one. State it, as in "
                f"Column(..., missing={self.missing!r}, fill=...), or missing='none'"
            )
        if self.kind == "category":
            object.__setattr__(self, "fill", str(self.fill) if type(self.fill) is int else self.fill)
            validation.choice("fill", self.fill, self.categories)
        elif self.kind == "boolean":
            if self.fill not in (0, 1):  # true and false are 1 and 0
                validation.refuse("fill", self.fill, "must be true or false")
            object.__setattr__(self, "fill", bool(self.fill))
        elif self.kind == "date":
            fill = as_date("fill", self.fill)
            if not as_date("lower", self.lower) <= fill <= as_date("upper", self.upper):
                validation.refuse("fill", fill.isoformat(), "must be a day between lower and upper")
            object.__setattr__(self, "fill", fill)
        else:
            lower, upper = self.bounds
            fill = validation.number("fill", self.fill)
            if not lower <= fill <= upper:
                validation.refuse("fill", self.fill, f"must be between {lower:g} and {upper:g}")
            if self.kind == "integer" and not fill.is_integer():
                validation.refuse("fill", self.fill, "must be a whole number for kind='integer'")


def _no_law(column: Column) -> str:
    """Say what is wrong with the law that is stated for missing values; nothing if it is none or fits."""
    stated = [name for name in ("mean", "sd", "probabilities") if getattr(column, name) not in (None, ())]
    if column.missing != "integrate":
        return f"{', '.join(stated)}: only missing='integrate' has a distribution to integrate over" if stated else ""
    needed = {"category": ["probabilities"], "boolean": ["mean"], "date": []}.get(column.kind, ["mean", "sd"])
    if not needed:
        return "missing='integrate' is not for dates; convert the column to a number"
    if stated != needed:
        of_what = {"category": "those of the categories, in order", "boolean": "the probability of true"}
        what = of_what.get(column.kind, "a normal distribution truncated at the bounds")
        return f"missing='integrate' needs {' and '.join(needed)} for kind={column.kind!r}: {what}"
    return ""


def as_date(name: str, stated: Any) -> date:
    """Return a day, given as one or as a text like 2024-02-29."""
    try:
        found = date.fromisoformat(stated) if isinstance(stated, str) else stated
    except ValueError:
        found = None
    if type(found) is not date:
        validation.refuse(name, stated, "must be a day, as in 2024-02-29")
    return found


def _is_text(each: Any) -> bool:
    """Return whether something is a text or a whole number, NumPy's own among them; true and false are neither."""
    return isinstance(each, str) or (isinstance(each, Integral | int) and not isinstance(each, bool))


def _texts(name: str, stated: Any) -> tuple[str, ...]:
    """Return a list of texts, and of whole numbers as their digits, after refusing others."""
    if not isinstance(stated, list | tuple) or not all(map(_is_text, cast(Sequence[Any], stated))):
        example = f', as in {name} = ["{stated}"]' if isinstance(stated, str) else ""
        validation.refuse(name, cast(Any, stated), f"must be a list of texts{example}")
    texts = tuple(str(each) for each in cast(Sequence[Any], stated))
    if any(each != each.strip() or not each for each in texts):
        raise InvalidArgument(f"{name}={texts!r} must not be blank nor begin or end with a space")
    return texts
