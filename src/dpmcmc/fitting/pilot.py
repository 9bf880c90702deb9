"""The pilot: a few private Newton steps that find where the posterior is and how wide it is.

Everything it asks is paid for: in every step one noisy gradient and one noisy Hessian. What follows from them, a centre
and a covariance, is post-processing, and lets every sampler work in coordinates in which the posterior is round.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Event
from dpmcmc.enclave import GradientSum, Oracle, PaidRun, PrivateData, Sum
from dpmcmc.fitting.round import Summit, nowhere, rounded
from dpmcmc.model import Model
from dpmcmc.run.program import Layout

LONGEST_STEP = 3.0
"""How far one Newton step may go, in units of the prior's scale: noise must not throw the pilot off."""


@dataclass(frozen=True)
class Polish:
    """Gradient steps in round coordinates: ``polish(oracle, start)``.

    Newton's gradients are clipped by a rule made for the start, which may bend where the summit is; these are clipped
    in the posterior's own metric. With gains 1, 1/2, 1/3, ... a round summit is met with the mean of all their noises.
    """

    gradient: GradientSum
    num_steps: int

    def __call__(self, oracle: Oracle, start: jax.Array) -> jax.Array:
        """Return where the steps lead."""

        def step(position: jax.Array, gain: jax.Array) -> tuple[jax.Array, None]:
            return position + gain * oracle.force(self.gradient, position).value, None

        return jax.lax.scan(step, start, 1 / jnp.arange(1.0, self.num_steps + 1))[0]


@dataclass(frozen=True)
class Newton:
    """Private Newton steps: ``newton(oracle, start)`` with a flat start."""

    model: Model
    layout: Layout
    gradient: GradientSum
    curvature: Sum
    num_steps: int

    def __call__(self, oracle: Oracle, start: jax.Array) -> Summit:
        """Return the summit that the steps lead to."""
        dimension = self.layout.dimension
        rows, columns = np.triu_indices(dimension)
        # off the diagonal an entry stands for two, so that the norm of the vector is the Frobenius norm of the matrix
        weight = np.where(rows == columns, 1.0, np.sqrt(2.0)).astype(np.float32)

        def log_prior(vector: jax.Array) -> jax.Array:
            return self.model.log_prior(self.layout.unravel(vector))

        def statistic(vector: jax.Array, record: Any) -> jax.Array:
            def log_likelihood(one: jax.Array) -> jax.Array:
                return self.model.temperature * self.model.log_likelihood(self.layout.unravel(one), record)

            return -jax.hessian(log_likelihood)(vector)[rows, columns] * weight

        def precision(position: jax.Array) -> jax.Array:
            """Return the noisy precision of the posterior, made positive definite by its own noise level."""
            noisy = oracle.sum(self.curvature, statistic, position)
            entries = noisy.value / weight
            matrix = jnp.zeros((dimension, dimension)).at[rows, columns].set(entries)
            matrix = matrix + jnp.triu(matrix, 1).T - jax.hessian(log_prior)(position)
            # a random symmetric matrix with entries of this noise has eigenvalues of up to about its sd times sqrt(2 d)
            lowest = jnp.sqrt(2.0 * dimension * noisy.variance)
            values, vectors = jnp.linalg.eigh(matrix)
            return (vectors * jnp.maximum(values, lowest)) @ vectors.T

        def step(position: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            force = self.layout.ravel(oracle.force(self.gradient, self.layout.unravel(position)).value)
            matrix = precision(position)
            move = jnp.linalg.solve(matrix, force)
            length = jnp.linalg.norm(move)
            return position + move * jnp.minimum(1.0, LONGEST_STEP / jnp.maximum(length, 1e-12)), matrix

        centre, matrices = jax.lax.scan(step, start, None, length=self.num_steps)
        # the last two Hessians were taken near the summit: their mean has less noise than either
        precision_there = jnp.mean(matrices[-2:], axis=0)
        values, vectors = jnp.linalg.eigh(precision_there)
        return Summit(centre, vectors / jnp.sqrt(values))


@dataclass(frozen=True)
class Pilot:
    """Newton steps from a start, and then the polish, in the coordinates that they found."""

    newton: Newton
    polish: Polish
    start: jax.Array

    @property
    def settings(self) -> dict[str, Any]:
        """How it is made, in plain values."""
        return {
            "newton_steps": self.newton.num_steps,
            "gradient": repr(self.newton.gradient),
            "curvature": repr(self.newton.curvature),
            "polish_steps": self.polish.num_steps,
            "polish": repr(self.polish.gradient),
        }

    def price(self, data: PrivateData) -> Event:
        """Return what both parts release."""
        origin, model = self._round(nowhere(self.newton.layout.dimension))
        newton = data.price(self.newton, self.start, model=self.newton.model)
        return newton + data.price(self.polish, origin, model=model)

    def run(self, paid: PaidRun) -> Summit:
        """Return the summit."""
        summit = paid.run(self.newton, self.start, model=self.newton.model)
        origin, model = self._round(summit)
        moved = paid.run(self.polish, origin, model=model)
        return Summit(summit.centre + summit.factor @ moved, summit.factor)

    def _round(self, summit: Summit) -> tuple[jax.Array, Model]:
        layout = self.newton.layout
        return jnp.zeros(layout.dimension), rounded(self.newton.model, layout, summit)
