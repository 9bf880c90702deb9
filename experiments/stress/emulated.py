"""Fits on an oracle of floating-point sums and noise in the place of the enclave: many in the time of one.

The host's side of a fit is the library's own, and so is what a record contributes; sums are not exact, and nothing is
private. Whatever concerns privacy, prices and integers is tested on the enclave. What the suite needs of the inside of
`fit` is imported here and nowhere else.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar
from unittest.mock import patch
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np

import dpmcmc as dp
from dpmcmc.accounting import Partition
from dpmcmc.enclave import BlockSum, SpacedSum, Sum
from dpmcmc.enclave.mechanisms.counts import ROOT_OF_TWO, Counts
from dpmcmc.enclave.mechanisms.spaced_sum import places_read
from dpmcmc.enclave.oracle import Noisy
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.budget_split import noise_of_share
from dpmcmc.fitting.strategies.chains import PilotedChains
from dpmcmc.fitting.strategies.weighted_scores.schedule import OfCells
from dpmcmc.model import from_numpyro
from dpmcmc.run.plan import prior_draws
from dpmcmc.run.program import Layout
from dpmcmc.run.progress import Watcher
from experiments.stress.models import ModelProblem
from experiments.stress.problems import Problem

CHUNK, NUMBERS_AT_ONCE = 5000, 4_000_000
"""Rows that are summed at once, at most, and numbers: what a run needs of memory does not grow with its rows."""

DELTA = 1e-6
NO_NOISE = 1e-4
"""The share of the noise that is left where there should be none: a fit divides by it."""

AnySum = Sum | BlockSum | Counts | SpacedSum

CHOICES = ("best_bounds", "whiten")
"""What a fit calls to bound its last scores, and for the coordinates in which it does: its estimating equation."""


class FloatOracle:
    """Answers sums of clipped statistics, with Gaussian noise from a key."""

    def __init__(self, records: Any, key: jax.Array, noise: Any) -> None:
        self.records, self.key, self.noise, self.count = records, key, noise, 0

    def partition(self, cuts: Sequence[int]) -> Partition:
        """Return cells of positions."""
        return Partition((0, *cuts, len(jax.tree.leaves(self.records)[0])))

    def shard(self, partition: Partition, cells: Sequence[int]) -> "FloatOracle":
        """Return an oracle of the records of some cells."""
        places = np.concatenate([np.arange(*partition.cuts[cell : cell + 2]) for cell in cells])
        return FloatOracle(jax.tree.map(lambda leaf: leaf[places], self.records), self.key, self.noise)

    def sum(self, mechanism: AnySum, statistic: Callable[..., Any], *arguments: Any) -> Noisy:
        """Return the sum of a statistic, each record's clipped, with noise."""
        in_blocks = isinstance(mechanism, BlockSum)

        def clipped(record: Any) -> jax.Array:
            value = jnp.ravel(statistic(*arguments, record))
            place, value = value[: int(in_blocks)], value[int(in_blocks) :]
            held = value * jnp.minimum(1.0, mechanism.clip / jnp.maximum(jnp.linalg.norm(value), 1e-30))
            return jnp.concatenate([place, jnp.where(jnp.all(jnp.isfinite(held)), held, 0.0)])

        def more(total: jax.Array, chunk: tuple[Any, jax.Array]) -> tuple[jax.Array, None]:
            rows, counts = chunk
            values = jax.vmap(clipped)(rows)
            if in_blocks:
                return total + _in_blocks(mechanism, values, counts), None
            return total + counts @ values, None

        records = self.records
        if isinstance(mechanism, SpacedSum):
            read = places_read(mechanism.step, len(jax.tree.leaves(records)[0]))
            records = jax.tree.map(lambda leaf: leaf[read], records)
        one = jax.eval_shape(clipped, jax.tree.map(lambda leaf: leaf[0], records))
        rows, counts = in_chunks(records, int(np.clip(NUMBERS_AT_ONCE // one.size, 100, CHUNK)))
        released = one.size + (mechanism.num_blocks - 1) * mechanism.block_length - 1 if in_blocks else one.size
        total, _ = jax.lax.scan(more, jnp.zeros(released), (rows, counts))
        nearer = ROOT_OF_TWO / 2 if isinstance(mechanism, Counts) else 1.0  # under replace-one
        sd = nearer * self.noise * mechanism.noise_multiplier * mechanism.clip
        self.count += 1
        noise = jax.random.normal(jax.random.fold_in(self.key, self.count), total.shape)
        return Noisy(total + sd * noise, jnp.float32(sd**2))


def _in_blocks(sums: BlockSum, values: jax.Array, counts: jax.Array) -> jax.Array:
    """Return the sums of vectors that begin with the place of their block, where they name one."""
    is_in = (values[:, 0] >= 0) & (values[:, 0] < sums.num_blocks)
    kept, places = values[:, 1:] * (counts * is_in)[:, None], jnp.clip(values[:, 0].astype(int), 0, sums.num_blocks - 1)
    blocks = jnp.zeros((sums.num_blocks, sums.block_length)).at[places].add(kept[:, : sums.block_length])
    return jnp.concatenate([blocks.ravel(), kept[:, sums.block_length :].sum(axis=0)])


def in_chunks(records: Any, rows: int) -> tuple[Any, jax.Array]:
    """Return records in chunks of so many rows, and which of these are there: the last chunk is filled up."""
    size = len(jax.tree.leaves(records)[0])
    rows = min(rows, size)
    spare = -size % rows
    chunks = jax.tree.map(
        lambda leaf: jnp.concatenate([leaf, leaf[:1].repeat(spare, 0)]).reshape(-1, rows, *leaf.shape[1:]), records
    )
    return chunks, (jnp.arange(size + spare) < size).astype(jnp.float32).reshape(-1, rows)


@lru_cache(maxsize=64)
def _compiled(program: Any) -> Callable[..., Any]:
    return jax.jit(lambda records, key, noise, arguments: program(FloatOracle(records, key, noise), *arguments))


def _at_unit_noise(program: Any) -> tuple[Any, float]:
    """Return a program with noise multiplier one, and its own: budgets then share what was compiled."""
    if isinstance(program, OfCells):
        inner, multiplier = _at_unit_noise(program.program)
        return replace(program, program=inner), multiplier
    found: dict[str, Any] = {}
    multipliers: set[float] = set()
    for each in fields(program) if is_dataclass(program) else ():
        value = getattr(program, each.name)
        if isinstance(value, Sum | Counts | SpacedSum):
            found[each.name] = replace(value, noise_multiplier=1.0)
            multipliers.add(value.noise_multiplier)
        elif each.name == "noise_multiplier":
            found[each.name] = 1.0
            multipliers.add(value)
    if len(multipliers) != 1:
        return program, 1.0
    return replace(program, **found), multipliers.pop()


class FloatRun:
    """Stands for a run that was paid for."""

    entry: ClassVar[dict[str, str]] = {}

    def __init__(self, records: Any, seed: int, noise: float) -> None:
        self.records, self.key, self.noise, self.count = records, jax.random.key(seed), noise, 0

    def run(self, program: Any, *arguments: Any, model: Any = None) -> Any:
        """Run a program on the records; nothing is charged."""
        del model
        self.count += 1
        key = jax.random.fold_in(self.key, self.count)
        program, multiplier = _at_unit_noise(program)
        return _compiled(program)(self.records, key, jnp.float32(self.noise * multiplier), arguments)


class Emulated:
    """A fit at a budget, to be made of many tables of one size."""

    def __init__(
        self,
        problem: Problem | ModelProblem,
        epsilon: float,
        data: dp.PrivateData | None = None,
        name: str = "",
        **options: Any,
    ) -> None:
        self.problem, self.epsilon, self.name = problem, epsilon, name
        options = {"delta": DELTA, "allow_low_accuracy": True, **options}
        if isinstance(problem, Problem):
            model, options = problem.formula, {"family": problem.family, **options}
        else:
            model = _of_numpyro(problem)
        self._options = {"epsilon": epsilon, **options}
        self.data = private_data(problem, 0) if data is None else data
        self.prepared = prepare_fit(model, self.data, **self._options)
        self.strategy, self.model = self.prepared.strategy, self.prepared.model

    def records(self, seed: int) -> Any:
        """Return the records of a seed."""
        data = private_data(self.problem, seed)
        leaves = [jnp.asarray(leaf) for leaf in data._in_order()]  # synthetic rows: nobody's
        return jax.tree.unflatten(jax.tree.structure(data.facts.record), leaves)

    @property
    def layout(self) -> Layout:
        """How positions of the model are laid out."""
        return Layout.of(self.model.position)

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.strategy.dimension

    @property
    def expected_error(self) -> float:
        """What is said of the error before anything is charged; above one the fit is refused."""
        return self.strategy.expected_error

    @property
    def noise_at_whole_budget(self) -> float:
        """The noise of one release that takes all of the budget, in clips."""
        return self.data.facts.clips_moved * noise_of_share(1.0, 1, self.prepared.budget)

    def fit(self, records: Any, seed: int) -> Any:
        """Fit records with the noise of a seed; a pilot with chains is not emulated, and runs in the enclave."""
        if isinstance(self.strategy, PilotedChains):
            problem = self.problem
            data = dp.PrivateData.without_guarantee(problem.records(seed), bounds=dict(problem.bounds))
            return prepare_fit(self.model, data, insecure_seed=self._own(seed), **self._options).run(progress=False)
        return self._draw(records, seed, 1.0)

    def fit_twice(self, records: Any, seed: int) -> tuple[Any, Any]:
        """Fit records, and solve the same estimating equation again without noise: the same cut, radius, coordinates.

        The pilot has no noise either then, but what it chooses is not used.
        """
        with _chosen(self.strategy, None) as choices:
            first = self._draw(records, seed, 1.0)
        if len(choices) < len(CHOICES):
            return first, None  # it led nowhere, and says so
        with _chosen(self.strategy, choices):
            second = self._draw(records, seed, NO_NOISE)
        for name in ("cut", "radius"):
            if name in second.settings["pilot"] and second.settings["pilot"][name] != first.settings["pilot"][name]:
                raise AssertionError(f"the fit without noise has another {name}")
        return first, second

    def _draw(self, records: Any, seed: int, noise: float) -> Any:
        own = self._own(seed)
        run = FloatRun(records, own, noise * self.data.facts.clips_moved)
        return self.strategy.draw(run, Watcher("", 1, "", None, None), lambda: False, own)

    def _own(self, seed: int) -> int:
        """Return the seed of the noise: of a problem with a name its own at each budget.

        Else an unlikely noise would be that of all problems, and raise an alarm in many of them at once.
        """
        if not self.name:
            return seed
        return int(np.random.SeedSequence([seed, crc32(f"{self.name} {self.epsilon:g}".encode())]).generate_state(1)[0])


@contextmanager
def _chosen(strategy: Any, choices: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Note what a fit chooses for its last releases, or let it choose what is given."""
    module, noted = sys.modules[type(strategy).__module__], {}

    def noting(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(*arguments: Any) -> Any:
            noted[name] = choose(*arguments) if choices is None else choices[name]
            return noted[name]

        return chosen

    with ExitStack() as stack:
        for name in CHOICES:
            stack.enter_context(patch.object(module, name, noting(name, getattr(module, name))))
        yield noted


def private_data(problem: Problem | ModelProblem, seed: int) -> dp.PrivateData:
    """Return the data of a seed, with a budget that is not spent."""
    budget = dp.Budget(1e6, 0.5)
    if isinstance(problem, Problem):
        return dp.PrivateData.from_table(problem.table(seed), schema=problem.schema, budget=budget)
    return dp.PrivateData(problem.records(seed), bounds=dict(problem.bounds), budget=budget)


def widths_of_prior(model: Any) -> dict[str, np.ndarray]:
    """Return draws of the prior by parameter, (1, draw, ...)."""
    return prior_draws(model)


@cache
def _of_numpyro(problem: ModelProblem) -> Any:
    return from_numpyro(problem.model, private_data(problem, 0))
