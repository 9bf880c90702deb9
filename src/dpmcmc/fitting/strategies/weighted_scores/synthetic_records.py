"""Synthetic rows of formulas in which a column of the table stands more than once: curves, dates, products.

Columns of a design that come from the same column of the table depend on each other: a date in January is not in July,
and all sines of a curve have one argument. So values are drawn for each column of the table, with weights that
reproduce the released histograms, and rows are computed from them. Columns of the table are drawn independently.
"""

from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from dpmcmc.column import Column
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

PLACES = 256
"""Values of a number that are tried, at most."""

SWEEPS = 30
"""How often weights are fitted to each histogram."""

LEAST = 1e-4
"""The least share of a histogram that all its bins have together: none is ruled out by noise."""


def is_shared(regression: Regression) -> bool:
    """Say whether a column of the table is in more than one term."""
    return max(Counter(name for columns in _sources(regression) for name in columns).values(), default=0) > 1


def source_of(regression: Regression, column: int) -> str | None:
    """Return the column of the table that a column of the design is made of; None if there are several, or none."""
    own = _sources(regression)[regression.blocks[column]]
    return next(iter(own)) if len(own) == 1 else None


def _sources(regression: Regression) -> list[frozenset[str]]:
    """Return the columns of the table that each term is made of, random intercepts not among them."""
    return [frozenset(block.block.term.columns) for block in regression.model.coordinates.blocks]


class Places(NamedTuple):
    """Values of a column of the table, what they make of columns of the design, and the share of the rows of each."""

    values: Floats
    columns: NDArray[np.int_]
    """Those of the design that are made of this column of the table alone."""
    made: Floats
    shares: Floats


def places(regression: Regression, moments: Moments, name: str) -> Places:
    """Return values of a column of the table, with shares under which what they make has the released histograms."""
    values = _values(regression.model.known[name])
    own = [place for place, columns in enumerate(_sources(regression)) if columns == frozenset({name})]
    columns = np.flatnonzero(np.isin(regression.blocks, own))
    made = _evaluated(regression, {name: values})[:, columns]
    return Places(values, columns, made, _shares(made, columns, moments))


def with_shared(regression: Regression, moments: Moments) -> Moments:
    """Return moments that know how columns go together that are made of one date.

    A trend, years and months are nearly dependent by the calendar, however many rows a day has: their covariances are
    those of the days, and a row that tells of one of them has the others as they are there. Whether the columns of a
    curve are nearly dependent is for the rows to say, of which a noisy histogram knows too little.
    """
    counts = Counter(next(iter(columns)) for columns in _sources(regression) if len(columns) == 1)
    dates = [name for name, count in counts.items() if count > 1 and regression.model.known[name].kind == "date"]
    shared, rows = np.zeros((len(moments.means), len(moments.means))), moments.rows.copy()
    for name in dates:
        _, columns, made, shares = places(regression, moments, name)
        centred = made - shares @ made
        shared[np.ix_(columns, columns)] = (centred.T * shares) @ centred
        for column, values in zip(columns, made.T, strict=True):
            if moments.numbers[column] is None:
                weights = shares * values
            else:
                weights = np.arange(len(values)) == np.argmin(np.abs(values - moments.rows[column, column]))
            if weights.any():  # no day of a level may be among those that are tried
                rows[column, columns] = (weights / weights.sum()) @ made
    return moments._replace(rows=rows, shared=shared) if dates else moments


def joint_rows(regression: Regression, moments: Moments, number: int, rng: np.random.Generator) -> Floats:
    """Return rows of the design without random intercepts, made of columns of the table that were drawn."""
    drawn: dict[str, Floats] = {}
    for name in sorted(frozenset[str]().union(*_sources(regression))):
        values, _, _, shares = places(regression, moments, name)
        ranks = (rng.permutation(number) + 0.5) / number
        drawn[name] = values[np.minimum(np.searchsorted(np.cumsum(shares), ranks), len(values) - 1)]
    return _evaluated(regression, drawn)


def _values(column: Column) -> Floats:
    """Return values that a column may have, over all of its bounds."""
    if column.kind == "category":
        return np.arange(len(column.levels), dtype=float)
    lower, upper = column.bounds
    if column.kind == "number":
        return lower + (np.arange(PLACES) + 0.5) / PLACES * (upper - lower)
    return np.unique(np.round(np.linspace(lower, upper, int(min(PLACES, upper - lower + 1)))))


def _shares(made: Floats, columns: NDArray[np.int_], moments: Moments) -> Floats:
    """Return shares of values under which what they make has the histograms that were released."""
    shares = np.full(len(made), 1 / len(made))
    targets = [_target(values, column, moments) for values, column in zip(made.T, columns, strict=True)]
    for _ in range(SWEEPS):
        for which, wanted in targets:
            shares = shares * (wanted / np.maximum(np.bincount(which, shares, len(wanted)), 1e-30))[which]
            shares = shares / shares.sum()
    return shares


def _target(values: Floats, column: int, moments: Moments) -> tuple[NDArray[np.int_], Floats]:
    """Return in which bin of its histogram each value of a column is, and the share that each bin should have."""
    spread = moments.numbers[column]
    if spread is None:  # of a level
        mean = float(np.clip(moments.means[column], 0.0, 1.0))
        which, shares = (values > 0.5).astype(int), np.array([1 - mean, mean])
    else:
        which, shares = np.searchsorted((spread.middles[1:] + spread.middles[:-1]) / 2, values), spread.shares
    even = np.full(len(shares), 1 / len(shares))
    return which, (1 - LEAST) * np.maximum(shares, 0.0) / max(float(shares.sum()), 1e-30) + LEAST * even


def _evaluated(regression: Regression, drawn: dict[str, Floats]) -> Floats:
    """Return rows of the design at values of columns of the table; others have one that they may have."""
    sources, known = _sources(regression), regression.model.known
    number = len(next(iter(drawn.values())))
    size = -(-number // PLACES) * PLACES
    records: dict[str, Any] = {}
    for name in sorted(frozenset[str]().union(*sources)):
        values = drawn.get(name, np.full(number, _values(known[name])[0]))
        kept = np.int32 if known[name].kind == "category" else np.float32
        records[name] = np.pad(values, (0, size - number), mode="edge").astype(kept).reshape(-1, PLACES)
    parts = [
        _rows(regression)({name: values[part] for name, values in records.items()}) for part in range(size // PLACES)
    ]
    return np.concatenate([np.asarray(part, float) for part in parts])[:number]


@lru_cache(maxsize=16)
def _rows(regression: Regression) -> Any:
    return jax.jit(jax.vmap(regression.model.features))
