"""The noisy gradient of the log-likelihood (Räisä et al. 2021, Section 3.1). The proof is in gradient.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import SumRequest, vector_sum
from dpmcmc.enclave.mechanisms.sum import Sum


def num_coordinates(queries: Sequence[Any]) -> int:
    """Return how many coordinates a position has, over all its arrays."""
    return sum(prod(query.shape) for query in queries)


def flat_gradient(term: Term) -> Contribution:
    """Return the gradient of one record's term with respect to the position, as a flat vector."""

    def gradient(queries: Sequence[jax.Array], record: Any) -> jax.Array:
        parts = jax.grad(lambda position: term(position, record))(list(queries))
        return jnp.concatenate([jnp.ravel(part) for part in parts]).astype(jnp.float32)

    return gradient


@dataclass(frozen=True, slots=True)
class GradientSum:
    """Sum over the records of clip(gradient of log-likelihood), with noise of `noise_multiplier` times the sensitivity.

    `clip` (the papers' b_g or L) bounds the l2 norm of one record's gradient. Under replace-one the noise has the
    standard deviation 2 * clip * noise_multiplier on each coordinate, under add-or-remove-one half of it.
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

    @property
    def of_scores(self) -> Sum:
        """The sum of a statistic that is a gradient: with the same clip, noise and price."""
        return Sum(self.clip, self.noise_multiplier)

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the position; a Gaussian, under either adjacency."""
        request = SumRequest("gradient", contribution, tuple(queries))
        length = num_coordinates(queries)
        return vector_sum(facts, self.clip, self.noise_multiplier, contribution, length, request)
