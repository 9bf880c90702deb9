"""The worst pair of tables for each certified mechanism: those that its proof names, in `mechanisms/*.md`.

A `Pair` is two neighbouring tables, and a program of which one chain is one run of the mechanism. What a chain
returns is the run as an attacker looks at it: the release along the direction in which the tables differ, in standard
deviations of its noise from the middle of the two; or how many bits of a run were true. Programs are executed by a
vault, so that keys, gates, sums and noise are those of any other run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Adjacency, Event
from dpmcmc.audits.bounds import APART
from dpmcmc.audits.histograms import Places
from dpmcmc.enclave import PrivateData

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE

CAPACITY = 8
"""Slots of the small tables under add-or-remove-one."""

DIRECTION = np.array([0.6, -0.8], np.float32)
"""Along which the record of interest points: with all coordinates, so that none of them may be forgotten."""

NOTHING = np.zeros(2, np.float32)


@dataclass(frozen=True)
class Linear:
    """A model whose log-likelihood is a product of position and record: its gradient is the record itself."""

    temperature: float = 1.0

    def log_prior(self, position: jax.Array) -> jax.Array:
        """Say nothing."""
        return 0.0 * jnp.sum(position)

    def log_likelihood(self, position: jax.Array, record: Any) -> jax.Array:
        """Return the product."""
        return jnp.sum(position * record["x"])


@dataclass(frozen=True)
class Residual(Linear):
    """A model with a linear predictor, whose gradient is a residual times a row: what accelerators look for."""

    def log_likelihood(self, position: jax.Array, record: Any) -> jax.Array:
        """Return a quadratic in the predictor around the record's own y; its slope at zero is y times the row."""
        predictor = jnp.sum(position * record["x"])
        return record["y"] * predictor - 0.125 * predictor**2


@dataclass(frozen=True)
class Square(Linear):
    """A model with Hessian -y x x^T: of rank one, of either sign."""

    def log_likelihood(self, position: jax.Array, record: Any) -> jax.Array:
        """Return -y (x . position)^2 / 2."""
        return -0.5 * record["y"] * jnp.sum(position * record["x"]) ** 2


