"""Secret batches: which records a subsampled release reads, and the exact sums over them.

A batch is drawn from the release's own key, one for each chain, and never leaves the enclave. Shapes are fixed, so a
draw lives inside `jit`, `scan` and `vmap`, and its work and memory follow the batch, not the table:

* Without replacement: words of random bits become exactly uniform indices by rejection, and the first b *distinct*
  ones are the batch. Any ordered b-tuple of distinct indices is as likely as any other. So many words are read that
  fewer than b distinct indices turn up with a probability below 2^-60. For b > n / 2 the n - b others are drawn.
* Poisson, every record by its own coin of probability q: given its size K ~ Binomial(n, q), such a batch is uniform
  among the sets of K records. So K is drawn from a table of 96-bit thresholds, and the first K of m distinct indices
  are the batch; the other m - K are masked. Where the batch would be about half of the table or more, coins are tossed
  for all records instead, which costs no more there.

Whatever an ideal batch is missed by (a batch that is cut off, a threshold that is rounded) is bounded in total
variation here and charged by the mechanisms as an `Approximation`. subsampled_gradient.md has the proofs.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy import special

from dpmcmc import validation
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.int64 import Wide, magnitude
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.arithmetic.limbs import Limbs, limbs, minus, times
from dpmcmc.enclave.core.gate import Chunk, Gate, Interval, gated_sum
from dpmcmc.enclave.core.mechanism import Contribution
from dpmcmc.enclave.core.metadata import Facts, at_once
from dpmcmc.enclave.core.places import Slots, sum_parts

FAILURE = 2.0**-60
"""How often fewer distinct indices than needed may turn up, and how often a Poisson batch that chose its own limit may
exceed it."""

POISSON_ERROR = 2.0**-58
"""Bound on the distance of `poisson_batch` from a Poisson sample that is cut off at the stated limit, if there is one:
distinct indices, the limit, the window of the table of sizes, 2^-60 each at most; and 2^31 thresholds of 96 bits."""

MAX_POPULATION = 2**31 - 1
_ROUNDED_UP = 1 + 1e-9  # on tails that are computed in double precision


class Batch(NamedTuple):
    """Rows of the table, as a fixed number of indices, of which those under the mask count."""

    indices: jax.Array
    mask: jax.Array

    def within(self, first: ArrayLike, length: int) -> "Batch":
        """Return the batch in a part of the slots, `first` the number of its first one: others do not count."""
        indices = self.indices - first
        return Batch(indices, self.mask & (indices >= 0) & (indices < length))


# --- without replacement ---------------------------------------------------------------------------------------------


def fixed_batch_indices(key: jax.Array, batch_size: int, population: int) -> jax.Array:
    """Return `batch_size` distinct indices below `population`, a uniform set of that size, in no promised order."""
    others = population - batch_size
    if batch_size <= others:
        return _distinct(key, batch_size, population)
    kept = jnp.ones(population, jnp.bool_)
    if others:
        kept = kept.at[_distinct(key, others, population)].set(False)
    return jnp.nonzero(kept, size=batch_size)[0].astype(jnp.int32)


def fixed_batch_failure(batch_size: int, population: int) -> float:
    """Return a bound on how often `fixed_batch_indices` runs out of random words; it then repeats a record."""
    drawn = min(batch_size, population - batch_size)
    return num_words(drawn, population)[1] if drawn else 0.0


def _distinct(key: jax.Array, count: int, population: int) -> jax.Array:
    """Return the first `count` distinct values of a sequence of independent uniform indices, as they come."""
    words = jax.random.bits(key, (num_words(count, population)[0],), jnp.uint32)
    values = words % np.uint32(population)
    rejected = 2**32 % population  # the last, incomplete round of the remainders
    if rejected:
        values = jnp.where(words < np.uint32(2**32 - rejected), values, np.uint32(population))
    order = jnp.argsort(values, stable=True)
    in_order = values[order]
    first = jnp.concatenate([jnp.ones(1, jnp.bool_), in_order[1:] != in_order[:-1]]) & (in_order < population)
    new = jnp.zeros(values.shape, jnp.bool_).at[order].set(first, unique_indices=True)
    rank = jnp.cumsum(new, dtype=jnp.int32)
    place = jnp.where(new & (rank <= count), rank - 1, count)
    return jnp.zeros(count, jnp.int32).at[place].set(values.astype(jnp.int32), mode="drop")


@lru_cache(maxsize=256)
def num_words(count: int, population: int) -> tuple[int, float]:
    """Return how many words to read for `count` distinct indices, and a bound on how often they do not suffice.

    While fewer than `count` were found a word gives a new one with a probability of at least
    p = (n - count + 1) / n * (1 - (2^32 mod n) / 2^32). So they do not suffice with at most P(Binomial(words, p) <
    count), a tail of the binomial distribution.
    """
    if population > MAX_POPULATION:
        validation.refuse("population", population, f"must be <= {MAX_POPULATION} to draw batches")
    useless = float(1 - Fraction(population - count + 1, population) * (1 - Fraction(2**32 % population, 2**32)))

    def failure(words: int) -> float:
        return _ROUNDED_UP * float(special.betainc(words - count + 1, count, min(1.0, useless * _ROUNDED_UP)))

    words = _smallest(lambda words: failure(words) <= FAILURE, count)
    return words, failure(words)


def _smallest(holds: Callable[[int], bool], start: int) -> int:
    """Return the smallest integer from `start` on for which a condition that stays true holds."""
    step = 1
    while not holds(start + step - 1):
        step *= 2
    low, high = start + step // 2 - 1 if step > 1 else start - 1, start + step - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# --- Poisson ---------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """How a Poisson batch is drawn: distinct indices up to a limit, or a coin for every record where it is None."""

    limit: int | None
    rows: int


def binomial_tail(population: int, rate: float, limit: int) -> float:
    """Return P(Binomial(population, rate) > limit), rounded up."""
    if limit >= population:
        return 0.0
    return min(1.0, _ROUNDED_UP * float(special.betainc(limit + 1, population - limit, rate)))


@lru_cache(maxsize=256)
def poisson_plan(rate: float, population: int, max_batch_size: int | None) -> Plan:
    """Return how batches of a table are drawn: coins for all where the limit exceeds half of the table."""
    limit = max_batch_size
    if limit is None:
        limit = _smallest(lambda limit: binomial_tail(population, rate, limit) <= FAILURE, 0)
    return Plan(limit, limit) if 0 < 2 * limit <= population else Plan(None, population)


def poisson_batch(key: jax.Array, rate: float, population: int, max_batch_size: int | None = None) -> Batch:
    """Return a batch that every one of `population` records enters with probability `rate`, cut off at the limit."""
    plan = poisson_plan(rate, population, max_batch_size)
    of_size, of_rows = jax.random.split(key)
    if plan.limit is None:
        indices = jnp.arange(population, dtype=jnp.int32)
        coins = jax.random.bits(of_rows, (3, population), jnp.uint32)
        return Batch(indices, _below(coins, _words([Fraction(rate)])[:, 0, None]))
    lowest, chances = binomial_table(rate, population, plan.limit)
    size = lowest + draw_index(of_size, chances)
    return Batch(_distinct(of_rows, plan.limit, population), jnp.arange(plan.limit) < size)


@lru_cache(maxsize=64)
def binomial_table(rate: float, population: int, limit: int) -> tuple[int, tuple[Fraction, ...]]:
    """Return the smallest size k and P(K <= k), P(K <= k + 1), ..., for K ~ min(Binomial(population, rate), limit).

    Sizes that are 2^-100 times as likely as the likeliest one are left out. Without the last size, whose chance is 1.
    """
    with localcontext(prec=60):
        odds = Decimal(rate) / (1 - Decimal(rate))
        mode = min(population, int((population + 1) * Fraction(rate)))
        least = Decimal(2) ** -100
        down, up = [Decimal(1)], [Decimal(1)]
        while (size := mode - len(down)) >= 0 and down[-1] > least:
            down.append(down[-1] * (size + 1) / ((population - size) * odds))
        while (size := mode + len(up)) <= population and up[-1] > least:
            up.append(up[-1] * (population - size + 1) * odds / size)
        weights = [*reversed(down), *up[1:]]
        lowest, total = mode - len(down) + 1, sum(weights)
        chances: list[Fraction] = []
        so_far = Decimal(0)
        for weight in weights[: max(0, limit - lowest)]:
            so_far += weight
            chances.append(min(Fraction(1), Fraction(so_far / total)))
    return min(lowest, limit), tuple(chances)


def draw_index(key: jax.Array, chances: Sequence[Fraction]) -> jax.Array:
    """Return how many of the increasing `chances` a uniform number of 96 bits reaches: a draw by inverse table."""
    if not chances:
        return jnp.zeros((), jnp.int32)
    uniform = jax.random.bits(key, (3,), jnp.uint32)
    return jnp.sum(~_below(uniform[:, None], _words(chances)), dtype=jnp.int32)


def _words(chances: Sequence[Fraction]) -> jax.Array:
    """Return floor(2^96 chance) as three rows of words, the highest first; a chance of one as the largest below it."""
    whole = [min(int(chance * 2**96), 2**96 - 1) for chance in chances]
    rows = [[number >> shift & 0xFFFFFFFF for number in whole] for shift in (64, 32, 0)]
    return jnp.asarray(np.array(rows, np.uint32))


def _below(uniform: jax.Array, threshold: jax.Array) -> jax.Array:
    """Compare numbers of three words, the first axis."""
    (a, b, c), (x, y, z) = uniform, threshold
    return (a < x) | ((a == x) & ((b < y) | ((b == y) & (c < z))))


# --- exact sums over a batch -----------------------------------------------------------------------------------------


def sum_batch(
    gate: Gate,
    to_integers: Callable[[Any, Any], jax.Array],
    chains: Any,
    slots: Slots,
    batch: Batch,
    chunk: int,
    summands: Callable[[jax.Array], jax.Array] | None = None,
    largest: int | None = None,
) -> Wide:
    """Return the exact sum of gated ``to_integers(chain, rows)`` over each chain's own batch, in chunks of its rows.

    Args:
        gate: what one record may add.
        to_integers: untrusted: int32, shape (rows, entries), from what belongs to a chain and its rows.
        chains: a pytree with one leading axis, the chains.
        slots: the records; only those of the batch are read.
        batch: indices and mask, both with a leading axis for the chains.
        chunk: how many rows of a batch are held at once.
        summands: see `gated_sum`.
        largest: see `gated_sum`.
    """

    def of_part(part: Slots, first: ArrayLike) -> Wide:
        within = batch.within(first, part.length)

        def compute(at: Chunk) -> jax.Array:
            def of_chain(chain: Any, indices: jax.Array) -> jax.Array:
                rows = jax.tree.map(lambda leaf: jnp.take(leaf, indices, axis=0, mode="clip"), part.rows)
                return to_integers(chain, rows)

            return jax.vmap(of_chain)(chains, at.of(within.indices, 1))

        def counts(at: Chunk) -> jax.Array:
            return at.of(within.mask, 1) & jnp.take(part.occupied, at.of(within.indices, 1), mode="clip")

        return gated_sum(gate, compute, counts, batch.indices.shape[1], chunk, part.once, summands, largest)

    return sum_parts(of_part, slots)


# --- the first two moments of a batch, exactly -----------------------------------------------------------------------


class Moments(NamedTuple):
    """The first two moments of the integers k of a batch of b."""

    total: Wide
    """sum k"""
    spread: Limbs
    """b sum k^2 - (sum k)^2, which is b sum (k - mean)^2"""


def batch_moments(
    lattices: Lattice,
    facts: Facts,
    contribution: Contribution,
    slots: Slots,
    queries: Sequence[jax.Array],
    batch: Batch,
) -> Moments:
    """Return the exact moments of the quantised contributions, one number per record, of each chain's batch.

    k and k^2 are made of one sealed k.
    """

    def to_integers(chain: tuple[Sequence[jax.Array], Lattice], rows: Any) -> jax.Array:
        queries, lattice = chain
        return quantise.scalar(jax.vmap(contribution, in_axes=(None, 0))(queries, rows), lattice)

    def powers(held: jax.Array) -> jax.Array:
        return jnp.concatenate([held, held * held], axis=-1)

    most = at_once(facts.chunk_size, 2 * len(batch.indices))
    gate = Interval(-lattices.bound, lattices.bound)
    chains = (list(queries), lattices)
    sums = sum_batch(gate, to_integers, chains, slots, batch, most, powers, lattices.bound**2)
    total, squares = (Wide(sums.high[:, column], sums.low[:, column]) for column in (0, 1))
    size = limbs(magnitude(total))
    return Moments(total, minus(times(limbs(batch.indices.shape[1]), limbs(squares)), times(size, size)))
