"""Draws of some numbers as a table: mean, standard deviation and the interval that holds a share of them."""

from typing import Any

import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable

PROB = 0.9
"""How much an interval holds unless something else is stated."""


def quantile_names(prob: float) -> tuple[str, str]:
    """Return what the ends of an interval are called: q5 and q95 for 90 %."""
    share = validation.probability("prob", prob)
    return f"q{_percent(50 * (1 - share))}", f"q{_percent(50 * (1 + share))}"


def _percent(value: float) -> str:
    return f"{round(value, 3):g}"


def interval(values: Any, prob: float) -> tuple[Any, Any]:
    """Return the ends of the central interval along the first axis."""
    tail = (1 - validation.probability("prob", prob)) / 2
    low, high = np.quantile(np.asarray(values, float), (tail, 1 - tail), axis=0)
    return low, high


def summarise_draws(values: Any, prob: float, index: pd.Index | list[Any] | None = None) -> SummaryTable:
    """Return a row for each number of an array (draw, number): mean, sd, and the ends of the interval."""
    drawn = np.asarray(values, float)
    low, high = quantile_names(prob)
    lower, upper = interval(drawn, prob)
    spread = np.std(drawn, axis=0, ddof=1) if len(drawn) > 1 else np.full(drawn.shape[1:], np.nan)
    return SummaryTable({"mean": np.mean(drawn, axis=0), "sd": spread, low: lower, high: upper}, index=index)