@dataclass(frozen=True)
class Full(Linear):
    """A model with Hessian -y A, A no product of a row with itself: for the reference path."""

    def log_likelihood(self, position: jax.Array, record: Any) -> jax.Array:
        """Return -y times a quadratic form with the eigenvalues 1 and 1/2."""
        return -0.5 * record["y"] * (position[0] ** 2 + 0.5 * position[1] ** 2)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring tables and a program; `law` says what is claimed of what a chain returns.

    Pairs are compared by identity, so that a vault knows a program again and does not compile it twice.
    """

    mechanism: str
    adjacency: Adjacency
    tables: tuple[Any, Any]
    """The table on which runs lie higher, and the other one."""
    program: Callable[[Any, Any], Any]
    """``program(oracle, queries)``: one run, of one chain."""
    queries: Any
    """What one chain asks at."""
    law: "Law"
    model: Any = None
    noise: str = "exact"
    accelerate: bool = True
    path: str = "reference"
    """By which way sums are expected to be added up."""

    def vault(self, side: int) -> PrivateData:
        """Return a vault around one of the tables; nobody pays, for it is run more often than any budget allows."""
        facts: dict[str, Any] = {"capacity": CAPACITY} if self.adjacency is ADD else {}
        return PrivateData.without_guarantee(
            self.tables[side], adjacency=self.adjacency, noise=self.noise, accelerate=self.accelerate, **facts
        )

    def many(self, oracle: Any, queries: Any) -> Any:
        """Run as many chains as there are queries, all at once."""
        return jax.vmap(lambda own: self.program(oracle, own))(queries)

    def queries_of(self, chains: int) -> Any:
        """Return the queries of so many chains."""
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (chains, *jnp.shape(leaf))), self.queries)

    def price(self) -> Event:
        """Return what the auditor charges for one run."""
        return self.vault(0).price(self.many, self.queries_of(1), model=self.model)

    def paths(self) -> tuple[str, ...]:
        """Return the ways by which a run adds records up, as certificates name them."""
        return self.vault(0).audit(self.many, self.queries_of(1), model=self.model).paths

    @property
    def words(self) -> str:
        """What names the pair."""
        mode = "" if self.noise == "exact" else f", {self.noise} noise"
        return f"{self.mechanism}{mode}, {self.adjacency.value}, {self.path}"


@dataclass(frozen=True)
class Law:
    """What a run is claimed to be: Gaussian, a Gaussian on a sample, or so many bits.

    Attributes:
        event: from a noise multiplier to the claimed event, under the hypothesis that the form is right and the noise
            is not known.
        rate: the chance that the record is in a batch; one without sampling.
        moves: on which table the record, if it is in the batch, moves the sum: both, the first or the second.
        num_bits: how many bits a run has, and zero for sums.
        scale: the noise in sensitivities, where results are to be turned back into these.
        is_normal: whether a release has normal noise, around one place or two.
    """

    event: Callable[[float], Event]
    rate: float = 1.0
    moves: str = "second"
    num_bits: int = 0
    scale: float = 1.0
    is_normal: bool = True

    def noise_multiplier(self, ratio: float) -> float:
        """Return the noise multiplier that the difference of means over the deviation within tables speaks of.

        If the record is in the batch with chance q, it moves the sum by D, and the noise has the deviation s: then
        the means differ by q D, and the variance within tables is s^2 + h D^2 on average, h = q (1 - q) / 2 where it
        moves one table by D, q (1 - q) / 4 where it moves both by D / 2.
        """
        spread = self.rate * (1 - self.rate) / (4 if self.moves == "both" else 2)
        left = self.rate**2 - spread * ratio**2
        return float("inf") if ratio <= 0 else max(left, 0.0) ** 0.5 / ratio

    @property
    def form(self) -> tuple[Places, Places]:
        """Where the sums of the two tables lie, and how often, if what the record moves them by is one."""
        if self.rate == 1.0:
            return APART
        out, at = 1 - self.rate, self.rate
        if self.moves == "both":
            return ((out, 0.0), (at, 0.5)), ((out, 0.0), (at, -0.5))
        high, low = ((1.0, 0.5),), ((1.0, -0.5),)
        return (((out, -0.5), (at, 0.5)), low) if self.moves == "first" else (high, ((out, 0.5), (at, -0.5)))


def tables_of(adjacency: Adjacency, record: Any, other: Any, rest: Any, count: int = 4) -> tuple[Any, Any]:
    """Return the pair: the record replaced by the other, or removed."""
    return replace(record, other, rest, count) if adjacency is REPLACE else add(record, rest, count)


def middle_of(adjacency: Adjacency) -> float:
    """Return the middle of the two sums, in clips: opposite records, or one and none."""
    return 0.0 if adjacency is REPLACE else 0.5


def replace(record: Any, other: Any, rest: Any, count: int = 4) -> tuple[Any, Any]:
    """Return two tables that differ in their first record, with `count` further ones."""
    return _table(record, rest, count), _table(other, rest, count)


def add(record: Any, rest: Any, count: int = 4) -> tuple[Any, Any]:
    """Return a table with the record, and the one without it."""
    without = jax.tree.map(lambda leaf: leaf[1:], _table(record, rest, count))
    return _table(record, rest, count), without


def _table(record: Any, rest: Any, count: int) -> Any:
    def stacked(own: Any, other: Any) -> np.ndarray:
        return np.stack([np.asarray(own, np.float32), *[np.asarray(other, np.float32)] * count])

    return jax.tree.map(stacked, record, rest)


def standardised(noisy: Any, direction: Any, middle: Any) -> jax.Array:
    """Return a noisy vector along a direction, from the middle of the pair, in standard deviations of its noise."""
    along = jnp.sum(jnp.ravel(noisy.value) * jnp.asarray(direction))
    return (along - middle) / jnp.sqrt(noisy.variance)


def count_true(decide: Callable[[], jax.Array], times: int) -> jax.Array:
    """Return how many of so many decisions in a row are true, as a chain would make them."""

    def step(total: jax.Array, _: Any) -> tuple[jax.Array, None]:
        return total + decide().astype(jnp.int32), None

    return jax.lax.scan(step, jnp.int32(0), None, length=times)[0]
