"""Fits on an oracle of floating-point sums and noise in the place of the enclave: many in the time of one.

The host's side of a fit is the library's own, and so is what a record contributes; sums are not exact, and nothing is
private. Whatever concerns privacy, prices and integers is tested on the enclave.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

import dpmcmc as dp
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.chains import PilotedChains
from dpmcmc.model import from_numpyro
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher
from experiments.stress.models import ModelProblem
from experiments.stress.problems import Problem

CHUNK = 5000


class FloatOracle:
    """Answers sums of clipped statistics, with Gaussian noise from a key."""

    def __init__(self, records: Any, key: jax.Array, clips_moved: int) -> None:
        self.records, self.key, self.clips_moved, self.count = records, key, clips_moved, 0

    def sum(self, mechanism: dp.Sum, statistic: Callable[..., Any], *arguments: Any) -> Noisy:
        """Return the sum of a statistic, each record's clipped, with noise."""

        def clipped(record: Any) -> jax.Array:
            value = jnp.ravel(statistic(*arguments, record))
            held = value * jnp.minimum(1.0, mechanism.clip / jnp.maximum(jnp.linalg.norm(value), 1e-30))
            return jnp.where(jnp.all(jnp.isfinite(held)), held, 0.0)

        def more(total: jax.Array, chunk: tuple[Any, jax.Array]) -> tuple[jax.Array, None]:
            rows, counts = chunk
            return total + counts @ jax.vmap(clipped)(rows), None

        size = len(jax.tree.leaves(self.records)[0])
        spare = -size % CHUNK
        rows = jax.tree.map(
            lambda leaf: jnp.concatenate([leaf, leaf[:1].repeat(spare, 0)]).reshape(-1, CHUNK, *leaf.shape[1:]),
            self.records,
        )
        counts = (jnp.arange(size + spare) < size).astype(jnp.float32).reshape(-1, CHUNK)
        one = jax.eval_shape(clipped, jax.tree.map(lambda leaf: leaf[0], self.records))
        total, _ = jax.lax.scan(more, jnp.zeros(one.shape), (rows, counts))
        sd = self.clips_moved * mechanism.noise_multiplier * mechanism.clip
        self.count += 1
        noise = jax.random.normal(jax.random.fold_in(self.key, self.count), total.shape)
        return Noisy(total + sd * noise, jnp.float32(sd**2))


@lru_cache(maxsize=64)
def _compiled(program: Any, clips_moved: int) -> Callable[..., Any]:
    return jax.jit(lambda records, key, arguments: program(FloatOracle(records, key, clips_moved), *arguments))


class FloatRun:
    """Stands for a run that was paid for."""

    entry: ClassVar[dict[str, str]] = {}

    def __init__(self, records: Any, seed: int, clips_moved: int) -> None:
        self.records, self.key, self.clips_moved, self.count = records, jax.random.key(seed), clips_moved, 0

    def run(self, program: Any, *arguments: Any, model: Any = None) -> Any:
        """Run a program on the records; nothing is charged."""
        del model
        self.count += 1
        key = jax.random.fold_in(self.key, self.count)
        return _compiled(program, self.clips_moved)(self.records, key, arguments)


class Emulated:
    """A fit at a budget, to be made of many tables of one size."""

    def __init__(self, problem: Problem | ModelProblem, epsilon: float, **options: Any) -> None:
        self.problem = problem
        options = {"delta": 1e-6, "even_if_useless": True, **options}
        if isinstance(problem, Problem):
            model, options = problem.formula, {"family": problem.family, **options}
        else:
            model = _of_numpyro(problem)
        self._options = {"epsilon": epsilon, **options}
        self.prepared = prepare_fit(model, self._data(0), **self._options)
        self.strategy, self.model = self.prepared.strategy, self.prepared.model

    def _data(self, seed: int) -> dp.PrivateData:
        problem, budget = self.problem, dp.Budget(1e6, 0.5)
        if isinstance(problem, Problem):
            return dp.PrivateData.from_table(problem.table(seed), schema=problem.schema, budget=budget)
        return dp.PrivateData(problem.records(seed), bounds=dict(problem.bounds), budget=budget)

    def records(self, seed: int) -> Any:
        """Return the records of a seed."""
        data = self._data(seed)
        leaves = [jnp.asarray(leaf) for leaf in data._in_order()]  # made-up rows: nobody's
        return jax.tree.unflatten(jax.tree.structure(data.facts.record), leaves)

    @property
    def layout(self) -> Layout:
        """How positions of the model are laid out."""
        return Layout.of(self.model.position)

    def fit(self, records: Any, seed: int) -> Any:
        """Fit records with the noise of a seed; a pilot with chains is not emulated, and runs in the enclave."""
        if isinstance(self.strategy, PilotedChains):
            problem = self.problem
            data = dp.PrivateData.without_guarantee(problem.records(seed), bounds=dict(problem.bounds))
            return prepare_fit(self.model, data, insecure_seed=seed, **self._options).run(progress=False)
        run = FloatRun(records, seed, self.strategy.data.facts.clips_moved)
        return self.strategy.draw(run, Watcher("", 1, "", None, None), lambda: False, seed)


@cache
def _of_numpyro(problem: ModelProblem) -> Any:
    data = dp.PrivateData(problem.records(0), bounds=dict(problem.bounds), budget=dp.Budget(1e6, 0.5))
    return from_numpyro(problem.model, data)
