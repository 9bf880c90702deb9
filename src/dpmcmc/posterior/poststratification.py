"""From a fit to a population: expected responses of its cells, weighted by how many people are in each."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.errors import InvalidArgument
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import summarise_draws
from dpmcmc.posterior.new_rows import read_other_columns, read_rows

WHOLE = "population"
"""What the row of the whole population is called."""


def poststratify(fitted: Fitted, population: Any, count: str, by: str | Sequence[str], prob: float) -> SummaryTable:
    """Return a row for each group of cells; `Predictive.poststratify` says what the arguments are."""
    rows = read_rows(population, fitted.model, fitted.schema)
    names = [by] if isinstance(by, str) else list(by)
    if count in names:
        raise InvalidArgument(f"by={count!r} is the column of counts; expected other columns of the population")
    beside: Any = read_other_columns(population, [count, *names], fitted.schema)
    counts: np.ndarray = np.asarray(pd.to_numeric(beside[count], errors="coerce"), float)
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0):
        raise InvalidArgument(f"count={count!r} must be a column of numbers from zero up, some of them above zero")
    share = f"{100 * validation.probability('prob', prob):g} %"
    drawn = fitted.means(rows)
    if drawn.ndim > 2:
        raise InvalidArgument(
            f"the response {fitted.model.response!r} has {drawn.shape[2]} classes; poststratify takes a response with "
            "one expected value, or two classes"
        )
    if names:
        blank = [name for name in names if beside[name].isna().any()]
        if blank:
            raise InvalidArgument(f"by={', '.join(blank)} has blank cells; expected a value in each")
        groups: dict[Any, Any] = beside.groupby(names if len(names) > 1 else names[0], sort=False).indices
    else:
        groups = {WHOLE: np.arange(len(counts))}
    kept: dict[Any, Any] = {label: places for label, places in groups.items() if counts[places].sum() > 0}
    values = np.stack([_mean(drawn[:, places], counts[places]) for places in kept.values()], axis=1)
    labels = list(kept)
    index = pd.MultiIndex.from_tuples(labels, names=names) if len(names) > 1 else pd.Index(labels)
    table = summarise_draws(values, prob, index)
    return titled(table, f"{fitted.target[:1].upper()}{fitted.target[1:]} in the population, with {share} intervals")


def _mean(drawn: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return drawn @ (counts / counts.sum())
