# ruff: noqa: ARG001, ARG002
"""Small stand-ins for tests of the enclave itself: a model, a ledger, a sampler, and mechanisms without a proof."""

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting.event import Event, Gaussian, compose
from dpmcmc.enclave.arithmetic.int64 import Wide
from dpmcmc.enclave.core.gate import MovableBall
from dpmcmc.enclave.core.mechanism import ReleasePlan
from dpmcmc.enclave.core.places import Slots
from dpmcmc.errors import BudgetExceeded


@dataclass(frozen=True)
class ToySum:
    """The clipped sum of a statistic, plus uniform noise."""

    clip: float = 1.0
    noise_multiplier: float = 2.0

    @property
    def is_noisy_sum(self):
        return True

    def contribution(self, term):
        return lambda queries, record: jnp.ravel(term(queries, record)).astype(jnp.float32)

    def plan(self, facts, contribution, queries):
        def draw(slots, queries, keys):
            def one_chain(queries, key):
                each = jax.vmap(contribution, in_axes=(None, 0))(queries, slots.rows)
                clipped = jnp.clip(jnp.nan_to_num(each), -self.clip, self.clip)
                total = jnp.sum(jnp.where(slots.occupied[:, None], clipped, 0), axis=0)
                return total + self.noise_multiplier * jax.random.uniform(key, each.shape[1:])

            return [jax.vmap(one_chain)(queries, keys)]

        return ReleasePlan(
            outputs=(jax.eval_shape(contribution, list(queries), facts.record),),
            event=Gaussian(self.noise_multiplier),
            draw=draw,
            variance=lambda _: jnp.asarray(self.noise_multiplier**2),
            path=lambda: "toy",
            is_gated=False,
        )


@dataclass(frozen=True)
class ToyGradient(ToySum):
    def contribution(self, term):
        def gradient(queries, record):
            leaves = jax.grad(lambda q: term(q, record))(list(queries))
            return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

        return gradient


@dataclass(frozen=True)
class ToyRatio(ToySum):
    def contribution(self, term):
        def ratio(queries, record):
            k = term.num_queries
            return jnp.ravel(term(queries[k : 2 * k], record) - term(queries[:k], record))

        return ratio


TOYS = (ToySum, ToyGradient, ToyRatio)
"""What a vault must be told to accept."""


# --- releases without a vault ---------------------------------------------------------------------------------------


def slots_of(records, tile=512, occupied=None):
    """Records in as many slots as there are, up to a whole number of tiles; all of them there unless stated."""
    length = len(jax.tree.leaves(records)[0])
    occupied = jnp.ones(length, jnp.bool_) if occupied is None else jnp.asarray(occupied)
    more = -length % tile

    def padded(leaf):
        return jnp.pad(jnp.asarray(leaf), [(0, more), *[(0, 0)] * (jnp.ndim(leaf) - 1)])

    return Slots(jax.tree.map(padded, records), padded(occupied), jnp.int32(1))


def shapes_of(queries):
    """The shapes of the queries of one chain."""
    return [jax.ShapeDtypeStruct(query.shape[1:], query.dtype) for query in queries]


def draw(plan, records, queries, keys):
    """A release by its plan, of records or of slots."""
    slots = records if isinstance(records, Slots) else slots_of(records)
    return plan.draw(plan.prepare(slots), queries, keys)


def compute(mechanism, facts, contribution, records, queries, keys):
    """A release: its plan, what it prepares, and the draw."""
    return draw(mechanism.plan(facts, contribution, shapes_of(queries)), records, queries, keys)


def no_noise(monkeypatch):
    """Let every mechanism draw zeros for noise, so that releases are sums."""
    from dpmcmc.enclave.core import sums
    from dpmcmc.enclave.mechanisms import barker_test, minibatch_log_ratio

    def zeros(mode, key, scale, shape=()):
        return Wide(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.uint32))

    for module in (sums, barker_test, minibatch_log_ratio):
        monkeypatch.setattr(module, "draw_noise", zeros)


