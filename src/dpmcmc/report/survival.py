"""Survival curves of a formula's posterior, over the time that its owner stated: public all through."""

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from dpmcmc.column import Column
from dpmcmc.model import FormulaModel
from dpmcmc.report.chart import Chart
from dpmcmc.report.pictures import CHAIN_STYLES

POINTS = 41
MOST_CURVES = 6


def survival_chart(
    model: FormulaModel,
    draws: Mapping[str, np.ndarray],
    name: str,
    values: Mapping[str, float],
    held: Mapping[str, float],
    quantiles: tuple[float, float, float],
) -> Markup:
    """Return a chart with a curve, in a band, for each of some values of a column; the others are held.

    Args:
        model: the formula's.
        draws: by parameter, (draw, ...).
        name: the column.
        values: of the column, by what they are called.
        held: where all columns are held.
        quantiles: of the bands, and of the curves between.
    """
    last, response = model.coordinates.response.bounds[1], model.response
    times = np.linspace(0.0, last, POINTS)
    shown = dict(list(values.items())[:MOST_CURVES])
    records = {column: np.full(len(shown), value) for column, value in held.items()}
    records[name] = np.array(list(shown.values()), float)
    low, middle, high = np.quantile(np.asarray(model.survival(draws, records, times), float), quantiles, axis=0)
    unit = model.known[response].unit
    chart = Chart((0.0, last), (0.0, 1.0), f"{response} ({unit})" if unit else response, "no event so far")
    for number in range(len(shown)):
        style = f"chain{number % CHAIN_STYLES}"
        chart.area(times, low[number], high[number], f"band {style}")
        chart.line(times, middle[number], f"rank {style}")
    chart.read(times, response, **{f"{name} {label}": middle[number] for number, label in enumerate(shown)})
    ends = ", ".join(f"{label} {middle[number, -1]:.3g}" for number, label in enumerate(shown))
    return chart.svg(f"Probability of no event so far, by {name}", f"At {last:g} the medians are: {ends}.")


def some_values(column: Column, levels: tuple[str, ...]) -> dict[str, float]:
    """Return values of a column for which curves are drawn: its levels, or its quarters."""
    if levels:
        return {level: float(place) for place, level in enumerate(levels)}
    lower, upper = column.bounds
    found = [lower + share * (upper - lower) for share in (0.25, 0.5, 0.75)]
    found = [float(round(each)) for each in found] if column.kind == "integer" else found
    return {f"{each:g}": each for each in dict.fromkeys(found)}
