"""Log-likelihoods of records with derivatives, and the prior: compiled once for all sketches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.sketch.skeleton import Matrix


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log-likelihood of one record at a flat position, and the prior; all in double precision."""

    log_prior: Callable[[jax.Array], jax.Array]
    of_record: Callable[[jax.Array, Any], jax.Array]

    def differences(self, records: Any, positions: Matrix, origin: Matrix) -> Matrix:
        """Return each record's log-likelihood at each position minus that at the origin, one row per record."""
        with jax.enable_x64(True):
            table = np.asarray(self._table(records, jnp.asarray(np.vstack([origin, positions]))))
        return table[:, 1:] - table[:, :1]

    def log_priors(self, positions: Matrix) -> NDArray[np.float64]:
        """Return the log-prior at each position."""
        with jax.enable_x64(True):
            return np.asarray(self._log_priors(jnp.asarray(positions)))

    def climb(self, start: Matrix, records: Any, weights: Matrix) -> tuple[Matrix, float] | None:
        """Return the posterior mode of weighted records that an optimiser reaches from the start, and its log-density.

        None if the posterior is not finite there: with noise the log-density may be unbounded.
        """

        def falling(position: Matrix) -> tuple[float, Matrix]:
            value, slope = self._falling(position, records, weights)
            return float(value), np.asarray(slope, np.float64)

        def curvature(position: Matrix) -> Matrix:
            found = np.asarray(self._curvature(position, records, weights), np.float64)
            if not np.isfinite(found).all():
                raise ValueError("the optimisation ended where there is no curvature")
            return found

        with jax.enable_x64(True), np.errstate(over="ignore", invalid="ignore"):
            try:
                found = scipy.optimize.minimize(falling, start, jac=True, hess=curvature, method="trust-exact")
            except (ValueError, np.linalg.LinAlgError):
                return None
        return (found.x, -float(found.fun)) if np.isfinite(found.x).all() and np.isfinite(found.fun) else None

    def curvatures(self, positions: Matrix, records: Any, weights: Matrix) -> Matrix:
        """Return the negative Hessian of the log-posterior of weighted records at each position."""
        with jax.enable_x64(True):
            return np.asarray(self._curvatures(jnp.asarray(positions), records, weights))

    def slopes(self, position: Matrix, records: Any) -> Matrix:
        """Return the score of each record, one row per record."""
        with jax.enable_x64(True):
            return np.asarray(self._slopes(position, records))

    def _energy(self, position: jax.Array, records: Any, weights: jax.Array) -> jax.Array:
        added = jax.vmap(self.of_record, in_axes=(None, 0))(position, records)
        return -self.log_prior(position) - weights @ added

    @cached_property
    def _table(self) -> Any:
        def row(record: Any, positions: jax.Array) -> jax.Array:
            return jax.vmap(self.of_record, in_axes=(0, None))(positions, record)

        return jax.jit(jax.vmap(row, in_axes=(0, None)))

    @cached_property
    def _log_priors(self) -> Any:
        return jax.jit(jax.vmap(self.log_prior))

    @cached_property
    def _falling(self) -> Any:
        return jax.jit(jax.value_and_grad(self._energy))

    @cached_property
    def _curvature(self) -> Any:
        return jax.jit(jax.hessian(self._energy))

    @cached_property
    def _curvatures(self) -> Any:
        return jax.jit(jax.vmap(jax.hessian(self._energy), in_axes=(0, None, None)))

    @cached_property
    def _slopes(self) -> Any:
        return jax.jit(jax.vmap(jax.grad(self.of_record), in_axes=(None, 0)))
