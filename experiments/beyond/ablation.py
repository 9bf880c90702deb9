"""What each of the ways of `fit` is worth: one is taken away at a time, and the error measured on real tables.

Sums are emulated in floating point (`experiments.stress.emulated`): nothing is private here, and nothing of the library
is changed but for the time of a run.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.weighted_scores import bounds, budget, draws, releases, strategy
from dpmcmc.fitting.strategies.weighted_scores.newton import Steps
from dpmcmc.fitting.strategies.weighted_scores.release import Release
from dpmcmc.fitting.strategies.weighted_scores.strategy import WeightedScores
from dpmcmc.run.progress import Watcher
from experiments.beyond.real_data import of_draws
from experiments.beyond.real_tables import Question, question
from experiments.machinery.study import Cell, Configuration, Rows, Study
from experiments.stress import emulated

FIXED_CUT, FIXED_RADIUS = 2.8, 2.0
"""Bounds that are not chosen: a cut in standard deviations, and a radius in usual lengths of a score."""

PILOT_SHARE = 0.28
"""What of the budget the pilot had when that was fixed."""

NOTHING = 1e-9
"""A share of the budget for what is not asked."""

Way = Callable[[ExitStack], None]
"""Takes something away until the stack is closed."""


def _nothing(_: ExitStack) -> None:
    """Leave everything as it is."""


def _fixed_bounds(stack: ExitStack) -> None:
    """Take the same bounds for every table and budget."""
    chosen = strategy.best_bounds

    def fixed(steps: Any, *arguments: Any) -> Any:
        radius = FIXED_RADIUS * steps.unit * steps.regression.scores.usual_length
        return chosen(steps, *arguments)._replace(bound=FIXED_CUT, radius=radius)

    stack.enter_context(patch.object(strategy, "best_bounds", fixed))


def _last_alone(stack: ExitStack) -> None:
    """Take scores and slope of the last release alone, as if none before it had been paid for."""
    stack.enter_context(patch.object(draws, "join_or_last", lambda found: draws.Joined(found[-1], 0.0)))
    stack.enter_context(patch.object(Steps, "pooled", lambda _, release, *__: release))
    stack.enter_context(patch.object(strategy, "carried", lambda *_: 0.0))


def _nothing_pooled(stack: ExitStack) -> None:
    """The same, and in the pilot no slope is averaged with those before it or with a public guess either."""
    _last_alone(stack)
    stack.enter_context(patch.object(Release, "pooled", lambda self, *_: self))


def _no_probe(stack: ExitStack) -> None:
    """Ask no release with long bounds on the way: models are taken to be as far off as they usually are."""
    stack.enter_context(patch.object(budget, "PROBE_SHARE", NOTHING))  # the last releases have it
    stack.enter_context(patch.object(WeightedScores, "_step", lambda *given: given[3:5]))  # point, release
    stack.enter_context(patch.object(strategy, "expected_misfit", lambda *_: bounds.MISFIT))


def _clipped(stack: ExitStack) -> None:
    """Clip every score at the length it has, and cut none; weights look at the response then."""
    weighed = releases.weighed

    def clipped(regression: Any, asked: Any, record: Any) -> Any:
        one = weighed(regression, asked._replace(radius=jnp.float32(1e30)), record)
        length = jnp.linalg.norm(one.score)
        lower, upper = jnp.append(-1.0, asked.edges), jnp.append(asked.edges, jnp.inf)
        held = ((length > lower) & (length <= upper)).astype(jnp.float32)
        return one._replace(weight=jnp.minimum(one.weight, asked.radius / jnp.maximum(length, 1e-30)), bins=held)

    stack.enter_context(patch.object(releases, "weighed", clipped))
    stack.enter_context(patch.object(bounds, "BOUNDS", bounds.BOUNDS[-1:]))


WAYS: dict[str, Way] = {
    "all of it": _nothing,
    "fixed bounds": _fixed_bounds,
    "last release alone": _last_alone,
    "nothing pooled": _nothing_pooled,
    "no probe": _no_probe,
    "pilot fixed at 28 %": _nothing,
    "plain clipping": _clipped,
}
"""What is taken away."""

LONG_PILOT = "pilot fixed at 28 %"


@contextmanager
def without(way: str) -> Iterator[None]:
    """Take one of the ways away; programs that were compiled with it, or without another, are not used again."""
    if way not in _LAST:
        emulated._compiled.cache_clear()
        _LAST[:] = [way]
    with ExitStack() as stack:
        WAYS[way](stack)
        yield


_LAST: list[str] = []
"""What was taken away before in this process."""


@lru_cache(maxsize=4)
def _prepared(asked: Question, epsilon: float, delta: float) -> tuple[WeightedScores, Any]:
    """Return how the table is fitted, and its records."""
    data = dp.PrivateData.without_guarantee(asked.records, bounds=asked.schema.bounds, schema=asked.schema)
    options = {"family": asked.family, "epsilon": epsilon, "delta": delta, "allow_low_accuracy": True}
    found = prepare_fit(asked.formula, data, **options).strategy
    if not isinstance(found, WeightedScores):
        raise TypeError(f"{asked.table} is fitted in another way")
    leaves = [jnp.asarray(leaf) for leaf in data._in_order()]  # a public table
    return found, jax.tree.unflatten(jax.tree.structure(data.facts.record), leaves)


def cells(configuration: Configuration) -> list[Cell]:
    """Return one cell a way, table and epsilon; the repeats of one follow each other in it."""
    c, tables = configuration["ablation"], configuration["real_data"]["tables"]
    return [
        {"table": table, "way": way, "epsilon": epsilon, **tables[table]}
        | {name: c[name] for name in ("num_repeats", "delta", "seed")}
        for way in c["ways"] or WAYS
        for table in c["asked"]
        for epsilon in c["epsilons"]
    ]


def run(cell: Cell) -> Rows:
    """Fit some times with one of the ways taken away."""
    asked = question(cell["table"], cell["formula"], cell["family"])
    found, records = _prepared(asked, cell["epsilon"], cell["delta"])
    if cell["way"] == LONG_PILOT:
        found = replace(found, split=replace(found.split, pilot_share=PILOT_SHARE))
    else:
        found = replace(found)  # what it was asked before is kept in it
    with without(cell["way"]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_run(asked, found, records, cell["seed"], repeat) for repeat in range(cell["num_repeats"])]


def _run(asked: Question, found: WeightedScores, records: Any, seed: int, repeat: int) -> dict[str, Any]:
    own = int(np.random.SeedSequence([seed, repeat]).generate_state(1)[0] >> 1)
    started = time.perf_counter()
    paid = emulated.FloatRun(records, own, float(found.data.facts.clips_moved))
    drawn = found.draw(paid, Watcher("", 1, "", None, None), lambda: False, own)
    table = pd.DataFrame({name: np.ravel(drawn.draws[name]) for name in asked.exact})
    off = (table.mean() - asked.exact.mean())[asked.coefficients]
    lost = np.sqrt(np.maximum(table.var() - asked.exact.var(), 0.05 * asked.exact.var()))[asked.coefficients]
    row = of_draws(asked, drawn.quality.verdict, False, table, time.perf_counter() - started)
    return {"repeat": repeat, **row, "own_error": float(np.sqrt(np.mean((off / lost) ** 2)))}


STUDY = Study("ablation_runs", cells, run)
