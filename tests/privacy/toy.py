# ruff: noqa: ARG002
"""Small stand-ins for tests of the enclave itself: a model, a ledger, a sampler, and mechanisms without a proof."""

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from dpmcmc.accounting.event import Event, Gaussian, compose
from dpmcmc.enclave.core.mechanism import certified
from dpmcmc.errors import BudgetExceeded


@certified
@dataclass(frozen=True)
class ToySum:
    """The clipped sum of a statistic, plus uniform noise."""

    clip: float = 1.0
    noise_multiplier: float = 2.0

    def output(self, facts, term, queries):
        return (jax.eval_shape(self.contribution(term), list(queries), facts.record),)

    def event(self, facts, outputs):
        return Gaussian(self.noise_multiplier)

    def variance(self, facts, queries):
        return jnp.asarray(self.noise_multiplier**2)

    def contribution(self, term):
        return lambda queries, record: jnp.ravel(term(queries, record)).astype(jnp.float32)

    def compute(self, facts, contribution, records, queries, keys):
        def one_chain(queries, key):
            each = jax.vmap(contribution, in_axes=(None, 0))(queries, records)
            clipped = jnp.clip(jnp.nan_to_num(each), -self.clip, self.clip)
            return clipped.sum(0) + self.noise_multiplier * jax.random.uniform(key, each.shape[1:])

        return (jax.vmap(one_chain)(queries, keys),)


@certified
@dataclass(frozen=True)
class ToyGradient(ToySum):
    def contribution(self, term):
        def gradient(queries, record):
            leaves = jax.grad(lambda q: term(q, record))(list(queries))
            return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

        return gradient


@certified
@dataclass(frozen=True)
class ToyRatio(ToySum):
    def contribution(self, term):
        def ratio(queries, record):
            k = term.num_queries
            return jnp.ravel(term(queries[k : 2 * k], record) - term(queries[:k], record))

        return ratio


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

    def reserve(self, dataset, event, *, what, adjacency):
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
