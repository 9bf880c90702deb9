"""What a formula's posterior predicts over the range of each predictor that its owner stated: public all through.

The expected response, and around it the posterior predictive distribution: what a new record's response would be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from markupsafe import Markup

from dpmcmc.column import Column
from dpmcmc.model import FormulaModel
from dpmcmc.report.chart import Chart
from dpmcmc.report.pictures import CHAIN_STYLES
from dpmcmc.report.survival import MOST_CURVES, some_values, survival_chart

POINTS = 31
MOST_DRAWS = 400
RESPONSES = 10
"""New responses for each draw that is taken."""

QUANTILES = (0.05, 0.5, 0.95)
MOST_LEVELS = 8
MOST_CLASSES = 6


@dataclass(frozen=True)
class Prediction:
    """The expected response over one predictor, the others held."""

    name: str
    chart: Markup
    held: str


def predictions(model: FormulaModel, draws: Mapping[str, np.ndarray]) -> list[Prediction]:
    """Return a chart for each column that the formula reads; draws as (chain, draw, ...)."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    every = max(1, len(next(iter(flat.values()))) // MOST_DRAWS)
    flat = {name: values[::every] for name, values in flat.items()}
    trials = model.coordinates.response.trials
    columns = {name: model.known[name] for name in _in_order(model)}
    varied = [name for name in columns if name != trials and _is_few(columns[name])]
    if model.law.survival is not None:
        return [_survival(model, flat, name, columns) for name in varied]
    return [_prediction(model, flat, name, columns) for name in varied]


def _in_order(model: FormulaModel) -> list[str]:
    """Return the columns in the order in which the formula names them; those that no term reads come last."""
    places: dict[str, int] = {}
    for place, block in enumerate(model.coordinates.design.blocks):
        for name in block.block.term.columns:
            places.setdefault(name, place)
    return sorted(model.predictor_columns, key=lambda name: places.get(name, len(places)))


def _survival(
    model: FormulaModel, draws: Mapping[str, np.ndarray], name: str, columns: Mapping[str, Column]
) -> Prediction:
    values = some_values(columns[name], _levels(columns[name]))
    held = {other: column.typical for other, column in columns.items()}
    chart = survival_chart(model, draws, name, values, held, QUANTILES)
    words = ", ".join(f"{other} {_words(columns[other])}" for other in columns if other != name)
    said = f"Curves in their order: {name} {', '.join(list(values)[:MOST_CURVES])}."
    return Prediction(name, chart, " ".join(part for part in (_caption(words, ""), said) if part))


def _prediction(
    model: FormulaModel, draws: Mapping[str, np.ndarray], name: str, columns: Mapping[str, Column]
) -> Prediction:
    column = columns[name]
    levels = _levels(column)
    places = np.arange(len(levels)) if levels else np.linspace(*column.bounds, POINTS)
    if column.kind in {"integer", "date"} and not levels:
        places = np.unique(np.round(places))
    records = {other: np.full(len(places), columns[other].typical) for other in columns}
    records[name] = places.astype(float)
    predicted = np.asarray(model.predict(draws, records), float)
    classes = model.classes[1:2] if predicted.ndim == 2 and model.classes else model.classes
    if predicted.ndim == 2:
        predicted = predicted[..., None]
    low, middle, high = np.quantile(predicted, QUANTILES, axis=0)
    least, _, most = (low, middle, high) if model.classes else _new_responses(model, draws, records)
    reach = (float(least.min()), float(most.max()))
    margin = 0.06 * (reach[1] - reach[0]) or 0.5
    limits = (-0.4, len(levels) - 0.6) if levels else (float(places[0]), float(places[-1]))
    unit = f" ({column.unit})" if column.unit else ""
    if column.kind == "date":
        unit = f" (days since {column.in_words(0.0)})"
    words = _response(model, classes)
    chart = Chart(limits, (reach[0] - margin, reach[1] + margin), f"{name}{unit}", words, x_names=levels)
    if not model.classes and levels:
        for place in range(len(levels)):
            said = f"90 % of new responses are from {least[place]:.4g} to {most[place]:.4g}"
            chart.whisker(place, float(least[place]), float(most[place]), "new", said)
    elif not model.classes:
        chart.area(places, least, most, "new")
    for number in range(min(predicted.shape[2], MOST_CLASSES)):
        _draw(chart, places, (low[:, number], middle[:, number], high[:, number]), bool(levels), number)
    if not levels:
        new = {} if model.classes else {"new responses from": least, "up to": most}
        chart.read(places, name, **{words: middle[:, 0], "from": low[:, 0], "to": high[:, 0]}, **new)
    said = f"At {_place(column, places, 0)} the median is {middle[0, 0]:.4g}, at {_place(column, places, -1)} "
    sentence = f"{said}{middle[-1, 0]:.4g}."
    held = ", ".join(f"{other} {_words(columns[other])}" for other in columns if other != name)
    legend = ", ".join(classes[:MOST_CLASSES]) if len(classes) > 1 else ""
    return Prediction(name, chart.svg(f"{words[0].upper()}{words[1:]}, over {name}", sentence), _caption(held, legend))


def _new_responses(
    model: FormulaModel, draws: Mapping[str, np.ndarray], records: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the quantiles of new responses at each record; simulated for the picture, so their key is no secret."""
    many = {name: np.repeat(values, RESPONSES, axis=0) for name, values in draws.items()}
    low, middle, high = np.quantile(np.asarray(model.respond(jax.random.key(0), many, records)), QUANTILES, axis=0)
    return low, middle, high


def _response(model: FormulaModel, classes: Sequence[str]) -> str:
    """Say what is predicted."""
    if not classes:
        return f"expected {model.coordinates.response.label}"
    if len(classes) > 1:
        return f"probability of each {model.response}"
    is_boolean = model.known[model.response].kind == "boolean"
    return f"probability of {model.response}" + ("" if is_boolean else f" {classes[0]}")


def _draw(
    chart: Chart, places: np.ndarray, lines: tuple[np.ndarray, np.ndarray, np.ndarray], is_levels: bool, number: int
) -> None:
    low, middle, high = lines
    style = f"chain{number % CHAIN_STYLES}"
    if not is_levels:
        chart.area(places, low, high, f"band {style}")
        chart.line(places, middle, f"rank {style}")
        return
    for place, (bottom, centre, top) in enumerate(zip(low, middle, high, strict=True)):
        at = place + 0.12 * number
        said = f"median {centre:.4g}, 90 % from {bottom:.4g} to {top:.4g}"
        chart.whisker(at, float(bottom), float(top), f"whisker {style}", said)
        chart.dot(at, float(centre), f"spot {style}", said)


def _caption(held: str, legend: str) -> str:
    parts = [f"Held: {held}." if held else "", f"Classes in the order of the lines: {legend}." if legend else ""]
    return " ".join(part for part in parts if part)


def _is_few(column: Column) -> bool:
    return column.kind != "category" or len(column.levels) <= MOST_LEVELS


def _levels(column: Column) -> tuple[str, ...]:
    if column.kind == "boolean":
        return ("false", "true")
    return tuple(column.levels) if column.kind == "category" else ()


def _words(column: Column) -> str:
    levels = _levels(column)
    return levels[int(column.typical)] if levels else column.in_words(column.typical)


def _place(column: Column, places: np.ndarray, at: int) -> str:
    return _levels(column)[at] if _levels(column) else column.in_words(float(places[at]))
