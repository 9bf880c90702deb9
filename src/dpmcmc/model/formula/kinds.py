"""The kinds of responses that families need: what of a schema fits them, and how they are read and counted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.zeros import ZERO
from dpmcmc.model.formula.families.parts import SMALLEST
from dpmcmc.schema import MISSING_CATEGORY, Column

BINS, COUNT_BINS, SMALL = 64, 31, 8
"""Bins of a number's histogram; of large counts, beside the small ones that have a bin each."""

Bounds = tuple[float, float]


class Bins(NamedTuple):
    """The inner edges of the bins of a response, as it is read, and their middles."""

    edges: Floats
    middles: Floats


@dataclass(frozen=True)
class Kind:
    """One kind of response.

    Attributes:
        problem: says what a family needs instead of such a column; nothing if it fits.
        read: a number as the family has it.
        read_bounds: the bounds of what is read.
        is_number: whether it is one, so that a function of it may stand in its place.
    """

    problem: Callable[[Column, Bounds], str]
    read: Callable[[Any, Bounds], Any] = lambda value, _: value
    read_bounds: Callable[[Bounds], Bounds] = lambda bounds: bounds
    is_number: bool = False


def even_bins(low: float, high: float) -> Bins:
    """Return even bins."""
    edges = np.linspace(low, high, BINS + 1)[1:-1]
    return Bins(np.asarray(edges, np.float64), _middles(np.asarray(edges, np.float64)))


def class_bins(number: int) -> Bins:
    """Return a bin for each class."""
    return Bins(np.arange(number - 1, dtype=np.float64) + 0.5, np.arange(number, dtype=np.float64))


def count_bins(most: float) -> Bins:
    """Return a bin for each small count, and wider ones for the others."""
    small: Floats = np.arange(min(SMALL, most)) + 0.5
    first = SMALL + 0.5
    large: Floats = first * (max(most, first + 1) / first) ** (np.arange(float(COUNT_BINS)) / COUNT_BINS)
    edges = np.concatenate([small, large], dtype=np.float64)
    around = np.concatenate([[-0.5], edges, [most + 0.5]])
    return Bins(edges, (around[1:] + around[:-1]) / 2)


def zero_bins(low: float, high: float) -> Bins:
    """Return a bin for zero, and even ones for the others."""
    edges = np.append(ZERO / 2, np.linspace(low, high, BINS)[1:-1])
    return Bins(edges, np.append(ZERO, _middles(edges[1:])))


def _middles(edges: Floats) -> Floats:
    width = edges[1] - edges[0]
    return np.append(edges - width / 2, edges[-1] + width / 2)


def words(column: Column) -> str:
    """Return what a column is, in words."""
    if column.kind == "category":
        return f"a category with {len(column.levels)} levels"
    if column.kind == "boolean":
        return "a boolean"
    lower, upper = column.bounds
    kind = {"integer": "an integer", "date": "a date of days"}.get(column.kind, "a number")
    return f"{kind} between {lower:g} and {upper:g}"


def _is_numeric(column: Column) -> bool:
    return column.kind in {"number", "integer", "date"}


def _number(column: Column, _: Bounds) -> str:
    return "" if _is_numeric(column) else "a number or an integer"


def _positive(column: Column, bounds: Bounds) -> str:
    fits = _is_numeric(column) and bounds[0] > 0
    return (
        ""
        if fits
        else (
            "a number with lower > 0: state the smallest value that differs from zero; smaller ones are clamped to it"
            + ("; if there are zeros, use hurdle_gamma or hurdle_lognormal" if _is_numeric(column) else "")
        )
    )


def _zero_or_positive(column: Column, bounds: Bounds) -> str:
    return "" if _is_numeric(column) and bounds[0] == 0 else "a number with lower = 0"


def _share(column: Column, bounds: Bounds) -> str:
    fits = column.kind == "number" and bounds[0] > 0 and bounds[1] < 1
    return (
        ""
        if fits
        else (
            "a number with lower > 0 and upper < 1, such as 0.001 and 0.999: at zero and one there is no density, and "
            "values outside the bounds are clamped to them"
        )
    )


def _binary(column: Column, _: Bounds) -> str:
    fits = column.kind == "boolean" or (column.kind == "category" and len(column.levels) == 2)
    return "" if fits else "a boolean or a category with two levels"


def _count(column: Column, _: Bounds) -> str:
    return "" if column.kind == "integer" and column.bounds[0] >= 0 else "an integer with lower >= 0"


def _classes(column: Column, _: Bounds) -> str:
    return "" if column.kind == "category" else "a category"


def _order(column: Column, _: Bounds) -> str:
    if column.kind == "category" and MISSING_CATEGORY not in column.levels:
        return ""
    fits = column.kind == "integer" and math.isfinite(column.bounds[1] - column.bounds[0])
    return "" if fits else "a category without a level for missing values, its levels in order, or an integer"


def _log_or_zero(value: Any, bounds: Bounds) -> Any:
    return jnp.where(value > 0, jnp.log(jnp.maximum(value, SMALLEST * bounds[1])), ZERO)


def _time(column: Column, bounds: Bounds) -> str:
    fits = column.kind in {"number", "integer"} and bounds[0] >= 0
    return "" if fits else "a time with lower >= 0: no event can come before the start"


def _log_time(value: Any, bounds: Bounds) -> Any:
    return jnp.log(jnp.maximum(value, shortest(bounds)))


def shortest(bounds: Bounds) -> float:
    """Return the time as which shorter ones are read."""
    return max(bounds[0], SMALLEST * bounds[1])


def _logs(bounds: Bounds) -> Bounds:
    return math.log(bounds[0]), math.log(bounds[1])


KINDS: Mapping[str, Kind] = {
    "number": Kind(_number, is_number=True),
    "positive": Kind(_positive, lambda value, _: jnp.log(value), _logs, is_number=True),
    "zero_or_positive": Kind(
        _zero_or_positive, _log_or_zero, lambda bounds: _logs((SMALLEST * bounds[1], bounds[1])), is_number=True
    ),
    "share": Kind(
        _share,
        lambda value, _: jnp.log(value) - jnp.log1p(-value),
        lambda bounds: (float(special.logit(bounds[0])), float(special.logit(bounds[1]))),
        is_number=True,
    ),
    "binary": Kind(_binary),
    "count": Kind(_count),
    "proportion": Kind(_count),
    "classes": Kind(_classes),
    "order": Kind(_order),
    "survival": Kind(_time, _log_time, lambda bounds: _logs((shortest(bounds), bounds[1]))),
}
"""All kinds by name."""
