"""The noisy log-likelihood ratio of two positions, and the penalty test on it (Räisä et al. 2021, Section 3).

The proof is in log_ratio.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import AcceptBit, Event
from dpmcmc.enclave.lattice import Lattice, noise_over_clip, penalty_lattice, quantise_scalar
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.lattice_sum import (
    CLIPS_MOVED,
    lattice_approximation,
    lattice_event,
    noise_variance,
    noisy_lattice_sum,
)


def log_ratio(term: Term) -> Contribution:
    """Return one record's log-likelihood at the second position less the one at the first."""

    def ratio(queries: Sequence[jax.Array], record: Any) -> jax.Array:
        first, second = queries[: term.num_queries], queries[term.num_queries : 2 * term.num_queries]
        return jnp.reshape(term(second, record) - term(first, record), (1,)).astype(jnp.float32)

    return ratio


def distance(queries: Sequence[jax.Array]) -> jax.Array:
    """Return the l2 distance of the two positions of one chain, over all their arrays."""
    half = len(queries) // 2
    squares = [jnp.sum(jnp.square(a - b)) for a, b in zip(queries[:half], queries[half:], strict=True)]
    return jnp.sqrt(sum(squares[1:], start=squares[0])).astype(jnp.float32)


def ratio_lattice(clip: float, noise_multiplier: float, facts: Facts, queries: Sequence[jax.Array]) -> Lattice:
    """Return the lattice of one chain: the clip is ``clip * distance``, so the granularity follows the positions."""
    noise = noise_over_clip(noise_multiplier, CLIPS_MOVED[facts.adjacency])
    return penalty_lattice(clip * distance(queries), noise, facts.size)


@certified
@dataclass(frozen=True)
class LogRatio:
    """Sum over the records of clip(log-likelihood ratio), with noise of `noise_multiplier` times the sensitivity.

    One record's ratio is held to abs(r) <= clip * distance of the positions; `clip` is the papers' b_l, a bound on the
    slope of one record's log-likelihood. Noise and clip grow together, so the price does not depend on the positions.
    The variance over the granularity is a whole number: a penalty test on the value is exact (log_ratio.md).
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one number."""
        return (jax.ShapeDtypeStruct((1,), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the Gaussian of the noise multiplier, under either adjacency."""
        return lattice_event(self.noise_multiplier, facts, 1)

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:
        """Return the variance of the noise: what a penalty test subtracts half of."""
        return noise_variance(ratio_lattice(self.clip, self.noise_multiplier, facts, queries))

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the noisy log-ratio of each chain."""
        lattices = jax.vmap(lambda one: ratio_lattice(self.clip, self.noise_multiplier, facts, one))(list(queries))
        return [noisy_lattice_sum(quantise_scalar, lattices, facts, contribution, records, queries, keys)]


class PenaltyDecision:
    """The decision of a penalty test alone: accept if log u < R + noise - variance / 2 + the public rest.

    R is the sum that `LogRatio` releases; here it stays in the enclave, and so does u, which makes the release cheaper
    (`AcceptBit`). How far one record's ratio is held is left to the mechanisms: their `lattice` says it.
    """

    noise_multiplier: float

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "penalty"

    def lattice(self, facts: Facts, positions: Sequence[jax.Array]) -> Lattice:
        """Return the lattice of one chain: its granularity follows the positions, bound and scale are constants."""
        raise NotImplementedError

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one bit."""
        return (jax.ShapeDtypeStruct((), jnp.bool_),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the accept bit of the noise multiplier, under either adjacency."""
        return AcceptBit(self.noise_multiplier) + lattice_approximation(self.noise_multiplier, facts, 1)

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the decision of each chain."""
        *positions, public = queries
        of_noise, of_test = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        lattices = jax.vmap(lambda one: self.lattice(facts, one))(positions)
        noisy = noisy_lattice_sum(quantise_scalar, lattices, facts, contribution, records, queries, of_noise)[:, 0]
        minus_log_uniform = jax.vmap(jax.random.exponential)(of_test)
        return [-minus_log_uniform < noisy - noise_variance(lattices) / 2 + public]


@certified
@dataclass(frozen=True)
class PenaltyTest(PenaltyDecision):
    """The decision of a penalty test on the ratio that `LogRatio` releases, whose clip follows the distance."""

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    def lattice(self, facts: Facts, positions: Sequence[jax.Array]) -> Lattice:
        """Return the lattice of one chain: that of `LogRatio`."""
        return ratio_lattice(self.clip, self.noise_multiplier, facts, positions)