def exact_releases(monkeypatch):
    """Let sums be released without noise and as they are: in integers, two words each, last axis.

    Returns a list to which the bound of every sum is appended that is added up from now on.
    """
    from dpmcmc.enclave.core import paths, sums
    from dpmcmc.enclave.mechanisms import block_sum, log_ratio, noisy_count, subsampled_gradient

    no_noise(monkeypatch)
    bounds, add_noise, reference_sum = [], paths.add_noise, sums.reference_sum

    def watched(facts, total, lattices, keys):
        bounds.append(lattices.bound)
        return add_noise(facts, total, lattices, keys)

    def watched_sum(*arguments):
        if isinstance(arguments[6], MovableBall):  # the gate, and what it is told of the bound
            bounds.append(int(arguments[6].beyond) - 1)
        return reference_sum(*arguments)

    def words(value, granularity):
        return jnp.stack([value.high, jax.lax.bitcast_convert_type(value.low, jnp.int32)], axis=-1)

    for module in (paths, log_ratio, noisy_count, subsampled_gradient):
        monkeypatch.setattr(module, "add_noise", watched)
    for module in (sums, block_sum):
        monkeypatch.setattr(module, "reference_sum", watched_sum)
    monkeypatch.setattr(sums, "to_float", words)
    return bounds


def from_words(words):
    """What was released as two words, as 64-bit integers of NumPy."""
    high, low = np.moveaxis(np.asarray(words), -1, 0)
    return (high.astype(np.int64) << 32) + low.astype(np.uint32).astype(np.int64)


def to_int64(value):
    """Entries of two words as 64-bit integers of NumPy."""
    return (np.asarray(value.high).astype(np.int64) << 32) + np.asarray(value.low).astype(np.int64)


@dataclass(frozen=True)
class GaussianModel:
    """Records around the position, a standard normal prior."""

    temperature: float = 1.0

    def log_prior(self, position):
        return -0.5 * jnp.sum(position**2)

    def log_likelihood(self, position, record):
        return -0.5 * jnp.sum((record - position) ** 2)


@dataclass
class Book:
    """A ledger in a few lines: what was reserved, and what of it was settled."""

    limit: int = 10**9
    reserved: list[Event] = field(default_factory=list)
    settled: list[Event] = field(default_factory=list)

    def reserve(self, dataset, event, *, description, adjacency):
        if len(self.reserved) >= self.limit:
            raise BudgetExceeded("nothing is left; nothing was charged")
        self.reserved.append(event)
        return Entry(self, event)

    @property
    def spent(self):
        return compose(self.reserved)


@dataclass
class Entry:
    book: Book
    event: Event
    entry: ClassVar = {}

    def check_standing(self):
        pass

    def settle(self, spent=None):
        self.book.settled.append(self.event if spent is None else spent)


def dp_hmc(oracle, position, key, *, num_steps, num_leapfrog, gradient, log_ratio):
    """Räisä et al. 2021, Algorithm 1: k steps of L leapfrogs with L + 1 fresh gradients and one log-ratio."""

    def step(theta, key):
        of_momentum, of_test = jax.random.split(key)
        momentum = jax.random.normal(of_momentum, theta.shape)
        moved, kicked = theta, momentum + 0.005 * oracle.force(gradient, theta).value

        def leap(state, _):
            moved, kicked = state
            moved = moved + 0.01 * kicked
            return (moved, kicked + 0.01 * oracle.force(gradient, moved).value), None

        (moved, kicked), _ = jax.lax.scan(leap, (moved, kicked), None, length=num_leapfrog)
        ratio = oracle.log_posterior_ratio(log_ratio, theta, moved)
        energy = 0.5 * (momentum @ momentum - kicked @ kicked)
        accepted = jnp.log(jax.random.uniform(of_test)) < ratio.value + energy - 0.5 * ratio.variance
        return jnp.where(accepted, moved, theta), accepted

    return jax.lax.scan(step, position, jax.random.split(key, num_steps))


def run_chains(oracle, positions, key, **options):
    keys = jax.random.split(key, len(positions))
    return jax.vmap(partial(dp_hmc, oracle, **options))(positions, keys)
