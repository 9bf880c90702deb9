"""Regressions with so many parameters that noise hides their slopes: a public guess helps, and is doubted where wrong.

On an emulated oracle, rows and noise by fixed seeds; the exact posterior is taken to be the normal one at the mode.
With 40 parameters the mean square of errors in own standard deviations is above 2.1 with a probability below 1e-4 if
they are what they are said to be, and that is so with any dependence between them that makes at least 40 of them.
"""

import warnings
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import dpmcmc as dp
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.run.progress import Watcher
from experiments.stress.emulated import FloatRun

SIZE, ROWS = 40, 40_000
NAMES = [f"x{number}" for number in range(1, SIZE)]
SCHEMA = dp.Schema(
    {**{name: dp.Column(kind="number", lower=-1, upper=1) for name in NAMES}, "y": dp.Column(kind="boolean")}
)
MOST = 2.1


def table_of(kind: str, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = rng.uniform(-1, 1, (ROWS, SIZE - 1))
    if kind == "one factor":
        columns = np.clip((rng.normal(size=(ROWS, 1)) + rng.normal(size=columns.shape)) / 4, -1, 1)
    if kind == "twice the same":
        columns[:, 1] = columns[:, 0]
    slopes = rng.normal(size=SIZE - 1)
    chances = expit(-0.5 + columns @ (2 * slopes / np.linalg.norm(slopes)))
    return pd.DataFrame(columns, columns=NAMES).assign(y=rng.uniform(size=ROWS) < chances)


def exact(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    rows = np.column_stack([np.ones(len(table)), table[NAMES]])
    point, prior = np.zeros(SIZE), np.eye(SIZE) / 1.5**2
    for _ in range(8):
        chances = expit(rows @ point)
        precision = rows.T @ (rows * (chances * (1 - chances))[:, None]) + prior
        point = point + np.linalg.solve(precision, rows.T @ (table["y"] - chances) - prior @ point)
    return point, np.linalg.inv(precision)


def fitted(kind: str, seed: int, epsilon: float = 1.0):
    """A strategy, what it drew, and the errors of its means in posterior and in own standard deviations."""
    table = table_of(kind, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = dp.PrivateData.from_table(table, schema=SCHEMA, budget=dp.Budget(1e6, 0.5))
        options = {"family": "bernoulli", "epsilon": epsilon, "delta": 1e-6, "allow_low_accuracy": True}
        strategy = prepare_fit("y ~ " + " + ".join(NAMES), data, **options).strategy
        records = jax.tree.unflatten(
            jax.tree.structure(data.facts.record), [jnp.asarray(leaf) for leaf in data._in_order()]
        )
        drawn = strategy.draw(FloatRun(records, seed, 2.0), Watcher("", 1, "", None, None), lambda: False, seed)
    draws = np.column_stack([np.ravel(drawn.draws[name]) for name in ["intercept", *NAMES]])
    mode, covariance = exact(table)
    off = draws.mean(axis=0) - mode
    return strategy, drawn, draws, off / np.sqrt(np.diag(covariance)), off / draws.std(axis=0)


def test_a_guess_gives_a_posterior_where_noise_hides_slopes() -> None:
    strategy, drawn, draws, off, own = fitted("even", 1)
    assert strategy.expected_error < 1
    assert drawn.quality.verdict in {"good", "fair"}
    assert np.mean(own**2) < MOST
    assert np.sqrt(np.mean(off**2)) < 1.2
    _, covariance = exact(table_of("even", 1))
    assert np.median(draws.std(axis=0) / np.sqrt(np.diag(covariance))) < 1.6
    with patch.object(Release, "near", lambda self, *_, **__: self):  # the control
        drawn, draws = fitted("even", 1)[1:3]
    assert drawn.quality.verdict == "bad" or np.median(draws.std(axis=0) / np.sqrt(np.diag(covariance))) > 1.8


@pytest.mark.parametrize("kind", ["one factor", "twice the same"])
def test_a_guess_that_is_wrong_is_noticed(kind: str) -> None:
    """Columns with one factor in common, and one column twice: what data cannot tell keeps most of its prior."""
    drawn, draws, _, own = fitted(kind, 2)[1:]
    assert drawn.quality.verdict == "bad" or np.mean(own**2) < MOST
    if kind == "twice the same":
        assert (draws[:, 1] - draws[:, 2]).std() > 0.5 * 1.5 * np.sqrt(2.0)
        assert (draws[:, 1] + draws[:, 2]).std() < 0.5
