"""What a formula's draws say of new rows: expected responses, new responses, simulated tables."""

from typing import Any

import numpy as np
import pandas as pd

from dpmcmc import validation
from dpmcmc.diagnostics.table import SummaryTable, titled
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.intervals import summarise_draws
from dpmcmc.posterior.new_rows import NewRows, read_rows

KINDS = ("mean", "response", "survival")
"""What may be predicted; survival is that of `posterior.survival`."""


def predict(fitted: Fitted, source: Any, kind: str, prob: float, seed: int | None) -> SummaryTable:
    """Return a row for each row, or for each row and class; `Predictive.predict` says what the arguments are."""
    validation.choice("kind", kind, KINDS)
    rows = read_rows(source, fitted.model, fitted.schema)
    share = f"{100 * validation.probability('prob', prob):g} %"
    if kind == "mean":
        return titled(mean_table(fitted, rows, prob), f"{capitalised(fitted.target)}, with {share} intervals")
    if fitted.model.classes:
        return titled(_classes(fitted, rows), f"New {fitted.model.response}: the most probable one, and how probable")
    table = summarise_draws(fitted.responses(rows, seed), prob, rows.frame.index)
    return titled(table, f"New {fitted.model.response}: {share} of them are within the interval")


def mean_table(fitted: Fitted, rows: NewRows, prob: float) -> SummaryTable:
    """Return the expected response of each row, or the probability of each class of each row."""
    return table_of(fitted, fitted.means(rows), rows.frame.index, prob)


def table_of(fitted: Fitted, drawn: np.ndarray, index: pd.Index, prob: float) -> SummaryTable:
    """Summarise draws (draw, row) or (draw, row, class)."""
    if drawn.ndim == 2:
        return summarise_draws(drawn, prob, index)
    names = [*(name or "row" for name in index.names), fitted.model.response]
    rows: list[tuple[Any, ...]] = [tuple(row) for row in index.to_frame().itertuples(index=False)]
    keys = pd.MultiIndex.from_tuples([(*row, label) for row in rows for label in fitted.model.classes], names=names)
    return summarise_draws(drawn.reshape(len(drawn), -1), prob, keys)


def _classes(fitted: Fitted, rows: NewRows) -> SummaryTable:
    """Return the most probable class of each row and the probability of every class."""
    found = fitted.probabilities(rows)
    names = fitted.model.classes
    likely = fitted.in_words(np.argmax(found, axis=1) + _first(fitted))
    shares = {f"P({name})": found[:, place] for place, name in enumerate(names)}
    return SummaryTable({fitted.model.response: likely, **shares}, index=rows.frame.index)


def _first(fitted: Fitted) -> int:
    """Return the stored value of the first class: that of ordered integers is their lower bound."""
    column = fitted.schema.columns[fitted.model.response]
    return int(column.bounds[0]) if column.kind == "integer" else 0


def simulate(fitted: Fitted, source: Any, num_draws: int, seed: int | None) -> pd.DataFrame:
    """Return the rows with a response each, drawn anew `num_draws` times."""
    rows = read_rows(source, fitted.model, fitted.schema)
    number = validation.integer("num_draws", num_draws, at_least=1)
    if number > fitted.num_draws:
        validation.refuse("num_draws", num_draws, f"must be at most {fitted.num_draws}, the draws there are")
    rng = np.random.default_rng(seed)
    chosen = rng.choice(fitted.num_draws, size=number, replace=False)
    few = Fitted(fitted.model, fitted.schema, {name: values[chosen] for name, values in fitted.draws.items()})
    responses = fitted.in_words(few.responses(rows, int(rng.integers(2**31))))
    tables = [rows.frame.assign(**{fitted.model.response: responses[place]}) for place in range(number)]
    if number == 1:
        return tables[0]
    return pd.concat([table.assign(draw=chosen[place]) for place, table in enumerate(tables)], ignore_index=True)


def capitalised(words: str) -> str:
    """Return words with a capital at the beginning."""
    return words[:1].upper() + words[1:]
