"""Noisy sums: integers through the gate, added up exactly, and noise added in integers. sums.md has the contract.

The *reference path* is here: a record's contribution is computed, rounded and gated, one chunk of records after the
other, for all chains at once. Gradients and Hessians may go faster ones: see `paths`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpmcmc.accounting.event import Event, Gaussian
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, to_float
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.core.gate import Ball, Chunk, Gate, MovableBall, gated_sum
from dpmcmc.enclave.core.mechanism import Contribution, OfSum, ReleasePlan
from dpmcmc.enclave.core.metadata import Facts, at_once
from dpmcmc.enclave.core.places import Slots, sum_parts
from dpmcmc.enclave.noise.discrete_gaussian import approximation, law
from dpmcmc.enclave.noise.modes import draw_noise

ENTRIES_ON_GPU = 2**26
"""How many entries of contributions a GPU holds at once, since short loops would leave it idle."""

Quantise = Callable[[jax.Array, Lattice], jax.Array]
"""Untrusted: integers on a lattice from contributions, shape (records, entries)."""


def reference_sum(
    chunk_size: int,
    length: int,
    contribution: Contribution,
    slots: Slots,
    queries: Sequence[jax.Array],
    lattices: Lattice,
    gate: Gate,
    to_integers: Quantise,
    adds: Callable[[jax.Array, jax.Array], Wide] | None = None,
) -> Wide:
    """Return the exact sum for each chain, shape (chains, coordinates): the reference path.

    Args:
        chunk_size: how many records to hold at once at most.
        length: how many numbers one record adds.
        contribution: what one record adds at the queries of one chain: a flat vector, not clipped yet.
        slots: the records.
        queries: flat queries with one leading axis, the chains.
        lattices: one granularity per chain; one bound for all.
        gate: what of integers passes.
        to_integers: turns contributions into integers; not trusted.
        adds: see `gated_sum`.
    """
    entries = jnp.size(lattices.granularity) * length
    chunk = at_once(chunk_size, entries)
    if jax.default_backend() == "gpu" and adds is None:
        chunk = max(chunk, ENTRIES_ON_GPU // entries)

    def of_part(part: Slots, _: Any) -> Wide:
        def compute(at: Chunk) -> jax.Array:
            rows, each = at.of(part.rows), jax.vmap(contribution, in_axes=(None, 0), axis_size=at.size)

            def of_chain(queries: Sequence[jax.Array], lattice: Lattice) -> jax.Array:
                return to_integers(each(queries, rows), lattice)

            return for_chains(of_chain, list(queries), lattices)

        counts, shape = lambda at: at.of(part.occupied), None if adds else (jnp.size(lattices.granularity), length)
        return gated_sum(gate, compute, counts, part.length, chunk, part.once, adds=adds, shape=shape)

    return sum_parts(of_part, slots)


def noisy(mode: str, total: Wide, granularity: Any, scale: Any, keys: jax.Array) -> jax.Array:
    """Return sums with noise, as floating point; a granularity a chain, and a key, used here and nowhere else."""

    def of_chain(total: Wide, key: jax.Array, granularity: jax.Array) -> jax.Array:
        return to_float(add(total, draw_noise(mode, key, scale, total.high.shape)), granularity)

    return for_chains(of_chain, total, keys, granularity)


def for_chains(of_chain: Callable[..., Any], *chains: Any) -> Any:
    """Return what `jax.vmap` does over one leading axis, the chains; one chain is traced as it is, in half the time."""
    if any(leaf.shape[0] != 1 for leaf in jax.tree.leaves(chains)):
        return jax.vmap(of_chain)(*chains)
    alone = jax.tree.map(lambda leaf: lax.squeeze(leaf, (0,)), chains)
    return jax.tree.map(lambda result: lax.expand_dims(result, (0,)), of_chain(*alone))


def noise_variance(lattice: Lattice) -> Any:
    """Return the variance of the noise on each coordinate: (scale * granularity)^2."""
    steps = lattice.granularity
    root = np.float32(lattice.scale) * (np.float32(steps) if isinstance(steps, float) else jnp.asarray(steps))
    return root * root


def vector_lattice(clip: float, noise_multiplier: float, facts: Facts) -> Lattice:
    """Return the lattice of a sum of vectors whose norm is held to a constant clip."""
    return gradient_lattice(clip, noise_over_clip(noise_multiplier, facts.clips_moved), facts.size)


def lattice_event(noise_multiplier: float, num_coordinates: int, lattice: Lattice) -> Event:
    """Return the event of a noisy lattice sum: its Gaussian, and the distance of its noise from that Gaussian."""
    return Gaussian(noise_multiplier) + approximation(num_coordinates, lattice.scale)


class SumNoise(NamedTuple):
    """The noise of a lattice sum: what it is in accounting terms, how it is drawn, and the variance of a coordinate."""

    event: Event
    law: Callable[[], Any]
    variance: Any


def gaussian_noise(noise_multiplier: float, num_coordinates: int, lattice: Lattice) -> SumNoise:
    """Return discrete Gaussian noise."""
    event = lattice_event(noise_multiplier, num_coordinates, lattice)
    return SumNoise(event, lambda: law(lattice.scale), noise_variance(lattice))


class Numbers(NamedTuple):
    """Everything that the lattice of a sum decides, and the constants of what is added up: arguments of a program."""

    granularity: Any
    gate: MovableBall
    aim: Any  # for `quantise.vector`
    law: Any
    constants: Any


@dataclass(frozen=True)
class ReferenceSum:
    """A noisy sum of vectors by the reference path, with all its numbers as arguments."""

    contribution: Any
    """``contribution(constants, queries, record)``."""
    chunk_size: int
    num_coordinates: int
    noise: str

    def total(self, slots: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        """Return the exact sum."""
        numbers: Numbers = slots.numbers
        granularity = jnp.full(num_chains, numbers.granularity, jnp.float32)
        lattices = Lattice(granularity, numbers.gate.largest)
        contribution = partial(self.contribution, numbers.constants)
        to_integers = partial(quantise.vector, aim=numbers.aim)
        how = self.chunk_size, self.num_coordinates
        return reference_sum(*how, contribution, slots, queries, lattices, numbers.gate, to_integers)

    def finish(self, slots: Slots, total: Wide, queries: Any, keys: jax.Array) -> Sequence[jax.Array]:  # noqa: ARG002
        """Add noise."""
        numbers: Numbers = slots.numbers
        granularity = jnp.full(len(keys), numbers.granularity, jnp.float32)
        return [noisy(self.noise, total, granularity, numbers.law, keys)]

    def __call__(self, slots: Slots, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
        """Draw the release."""
        return OfSum(self.total, self.finish)(slots, queries, keys)


def plain_sum(
    facts: Facts,
    clip: float,
    noise_multiplier: float,
    contribution: Contribution,
    num_coordinates: int,
    noise_of: Callable[[float, int, Lattice], SumNoise] = gaussian_noise,
    sums: Callable[..., ReferenceSum] = ReferenceSum,
    num_released: int | None = None,
) -> ReleasePlan:
    """Return the plan of a noisy sum of vectors that are held to a constant clip, by the reference path.

    A record adds so many coordinates; so many are released, if `sums` adds them up at places of their own.
    """
    lattice, num_released = vector_lattice(clip, noise_multiplier, facts), num_released or num_coordinates
    noise = noise_of(noise_multiplier, num_released, lattice)
    gate = Ball(lattice.bound, num_coordinates).movable

    def with_arguments(flatten: Callable[[Contribution], tuple[Any, Any]]) -> tuple[ReferenceSum, Numbers]:
        evaluate, constants = flatten(contribution)
        aim, single = quantise.aim_of(lattice.bound, num_coordinates), np.float32(cast(float, lattice.granularity))
        numbers = Numbers(single, gate, aim, noise.law(), constants)
        return sums(evaluate, facts.chunk_size, num_coordinates, facts.noise), numbers

    whole = cache(lambda: with_arguments(lambda own: (lambda _, queries, record: own(queries, record), ())))

    def numbered(slots: Slots) -> Slots:
        return replace(slots, numbers=whole()[1])

    return ReleasePlan(
        outputs=(jax.ShapeDtypeStruct((num_released,), jnp.float32),),
        event=noise.event,
        draw=OfSum(
            lambda slots, *given: whole()[0].total(numbered(slots), *given),
            lambda slots, *given: whole()[0].finish(numbered(slots), *given),
        ),
        variance=lambda _: noise.variance,
        with_arguments=with_arguments,
    )
