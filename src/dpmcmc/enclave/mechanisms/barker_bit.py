"""The decision of a Barker test on all records: one coin of probability S(lambda). The proof is in barker_bit.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Approximation, Event, LogisticBit, NonPrivate
from dpmcmc.enclave.lattice import (
    Lattice,
    Wide,
    add,
    even_chunks,
    from_float,
    logistic_lattice,
    quantise_scalar,
    sum_chunks,
)
from dpmcmc.enclave.logistic_coin import LOGISTIC_ERROR, bernoulli_logistic
from dpmcmc.enclave.mechanisms.base import Contribution, Facts, Term, certified
from dpmcmc.enclave.mechanisms.exact import exact_sum
from dpmcmc.enclave.mechanisms.lattice_sum import CLIPS_MOVED
from dpmcmc.enclave.mechanisms.log_ratio import log_ratio
from dpmcmc.enclave.shards import sum_parts


def public_steps(public: jax.Array, granularity: float) -> Wide:
    """Return the public rest of a log-ratio in steps of a lattice; what is not a number counts as minus infinity."""
    steps = jnp.where(jnp.isnan(public), -jnp.inf, public) / granularity
    return from_float(jnp.clip(steps, -(2.0**61), 2.0**61))


@certified
@dataclass(frozen=True)
class BarkerBit:
    """Accept with probability S(lambda) = 1 / (1 + exp(-lambda)), lambda = sum of clipped log-ratios + public rest.

    `clip` bounds abs(log-ratio) of one record, whatever the distance of the positions: the bit has no noise that could
    grow with the distance, so a clip per distance would have no fixed price. Detailed balance holds exactly, since
    S(l) / S(-l) = e^l, up to clipping.
    """

    clip: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        logistic_lattice(self.clip, 1)

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "barker"

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one bit."""
        return (jax.ShapeDtypeStruct((), jnp.bool_),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the logistic coin: one record moves lambda by two clips under replace-one, by one under the other."""
        return LogisticBit(CLIPS_MOVED[facts.adjacency] * self.clip) + Approximation(LOGISTIC_ERROR)

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def log_odds(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array]
    ) -> tuple[Wide, Lattice]:
        """Return lambda of each chain in steps of the lattice, exactly: a private value, which no release returns."""
        lattice = logistic_lattice(self.clip, facts.size)

        def steps(chunk: Any) -> jax.Array:
            def of_chain(queries: Sequence[jax.Array]) -> jax.Array:
                return quantise_scalar(jax.vmap(contribution, in_axes=(None, 0))(queries, chunk)[:, 0], lattice)

            return jax.vmap(of_chain, out_axes=1)(list(queries))

        # of one shape on all devices, and for all neighbours
        chunk_size = even_chunks(facts.size, facts.at_once(len(queries[-1])))
        total = sum_parts(lambda rows, _: sum_chunks(steps, rows, chunk_size, lattice.bound), records)
        return add(total, public_steps(queries[-1], float(lattice.granularity))), lattice  # pyright: ignore[reportArgumentType]

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the decision of each chain."""
        log_odds, lattice = self.log_odds(facts, contribution, records, queries)
        granularity = float(lattice.granularity)  # pyright: ignore[reportArgumentType]
        return [jax.vmap(lambda key, odds: bernoulli_logistic(key, odds, granularity))(keys, log_odds)]


@certified
@dataclass(frozen=True)
class ExactBarkerBit:
    """What `BarkerBit` would be without clipping: `NonPrivate`, for baselines on data that is not private."""

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "barker"

    def output(self, facts: Facts, term: Term, queries: Sequence[Any]) -> tuple[jax.ShapeDtypeStruct, ...]:  # noqa: ARG002
        """Return one bit."""
        return (jax.ShapeDtypeStruct((), jnp.bool_),)

    def event(self, facts: Facts, outputs: Sequence[jax.ShapeDtypeStruct]) -> Event:  # noqa: ARG002
        """Return the event that no budget pays for."""
        return NonPrivate()

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def compute(
        self, facts: Facts, contribution: Contribution, records: Any, queries: Sequence[jax.Array], keys: jax.Array
    ) -> Sequence[jax.Array]:
        """Return the decision of each chain."""
        log_odds = exact_sum(facts, contribution, records, queries, len(keys))[:, 0] + queries[-1]
        return [jax.vmap(jax.random.logistic)(keys) < log_odds]
