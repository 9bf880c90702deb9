"""Ways to sample, as the public knows them: their price, and what their batches stand for. `subsample` draws them."""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event, FixedBatchGaussian, PoissonGaussian
from dpmcmc.enclave.batches.subsample import (
    POISSON_ERROR,
    Batch,
    binomial_tail,
    fixed_batch_failure,
    fixed_batch_indices,
    poisson_batch,
    poisson_plan,
)
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.errors import AdjacencyMismatch


@dataclass(frozen=True, slots=True)
class WithoutReplacement:
    """Batches of exactly `batch_size` records, every set of that size as likely as any other; replace-one only."""

    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", validation.integer("batch_size", self.batch_size, at_least=1))

    def check(self, facts: Facts) -> None:
        """Refuse data for which a batch of this size has no price."""
        if facts.adjacency is not Adjacency.REPLACE_ONE:
            raise AdjacencyMismatch(
                f"batch_size={self.batch_size}: a batch of fixed size has a price under replace_one alone, because its "
                f"share of the records depends on their number, which is private under {facts.adjacency.value}; "
                "sample by Poisson, or state the data under replace_one"
            )
        if self.batch_size > facts.size:
            validation.refuse("batch_size", self.batch_size, f"must be <= {facts.size}, the number of records")

    def weight(self, facts: Facts) -> float:
        """Return by how much a sum over the batch is multiplied to estimate the sum over all records."""
        return facts.size / self.batch_size

    def gaussian(self, facts: Facts, noise_over_clip: float) -> Event:
        """Return the event of a batch sum of clipped vectors: one record moves it by two clips."""
        return FixedBatchGaussian(self.batch_size, facts.size, noise_over_clip / 2)

    def distance(self, facts: Facts) -> float:
        """Return the total variation between the batches drawn and ideal ones."""
        return fixed_batch_failure(self.batch_size, facts.size)

    def draw(self, key: jax.Array, population: int) -> Batch:
        """Return one batch of `population` slots."""
        return Batch(fixed_batch_indices(key, self.batch_size, population), jnp.ones(self.batch_size, jnp.bool_))


@dataclass(frozen=True, slots=True)
class Poisson:
    """Batches that every record enters by its own coin of probability `rate`, under either adjacency.

    `max_batch_size` is where a batch is cut off; the chance of that is charged. It takes the number of records to say
    how large the chance is, so it can be stated under replace-one alone. Left out, the enclave takes a limit that is
    exceeded with a probability below 2^-60.
    """

    rate: float
    max_batch_size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validation.fraction("rate", self.rate))
        if self.max_batch_size is not None:
            size = validation.integer("max_batch_size", self.max_batch_size, at_least=1)
            object.__setattr__(self, "max_batch_size", size)

    def check(self, facts: Facts) -> None:
        """Refuse a limit whose price would depend on a private number, or that cuts most batches off."""
        if self.max_batch_size is None:
            return
        if facts.adjacency is not Adjacency.REPLACE_ONE:
            raise AdjacencyMismatch(
                f"max_batch_size={self.max_batch_size}: how often a batch exceeds it depends on the number of records, "
                f"which is private under {facts.adjacency.value}; leave max_batch_size out"
            )
        if self.distance(facts) > 0.5:
            mean = self.rate * facts.size
            validation.refuse(
                "max_batch_size", self.max_batch_size, f"must be above {mean:g}, the mean size of a batch"
            )

    def weight(self, facts: Facts) -> float:  # noqa: ARG002
        """Return by how much a sum over the batch is multiplied to estimate the sum over all records."""
        return 1 / self.rate

    def gaussian(self, facts: Facts, noise_over_clip: float) -> Event:
        """Return the event of a batch sum of clipped vectors."""
        return PoissonGaussian(self.rate, noise_over_clip, facts.adjacency)

    def distance(self, facts: Facts) -> float:
        """Return the total variation between the batches drawn and ideal ones."""
        if self.max_batch_size is None:
            return POISSON_ERROR
        limit = poisson_plan(self.rate, facts.size, self.max_batch_size).limit
        return POISSON_ERROR + (0.0 if limit is None else binomial_tail(facts.size, self.rate, limit))

    def draw(self, key: jax.Array, population: int) -> Batch:
        """Return one batch of `population` slots."""
        return poisson_batch(key, self.rate, population, self.max_batch_size)


Sampling: TypeAlias = Poisson | WithoutReplacement


def as_sampling(name: str, value: object) -> Sampling:
    """Return a way to sample, made anew from its fields: a class of one's own could state its own price."""
    if type(value) is Poisson:
        return Poisson(value.rate, value.max_batch_size)
    if type(value) is WithoutReplacement:
        return WithoutReplacement(value.batch_size)
    return validation.refuse(name, value, "must be Poisson(rate) or WithoutReplacement(batch_size)")


def draw_batches(sampling: Sampling, keys: jax.Array, facts: Facts) -> Batch:
    """Return one batch for each key, with a leading axis: the chains. Batches are of slots, whose number is public."""
    return jax.vmap(lambda key: sampling.draw(key, facts.size))(keys)
