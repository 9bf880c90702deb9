"""A fit that reads all rows once: as near to the exact posterior as one that reads them every time, sorted or not.

Sums and noise are emulated (`experiments.stress.emulated`); rows and noise come from fixed seeds. Errors are root mean
squares over tables and parameters, in standard deviations of the exact posterior. With new seeds a ratio of two of them
would be above its limit in one of 10,000 if the errors were in truth 1.05 times apart: the limit is 1.05 times the
root of that quantile of an F distribution.
"""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting.strategies.weighted_scores.schedule import Rows
from experiments.stress.emulated import Emulated
from experiments.stress.problems import Problem

PLAIN = Problem("bernoulli", 100_000)
EPSILON, TABLES = 8.0, 6
FALSE_ALARM = 1e-4
PRIORS = np.array([2.0, *[1.5] * 6])


@cache
def emulated(passes: int) -> Emulated:
    return Emulated(PLAIN, EPSILON, num_steps=2000, passes=passes, block_seed=1)


class Exact(NamedTuple):
    mean: np.ndarray
    sd: np.ndarray


def exact(problem: Problem, seed: int) -> Exact:
    """Return the normal approximation of the posterior at its mode: there are many rows."""
    table = problem.table(seed)
    numbers = [table[f"x{number}"].to_numpy() for number in range(problem.numbers)]
    levels = [(table["ward"] == level).to_numpy(float) for level in "bc"]
    columns = np.stack([np.ones(len(table)), *numbers, *levels], axis=1)
    mode = np.zeros(columns.shape[1])
    for _ in range(12):
        share = 1 / (1 + np.exp(-columns @ mode))
        precision = (columns * (share * (1 - share))[:, None]).T @ columns + np.diag(PRIORS**-2)
        mode = mode + np.linalg.solve(precision, columns.T @ (table["y"].to_numpy() - share) - mode / PRIORS**2)
    return Exact(mode, np.sqrt(np.diag(np.linalg.inv(precision))))


def errors(drawn: Any, truth: Exact) -> np.ndarray:
    means = [values.mean() for values in coordinates(drawn.draws).values()]
    return (np.array(means) - truth.mean) / truth.sd


def ordered(records: Any, order: np.ndarray | None) -> Any:
    return records if order is None else jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[order]), records)


@cache
def error(passes: int, by: str, num_tables: int) -> tuple[float, tuple[str, ...]]:
    found, verdicts = [], []
    for seed in range(num_tables):
        records = emulated(passes).records(seed)
        order = (
            None
            if by == "nothing"
            else np.argsort(np.asarray(records[by]).reshape(PLAIN.size, -1)[:, -1], kind="stable")
        )
        drawn = emulated(passes).fit(ordered(records, order), seed)
        found.append(errors(drawn, exact(PLAIN, seed)))
        verdicts.append(drawn.quality.verdict)
    return float(np.sqrt(np.mean(np.square(found)))), tuple(verdicts)


def limit(num_tables: int) -> float:
    freedom = num_tables * len(PRIORS)
    return 1.05 * float(np.sqrt(stats.f.isf(FALSE_ALARM, freedom, freedom)))


@pytest.mark.parametrize(("passes", "by"), [(1, "nothing"), (1, "y"), (1, "ward"), (2, "nothing")])
def test_blocks_lead_as_near_as_all_rows_do(passes: int, by: str) -> None:
    once, verdicts = error(passes, by, TABLES)
    every_time, _ = error(99, "nothing", TABLES)
    assert once < limit(TABLES) * every_time
    assert set(verdicts) == {"good"}


@pytest.mark.slow
@pytest.mark.parametrize(("passes", "by"), [(1, "nothing"), (1, "y"), (1, "ward"), (2, "nothing")])
def test_blocks_lead_as_near_as_all_rows_do_on_many_tables(passes: int, by: str) -> None:
    once, verdicts = error(passes, by, 100)
    every_time, _ = error(99, "nothing", 100)
    assert once < limit(100) * every_time
    assert "bad" not in verdicts


DRIFTING = Problem("bernoulli", 100_000, alter=lambda _, __, eta: eta + np.linspace(-0.6, 0.6, len(eta)), holds=False)
"""A table whose rows are sorted by something that matters and is in no column."""


@pytest.mark.parametrize(("contiguous", "drifts"), [(True, True), (True, False), (False, True)])
def test_neighbouring_rows_of_a_sorted_table_are_told_to_disagree_with_the_rest(contiguous: bool, drifts: bool) -> None:
    """The control: blocks in one place disagree where the table is sorted, blocks all over do not."""
    problem = DRIFTING if drifts else PLAIN
    fit = Emulated(problem, EPSILON, num_steps=500, passes=1, block_seed=1)
    if contiguous:
        fit.strategy = replace(fit.strategy, split=_contiguous(fit.strategy.split, problem.size))
    quality = fit.fit(fit.records(0), 0).quality
    disagree = any("blocks of rows" in reason for reason in quality.reasons)
    assert disagree == (contiguous and drifts)
    assert quality.verdict == ("good" if not disagree else quality.verdict)
    assert not disagree or quality.verdict != "good"


def _contiguous(split: Any, size: int) -> Any:
    """Return the same with the first rows of the table in the place of blocks all over it."""
    schedule = split.schedule
    first, second = (round(rows.share * size) for rows in (schedule.pilot, schedule.refinement))
    cuts = (first, first + second)
    one, other = Rows(first / size, cuts, (0,)), Rows(second / size, cuts, (1,))
    return replace(split, blocks=replace(schedule, pilot=one, refinement=other))
