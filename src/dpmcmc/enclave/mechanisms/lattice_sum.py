"""The one pass that every noisy sum makes: clip and quantise each record, add up in integers, add noise in integers.

All chains share the pass: a chunk of records is read once and every chain's queries are evaluated on it. lattice_sum.md
proves what the mechanisms built on it claim.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.event import Event, Gaussian
from dpmcmc.enclave.block_kernel import Blocks, sum_blocks
from dpmcmc.enclave.column_kernel import Columns, sum_columns
from dpmcmc.enclave.lattice import (
    Lattice,
    Wide,
    add,
    even_chunks,
    gradient_lattice,
    noise_over_clip,
    quantise_vector,
    sum_chunks,
    to_float,
)
from dpmcmc.enclave.linear_predictor import finer, sum_rows
from dpmcmc.enclave.mechanisms.base import Contribution, Facts
from dpmcmc.enclave.noise import approximation, draw_noise, total_variation_bound
from dpmcmc.enclave.rank_one import RankOne, for_roots, sum_squares
from dpmcmc.enclave.rounding import is_rounded, quantise_rounded
from dpmcmc.enclave.rows import Rows, on_gpu
from dpmcmc.enclave.shards import Shards, sum_parts

CLIPS_MOVED = {Adjacency.REPLACE_ONE: 2, Adjacency.ADD_OR_REMOVE_ONE: 1}
"""By how many clips a neighbour moves a clipped sum: one record leaves and another enters, or only one of the two."""


ENTRIES_AT_ONCE = 2**24
"""How many entries of contributions a GPU holds at least, since short loops would leave it idle."""

SHARE_AT_ONCE = 16
"""A GPU holds as many entries of contributions as this part of the table has: little memory beside it, few loops."""


Refine: TypeAlias = Callable[[Lattice], tuple[Lattice, int] | None]
"""Returns the lattice of the factors of contributions, and how many times finer than a given one that of the sum is."""


def lattice_approximation(noise_multiplier: float, facts: Facts, num_coordinates: int, refine: Refine = finer) -> Event:
    """Return how far the noise of one release is from a Gaussian that is rounded to the lattice, coarse or fine."""
    lattice = vector_lattice(1.0, noise_multiplier, facts, num_coordinates)
    fine = refine(lattice)
    scales = (lattice.scale, lattice.scale * fine[1] if fine else lattice.scale)
    return approximation(num_coordinates, min(scales), max(total_variation_bound(num_coordinates, s) for s in scales))


def lattice_event(noise_multiplier: float, facts: Facts, num_coordinates: int, refine: Refine = finer) -> Event:
    """Return the event of a noisy lattice sum: its Gaussian, and the distance of its noise from that Gaussian."""
    return Gaussian(noise_multiplier) + lattice_approximation(noise_multiplier, facts, num_coordinates, refine)


def vector_lattice(clip: float, noise_multiplier: float, facts: Facts, num_coordinates: int) -> Lattice:
    """Return the lattice of a sum of vectors whose norm is held to a constant clip."""
    noise = noise_over_clip(noise_multiplier, CLIPS_MOVED[facts.adjacency])
    return gradient_lattice(clip, noise, facts.size, num_coordinates)


def noise_variance(lattice: Lattice) -> jax.Array:
    """Return the variance of the noise on each coordinate: (scale * granularity)^2."""
    return jnp.square(lattice.scale * jnp.asarray(lattice.granularity, jnp.float32))


def noisy_vector_sum(
    lattice: Lattice,
    facts: Facts,
    contribution: Contribution,
    records: Any,
    queries: Sequence[jax.Array],
    keys: jax.Array,
) -> jax.Array:
    """Return the noisy sum of vectors for each chain, all on one lattice."""
    length = jax.eval_shape(contribution, [query[0] for query in queries], facts.record).size
    quantise = quantise_rounded if is_rounded(lattice, length) else quantise_vector
    granularities = jnp.full(keys.shape, lattice.granularity, jnp.float32)
    lattices = Lattice(granularities, lattice.bound, lattice.scale)
    return noisy_lattice_sum(quantise, lattices, facts, contribution, records, queries, keys)


def noisy_lattice_sum(
    quantise: Callable[[jax.Array, Lattice], jax.Array],
    lattices: Lattice,
    facts: Facts,
    contribution: Contribution,
    records: Any,
    queries: Sequence[jax.Array],
    keys: jax.Array,
) -> jax.Array:
    """Return the noisy sum for each chain, shape (chains, coordinates).

    Args:
        quantise: turns vectors into integers whose norm is at most the bound of the lattice.
        lattices: one granularity a chain; one bound and one scale, which decide the privacy, for all.
        facts: what is public about the data.
        contribution: what one record adds at the queries of one chain: a flat vector, not clipped yet.
        records: the records, one leading axis.
        queries: flat queries with one leading axis, the chains.
        keys: one key a chain, used here and nowhere else.
    """

    def steps(chunk: Any) -> jax.Array:
        def of_chain(queries: Sequence[jax.Array], lattice: Lattice) -> jax.Array:
            return quantise(jax.vmap(contribution, in_axes=(None, 0))(queries, chunk), lattice)

        return jax.vmap(of_chain)(list(queries), lattices)

    entries = len(keys) * jax.eval_shape(contribution, [query[0] for query in queries], facts.record).size
    chunk_size = facts.at_once(entries)
    if on_gpu():
        in_table = facts.size * sum(leaf.size for leaf in jax.tree.leaves(facts.record))
        chunk_size = max(chunk_size, max(ENTRIES_AT_ONCE, in_table // SHARE_AT_ONCE) // entries)
    # of one shape on all devices, and for all neighbours: XLA may round what a record adds by the shape of its chunk
    chunk_size = even_chunks(facts.size, chunk_size)
    total = sum_parts(lambda rows, _: sum_chunks(steps, rows, chunk_size, lattices.bound, axis=1), records)
    return _with_noise(facts, total, lattices, keys)


def noisy_kernel_sum(
    lattice: Lattice, facts: Facts, records: Columns | Blocks | Shards, queries: Sequence[jax.Array], keys: jax.Array
) -> jax.Array:
    """Return what `noisy_vector_sum` does, up to rounding, from one kernel."""
    lattices = Lattice(jnp.full(keys.shape, lattice.granularity, jnp.float32), lattice.bound, lattice.scale)

    def of_part(part: Columns | Blocks, _: Any) -> Wide:
        if isinstance(part, Columns):
            return sum_columns(part, lattices, queries)
        return sum_blocks(part, lattices, queries)

    return _with_noise(facts, sum_parts(of_part, records), lattices, keys)


def noisy_row_sum(
    lattice: Lattice, facts: Facts, rows: Rows | Shards, queries: Sequence[jax.Array], keys: jax.Array
) -> jax.Array:
    """Return what `noisy_vector_sum` does, up to rounding, for contributions that are residuals times rows.

    `lattice` is the coarse one, of those that `finer` refines.
    """
    of_residuals, refined = cast(tuple[Lattice, int], finer(lattice))
    total = sum_parts(lambda part, _: sum_rows(part, of_residuals, queries), rows)
    return _with_noise(facts, total, _refined(lattice, refined, keys), keys)


def noisy_square_sum(
    lattice: Lattice, facts: Facts, form: RankOne, records: Any, queries: Sequence[jax.Array], keys: jax.Array
) -> jax.Array:
    """Return what `noisy_vector_sum` does, up to rounding, for the weighted entries of matrices of rank one.

    `lattice` is the coarse one, of those that `for_roots` refines.
    """
    of_roots, refined = cast(tuple[Lattice, int], for_roots(lattice))
    total = sum_parts(lambda part, _: sum_squares(form, of_roots, part, queries), records)
    return _with_noise(facts, total, _refined(lattice, refined, keys), keys)


def _refined(lattice: Lattice, refined: int, keys: jax.Array) -> Lattice:
    """Return a finer lattice with as much noise, for each chain."""
    granularities = jnp.full(keys.shape, lattice.granularity / refined, jnp.float32)
    return Lattice(granularities, lattice.bound, refined * lattice.scale)


def _with_noise(facts: Facts, total: Wide, lattices: Lattice, keys: jax.Array) -> jax.Array:
    def release(total: Wide, key: jax.Array, lattice: Lattice) -> jax.Array:
        noise = draw_noise(facts.noise, key, lattice.scale, total.high.shape)
        return to_float(add(total, noise), lattice.granularity)

    return jax.vmap(release)(total, keys, lattices)
