"""What a row counts in the histograms, however it is put together: number by number, or all numbers at once."""

import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.enclave import Sum
from dpmcmc.fitting.strategies.weighted_scores import histograms
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.schema import PRESENT

SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=-1, upper=1),
        "w": dp.Column(kind="number", lower=0, upper=10),
        "g": dp.Column(kind="category", categories=("a", "b", "c")),
        "y": dp.Column(kind="boolean"),
    }
)
SHARES = (0.5, 0.5)
ROWS = 40


@pytest.fixture
def asked():
    regression = Regression.of(dp.from_formula("y ~ x + w + g", SCHEMA, family="bernoulli"))
    made = histograms.Histograms(regression, Sum(1.0, 1.0), SHARES)
    assert len(made.column_edges) == histograms.BINS - 1
    return made


def rows(seed):
    rng = np.random.default_rng(seed)
    found = {"x": rng.uniform(-1, 1, ROWS), "w": rng.uniform(0, 10, ROWS), "y": rng.integers(0, 2, ROWS)}
    found = {name: values.astype(np.float32) for name, values in found.items()}
    found["x"][:3] = np.nan, -1.0, 1.0
    return {**found, "g": rng.integers(0, 3, ROWS).astype(np.int32)}


def row(table, place):
    return {name: values[place] for name, values in table.items()}


def test_pieces_are_the_whole_bit_for_bit(asked, monkeypatch):
    table = rows(1)
    pieces = [np.asarray(asked.counts(row(table, place))) for place in range(ROWS)]
    monkeypatch.setattr(histograms, "MANY", 0)
    for place, found in enumerate(pieces):
        whole = np.asarray(asked.counts(row(table, place)))
        assert whole.tobytes() == found.tobytes()


def test_every_number_is_counted_in_its_bin(asked):
    table, edges = rows(2), asked.column_edges
    unit = np.sqrt(SHARES[1]) / asked.length
    for place in range(3, ROWS):
        hots = np.asarray(asked.counts(row(table, place)))[-2 * histograms.BINS :].reshape(2, -1)
        for hot, value in zip(hots, (table["x"][place], table["w"][place] / 5 - 1), strict=True):
            assert np.flatnonzero(hot) == np.searchsorted(edges, value)
            np.testing.assert_allclose(hot.max(), unit, rtol=1e-6)


def test_the_rows_of_a_person_share_one_count(asked):
    table, kept = rows(3), np.array([5, 9, 11])
    person = {name: values[kept] for name, values in table.items()} | {PRESENT: np.ones(3, np.float32)}
    alone = np.mean([asked.counts(row(table, place)) for place in kept], axis=0)
    np.testing.assert_allclose(asked.counts(person), alone, rtol=1e-5)
