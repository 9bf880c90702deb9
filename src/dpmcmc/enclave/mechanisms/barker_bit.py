"""The decision of a Barker test on all records: one coin of probability S(lambda). The proof is in barker_bit.md."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from dpmcmc import validation
from dpmcmc.accounting.event import Approximation, LogisticBit
from dpmcmc.enclave.arithmetic.int64 import Wide, add, zero
from dpmcmc.enclave.arithmetic.lattice import TARGET_BOUND, Lattice, check_records
from dpmcmc.enclave.core.gate import seal
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import per_chain
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.mechanisms.log_ratio import log_ratio, scalar_sum
from dpmcmc.enclave.noise.floating import from_float
from dpmcmc.enclave.noise.logistic_coin import LOGISTIC_ERROR, bernoulli_logistic


def logistic_lattice(clip: float, num_records: int) -> Lattice:
    """Return the lattice for a log-ratio that a logistic coin reads: the granularity is a power of two, >= 2^-26."""
    clip = validation.positive("clip", clip)
    bits = min(26, math.floor(math.log2(TARGET_BOUND / clip)))
    if bits < 0 or clip * 2**bits < 1:
        validation.refuse("clip", clip, "must be between 2^-26 and 2^20 for a logistic coin")
    bound = math.floor(clip * 2**bits)
    check_records(num_records, bound)
    return Lattice(2.0**-bits, bound)


def public_steps(public: jax.Array, granularity: float) -> Wide:
    """Return the public rest of a log-ratio in steps of a lattice; what is not a number counts as minus infinity."""
    steps = jnp.where(jnp.isnan(public), -jnp.inf, public) / granularity
    return from_float(jnp.clip(steps, -(2.0**61), 2.0**61))


def sealed_steps(public: jax.Array, granularity: float, once: jax.Array) -> Wide:
    """Return `public_steps` as integers that nobody computes again: one decision has one threshold."""
    made = public_steps(public, granularity)
    return seal(once, lambda _: made, zero(made.high.shape))


@dataclass(frozen=True, slots=True)
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

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one coin. One record moves lambda by two clips under replace-one, by one under the other."""

        def draw(slots: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            log_odds, lattice = self.log_odds(facts, contribution, slots, queries)
            granularity = float(lattice.granularity)  # pyright: ignore[reportArgumentType]
            return [jax.vmap(lambda key, odds: bernoulli_logistic(key, odds, granularity))(keys, log_odds)]

        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((), jnp.bool_),),
            event=LogisticBit(facts.clips_moved * self.clip) + Approximation(LOGISTIC_ERROR),
            draw=draw,
        )

    def log_odds(
        self, facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array]
    ) -> tuple[Wide, Lattice]:
        """Return lambda of each chain in steps of the lattice, exactly: a private value, which no release returns."""
        lattice = logistic_lattice(self.clip, facts.size)
        total = scalar_sum(facts, contribution, slots, queries, per_chain(lattice, len(queries[-1])))
        of_records = Wide(total.high[:, 0], total.low[:, 0])
        granularity = float(lattice.granularity)  # pyright: ignore[reportArgumentType]
        return add(of_records, sealed_steps(queries[-1], granularity, slots.once)), lattice
