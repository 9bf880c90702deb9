"""Noisy sums that may be added up in more than one way. sums.md has the contract of a path.

`enclave.accelerate` has faster paths for contributions of a certain form, which end at the same gate and give sums on
the same lattice; the owner may switch them off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, shift_left
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core.gate import Ball
from dpmcmc.enclave.core.mechanism import Contribution, OfSum, ReleasePlan
from dpmcmc.enclave.core.metadata import Facts
from dpmcmc.enclave.core.places import Slots
from dpmcmc.enclave.core.sums import lattice_event, noise_variance, noisy, reference_sum, vector_lattice

LARGEST_SUMMAND, LARGEST_SCALE = 2**33 - 2**28, 2.0**44
"""How far the lattice of a sum is refined: up to this bound of one record, and this scale of the noise."""


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


def one_chain(queries: Sequence[jax.Array]) -> list[jax.Array]:
    """Return the queries of the first chain: for their shapes."""
    return [query[0] for query in queries]


def per_chain(lattice: Lattice, num_chains: int) -> Lattice:
    """Return one lattice for each chain, all the same."""
    return Lattice(jnp.full(num_chains, lattice.granularity, jnp.float32), lattice.bound, lattice.scale)


def add_noise(facts: Facts, total: Wide, lattices: Lattice, keys: jax.Array) -> jax.Array:
    """Return sums with noise on their lattices, as floating point; one key per chain, used here and nowhere else."""
    return noisy(facts.noise, total, lattices.granularity, lattices.scale, keys)


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
            self.facts.chunk_size,
            self.gate.num_coordinates,
            self.contribution,
            prepared,
            queries,
            lattices,
            self.gate,
            quantise.vector,
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

    def finish(_: Any, total: Wide, __: Any, keys: jax.Array) -> Sequence[jax.Array]:
        return [add_noise(facts, total, per_chain(lattice, len(keys)), keys)]

    return ReleasePlan(
        outputs=(jax.ShapeDtypeStruct((num_coordinates,), jnp.float32),),
        event=lattice_event(noise_multiplier, num_coordinates, lattice),
        draw=OfSum(lambda prepared, queries, num_chains: path().sum(prepared, queries, num_chains), finish),
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
