"""Noisy sums: integers through the gate, added up exactly, and noise added in integers. sums.md has the contract.

The *reference path* is here: a record's contribution is computed, rounded and gated, one chunk of records after the
other, for all chains at once. `enclave.accelerate` has faster paths for contributions of a certain form, which end at
the same gate and give sums on the same lattice; the owner may switch them off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from dpmcmc.accounting.event import Event, Gaussian
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, shift_left, to_float
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.core.gate import Ball, Chunk, Gate, gated_sum
from dpmcmc.enclave.core.mechanism import Contribution, ReleasePlan
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots, sum_parts
from dpmcmc.enclave.noise.discrete_gaussian import approximation
from dpmcmc.enclave.noise.modes import draw_noise

ENTRIES_ON_GPU = 2**26
"""How many entries of contributions a GPU holds at once, since short loops would leave it idle."""

LARGEST_SUMMAND, LARGEST_SCALE = 2**33 - 2**28, 2.0**44
"""How far the lattice of a sum is refined: up to this bound of one record, and this scale of the noise."""

Quantise = Callable[[jax.Array, Lattice], jax.Array]
"""Untrusted: integers on a lattice from contributions, shape (records, entries)."""


class SumPath(Protocol):
    """A way to add records up. Its contract, in sums.md, ends at the gate: nothing of it is believed before."""

    @property
    def name(self) -> str:
        """The name on certificates."""
        ...

    def prepare(self, slots: Slots) -> Any:
        """Return what `sum` reads, made of the records alone."""
        ...

    def sum(self, prepared: Any, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        """Return the sum for each chain, shape (chains, coordinates), in steps of the lattice asked for."""
        ...


@dataclass(frozen=True)
class SumRequest:
    """What is to be added up, as a path is asked whether it can."""

    form: str
    """``vector``, ``gradient`` or ``square``: what `contribution` is."""
    contribution: Contribution
    """The audited function; of ``square`` the factor of the matrix that is summed, see `mechanisms.curvature`."""
    queries: tuple[Any, ...]
    """The shapes of the queries of one chain."""


def reference_sum(
    facts: Facts,
    contribution: Contribution,
    slots: Slots,
    queries: Sequence[jax.Array],
    lattices: Lattice,
    gate: Gate,
    to_integers: Quantise,
) -> Wide:
    """Return the exact sum for each chain, shape (chains, coordinates): the reference path.

    Args:
        facts: what is public about the data.
        contribution: what one record adds at the queries of one chain: a flat vector, not clipped yet.
        slots: the records.
        queries: flat queries with one leading axis, the chains.
        lattices: one granularity a chain; one bound for all.
        gate: what of integers passes.
        to_integers: turns contributions into integers; not trusted.
    """
    entries = jnp.size(lattices.granularity) * jax.eval_shape(contribution, one_chain(queries), facts.record).size
    chunk = facts.at_once(entries)
    if jax.default_backend() == "gpu":
        chunk = max(chunk, ENTRIES_ON_GPU // entries)

    def of_part(part: Slots, _: Any) -> Wide:
        def compute(at: Chunk) -> jax.Array:
            rows = at.of(part.rows)

            def of_chain(queries: Sequence[jax.Array], lattice: Lattice) -> jax.Array:
                return to_integers(jax.vmap(contribution, in_axes=(None, 0))(queries, rows), lattice)

            return jax.vmap(of_chain)(list(queries), lattices)

        return gated_sum(gate, compute, lambda at: at.of(part.occupied), part.length, chunk, part.once)

    return sum_parts(of_part, slots)


def one_chain(queries: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the queries of the first chain: for their shapes."""
    return [query[0] for query in queries]


def per_chain(lattice: Lattice, num_chains: int) -> Lattice:
    """Return one lattice for each chain, all the same."""
    return Lattice(jnp.full(num_chains, lattice.granularity, jnp.float32), lattice.bound, lattice.scale)


