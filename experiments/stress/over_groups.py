"""The exact posterior of a table with many groups, of which a record informs its own alone.

Given what is common, and the standard deviations of effects, groups are independent. Their effects are integrated out
at Gauss-Hermite nodes around a normal law; what is common and the standard deviations are drawn from t laws around the
mode, and weighed by these integrals. No term of this grows with the square of the number of groups.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize

from experiments.stress.pareto import smoothed

if TYPE_CHECKING:
    from experiments.stress.reference import Density, Table

DRAWS, FREEDOM, WIDER = 400, 10.0, 1.1
NODES = {1: 9, 2: 5}
"""Nodes for each effect, by how many effects a group has."""

STEP, START = 0.05, 0.5
"""Of differences of the logarithm of a standard deviation, and where the search for it starts."""

GROUP = "site"
"""The column of the groups."""


class OverGroups:
    """Normal laws of effects and of what is common around the mode, given the standard deviations of effects."""

    def __init__(self, density: "Density", table: "Table", start: np.ndarray, mode: Callable[..., Any]) -> None:
        self.members = [density.places(name) for name, _ in density.spreads]
        self.log_sds = np.array([density.places(spread)[0] for _, spread in density.spreads])
        self.common = np.setdiff1d(np.arange(density.dimension), [*np.concatenate(self.members), *self.log_sds])
        hessian = _hessian(density)
        self.density, self.products = density, _sums(density)
        centre = start.copy()
        centre[self.log_sds] = np.log(START)
        for _ in range(2):  # the second time where the posterior is
            with_arrow: Any = replace(density, hessian=hessian)
            centre, matrix, self.table = mode(with_arrow, table, centre, fixed=self.log_sds)
            gradient = np.asarray(density.gradient(jnp.float32(centre), self.table), float)
            for members, place in zip(self.members, self.log_sds, strict=True):
                matrix[members, members] -= np.exp(-2 * centre[place])
                gradient[members] += centre[members] * np.exp(-2 * centre[place])
            self.centre, self.precision, self.gradient = centre, matrix, gradient
            options = {"xatol": 1e-3, "fatol": 1e-3}
            found = minimize(lambda at: -self.evidence(at), centre[self.log_sds], method="Nelder-Mead", options=options)
            self.middle = found.x
            centre = centre.copy()
            centre[self.log_sds] = self.middle
        self.root = np.linalg.cholesky(np.linalg.inv(self._bend()))

    def law(self, log_sds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and precision of all but the standard deviations, as moves from the centre, others at zero."""
        rest = np.setdiff1d(np.arange(len(self.centre)), self.log_sds)
        precision, tilt = self.precision.copy(), self.gradient.copy()
        for members, log_sd in zip(self.members, log_sds, strict=True):
            precision[members, members] += np.exp(-2 * log_sd)
            tilt[members] -= self.centre[members] * np.exp(-2 * log_sd)
        mean = np.zeros(len(self.centre))
        mean[rest] = np.linalg.solve(precision[np.ix_(rest, rest)], tilt[rest])
        return mean, precision

    def evidence(self, log_sds: np.ndarray) -> float:
        """Return how probable standard deviations are were all else normal: its logarithm, up to a constant."""
        rest = np.setdiff1d(np.arange(len(self.centre)), self.log_sds)
        vector = self.centre.copy()
        vector[self.log_sds] = log_sds
        mean, precision = self.law(log_sds)
        inner = precision[np.ix_(rest, rest)]
        prior = float(self.density.log_prior(jnp.float32(vector)))
        return prior + 0.5 * mean[rest] @ inner @ mean[rest] - 0.5 * float(np.linalg.slogdet(inner)[1])

    def _bend(self) -> np.ndarray:
        """Return minus the second derivatives of the evidence."""
        steps = STEP * np.eye(len(self.middle))
        signs = list(product((1.0, -1.0), repeat=2))

        def second(one: np.ndarray, other: np.ndarray) -> float:
            return sum(a * b * self.evidence(self.middle + a * one + b * other) for a, b in signs) / (2 * STEP) ** 2

        return -np.array([[second(one, other) for other in steps] for one in steps])

    def sampled(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return draws, their weights, and Pareto's k."""
        rng, number = np.random.default_rng(0), len(self.middle)
        nodes, shares = hermegauss(NODES[number])
        steps = np.array(list(product(nodes, repeat=number)))
        log_shares = np.log(np.prod(list(product(shares, repeat=number)), axis=1)) + 0.5 * np.sum(steps**2, axis=1)
        vectors, logs = np.zeros((DRAWS, len(self.centre))), np.zeros(DRAWS)
        for draw in range(DRAWS):
            away, of_sds = _t(rng, number)
            log_sds = self.middle + WIDER * self.root @ away
            mean, precision = self.law(log_sds)
            own = np.stack(self.members, axis=1)
            blocks = precision[own[:, :, None], own[:, None, :]]
            border = precision[own][:, :, self.common]
            beside = np.linalg.solve(blocks, border)
            corner = precision[np.ix_(self.common, self.common)] - np.einsum("gkc,gkd->cd", border, beside)
            up = np.linalg.cholesky(corner)
            z, of_common = _t(rng, len(self.common))
            move = WIDER * np.linalg.solve(up.T, z)
            roots = np.linalg.cholesky(np.linalg.inv(blocks))
            middle = self.centre[own] + mean[own] - beside @ move
            effects = middle[None] + np.einsum("gkl,jl->jgk", roots, steps)
            vector = self.centre.copy()
            vector[self.common] += mean[self.common] + move
            vector[self.log_sds] = log_sds
            at = np.repeat(vector[None], len(steps), axis=0)
            for place, members in enumerate(self.members):
                at[:, members] = effects[:, :, place]
            told = np.asarray(self.products(jnp.float32(at), self.table), float)
            told -= 0.5 * np.sum(effects**2 * np.exp(-2 * log_sds), axis=2)
            each = log_shares[:, None] + told
            most = each.max(axis=0)
            integrals = np.log(np.sum(np.exp(each - most), axis=0)) + most
            integrals += np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1) - log_sds.sum()
            chosen = np.argmax(each + rng.gumbel(size=each.shape), axis=0)
            for place, members in enumerate(self.members):
                vector[members] = effects[chosen, np.arange(len(members)), place]
            vectors[draw] = vector
            none = vector.copy()
            none[np.concatenate(self.members)] = 0.0
            prior = float(self.density.log_prior(jnp.float32(none))) + len(own) * log_sds.sum()
            logs[draw] = prior + integrals.sum() - of_sds - of_common - np.log(np.diag(up)).sum()
        weights, k = smoothed(logs)
        return vectors, weights, k


