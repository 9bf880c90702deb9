"""The noisy sum of any statistic of a record. The proof is in sum.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.sums import plain_sum
from dpmcmc.enclave.traces import traced_at


@dataclass(frozen=True, slots=True)
class Sum:
    """Sum over the records of clip(statistic), with noise of `noise_multiplier` times the sensitivity.

    `clip` bounds the l2 norm of one record's statistic; a statistic that is not finite counts as zero.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum with noise."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return Flat(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the statistic; a Gaussian, under either adjacency."""
        (result,) = traced_at(contribution, queries, facts.record).out_avals
        return plain_sum(facts, self.clip, self.noise_multiplier, contribution, result.shape[0])


@dataclass(frozen=True)
class Flat:
    """A statistic as a flat vector of real numbers."""

    term: Term

    def __call__(self, queries: Sequence[Any], record: Any) -> jax.Array:
        """Evaluate the statistic."""
        return jnp.ravel(self.term(queries, record)).astype(jnp.float32)