def add_noise(facts: Facts, total: Wide, lattices: Lattice, keys: jax.Array) -> jax.Array:
    """Return sums with noise on their lattices, as floating point; one key a chain, used here and nowhere else."""

    def of_chain(total: Wide, key: jax.Array, lattice: Lattice) -> jax.Array:
        noise = draw_noise(facts.noise, key, lattice.scale, total.high.shape)
        return to_float(add(total, noise), lattice.granularity)

    return jax.vmap(of_chain)(total, keys, lattices)


def noise_variance(lattice: Lattice) -> jax.Array:
    """Return the variance of the noise on each coordinate: (scale * granularity)^2."""
    return jnp.square(lattice.scale * jnp.asarray(lattice.granularity, jnp.float32))


def vector_lattice(clip: float, noise_multiplier: float, facts: Facts) -> Lattice:
    """Return the lattice of a sum of vectors whose norm is held to a constant clip."""
    return gradient_lattice(clip, noise_over_clip(noise_multiplier, facts.clips_moved), facts.size)


def lattice_event(noise_multiplier: float, num_coordinates: int, lattice: Lattice) -> Event:
    """Return the event of a noisy lattice sum: its Gaussian, and the distance of its noise from that Gaussian."""
    return Gaussian(noise_multiplier) + approximation(num_coordinates, lattice.scale)


@dataclass(frozen=True)
class _Reference:
    """The reference path for vectors."""

    facts: Facts
    contribution: Contribution
    lattice: Lattice
    gate: Ball
    finer_bits: int
    name: str = "reference"

    def prepare(self, slots: Slots) -> Slots:
        return slots

    def sum(self, prepared: Slots, queries: Sequence[jax.Array], num_chains: int) -> Wide:
        lattices = per_chain(self.lattice, num_chains)
        total = reference_sum(self.facts, self.contribution, prepared, queries, lattices, self.gate, quantise.vector)
        return shift_left(total, self.finer_bits) if self.finer_bits else total


def vector_sum(
    facts: Facts,
    clip: float,
    noise_multiplier: float,
    contribution: Contribution,
    num_coordinates: int,
    request: SumRequest | None = None,
) -> ReleasePlan:
    """Return the plan of a noisy sum of vectors that are held to a constant clip.

    Where there may be faster paths, all of them add up on one lattice, which is a power of two finer than the reference
    path needs, so that products of two integers have room on it. Its bound and its scale are that power of two larger.

    Args:
        facts: what is public about the data.
        clip: the largest l2 norm of what one record adds.
        noise_multiplier: the noise in sensitivities.
        contribution: what one record adds, before it is clipped.
        num_coordinates: the length of the sum.
        request: what to ask the faster paths.
    """
    coarse = vector_lattice(clip, noise_multiplier, facts)
    gate = Ball(coarse.bound, num_coordinates)
    bits = 0 if request is None else finer_bits(coarse, facts.size)
    lattice = coarse.refined(2**bits)

    @cache
    def path() -> SumPath:
        asked = () if request is None else (find(facts, request, lattice) for find in facts.paths)
        reference = _Reference(facts, contribution, coarse, gate, bits)
        return next((found for found in asked if found is not None), reference)

    def draw(prepared: Any, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
        total = path().sum(prepared, queries, len(keys))
        return [add_noise(facts, total, per_chain(lattice, len(keys)), keys)]

    return ReleasePlan(
        outputs=(jax.ShapeDtypeStruct((num_coordinates,), jnp.float32),),
        event=lattice_event(noise_multiplier, num_coordinates, lattice),
        draw=draw,
        prepare=lambda slots: path().prepare(slots),
        variance=lambda _: noise_variance(lattice),
        path=lambda: path().name,
    )


def finer_bits(lattice: Lattice, num_records: int) -> int:
    """Return the power of two by which a lattice is refined for products: as large as sums and noise allow."""
    bits = 0
    while (
        lattice.bound << (bits + 1) <= LARGEST_SUMMAND
        and lattice.scale * 2 ** (bits + 1) <= LARGEST_SCALE
        and num_records * lattice.bound << (bits + 1) < 2**62
    ):
        bits += 1
    return bits
