"""How the response changes with one column, the others held or averaged over; and the difference of two values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.errors import InvalidArgument
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import summarise_draws
from dpmcmc.posterior.new_rows import NewRows, needed, read_rows
from dpmcmc.posterior.predictions import capitalised, table_of
from dpmcmc.posterior.structure import written
from dpmcmc.schema import MISSING_CATEGORY, Column

POINTS = 31
"""How many values of a number are looked at."""

MOST_ROWS = 4096
"""How many rows are predicted at once."""

Profile = Mapping[str, Any]


def effects(
    fitted: Fitted, name: str, by: str | None, at: Profile, rows: Any, values: Sequence[Any] | None, prob: float
) -> SummaryTable:
    """Return the expected response over a column; `Predictive.effects` says what the arguments are."""
    varied = {name: _values(fitted, name) if values is None else list(values)}
    if by is not None:
        varied[by] = _values(fitted, by, few=True)
    combinations = [dict(zip(varied, chosen, strict=True)) for chosen in product(*varied.values())]
    drawn = _averages(fitted, fitted.means, combinations, at, rows)
    index = pd.MultiIndex.from_tuples([tuple(each.values()) for each in combinations], names=list(varied))
    table = table_of(fitted, drawn, index, prob).reset_index()
    return titled(table, f"{capitalised(fitted.target)}; {held_words(fitted, varied, at, rows)}")


def contrast(fitted: Fitted, name: str, first: Any, second: Any, at: Profile, rows: Any, prob: float) -> SummaryTable:
    """Return by how much the response is higher at one value than at another, on every scale that it has."""
    pair = [{name: first}, {name: second}]
    link = fitted.model.link
    found: dict[str, np.ndarray] = {}
    higher: dict[str, np.ndarray] = {}
    if link.ratio:
        drawn = _averages(fitted, fitted.predictors, pair, at, rows)
        for label, change in _by_class(drawn[:, 0] - drawn[:, 1], fitted.model.classes[1:]):
            found |= {f"{label}{link.predictor}": change, f"{label}{link.ratio}": np.exp(change)}
            higher |= {f"{label}{link.predictor}": change > 0, f"{label}{link.ratio}": change > 0}
    drawn = _averages(fitted, fitted.means, pair, at, rows)
    for label, change in _by_class(drawn[:, 0] - drawn[:, 1], fitted.model.classes):
        scale = f"P({label.removesuffix(': ')})" if label else fitted.target
        found[scale], higher[scale] = change, change > 0
    table = summarise_draws(np.stack(list(found.values()), axis=1), prob, list(found))
    table["P(higher)"] = [float(np.mean(each)) for each in higher.values()]
    return titled(table, f"{name}: {first} against {second}; {held_words(fitted, pair[0], at, rows)}")


def _by_class(values: np.ndarray, classes: Sequence[str]) -> Iterator[tuple[str, np.ndarray]]:
    if values.ndim == 1:
        yield "", values
        return
    yield from ((f"{label}: ", values[:, place]) for place, label in enumerate(classes))


def _averages(
    fitted: Fitted, predicted: Callable[[NewRows], np.ndarray], combinations: Sequence[Profile], at: Profile, rows: Any
) -> np.ndarray:
    """Return what is predicted at each combination: of one row that is held, or averaged over rows; (draw, each, ...).

    Args:
        fitted: the model with its draws.
        predicted: what is predicted, for each draw and row.
        combinations: the columns that are varied, with their values.
        at: where others are held.
        rows: the rows to average over, if any.
    """
    _check(fitted, at, combinations[0])
    if rows is not None:
        base = read_rows(rows, fitted.model, fitted.schema).frame
    else:
        base = pd.DataFrame([{name: _held(fitted.schema.columns[name]) for name in _columns(fitted)}])
    step = max(1, MOST_ROWS // len(base))
    parts: list[np.ndarray] = []
    for start in range(0, len(combinations), step):
        some = combinations[start : start + step]
        table = pd.concat([_replaced(base, {**at, **each}) for each in some], ignore_index=True)
        found = predicted(read_rows(table, fitted.model, fitted.schema))
        parts.append(np.mean(found.reshape(len(found), len(some), len(base), *found.shape[2:]), axis=2))
    return np.concatenate(parts, axis=1)


def _replaced(base: pd.DataFrame, cells: Profile) -> pd.DataFrame:
    """Return rows with some cells replaced; columns become texts and objects, so that nothing is converted."""
    made = base.astype(object)
    for name, value in cells.items():
        made[name] = pd.Series([_cell(value)] * len(base), index=base.index, dtype=object)
    return made


def _check(fitted: Fitted, at: Profile, varied: Profile) -> None:
    known = _columns(fitted)
    unknown = [name for name in (*at, *varied) if name not in known]
    if unknown:
        raise InvalidArgument(f"the formula has no predictor {', '.join(unknown)}; it has {', '.join(known) or 'none'}")
    twice = [name for name in at if name in varied]
    if twice:
        raise InvalidArgument(f"at= fixes {', '.join(twice)}, which is varied; leave it out")


def _columns(fitted: Fitted) -> list[str]:
    return needed(fitted.model, fitted.schema)


def _values(fitted: Fitted, name: str, *, few: bool = False) -> list[Any]:
    """Return the values of a column to look at: its categories, or points between its bounds."""
    known = _columns(fitted)
    if name not in known:
        raise InvalidArgument(f"the formula has no predictor {name!r}; it has {', '.join(known) or 'none'}")
    column = fitted.schema.columns[name]
    if column.kind == "category":
        return list(column.levels)
    if column.kind == "boolean":
        return [False, True]
    places = np.linspace(*column.bounds, 5 if few else POINTS)
    places = places[1:-1] if few else places
    if column.kind == "number":
        return places.tolist()
    whole = np.unique(np.round(places)).tolist()
    return [column.day(each) for each in whole] if column.kind == "date" else whole


def _cell(value: Any) -> Any:
    return None if isinstance(value, str) and value == MISSING_CATEGORY else value


def _held(column: Column) -> Any:
    """Return where a column is held, as tables write it."""
    if column.kind == "category":
        return column.categories[int(column.typical)]
    if column.kind == "date":
        return column.day(column.typical)
    return {"boolean": bool, "integer": int, "number": float}[column.kind](column.typical)


def held_words(fitted: Fitted, varied: Mapping[str, Any], at: Profile, rows: Any) -> str:
    """Say where the other columns are held."""
    others = [name for name in _columns(fitted) if name not in varied]
    if rows is not None:
        stated = ", ".join(f"{name} {at[name]}" for name in others if name in at)
        return "averaged over the rows" + (f", with {stated}" if stated else "")
    values = {name: at.get(name, _held(fitted.schema.columns[name])) for name in others}
    shown = ", ".join(f"{name} {_word(value)}" for name, value in values.items())
    return f"held: {shown}" if shown else "it is the only predictor"


def _word(value: Any) -> str:
    return f"{value:g}" if type(value) in (int, float) else str(value)


def ratios(fitted: Fitted, per: Mapping[str, float], prob: float) -> SummaryTable:
    """Return the exponentials of the coefficients."""
    link = fitted.model.link
    if not link.ratio:
        own = f"family={fitted.model.family!r} has no ratios"
        raise InvalidArgument(f"{own}: its coefficients are {fitted.coefficients_are}; see summary()")
    found = {label: np.exp(values) for label, values in coefficients_by_label(fitted, per).items()}
    table = summarise_draws(np.stack(list(found.values()), axis=1), prob, list(found))
    return titled(table, f"{capitalised(link.ratios)} of {fitted.model.response}")


def coefficients_by_label(fitted: Fitted, per: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Return the draws of the coefficients but the intercept, per given numbers of units, by name."""
    coordinates = fitted.model.coordinates
    slopes = [name for name in coordinates.read_names if name != "intercept"]
    per = {written(fitted.model, name): units for name, units in per.items()}
    unknown = [name for name in per if name not in slopes]
    if unknown:
        raise InvalidArgument(f"per= names {', '.join(unknown)}; expected some of {', '.join(slopes)}")
    found: dict[str, np.ndarray] = {}
    for name in slopes:
        units = validation.number(f"per[{name!r}]", per.get(name, 1.0))
        for label in coordinates.labels(name):
            words = f"{label} (per {units:g})" if name in per else label
            found[words] = units * np.asarray(fitted.draws[label.replace("/", "∕")], float)
    if not found:
        raise InvalidArgument("the formula has only an intercept, so there are no ratios")
    return found
