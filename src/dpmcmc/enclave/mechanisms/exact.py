"""The same sums without clipping and without noise: `NonPrivate`, for baselines on data that is not private.

exact.md says why they are in the enclave at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc.accounting.event import Event, NonPrivate
from dpmcmc.enclave.linear_predictor import find_rows, sum_scaled_rows
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.gradient import flat_gradient, num_coordinates
from dpmcmc.enclave.mechanisms.log_ratio import log_ratio
from dpmcmc.enclave.rows import Rows, scale_rows
from dpmcmc.enclave.shards import consists_of, map_parts, num_rows, sum_parts


def exact_sum(
    facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], num_chains: int
) -> jax.Array:
    """Return the plain sum for each chain, in chunks; a contribution that is not finite counts as zero here too."""
    return sum_parts(lambda rows, _: _sum_part(facts, contribution, rows, queries, num_chains), records)


def _sum_part(
    facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], num_chains: int
) -> jax.Array:
    def of_chunk(chunk: Any) -> jax.Array:
        def of_chain(queries: Sequence[jax.Array], _: jax.Array) -> jax.Array:
            vectors = jax.vmap(contribution, in_axes=(None, 0))(queries, chunk)
            finite = jnp.all(jnp.isfinite(vectors), axis=1, keepdims=True)
            return jnp.sum(jnp.where(finite, vectors, 0), axis=0)

        return jax.vmap(of_chain)(list(queries), jnp.arange(num_chains))

    rows = num_rows(records)
    shape = jax.eval_shape(of_chunk, jax.tree.map(lambda leaf: leaf[:1], records))
    chunk_size = min(facts.at_once(shape.size), rows)
    whole = rows - rows % chunk_size
    chunks = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, chunk_size, *leaf.shape[1:]), records)
    start = jnp.zeros(shape.shape, shape.dtype)
    total, _ = jax.lax.scan(lambda total, chunk: (total + of_chunk(chunk), None), start, chunks)
    return total if whole == rows else total + of_chunk(jax.tree.map(lambda leaf: leaf[whole:], records))


@certified
@dataclass(frozen=True)
class ExactSum:
    """The sum of a statistic over the records: what `Sum` would be without protection."""

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Return one vector with as many coordinates as the statistic."""
        return (jax.eval_shape(self.contribution(term), list(queries), facts.record),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the event that no budget pays for."""
        return NonPrivate()

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return zero: there is no noise."""
        return jnp.zeros(())

    def contribution(self, term: Term) -> Contribution:
        """Return the statistic as a flat vector of real numbers."""
        return lambda queries, record: jnp.ravel(term(queries, record)).astype(jnp.float32)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the exact sum of each chain."""
        return [exact_sum(facts, contribution, records, queries, len(keys))]


@certified
@dataclass(frozen=True)
class ExactGradientSum:
    """The gradient of the log-likelihood: what `GradientSum` would be without protection."""

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one vector with as many coordinates as the position."""
        return (jax.ShapeDtypeStruct((num_coordinates(queries),), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the event that no budget pays for."""
        return NonPrivate()

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return zero: there is no noise."""
        return jnp.zeros(())

    def contribution(self, term: Term) -> Contribution:
        """Return the gradient of one record's log-likelihood."""
        return flat_gradient(term)

    def prepare(self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[Any]) -> Any:
        """Return the records as `compute` reads them best: with their rows, if there are rows."""
        return map_parts(lambda part: find_rows(facts, contribution, queries, part, scale_rows), records) or records

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the exact gradient of each chain; `records` as they are, or prepared."""
        if not consists_of(records, Rows):
            records = self.prepare(facts, contribution, records, [query[0] for query in queries])
        if consists_of(records, Rows):
            return [sum_parts(lambda part, _: sum_scaled_rows(part, queries), records)]
        return [exact_sum(facts, contribution, records, queries, len(keys))]


@certified
@dataclass(frozen=True)
class ExactLogRatio:
    """The log-likelihood ratio of two positions: what `LogRatio` would be without protection."""

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one number."""
        return (jax.ShapeDtypeStruct((1,), jnp.float32),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the event that no budget pays for."""
        return NonPrivate()

    def variance(self, facts: Facts, queries: Sequence[jax.Array]) -> jax.Array:  # noqa: ARG002
        """Return zero: there is no noise."""
        return jnp.zeros(())

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the exact log-ratio of each chain."""
        return [exact_sum(facts, contribution, records, queries, len(keys))]
