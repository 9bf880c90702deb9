"""What draws of a formula say of times to an event: survival curves of new rows, and ratios of hazards."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula.links import HAZARD, TIME
from dpmcmc.posterior.effects import coefficients_by_label
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import summarise_draws
from dpmcmc.posterior.new_rows import NewRows, read_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 61
"""How many times a curve has unless some are stated."""


def read_times(fitted: Fitted, times: Sequence[float] | None) -> np.ndarray:
    """Return the times to look at: as stated, or even ones up to the longest that is stated for the response."""
    last = fitted.model.coordinates.response.bounds[1]
    if times is None:
        return np.linspace(0.0, last, POINTS)
    found = np.array([validation.number("times", each) for each in times], float)
    if not len(found) or not np.all((found >= 0) & (found <= last)):
        validation.refuse(
            "times", list(times), f"must be times from 0 to {last:g}: after that no row was under observation"
        )
    return found


def predict(fitted: Fitted, source: Any, times: Sequence[float] | None, prob: float) -> SummaryTable:
    """Return the survival curves of rows; `Predictive.predict` says what the arguments are."""
    return survival_table(fitted, read_rows(source, fitted.model, fitted.schema), times, prob)


def survival_table(fitted: Fitted, rows: NewRows, times: Sequence[float] | None, prob: float) -> SummaryTable:
    """Return the probability that the event has not come by each time, for each row and time."""
    places = read_times(fitted, times)
    drawn = fitted.survival(rows, places)
    names = [*(name or "row" for name in rows.frame.index.names), fitted.model.response]
    each: list[tuple[Any, ...]] = [tuple(row) for row in rows.frame.index.to_frame().itertuples(index=False)]
    keys = pd.MultiIndex.from_tuples([(*row, time) for row in each for time in places.tolist()], names=names)
    table = summarise_draws(drawn.reshape(len(drawn), -1), prob, keys)
    share = f"{100 * validation.probability('prob', prob):g} %"
    return titled(table, f"Probability of no event by {fitted.model.response}, with {share} intervals")


def hazard_ratios(fitted: Fitted, per: Mapping[str, float], prob: float) -> SummaryTable:
    """Return the ratios of hazards that go with the coefficients."""
    law, others = fitted.model.law, fitted.model.coordinates.others
    if law.survival is None:
        raise InvalidArgument(f"family={law.name!r} has no hazard; expected a response such as Surv(time, event)")
    if law.link == TIME and set(others) - {"shape"}:
        raise InvalidArgument(
            f"family={law.name!r} has no hazard ratios: they change with time. odds_ratios() has the ratios of times; "
            "weibull, exponential and piecewise_exponential have proportional hazards"
        )
    power: Any = 1.0 if law.link == HAZARD else -1.0
    if "shape" in others:  # a time that is longer by a factor has the hazard that goes with the shape
        fixed = others["shape"].fixed
        power = -np.asarray(fitted.draws["shape"], float) if fixed is None else -fixed
    found = {label: np.exp(power * values) for label, values in coefficients_by_label(fitted, per).items()}
    table = summarise_draws(np.stack(list(found.values()), axis=1), prob, list(found))
    return titled(table, f"Hazard ratios of {fitted.model.response}: above one, events come earlier")


def plot_survival(fitted: Fitted, source: Any, times: Sequence[float] | None, prob: float) -> "Figure":
    """Draw a curve with its band for each row."""
    from dpmcmc.diagnostics.effect_plots import draw_curves, dress_panels, panels

    rows = read_rows(source, fitted.model, fitted.schema)
    table = survival_table(fitted, rows, times, prob).reset_index()
    name, unit = fitted.model.response, fitted.schema.columns[fitted.model.response].unit
    labels = _labels(rows.frame)
    table["rows"] = np.repeat(labels, len(table) // len(labels))
    figure, axes = panels(1)
    by = "rows" if len(labels) > 1 else None
    draw_curves(axes[0], table, name, by, f"{name} ({unit})" if unit else name, "probability of no event so far")
    axes[0].set_ylim(0.0, 1.02)
    same = [f"{column} {values[0]}" for column, values in _cells(rows.frame).items() if len(set(values)) <= 1]
    dress_panels(axes, by, f"held: {', '.join(same)}" if same else f"bands hold {100 * prob:g} %")
    return figure


def _labels(frame: pd.DataFrame) -> list[str]:
    """Return what tells the rows apart, in words."""
    differing = {column: values for column, values in _cells(frame).items() if len(set(values)) > 1}
    labels = [
        ", ".join(f"{column} {values[place]}" for column, values in differing.items()) or f"row {place}"
        for place in range(len(frame))
    ]
    is_unique = len(set(labels)) == len(labels)
    return labels if is_unique else [f"row {place}: {label}" for place, label in enumerate(labels)]


def _cells(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the columns of rows in words."""
    columns = cast(dict[Any, list[Any]], frame.to_dict(orient="list"))
    return {str(column): [str(value) for value in values] for column, values in columns.items()}
