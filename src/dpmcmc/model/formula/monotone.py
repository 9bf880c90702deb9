"""Monotonic effects of ordered predictors, ``mo(grade)``, as brms has them (Bürkner and Charpentier 2020).

The steps between neighbouring levels have one sign and share an effect: each has the coefficient B s_k, the shares s_k
positive and of sum one, with a Dirichlet prior. In a product with a number, or with each level of a category, an effect
has shares of its own. A sampler moves in B and in the logarithms of the other shares over the
last one: as many numbers as steps. A weighted fit moves in the coefficients of the steps themselves, in which the
predictor is linear, and meets this prior where it draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dpmcmc import validation
from dpmcmc.model.formula.priors import Prior, VectorPrior

LEAST = 1e-6
"""The least share that is told from none."""

Array = Any
"""Of NumPy or of JAX."""


@dataclass(frozen=True)
class Monotone:
    """One monotonic effect.

    Attributes:
        name: as it is written, ``mo(grade)``, or in a product as its columns are called, ``mo(grade):ward[b]``.
        levels: those that a step leads to: all but the first.
        places: of its columns among those that have coefficients.
        prior: of B, the coefficient of all steps together.
        concentrations: of the Dirichlet prior of the shares.
        labels: what the shares are called.
    """

    name: str
    levels: tuple[str, ...]
    places: tuple[int, ...]
    prior: Prior
    concentrations: tuple[float, ...]
    labels: tuple[str, ...] = ()

    @property
    def share(self) -> str:
        """What all shares together are called, where their prior is stated: ``mo(grade)_share:ward[b]``."""
        return self.labels[0].replace(f"[{self.levels[0]}]", "", 1)

    def coefficients(self, xp: Any, values: Array) -> Array:
        """Return the coefficients of the steps, given B and the log-ratios along the first axis."""
        return values[:1] * self.shares(xp, values)

    def shares(self, xp: Any, values: Array) -> Array:
        """Return the shares, given B and the log-ratios along the first axis."""
        logs = xp.concatenate([values[1:], xp.zeros_like(values[:1])])
        powers = xp.exp(logs - xp.max(logs, axis=0))
        return powers / xp.sum(powers, axis=0)

    def values(self, xp: Any, coefficients: Array) -> Array:
        """Return B and the log-ratios; coefficients that are not of one sign are as near as can be."""
        total = xp.sum(coefficients, axis=0, keepdims=True)
        return xp.concatenate([total, log_ratios(xp, coefficients * xp.sign(total))])

    def log_density(self, values: jax.Array) -> jax.Array:
        """Return the log-density of B and the log-ratios, with the log-Jacobian of the shares."""
        return jnp.sum(self.prior.law.log_prob(values[0])) + jnp.sum(self.log_density_of_shares(jnp, values))

    def log_density_of_shares(self, xp: Any, values: Array) -> Array:
        """Return that of the log-ratios: each share to the power of its concentration, up to a constant."""
        alpha = np.asarray(self.concentrations)
        constant = special.gammaln(alpha.sum()) - special.gammaln(alpha).sum()
        logs = xp.log(xp.maximum(self.shares(xp, values), 1e-30))
        return constant + xp.tensordot(xp.asarray(alpha, values.dtype), logs, 1)

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw B and the log-ratios from the prior, along the first axis of an array."""
        first, second = jax.random.split(key)
        alpha = jnp.asarray(self.concentrations).reshape(-1, *[1] * (len(shape) - 1))
        logs = jax.random.loggamma(second, jnp.broadcast_to(alpha, shape))
        return jnp.concatenate([self.prior.law.sample(first, (1, *shape[1:])), (logs - logs[-1:])[:-1]])

    def draw_on_host(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Do the same in NumPy."""
        alpha = np.asarray(self.concentrations).reshape(-1, *[1] * (len(shape) - 1))
        logs = np.log(np.maximum(rng.gamma(np.broadcast_to(alpha, shape)), 1e-30))
        return np.concatenate([self.prior.draw(rng, (1, *shape[1:])), (logs - logs[-1:])[:-1]])

    @cached_property
    def stand_ins(self) -> tuple[Prior, ...]:
        """Normal priors of the coefficients with their means and variances: what a pilot goes by."""
        low, middle, high = (self.prior.quantile(probability) for probability in (0.16, 0.5, 0.84))
        squared, alpha = middle**2 + ((high - low) / 2) ** 2, np.asarray(self.concentrations)
        total = alpha.sum()
        means, squares = alpha / total, alpha * (alpha + 1) / (total * (total + 1))
        return tuple(
            Prior("normal", (middle * mean, sqrt(squared * square - (middle * mean) ** 2)))
            for mean, square in zip(means.tolist(), squares.tolist(), strict=True)
        )


def log_ratios(xp: Any, shares: Array) -> Array:
    """Return the logarithms of shares over the last one, along the first axis; none counts as less than little."""
    total = xp.maximum(xp.sum(xp.maximum(shares, 0.0), axis=0), 1e-30)
    logs = xp.log(xp.maximum(shares / total, LEAST))
    return logs[:-1] - logs[-1:]


def to_coefficients(xp: Any, terms: Sequence[Monotone], values: Array) -> Array:
    """Return the coefficients of all columns, given what a sampler moves in, along the first axis."""
    return _changed(xp, terms, values, [term.coefficients for term in terms])


def to_values(xp: Any, terms: Sequence[Monotone], coefficients: Array) -> Array:
    """Return what a sampler moves in, given the coefficients of all columns along the first axis."""
    return _changed(xp, terms, coefficients, [term.values for term in terms])


def _changed(xp: Any, terms: Sequence[Monotone], values: Array, changes: Sequence[Any]) -> Array:
    if not terms:
        return values
    rows = list(values)
    for term, change in zip(terms, changes, strict=True):
        for place, row in zip(term.places, change(xp, values[np.array(term.places)]), strict=True):
            rows[place] = row
    return xp.stack(rows)


def with_shares(terms: Sequence[Monotone], coefficients: jax.Array, shares: Sequence[jax.Array]) -> jax.Array:
    """Return what a sampler moves in, given the shares as well: those of an effect of zero are in no coefficient."""
    for term, own in zip(terms, shares, strict=True):
        at = np.array(term.places)
        total = jnp.sum(coefficients[at], axis=0, keepdims=True)
        coefficients = coefficients.at[at].set(jnp.concatenate([total, log_ratios(jnp, own)]))
    return coefficients


@dataclass(frozen=True)
class CoefficientPrior(VectorPrior):
    """The priors of all coefficients: of the steps of monotonic effects normal ones that stand in for their own."""

    terms: tuple[Monotone, ...] = ()

    def log_density(self, values: jax.Array) -> jax.Array:
        """Return the log-density of what a sampler moves in, a row for each column."""
        if not self.terms:
            return super().log_density(values)
        steps = {place for term in self.terms for place in term.places}
        rest = [place for place in range(len(self.priors)) if place not in steps]
        plain = VectorPrior(tuple(self.priors[place] for place in rest)).log_density(values[np.array(rest, int)])
        return plain + sum((term.log_density(values[np.array(term.places)]) for term in self.terms), jnp.zeros(()))

    def draw(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Draw what a sampler moves in."""
        drawn = super().draw(key, shape)
        for number, term in enumerate(self.terms):
            own = term.draw(jax.random.fold_in(key, number), (len(term.places), *shape[1:]))
            drawn = drawn.at[np.array(term.places)].set(own)
        return drawn


def read_concentrations(name: str, stated: object, number: int) -> tuple[float, ...]:
    """Read ``dirichlet(1)``, one concentration for all steps, or as many as there are steps."""
    text = str(stated).replace(" ", "")
    inner = text.removeprefix("dirichlet(").removesuffix(")")
    try:
        found = tuple(float(part) for part in inner.split(",")) if text == f"dirichlet({inner})" else ()
    except ValueError:
        found = ()
    if len(found) not in {1, number} or not all(np.isfinite(each) and each > 0 for each in found):
        validation.refuse(
            f"priors[{name!r}]",
            stated,
            f"must be dirichlet(a), or dirichlet with {number} numbers, one for each step, all > 0",
        )
    return found * number if len(found) == 1 else found
