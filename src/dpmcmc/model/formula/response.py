"""The response of a formula: checked against the schema, and read from a record as the family needs it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.columns import Category, Columns, Record
from dpmcmc.model.formula.families.family import Family
from dpmcmc.model.formula.followed import read_followed
from dpmcmc.model.formula.kinds import KINDS, Bins, class_bins, count_bins, even_bins, words, zero_bins
from dpmcmc.model.formula.parse import Parsed
from dpmcmc.model.formula.transforms import Transform
from dpmcmc.model.missing import is_missing
from dpmcmc.schema import Column

NEAR = 2e-4
"""What of their range numbers are at most from their bound to lie there: they are read in single precision."""


@dataclass(frozen=True)
class Response:
    """A response.

    Attributes:
        transform: the column, or a function of it that is the response.
        needs: what kind of response the family needs.
        kind: what its column holds, as the schema says.
        classes: its classes, where it has some; the first one is "no" for a binary response.
        centre: what is taken off, before it is
        half: divided by this; 0 and 1 for all that is no number.
        trials: the column with the number of trials, or that number.
        most_trials: the largest number of trials; 1 where there are none.
        read: reads it from a record.
        read_trials: reads the number of trials.
        weights: the column with the weight of a row, should there be one.
        most_weight: the largest weight.
        read_weight: reads it.
        event: the column that says whether the event was seen at the time, where that is the response.
        entry: the column from which on a row was under observation.
        required: the columns without which a row says nothing: its own, those of the trials, the weights, the event and
            the entry, less those in which missing is a category like any other.
    """

    transform: Transform
    needs: str
    kind: str
    classes: tuple[str, ...]
    centre: float
    half: float
    trials: str | int | None
    most_trials: float
    read: Callable[[Record], jax.Array]
    read_trials: Callable[[Record], jax.Array]
    weights: str | None
    most_weight: float
    read_weight: Callable[[Record], jax.Array]
    required: tuple[str, ...]
    event: str | None = None
    entry: str | None = None

    @property
    def name(self) -> str:
        """Its column."""
        return self.transform.column

    @property
    def label(self) -> str:
        """How it is written in the formula."""
        return self.transform.text

    @property
    def is_log(self) -> bool:
        """Whether it is the natural logarithm of its column, in any unit."""
        unit = r"(\s*[*/]\s*[0-9.eE+]+)?"
        return re.fullmatch(rf"log\({re.escape(self.name)}{unit}\)", self.label) is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """Its bounds."""
        return self.transform.bounds

    @property
    def read_bounds(self) -> tuple[float, float]:
        """Its bounds as it is read."""
        low, high = ((bound - self.centre) / self.half for bound in self.bounds)
        if self.needs == "survival" and self.kind == "integer":
            low = max(low, HALF_A_UNIT / 2)  # no time is read as this one, and so none lies at the bound
        return KINDS[self.needs].read_bounds((low, high))

    @property
    def has_entry(self) -> bool:
        """Whether rows may have come under observation after the start."""
        return self.entry is not None

    @property
    def own(self) -> tuple[str, ...]:
        """The columns that it is made of, with the weights: a row to predict for needs none of them."""
        return tuple(name for name in (self.name, self.event, self.entry, self.weights) if name is not None)

    def followed(self, times: jax.Array) -> dict[str, jax.Array]:
        """Return the other columns of times that were drawn: all rows are there from the start until the last time."""
        columns: dict[str, jax.Array] = {}
        if self.event is not None:
            columns[self.event] = (times < self.bounds[1]).astype(jnp.float32)
        if self.entry is not None:
            columns[self.entry] = jnp.zeros_like(times)
        return columns

    @cached_property
    def bins(self) -> Bins:
        """The bins of its histogram."""
        if self.classes:
            return class_bins(len(self.classes))
        if self.needs == "count":
            return count_bins(self.bounds[1])
        if self.needs == "survival":  # those with an event first
            low, high = self.read_bounds
            return even_bins(low, 2 * high - low)
        if self.needs == "zero_or_positive":
            return zero_bins(*self.read_bounds)
        return even_bins(*((0.0, 1.0) if self.needs == "proportion" else self.read_bounds))

    def measure(self, record: Record) -> jax.Array:
        """Return what is counted in the histogram: of successes the share of the trials.

        A time that is censored counts as much longer as all times are apart.
        """
        if self.needs == "survival":
            (low, high), (log_time, event, _) = self.read_bounds, self.read(record)
            near = NEAR * (high - low)  # the last times with an event are not among the first without
            return jnp.clip(log_time, low + near, high - near) + jnp.where(event > 0, 0.0, high - low)
        value = self.read(record).astype(jnp.float32)
        return value / jnp.maximum(self.read_trials(record), 1.0) if self.needs == "proportion" else value

    @property
    def has_ends(self) -> tuple[bool, bool]:
        """Whether what is measured can have been clamped at its lower bound, and at its upper one.

        No count of zero was, nor a number that is zero for a reason of its own. A time without an event is censored at
        a bound like anywhere else.
        """
        is_number = self.needs in {"number", "positive", "share", "survival"}
        return is_number, is_number or self.needs in {"count", "zero_or_positive"}

    def at_ends(self, record: Record) -> jax.Array:
        """Say whether what is measured lies at its lower bound, and at its upper one, if it can have been clamped."""
        low, high = (0.0, self.bounds[1]) if self.needs == "count" else self.read_bounds
        near = NEAR * (high - low)
        if self.needs == "survival":
            log_time, event, _ = self.read(record)
            return jnp.stack([log_time <= low + near, log_time >= high - near]) & (event > 0)
        value = self.measure(record)
        return jnp.stack([value <= low + near, value >= high - near]) & np.array(self.has_ends)

    def is_there(self, record: Record) -> jax.Array:
        """Say whether a row of a table has a response. Records that say nothing of missing cells have one."""
        missing = jnp.bool_(False)
        for name in self.required:
            missing = missing | is_missing(name, record)
        return ~missing

    def stored(self, value: jax.Array) -> jax.Array:
        """Return drawn responses as a table holds them: within the bounds, and whole where they must be."""
        if self.kind == "category":
            return value.astype(jnp.int32)
        lower, upper = self.transform.column_bounds
        if self.classes and self.kind == "integer":
            shifted = value + lower
        else:
            shifted = self.transform.inverse(jnp.clip(self.centre + self.half * value, *self.bounds))
        kept = jnp.clip(shifted, lower, upper)
        return kept.astype(jnp.float32) if self.kind == "number" else jnp.round(kept).astype(jnp.float32)


HALF_A_UNIT = 0.5
"""As what a time of zero is read where times are whole numbers: the event came within the first unit."""


def read_response(
    transform: Transform,
    parsed: Parsed,
    family: Family,
    columns: Columns,
    *,
    has_constant: bool,
) -> Response:
    """Return how a response that fits its family is read. A number is centred if the design has the constant in it."""
    trials, weights = parsed.trials, parsed.weights
    name, column, kind = transform.column, columns[transform.column], KINDS[family.response]
    lower, upper = transform.bounds
    centre, half = 0.0, 1.0
    if family.response == "number":
        centre, half = ((lower + upper) / 2, (upper - lower) / 2) if has_constant else (0.0, max(-lower, upper))
    is_class = family.response in {"classes", "order"} or column.kind == "category"
    category = columns.category(name) if is_class else None
    number, most, read_trials = _trials(trials, columns)
    if family.most_trials is not None and most > family.most_trials:
        validation.refuse(
            "family", family.name, f"has at most {family.most_trials:g} trials, not {most:g}; take binomial"
        )

    also = None if parsed.event is None else read_followed(name, parsed.event, parsed.entry, family, columns)

    def read(record: Record) -> jax.Array:
        if category is not None:
            code = jnp.clip(category.code(record), 0, len(category.levels) - 1)
            return code.astype(jnp.float32) if family.response == "binary" else code
        value = transform.forward(columns.number(name, record))
        if family.response == "survival" and column.kind == "integer":
            value = jnp.maximum(value, HALF_A_UNIT)
        if family.response == "number":
            return (value - centre) / half
        if family.response == "proportion":
            return jnp.minimum(value, read_trials(record))
        read_value = kind.read(value, transform.bounds)
        return read_value if also is None else jnp.stack([read_value, *also(record)])

    most_weight, read_weight = _weights(weights, columns)
    beside = (number if isinstance(number, str) else None, weights, parsed.event, parsed.entry)
    parts = [name, *(part for part in beside if part is not None)]
    required = tuple(part for part in parts if columns[part].missing != "category")
    return Response(
        transform=transform,
        needs=family.response,
        kind=column.kind,
        classes=_classes(column, category),
        centre=centre,
        half=half,
        trials=number,
        most_trials=most,
        read=read,
        read_trials=read_trials,
        weights=weights,
        most_weight=most_weight,
        read_weight=read_weight,
        required=required,
        event=parsed.event,
        entry=parsed.entry,
    )


def _classes(column: Column, category: Category | None) -> tuple[str, ...]:
    if category is not None:
        return category.levels
    return ("False", "True") if column.kind == "boolean" else ()


def _trials(trials: str | None, columns: Columns) -> tuple[str | int | None, float, Callable[[Record], jax.Array]]:
    if trials is None:
        return None, 1.0, lambda _: jnp.float32(1.0)
    if trials.isdigit():
        number = validation.integer("trials", int(trials), at_least=1)
        return number, float(number), lambda _: jnp.float32(number)
    column = columns[trials]
    if column.kind != "integer" or column.bounds[0] < 0:
        raise InvalidArgument(
            f"trials({trials}) is {words(column)}; expected a number, or an integer column with lower >= 0"
        )
    return trials, column.bounds[1], lambda record: columns.number(trials, record)


def _weights(weights: str | None, columns: Columns) -> tuple[float, Callable[[Record], jax.Array]]:
    """Return the largest weight of a row, and how it is read."""
    if weights is None:
        return 1.0, lambda _: jnp.float32(1.0)
    column = columns[weights]
    if column.kind not in {"number", "integer"} or column.bounds[0] < 0:
        raise InvalidArgument(f"weights({weights}) is {words(column)}; expected a number or an integer with lower >= 0")
    return column.bounds[1], lambda record: columns.number(weights, record)
