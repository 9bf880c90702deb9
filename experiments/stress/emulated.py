"""Fits on an oracle of floating-point sums and noise in the place of the enclave: many in the time of one.

The host's side of a fit is the library's own, and so is what a record contributes; sums are not exact, and nothing is
private. Whatever concerns privacy, prices and integers is tested on the enclave.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import dpmcmc as dp
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.fitting import prepare_fit
from dpmcmc.run.plan import parameters
from dpmcmc.run.progress import Watcher

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
    """A formula at a budget, to be fitted to many tables of one schema and size."""

    def __init__(self, formula: str, table: pd.DataFrame, schema: dp.Schema, family: str, epsilon: float, **options):
        self.schema, budget = schema, dp.Budget(1e6, 0.5)
        data = dp.PrivateData.from_table(table, schema=schema, budget=budget)
        options = {"delta": 1e-6, "even_if_useless": True, **options}
        self.prepared = prepare_fit(formula, data, family=family, epsilon=epsilon, **options)
        self.way, self.model = self.prepared.way, self.prepared.model

    def records(self, table: pd.DataFrame) -> Any:
        """Return the records of a table."""
        data = dp.PrivateData.from_table(table, schema=self.schema, budget=dp.Budget(1e6, 0.5))
        leaves = [jnp.asarray(leaf) for leaf in data._in_order()]  # made-up rows: nobody's
        return jax.tree.unflatten(jax.tree.structure(data.facts.record), leaves)

    def fit(self, records: Any, seed: int) -> Any:
        """Fit records with the noise of a seed."""
        run = FloatRun(records, seed, self.way.data.facts.clips_moved)
        return self.way.draw(run, Watcher("", 1, "", None, None), lambda: False, seed)

    def exact(self, records: Any, near: dict[str, np.ndarray], num_draws: int = 1000) -> dict[str, np.ndarray]:
        """Return draws of the normal approximation at the mode of the exact posterior, found by Newton's steps."""
        layout, model = self.way.layout, self.model
        value, slope, bend = _derivatives(model, layout)
        start = layout.ravel(model.unconstrain({name: jnp.asarray(values) for name, values in near.items()}))
        vector, best = np.asarray(start, float), -np.inf
        for _ in range(100):
            gradient = np.asarray(slope(jnp.float32(vector), records), float)
            matrix = -np.asarray(bend(jnp.float32(vector), records), float)
            sizes, vectors = np.linalg.eigh(matrix)
            sizes = np.maximum(np.abs(sizes), 1e-6 * np.abs(sizes).max())
            step, length = vectors @ ((vectors.T @ gradient) / sizes), 1.0
            while length > 1e-3:
                reached = float(value(jnp.float32(vector + length * step), records))
                if np.isfinite(reached) and reached >= best - 1e-6 * abs(best):
                    break
                length /= 2
            vector, best = vector + length * step, reached
            if np.linalg.norm(np.sqrt(sizes) * (vectors.T @ step)) < 0.02:
                break
        root = vectors / np.sqrt(sizes)
        normal = np.random.default_rng(0).standard_normal((num_draws, len(vector)))
        drawn = parameters(model, layout, (vector + normal @ root.T)[None].astype(np.float32))
        return {name: values[0] for name, values in drawn.items()}


@lru_cache(maxsize=64)
def _derivatives(model: Any, layout: Any) -> tuple[Any, Any, Any]:
    def log_posterior(vector: jax.Array, records: Any) -> jax.Array:
        position = layout.unravel(vector)
        likelihood = jax.vmap(lambda record: model.log_likelihood(position, record))(records)
        return model.log_prior(position) + jnp.sum(likelihood)

    return jax.jit(log_posterior), jax.jit(jax.grad(log_posterior)), jax.jit(jax.hessian(log_posterior))
