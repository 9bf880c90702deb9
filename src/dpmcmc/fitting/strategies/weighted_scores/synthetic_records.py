"""Synthetic rows of formulas in which a column of the table stands more than once: curves, dates, products.

Columns of a design that are made of the same column of the table belong together: January is no day in July, and all
sines of a curve are of one number. So values are drawn for each column of the table, with weights under which what they
make has the released histograms, and rows are computed from them. Columns of the table have nothing to do with each
other.
"""

from collections import Counter
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dpmcmc.column import Column
from dpmcmc.fitting.strategies.weighted_scores.histograms import Moments
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats

PLACES = 256
"""Values of a number that are tried, at most."""

SWEEPS = 30
"""How often weights are fitted to each histogram."""

LEAST = 1e-3
"""The least share of a histogram that all its bins have together: none is ruled out by noise."""


def is_shared(regression: Regression) -> bool:
    """Say whether a column of the table is in more than one term."""
    return max(Counter(name for columns in _sources(regression) for name in columns).values(), default=0) > 1


def _sources(regression: Regression) -> list[frozenset[str]]:
    """Return the columns of the table that each term is made of, random intercepts not among them."""
    return [frozenset(block.block.term.columns) for block in regression.model.coordinates.blocks]


def joint_rows(regression: Regression, moments: Moments, number: int, rng: np.random.Generator) -> Floats:
    """Return rows of the design without random intercepts, made of columns of the table that were drawn."""
    sources, known = _sources(regression), regression.model.known
    drawn: dict[str, Floats] = {}
    for name in sorted(frozenset[str]().union(*sources)):
        values = _values(known[name])
        own = [place for place, columns in enumerate(sources) if columns == {name}]
        columns = np.flatnonzero(np.isin(regression.blocks, own))
        weights = _weights(_evaluated(regression, {name: values})[:, columns], columns, moments)
        ranks = (rng.permutation(number) + 0.5) / number
        drawn[name] = values[np.minimum(np.searchsorted(np.cumsum(weights), ranks), len(values) - 1)]
    return _evaluated(regression, drawn)


def _values(column: Column) -> Floats:
    """Return values that a column may have, over all of its bounds."""
    if column.kind == "category":
        return np.arange(len(column.levels), dtype=float)
    lower, upper = column.bounds
    if column.kind == "number":
        return lower + (np.arange(PLACES) + 0.5) / PLACES * (upper - lower)
    return np.unique(np.round(np.linspace(lower, upper, int(min(PLACES, upper - lower + 1)))))


def _weights(made: Floats, columns: Any, moments: Moments) -> Floats:
    """Return weights of values under which the columns that they make have the histograms that were released."""
    weights = np.full(len(made), 1 / len(made))
    bins, shares = (
        zip(*map(_target, made.T, columns, [moments] * len(columns)), strict=True) if len(columns) else ((), ())
    )
    for _ in range(SWEEPS):
        for which, wanted in zip(bins, shares, strict=True):
            has = np.bincount(which, weights, len(wanted))
            weights = weights * (wanted / np.maximum(has, 1e-30))[which]
            weights = weights / weights.sum()
    return weights


def _target(values: Floats, column: int, moments: Moments) -> tuple[Any, Floats]:
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
    records: dict[str, Floats] = {}
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
