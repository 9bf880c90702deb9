"""The same releases without clipping and without noise: `NonPrivate`, for baselines on data that is not private.

exact.md says why they are in the enclave at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from dpmcmc.accounting.event import NonPrivate
from dpmcmc.enclave.accelerate.linear.rows import Rows, find_rows, scale_rows
from dpmcmc.enclave.accelerate.linear.sums import sum_scaled_rows
from dpmcmc.enclave.batches.sampling import Sampling, as_sampling, draw_batches
from dpmcmc.enclave.batches.subsample import Batch
from dpmcmc.enclave.core.gate import Chunk
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts, at_once
from dpmcmc.enclave.core.paths import one_chain
from dpmcmc.enclave.core.places import Slots, sum_parts
from dpmcmc.enclave.mechanisms.gradient import flat_gradient, num_coordinates
from dpmcmc.enclave.mechanisms.log_ratio import log_ratio


def exact_sum(
    facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], num_chains: int
) -> jax.Array:
    """Return the plain sum for each chain, in chunks; a contribution that is not finite counts as zero here too."""
    return sum_parts(lambda part, _: _sum_part(facts, contribution, part, queries, num_chains), slots)


def _sum_part(
    facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], num_chains: int
) -> jax.Array:
    def of_chunk(rows: Any, counts: jax.Array) -> jax.Array:
        def of_chain(queries: Sequence[jax.Array], _: jax.Array) -> jax.Array:
            vectors = jax.vmap(contribution, in_axes=(None, 0))(queries, rows)
            finite = jnp.all(jnp.isfinite(vectors), axis=1, keepdims=True)
            return jnp.sum(jnp.where(finite & counts[:, None], vectors, 0), axis=0)

        return jax.vmap(of_chain)(list(queries), jnp.arange(num_chains))

    length = jax.eval_shape(contribution, one_chain(queries), facts.record).shape[0]
    chunk = min(at_once(facts.chunk_size, num_chains * length), slots.length)

    def add_chunk(number: Any, total: jax.Array) -> jax.Array:
        start = jnp.minimum(number * chunk, slots.length - chunk)  # the last one overlaps the one before it
        counts = Chunk(start, chunk).of(slots.occupied) & (start + jnp.arange(chunk) >= number * chunk)
        return total + of_chunk(Chunk(start, chunk).of(slots.rows), counts)

    start = jnp.zeros((num_chains, length), jnp.float32)
    return jax.lax.fori_loop(0, -(-slots.length // chunk), add_chunk, start)


def _plan(
    draw: Callable[[Any, Sequence[jax.Array], jax.Array], Sequence[jax.Array]],
    outputs: jax.ShapeDtypeStruct,
    prepare: Callable[[Any], Any] = lambda slots: slots,
) -> ReleasePlan:
    """Return a plan whose event no budget pays for, and which has no noise."""
    return ReleasePlan(
        (outputs,), NonPrivate(), draw, prepare, variance=lambda _: jnp.zeros(()), path=lambda: "exact", is_gated=False
    )


@dataclass(frozen=True, slots=True)
class ExactSum:
    """The sum of a statistic over the records: what `Sum` would be without protection."""

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum; its noise is zero."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return lambda queries, record: jnp.ravel(term(queries, record)).astype(jnp.float32)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the statistic."""

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            return [exact_sum(facts, contribution, slots, queries, len(keys))]

        return _plan(draw, jax.eval_shape(contribution, list(queries), facts.record))


@dataclass(frozen=True, slots=True)
class ExactGradientSum:
    """The gradient of the log-likelihood: what `GradientSum` would be without protection."""

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum; its noise is zero."""
        return True

    @property
    def of_scores(self) -> ExactSum:
        """The sum of a statistic that is a gradient."""
        return ExactSum()

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the position."""

        def prepare(slots: Slots) -> Any:
            factors = find_rows(facts, contribution, queries) if facts.paths else None
            return slots if factors is None else scale_rows(factors, slots)

        def draw(prepared: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            if isinstance(prepared, Rows):
                return [sum_parts(lambda part, _: sum_scaled_rows(part, queries), prepared)]
            return [exact_sum(facts, contribution, prepared, queries, len(keys))]

        return _plan(draw, jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32), prepare)


@dataclass(frozen=True, slots=True)
class ExactLogRatio:
    """The log-likelihood ratio of two positions: what `LogRatio` would be without protection."""

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum; its noise is zero."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one number."""

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            return [exact_sum(facts, contribution, slots, queries, len(keys))]

        return _plan(draw, jax.ShapeDtypeStruct((1,), jnp.float32))


@dataclass(frozen=True, slots=True)
class ExactBarkerBit:
    """What `BarkerBit` would be without clipping."""

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "barker"

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one bit."""

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            log_odds = exact_sum(facts, contribution, slots, queries, len(keys))[:, 0] + queries[-1]
            return [jax.vmap(jax.random.logistic)(keys) < log_odds]

        return _plan(draw, jax.ShapeDtypeStruct((), jnp.bool_))


@dataclass(frozen=True, slots=True)
class ExactSubsampledGradientSum:
    """What `SubsampledGradientSum` would be without clipping and noise; the choice of the batch is its only noise."""

    sampling: Sampling

    def __post_init__(self) -> None:
        object.__setattr__(self, "sampling", as_sampling("sampling", self.sampling))

    @property
    def is_noisy_sum(self) -> bool:
        """What is released is a sum; its noise is zero."""
        return True

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:
        """Return the plan: one vector with as many coordinates as the position."""
        self.sampling.check(facts)

        def of_chain(part: Slots, queries: Sequence[jax.Array], batch: Batch) -> jax.Array:
            rows = jax.tree.map(lambda leaf: jnp.take(leaf, batch.indices, axis=0, mode="clip"), part.rows)
            counts = batch.mask & jnp.take(part.occupied, batch.indices, mode="clip")
            own = Slots(rows, counts, part.once)
            return _sum_part(facts, contribution, own, [query[None] for query in queries], 1)[0]

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            batch = draw_batches(self.sampling, keys, facts)

            def of_part(part: Slots, first: ArrayLike) -> jax.Array:
                own = batch.within(first, part.length)
                return jax.vmap(lambda queries, batch: of_chain(part, queries, batch))(list(queries), own)

            return [sum_parts(of_part, slots) * self.sampling.weight(facts)]

        return _plan(draw, jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32))
