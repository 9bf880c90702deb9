"""How far one record can move a sum: what each of many hostile records adds alone, under one and the same noise.

Every record has a number, and a query says which of them counts: what the others add is zero. Two runs of one vault
with one seed have the same noise, so their difference, one with a record and one with none, is what that record adds,
up to the last digits of float32. Its norm must be within the clip whatever the record is and wherever it stands;
places without a record must add nothing, and all records together what they add one by one. This needs no statistics.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Adjacency
from dpmcmc.audits.pairs import ADD, Linear
from dpmcmc.enclave import PrivateData
from dpmcmc.enclave.mechanisms import block_sum, counts, curvature, gradient, log_ratio, noisy_count
from dpmcmc.enclave.mechanisms import sum as plain

QUIET = 2.0**-8
"""A noise multiplier at which a lattice is as fine as it gets, under either adjacency."""

ROUNDING = 3e-6
"""What float32 may add to a quotient that is at most one."""

RECORDS, CHUNK = 1021, 400
"""Rows of the table, more than one tile of places, and how many are held at once: chunks overlap."""

HALF = 2.0**-0.5

HOSTILE = {
    "in a corner": (HALF, HALF, 1.0),
    "opposite corner": (-HALF, -HALF, -1.0),
    "both beyond": (3.0, -3.0, 1.0),
    "far beyond": (1e15, -1e15, 1e3),
    "negative Hessian": (HALF, HALF, -5.0),
    "infinite": (np.inf, 1.0, 1.0),
    "no number": (np.nan, 1.0, 1.0),
    "nothing": (0.0, 0.0, 0.0),
    "at the clip": (1.0, 0.0, 1.0),
    "tiny": (1e-40, 1e-38, 1e-30),
    "nearly at the clip": (0.8, 0.6, -1.0),
}

NONE, EMPTY, ALL = -1.0, 0.0, -2.0
"""Numbers that ask for no record, for places without one, and for all records."""


@dataclass(frozen=True)
class Chosen(Linear):
    """A model in which the record counts whose number is the last coordinate of the position."""

    form: str = "linear"

    def log_likelihood(self, position: jax.Array, record: Any) -> jax.Array:
        """Return a term of the two other coordinates."""
        predictor = jnp.sum(position[:2] * record["x"])
        value = {
            "linear": lambda: predictor,
            "residual": lambda: record["y"] * predictor - 0.125 * predictor**2,
            "square": lambda: -0.5 * record["y"] * predictor**2,
            "full": lambda: -0.5 * record["y"] * (position[0] ** 2 + record["x"][0] * position[1] ** 2),
        }[self.form]()
        return counts_at(position[2], record) * value


def counts_at(number: jax.Array, record: Any) -> jax.Array:
    """Return one for the records that a number asks for, and zero for the others."""
    is_asked = (record["number"] == number) | ((number == ALL) & (record["number"] > 0))
    return jnp.where(is_asked, 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Question:
    """A clipped sum with clip one: ``ask(oracle, position)``, the last coordinate of which is the number."""

    name: str
    ask: Callable[[Any, jax.Array], jax.Array]
    model: Any = None
    accelerate: bool = False

    def program(self, oracle: Any, numbers: jax.Array) -> jax.Array:
        """Ask for each number."""
        zero = jnp.zeros_like(numbers)
        return jax.vmap(lambda position: self.ask(oracle, position))(jnp.stack([zero, zero, numbers], axis=1))


def questions() -> list[Question]:
    """Return the sums that have a sensitivity, each by every way there is to add it up."""
    return [
        Question("Sum", lambda oracle, at: _sum(oracle, at, lambda record: record["x"])),
        Question("Sum, not zero at zero", lambda oracle, at: _sum(oracle, at, lambda record: record["x"] + 1.0)),
        Question("GradientSum", _force, Chosen(form="linear")),
        Question("GradientSum, linear rows", _force, Chosen(form="residual"), True),
        Question("CurvatureSum", _curvature, Chosen(form="full")),
        Question("CurvatureSum, rank-one squares", _curvature, Chosen(form="square"), True),
        Question("LogRatio", _ratio, Chosen(form="linear")),
        Question("NoisyCount", _count),
        Question("BlockSum", _blocks),
        Question("Counts", _bins),
    ]


def _sum(oracle: Any, at: jax.Array, value: Callable[[Any], jax.Array]) -> jax.Array:
    def statistic(at: jax.Array, record: Any) -> jax.Array:
        return jnp.where(counts_at(at[2], record) > 0, value(record), 0.0)

    return oracle.sum(plain.Sum(1.0, QUIET), statistic, at).value


def _force(oracle: Any, at: jax.Array) -> jax.Array:
    return oracle.force(gradient.GradientSum(1.0, QUIET), at).value[:2]


def _curvature(oracle: Any, at: jax.Array) -> jax.Array:
    """Return the entries as they were released: those off the diagonal stand for two."""
    matrix = oracle.curvature(curvature.CurvatureSum(1.0, QUIET), at, jnp.eye(3)[:, :2]).value
    rows, columns, weights = curvature.entries_of(2)
    return matrix[rows, columns] * (weights / curvature.ON_DIAGONAL).astype(np.float32)


def _ratio(oracle: Any, at: jax.Array) -> jax.Array:
    step = jnp.array([0.6, -0.8, 0.0])
    return oracle.log_posterior_ratio(log_ratio.LogRatio(1.0, QUIET), at, at + step).value[None]


def _count(oracle: Any, at: jax.Array) -> jax.Array:
    def statistic(at: jax.Array, record: Any) -> jax.Array:
        return jnp.where(counts_at(at[2], record) > 0, record["x"], 0.0)

    return oracle.sum(noisy_count.NoisyCount(0.5, QUIET), statistic, at).value


def _blocks(oracle: Any, at: jax.Array) -> jax.Array:
    """Return blocks of one entry and one beside them; some records name no block."""

    def statistic(at: jax.Array, record: Any) -> jax.Array:
        entries = jnp.where(counts_at(at[2], record) > 0, record["x"], 0.0)
        return jnp.concatenate([jnp.round(record["y"] + 1)[None], entries])

    return oracle.sum(block_sum.BlockSum(1.0, QUIET, 4, 1), statistic, at).value


def _bins(oracle: Any, at: jax.Array) -> jax.Array:
    """Return sums of entries some of which are negative: then nothing of a record may count."""

    def statistic(at: jax.Array, record: Any) -> jax.Array:
        return jnp.where(counts_at(at[2], record) > 0, record["x"], 0.0)

    return oracle.sum(counts.Counts(1.0, QUIET), statistic, at).value


@dataclass(frozen=True)
class Added:
    """What one record adds to a sum, in clips."""

    question: str
    words: str
    clips: float
    most: float

    @property
    def is_broken(self) -> bool:
        """Whether it is more than it may be."""
        return not self.clips <= self.most + ROUNDING * max(self.most, 1.0)


def contributions(question: Question, adjacency: Adjacency) -> Iterator[Added]:
    """Yield what hostile records add alone, what empty places add, and by how much all together are off."""
    places = range(RECORDS)
    numbers = np.array([*(place + 1.0 for place in places), EMPTY, ALL], np.float32)
    alone = _difference(question, adjacency, numbers)
    kinds = list(HOSTILE)
    for place, vector in zip(places, alone, strict=False):
        words = f"{kinds[place % len(kinds)]}, row {place}"
        yield Added(question.name, words, float(np.linalg.norm(vector)), 1.0)
    yield Added(question.name, "places without a record", float(np.linalg.norm(alone[-2])), 0.0)
    one_by_one = sum(alone[place % len(kinds)] for place in range(RECORDS))  # the first places have every kind
    yield Added(question.name, "all records, but for their sum", float(np.linalg.norm(alone[-1] - one_by_one)), 0.01)


def _difference(question: Question, adjacency: Adjacency, numbers: np.ndarray) -> np.ndarray:
    """Return the sums at numbers less those at none, under the same noise."""
    vault = vault_of(question, adjacency)
    runs = [
        np.asarray(vault.run(question.program, asked, model=question.model, insecure_seed=1), np.float64)
        for asked in (numbers, np.full_like(numbers, NONE))
    ]
    return (runs[0] - runs[1]).reshape(len(numbers), -1)


def vault_of(question: Question, adjacency: Adjacency) -> PrivateData:
    """Return a vault around a table of hostile records, each kind in turn, with room for some more."""
    rows = np.array([list(HOSTILE.values())[place % len(HOSTILE)] for place in range(RECORDS)], np.float32)
    table = {"x": rows[:, :2], "y": rows[:, 2], "number": np.arange(1, RECORDS + 1, dtype=np.float32)}
    facts: dict[str, Any] = {"capacity": RECORDS + 50} if adjacency is ADD else {}
    return PrivateData.without_guarantee(
        table, adjacency=adjacency, chunk_size=CHUNK, accelerate=question.accelerate, **facts
    )
