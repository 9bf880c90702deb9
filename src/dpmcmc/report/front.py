"""What stands on top of the page: what was found in one sentence, and the coefficients in one picture."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from dpmcmc.model import FormulaModel
from dpmcmc.report.chart import WIDTH, shortened, ticks, written
from dpmcmc.report.parameters import Units

ROW, MARGIN, MOST_LETTERS, LETTER = 24, 14, 28, 8.4
"""Units of a row, around it, letters of a name that stand beside it, and units of a letter."""

AXIS = 230
"""Units that the axis has at least, however long the names are."""

MOST_ROWS, MOST_NAMED = 60, 4


class Row(NamedTuple):
    """One coefficient with its 90 % interval."""

    name: str
    low: float
    mean: float
    high: float


class Forest(NamedTuple):
    """Intervals of all coefficients on one axis, as they are and, where that means something, exponentiated."""

    plain: Markup
    ratios: Markup
    words: str
    """What the exponentials are: odds ratios, ratios of means; empty where they mean nothing."""


def found(table: pd.DataFrame, model: FormulaModel | None, verdict: str) -> str:
    """Say in one sentence which coefficients differ from zero, and in which direction."""
    if verdict == "bad":
        return "Do not rely on this result or on any of its estimates."
    if model is None:
        return f"The posterior of {len(table)} {'number' if len(table) == 1 else 'numbers'} was estimated."
    slopes = [name for name in model.coordinates.read_names if name in table.index and name != "intercept"]
    if not slopes:
        return f"The posterior of {model.response}, without predictors, was estimated."
    bad = [name for name in slopes if "verdict" in table and table.loc[name, "verdict"] == "bad"]
    if not bad:
        return _differences(table, slopes, model.response)
    warning = f"Do not rely on the {'estimates' if len(bad) > 1 else 'estimate'} of {_listed(bad)}."
    rest = [name for name in slopes if name not in bad]
    return f"{_differences(table, rest, model.response)} {warning}" if rest else warning


def _differences(table: pd.DataFrame, slopes: Sequence[str], response: str) -> str:
    """Say which of some coefficients differ from zero."""
    intervals = {row.name: row for row in _rows(table, slopes)}
    above = [name for name in slopes if intervals[name].low > 0]
    below = [name for name in slopes if intervals[name].high < 0]
    seen = len(above) + len(below)
    parts = [f"{_listed(names)} ({sign})" for names, sign in ((above, "positive"), (below, "negative")) if names]
    if not parts:
        return (
            f"Of the {_counted(len(slopes))} of {response}, none clearly differs from zero: all 90 % intervals "
            "contain it."
        )
    all_or_some = f"all {seen}" if seen == len(slopes) else str(seen)
    rest = "" if seen == len(slopes) else f"; the other {_do(len(slopes) - seen)} not"
    if len(slopes) == 1:
        return f"The coefficient of {parts[0]} clearly differs from zero: its 90 % interval does not contain it."
    told_of = f"{all_or_some} clearly {'differs' if seen == 1 else 'differ'} from zero: {', '.join(parts)}{rest}"
    return f"Of the {_counted(len(slopes))} of {response}, {told_of}."


def forests(units: Sequence[Units], model: FormulaModel | None) -> dict[str, Forest | None]:
    """Return the forest plot in each of the units, by their key."""
    return {each.key: forest(each.table, model) for each in units}


def forest(table: pd.DataFrame, model: FormulaModel | None) -> Forest | None:
    """Draw the coefficients in the order of the formula, without the intercept; nothing where there is one alone."""
    names = [] if model is None else [name for name in model.coordinates.read_names if name in table.index]
    names = [name for name in names if name != "intercept"][:MOST_ROWS]
    if model is None or len(names) < 2:
        return None
    rows = _rows(table, names)
    words = model.link.ratios
    ratios = _forest(rows, words, is_log=True) if words else Markup("")
    return Forest(_forest(rows, "coefficients", is_log=False), ratios, words)


def _rows(table: pd.DataFrame, names: Sequence[str]) -> list[Row]:
    low, mean, high = (np.asarray(table.loc[list(names), column], float) for column in ("q5", "mean", "q95"))
    return [Row(name, float(low[i]), float(mean[i]), float(high[i])) for i, name in enumerate(names)]


def _forest(rows: Sequence[Row], what: str, is_log: bool) -> Markup:
    """Draw a line for each interval and a point for its mean; ratios on a logarithmic axis, around one."""
    left = LETTER * max(min(len(name), MOST_LETTERS) for name, *_ in rows) + 10
    width = max(WIDTH, round(left) + AXIS)
    low, high = min(0.0, *(row.low for row in rows)), max(0.0, *(row.high for row in rows))
    pad = 0.04 * (high - low) or 0.5
    low, high = low - pad, high + pad

    def at(value: float) -> float:
        return left + (value - low) / (high - low) * (width - left - MARGIN)

    height = ROW * len(rows) + 34
    drawn = [f'<line class="even" x1="{at(0):.1f}" x2="{at(0):.1f}" y1="2" y2="{height - 28}"/>']
    for number, (name, lower, mean, upper) in enumerate(rows):
        y = ROW * (number + 0.5) + 4
        shown = escape(shortened(name, MOST_LETTERS))
        values = [math.exp(min(one, 700.0)) if is_log else one for one in (mean, lower, upper)]
        hint = f"{name}: {values[0]:.4g}, 90 % from {values[1]:.4g} to {values[2]:.4g}"
        drawn.append(f'<text class="label" x="{left - 10:.1f}" y="{y + 5:.1f}" text-anchor="end">{shown}</text>')
        drawn.append(
            f'<line class="interval" x1="{at(lower):.1f}" x2="{at(upper):.1f}" y1="{y:.1f}" y2="{y:.1f}">'
            f"<title>{escape(hint)}</title></line>"
        )
        drawn.append(f'<circle class="mean" cx="{at(mean):.1f}" cy="{y:.1f}" r="3.5"/>')
    floor = height - 26
    drawn.append(f'<line class="axis" x1="{left:.1f}" x2="{width - MARGIN}" y1="{floor}" y2="{floor}"/>')
    for place, name in _ratio_ticks(low, high) if is_log else [(tick, written(tick)) for tick in ticks((low, high), 4)]:
        drawn.append(f'<text class="tick" x="{at(place):.1f}" y="{height - 8}" text-anchor="middle">{name}</text>')
    label = escape(
        f"Forest plot of {len(rows)} {what}. Lines are 90 % intervals, points means; the table has the numbers."
    )
    size = f'viewBox="0 0 {width} {height}"'
    return Markup(  # noqa: S704  # every text in it is escaped, and the rest are numbers and our own names
        f'<svg class="chart forest" role="img" aria-label="{label}" {size}>{"".join(drawn)}</svg>'
    )


def _ratio_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return some round ratios between the exponentials of two numbers, by their logarithms."""
    first, last = (math.floor(one / math.log(10)) for one in (max(low, -20.0), min(high, 20.0)))
    inside: list[float] = []
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        ratios = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
        inside = [ratio for ratio in ratios if low <= math.log(ratio) <= high]
        if len(inside) <= 6:
            break
    if len(inside) < 3:  # a narrow range
        inside = ticks((math.exp(max(low, -20.0)), math.exp(min(high, 20.0))), 4)
    every = -(-len(inside) // 6)
    return [(math.log(ratio), written(ratio)) for ratio in inside[::every] if ratio > 0]


def _do(number: int) -> str:
    return "one does" if number == 1 else f"{number} do"


def _counted(number: int) -> str:
    return f"{number} coefficients" if number > 1 else "coefficient"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    return shown if len(names) <= MOST_NAMED else f"{shown} and {len(names) - MOST_NAMED} more"
