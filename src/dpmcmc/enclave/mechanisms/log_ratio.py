"""The noisy log-likelihood ratio of two positions, and the penalty test on it (Räisä et al. 2021, Section 3).

The proof is in log_ratio.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.accounting.event import AcceptBit
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip, single, times
from dpmcmc.enclave.core.gate import Interval, seal
from dpmcmc.enclave.core.mechanism import Contribution, OfSum, ReleasePlan, Term
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.paths import add_noise
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.sums import lattice_event, noise_variance, reference_sum
from dpmcmc.enclave.noise.discrete_gaussian import approximation


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


def penalty_lattice(clip: ArrayLike, noise_over_clip: float, num_records: int) -> Lattice:
    """Return the lattice for a log-ratio that a penalty test reads: sigma^2 / granularity is an integer.

    As `gradient_lattice`, with the granularity a whole multiple of 1 / s^2: then sigma^2 / granularity =
    s^2 * granularity is whole, and a(lambda) = e^lambda a(-lambda) for every lambda. Clip and noise move together by
    at most half of 1 / s^2 a step, which leaves bound and scale, hence the privacy, as they are.
    """
    lattice = gradient_lattice(clip, noise_over_clip, num_records)
    steps = lattice.scale**2
    whole = times(lattice.granularity, steps)
    rounded = jnp.maximum(jnp.rint(whole), 1) if isinstance(whole, jax.Array) else max(round(whole), 1)
    return Lattice(single(times(rounded, 1 / steps)), lattice.bound, lattice.scale)


def ratio_lattice(clip: float, noise_multiplier: float, facts: Facts, queries: Sequence[jax.Array]) -> Lattice:
    """Return the lattice of one chain: the clip is ``clip * distance``, so the granularity follows the positions.

    Bound and scale, which decide the privacy, follow from the multiplier and the adjacency alone.
    """
    noise = noise_over_clip(noise_multiplier, facts.clips_moved)
    return penalty_lattice(clip * distance(queries), noise, facts.size)


def scalar_sum(
    facts: Facts, contribution: Contribution, slots: Slots, queries: Sequence[jax.Array], lattices: Lattice
) -> Wide:
    """Return the exact sum of single numbers for each chain, shape (chains, 1)."""
    gate = Interval(-lattices.bound, lattices.bound)
    return reference_sum(facts.chunk_size, 1, contribution, slots, queries, lattices, gate, quantise.scalar)


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Sum over the records of clip(log-likelihood ratio), with noise of `noise_multiplier` times the sensitivity.

    One record's ratio is clipped to abs(r) <= clip * distance of the positions; `clip` is the papers' b_l, a bound on
    the slope of one record's log-likelihood. Noise and clip grow together, so the price does not depend on the
    positions. The variance over the granularity is a whole number: a penalty test on the value is exact (log_ratio.md).
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
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one number; the Gaussian of the noise multiplier, under either adjacency."""

        def lattice(positions: Sequence[jax.Array]) -> Lattice:
            return ratio_lattice(self.clip, self.noise_multiplier, facts, positions)

        def total(slots: Any, queries: Sequence[jax.Array], _: int) -> Wide:
            return scalar_sum(facts, contribution, slots, queries, jax.vmap(lattice)(list(queries)))

        def finish(_: Any, total: Wide, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
            return [add_noise(facts, total, jax.vmap(lattice)(list(queries)), keys)]

        return ReleasePlan(
            outputs=(jax.ShapeDtypeStruct((1,), jnp.float32),),
            event=lattice_event(self.noise_multiplier, 1, constant_lattice(self.noise_multiplier, facts)),
            draw=OfSum(total, finish),
            variance=lambda queries: noise_variance(lattice(queries)),
        )


def penalty_decision(
    facts: Facts,
    contribution: Contribution,
    noise_multiplier: float,
    lattice: Callable[[Sequence[jax.Array]], Lattice],
) -> ReleasePlan:
    """Return the plan of the decision of a penalty test: log u < R + noise - variance / 2 + the public rest.

    R is the sum that `LogRatio` releases; here it stays in the enclave, and so does u, which makes the release cheaper
    (`AcceptBit`). How far one record's ratio is held is said by the `lattice` of one chain: its granularity follows the
    positions, bound and scale are constants.
    """

    def total(slots: Any, queries: Sequence[jax.Array], _: int) -> Wide:
        return scalar_sum(facts, contribution, slots, queries, jax.vmap(lattice)(list(queries[:-1])))

    def finish(slots: Any, total: Wide, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
        *positions, public = queries
        of_noise, of_test = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        lattices = jax.vmap(lattice)(positions)
        noisy = add_noise(facts, total, lattices, of_noise)[:, 0]
        minus_log_uniform = jax.vmap(jax.random.exponential)(of_test)

        def decide(_: jax.Array) -> jax.Array:
            return -minus_log_uniform < noisy - noise_variance(lattices) / 2 + public

        # sealed: of a bit that was computed twice, and differently, the price would be that of two
        return [seal(slots.once, decide, jnp.zeros(keys.shape, jnp.bool_))]

    scale = constant_lattice(noise_multiplier, facts).scale
    return ReleasePlan(
        outputs=(jax.ShapeDtypeStruct((), jnp.bool_),),
        event=AcceptBit(noise_multiplier) + approximation(1, scale),
        draw=OfSum(total, finish),
    )


def constant_lattice(noise_multiplier: float, facts: Facts) -> Lattice:
    """Return a lattice with the bound and the scale that the lattices of all positions have."""
    return penalty_lattice(1.0, noise_over_clip(noise_multiplier, facts.clips_moved), facts.size)


@dataclass(frozen=True, slots=True)
class PenaltyTest:
    """The decision of a penalty test on the ratio that `LogRatio` releases, whose clip follows the distance."""

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", validation.positive("clip", self.clip))
        object.__setattr__(self, "noise_multiplier", validation.positive("noise_multiplier", self.noise_multiplier))

    @property
    def acceptance(self) -> str:
        """The rule that the bit obeys."""
        return "penalty"

    def contribution(self, term: Term) -> Contribution:
        """Return the log-likelihood ratio of one record."""
        return log_ratio(term)

    def plan(self, facts: Facts, contribution: Contribution, queries: Sequence[Any]) -> ReleasePlan:  # noqa: ARG002
        """Return the plan: one bit; the accept bit of the noise multiplier, under either adjacency."""

        def lattice(positions: Sequence[jax.Array]) -> Lattice:
            return ratio_lattice(self.clip, self.noise_multiplier, facts, positions)

        return penalty_decision(facts, contribution, self.noise_multiplier, lattice)
