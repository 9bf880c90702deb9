"""Noisy sums: integers through the gate, added up exactly, and noise added in integers. sums.md has the contract.

The *reference path* is here: a record's contribution is computed, rounded and gated, one chunk of records after the
other, for all chains at once. `enclave.accelerate` has faster paths for contributions of a certain form, which end at
the same gate and give sums on the same lattice; the owner may switch them off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting.event import Event, Gaussian
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, add, shift_left, to_float
from dpmcmc.enclave.arithmetic.lattice import Lattice, gradient_lattice, noise_over_clip
from dpmcmc.enclave.core.gate import Ball, Chunk, Gate, MovableBall, gated_sum
from dpmcmc.enclave.core.mechanism import Contribution, Movable, ReleasePlan
from dpmcmc.enclave.core.metadata import Facts, at_once
from dpmcmc.enclave.core.places import Slots, sum_parts
from dpmcmc.enclave.noise.discrete_gaussian import Law, approximation, law
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
    chunk_size: int,
    contribution: Contribution,
    slots: Slots,
    queries: Sequence[jax.Array],
    lattices: Lattice,
    gate: Gate,
    to_integers: Quantise,
) -> Wide:
    """Return the exact sum for each chain, shape (chains, coordinates): the reference path.

    Args:
        chunk_size: how many records to hold at once at most.
        contribution: what one record adds at the queries of one chain: a flat vector, not clipped yet.
        slots: the records.
        queries: flat queries with one leading axis, the chains.
        lattices: one granularity a chain; one bound for all.
        gate: what of integers passes.
        to_integers: turns contributions into integers; not trusted.
    """
    row = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), slots.rows)
    entries = jnp.size(lattices.granularity) * jax.eval_shape(contribution, one_chain(queries), row).size
    chunk = at_once(chunk_size, entries)
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
    return noisy(facts.noise, total, lattices.granularity, lattices.scale, keys)


def noisy(mode: str, total: Wide, granularity: Any, scale: float | Law, keys: jax.Array) -> jax.Array:
    """Return the same, of a granularity for each chain and one scale."""

    def of_chain(total: Wide, key: jax.Array, granularity: jax.Array) -> jax.Array:
        return to_float(add(total, draw_noise(mode, key, scale, total.high.shape)), granularity)

    return jax.vmap(of_chain)(total, keys, granularity)


def noise_variance(lattice: Lattice) -> jax.Array:
    """Return the variance of the noise on each coordinate: (scale * granularity)^2."""
    known = isinstance(lattice.granularity, float)
    root = np.float32(lattice.scale) * (np.float32(lattice.granularity) if known else lattice.granularity)
    return root * root


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
        total = reference_sum(
            self.facts.chunk_size, self.contribution, prepared, queries, lattices, self.gate, quantise.vector
        )
        return shift_left(total, self.finer_bits) if self.finer_bits else total


def vector_sum(
    facts: Facts,
    clip: float,
    noise_multiplier: float,
    contribution: Contribution,
    num_coordinates: int,
    request: SumRequest,
) -> ReleasePlan:
    """Return the plan of a noisy sum of vectors that are held to a constant clip, for which there may be faster paths.

    All of them add up on one lattice, which is a power of two finer than the reference
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
    bits = finer_bits(coarse, facts.size)
    lattice = coarse.refined(2**bits)

    @cache
    def path() -> SumPath:
        asked = (find(facts, request, lattice) for find in facts.paths)
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


@partial(
    jax.tree_util.register_dataclass, data_fields=["granularity", "gate", "aim", "law", "constants"], meta_fields=[]
)
@dataclass(frozen=True)
class Numbers:
    """Everything that the lattice of a sum decides, and the constants of what is added up: arguments of a program."""

    granularity: Any
    gate: MovableBall
    aim: Any
    """For `quantise.vector`."""
    law: Law
    constants: Any


@dataclass(frozen=True)
class ReferenceSum:
    """A noisy sum of vectors by the reference path, with all its numbers as arguments."""

    contribution: Any
    """``contribution(constants, queries, record)``."""
    chunk_size: int
    noise: str

    def __call__(self, slots: Slots, queries: Sequence[jax.Array], keys: jax.Array) -> Sequence[jax.Array]:
        """Draw the release."""
        numbers: Numbers = slots.numbers
        granularity = jnp.full(len(keys), numbers.granularity, jnp.float32)
        lattices = Lattice(granularity, numbers.gate.largest)
        contribution = partial(self.contribution, numbers.constants)
        to_integers = partial(quantise.vector, aim=numbers.aim)
        total = reference_sum(self.chunk_size, contribution, slots, queries, lattices, numbers.gate, to_integers)
        return [noisy(self.noise, total, granularity, numbers.law, keys)]


def plain_sum(
    facts: Facts, clip: float, noise_multiplier: float, contribution: Contribution, num_coordinates: int
) -> ReleasePlan:
    """Return the plan of a noisy sum of vectors that are held to a constant clip, by the reference path."""
    lattice = vector_lattice(clip, noise_multiplier, facts)
    gate = Ball(lattice.bound, num_coordinates).movable

    def with_arguments(evaluate: Any, constants: Any = ()) -> Movable:
        aim = quantise.aim_of(lattice.bound, num_coordinates)
        numbers = Numbers(np.float32(lattice.granularity), gate, aim, law(lattice.scale), constants)
        return Movable(ReferenceSum(evaluate, facts.chunk_size, facts.noise), numbers)

    whole = cache(lambda: with_arguments(lambda _, queries, record: contribution(queries, record)))
    return ReleasePlan(
        outputs=(jax.ShapeDtypeStruct((num_coordinates,), jnp.float32),),
        event=lattice_event(noise_multiplier, num_coordinates, lattice),
        draw=lambda slots, queries, keys: whole().draw(slots, queries, keys),
        prepare=lambda slots: replace(slots, numbers=whole().numbers),
        variance=lambda _: noise_variance(lattice),
        with_arguments=with_arguments,
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