def _t(rng: np.random.Generator, size: int) -> tuple[np.ndarray, float]:
    """Return a draw from a t law and the logarithm of its density, up to a constant."""
    freedom = FREEDOM * max(1, size)
    z = rng.standard_normal(size) / np.sqrt(rng.chisquare(freedom) / freedom)
    return z, -0.5 * (freedom + size) * float(np.log1p(z @ z / freedom))


@lru_cache(maxsize=8)
def _hessian(density: "Density") -> Callable[..., np.ndarray]:
    """Return second derivatives, by products with a vector for each that is common, and one for each kind of effect."""
    members = [density.places(name) for name, _ in density.spreads]
    common = np.setdiff1d(np.arange(density.dimension), np.concatenate(members))
    ways = np.zeros((len(common) + len(members), density.dimension), np.float32)
    ways[np.arange(len(common)), common] = 1.0
    for place, own in enumerate(members):
        ways[len(common) + place, own] = 1.0

    @jax.jit
    def products(vector: Any, table: Any) -> Any:
        def along(way: Any) -> Any:
            return jax.jvp(lambda at: density.gradient(at, table), (vector,), (way,))[1]

        return jax.lax.map(along, ways)

    def hessian(vector: Any, table: Any) -> np.ndarray:
        found = np.asarray(products(vector, table), float)
        matrix = np.zeros((density.dimension, density.dimension))
        matrix[common], matrix[:, common] = found[: len(common)], found[: len(common)].T
        for place, own in enumerate(members):
            for other in members:
                matrix[own, other] = found[len(common) + place, other]
        return matrix

    return hessian


@lru_cache(maxsize=8)
def _sums(density: "Density") -> Callable[..., Any]:
    """Return log-likelihoods of the rows of each group at several vectors: (vectors, groups)."""
    number = len(density.places(density.spreads[0][0]))

    @jax.jit
    def sums(vectors: Any, table: Any) -> Any:
        groups, counts = table.rows[GROUP].ravel(), table.counts.ravel()

        def at(vector: Any) -> Any:
            own = density.each(vector, table) - table.base
            return jnp.zeros(number).at[groups].add(jnp.where(counts > 0, own.ravel(), 0.0))

        return jax.lax.map(at, vectors)

    return sums
