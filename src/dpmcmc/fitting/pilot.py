"""The pilot: private steps that estimate the posterior's mode and covariance, and the norms of the records' scores.

All its releases are charged. Everything computed from them is post-processing: it lets every sampler work in whitened
coordinates, with clips that suit the records.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Event, Gaussian, compose
from dpmcmc.catalogue.settings import POLISH_SHARES
from dpmcmc.enclave import CurvatureSum, GradientSum, Oracle, PrivateData, Session, Sum
from dpmcmc.fitting.curvature import PublicCurvature
from dpmcmc.fitting.score_histogram import ScoreHistogram
from dpmcmc.fitting.whitening import GaussianApproximation, placeholder
from dpmcmc.model import Model
from dpmcmc.run.program import Layout, score

LONGEST_STEP, LONGEST_CAREFUL_STEP = 1.0, 0.5
"""Trust-region radii of a Newton step, in units of the prior's scales. The smaller one applies after the first
indefinite Hessian, and in whitened coordinates."""

DAMPINGS = np.append(0.0, 0.02 * 2.0 ** np.arange(9)).astype(np.float32)
"""Dampings to choose from for a Hessian whose step is too long or that is indefinite, relative to its row sums."""

FLATTEST = 0.1
"""Eigenvalues of the precision are raised to at least this, in coordinates in which the last estimate was one."""


@dataclass(frozen=True)
class Newton:
    """Private Newton steps: ``newton(oracle, approximation)``.

    Gradients and Hessians are clipped in the coordinates of the initial approximation. If `adapts` is set, every step
    changes to the whitened coordinates of its own estimate: there a suitable clip is known (`recipes`), and the noise
    does not dominate directions in which the posterior is wide.
    """

    model: Model
    layout: Layout
    gradient: Sum
    curvature: CurvatureSum | PublicCurvature
    num_steps: int
    adapts: bool
    scales: jax.Array
    """Scales of the prior, in every coordinate."""

    def __call__(self, oracle: Oracle, start: GaussianApproximation) -> GaussianApproximation:
        """Return the Gaussian approximation after all steps."""

        def log_prior(vector: jax.Array) -> jax.Array:
            return self.model.log_prior(self.layout.unravel(vector))

        def step(
            state: tuple[GaussianApproximation, jax.Array], _: None
        ) -> tuple[tuple[GaussianApproximation, jax.Array], jax.Array]:
            at, longest = state
            released = oracle.sum(self.gradient, score(self.model, self.layout), at.centre, at.factor).value
            force = released + at.factor.T @ jax.grad(log_prior)(at.centre)
            matrix, noise = self._curvature(oracle, at)
            lowest = jnp.maximum(noise, FLATTEST if self.adapts else 0.0)
            values, vectors = jnp.linalg.eigh(matrix)
            found = at.factor @ (vectors / jnp.sqrt(jnp.maximum(values, lowest)))
            longest = jnp.where(values[0] > -lowest, longest, LONGEST_CAREFUL_STEP)
            move = at.factor @ trusted_move(matrix, at.factor / self.scales[:, None], force, lowest, longest)
            length = jnp.linalg.norm(move / self.scales)
            centre = at.centre + move * jnp.minimum(1.0, longest / jnp.maximum(length, 1e-12))
            new, precision = GaussianApproximation(centre, found if self.adapts else at.factor), _precision(found)
            numbers = [*new, precision, log_prior(centre), jax.grad(log_prior)(centre)]
            is_sound = jnp.all(jnp.array([jnp.all(jnp.isfinite(number)) for number in numbers]))
            # a step to non-finite numbers is not taken: a charged run ends in draws with a verdict
            kept = jax.tree.map(
                lambda one, other: jnp.where(is_sound, one, other), (new, precision), (at, _precision(at.factor))
            )
            return (kept[0], longest), kept[1]

        longest = jnp.asarray(LONGEST_CAREFUL_STEP if self.adapts else LONGEST_STEP)
        (last, _), precisions = jax.lax.scan(step, (start, longest), None, length=self.num_steps)
        # the last two Hessians were taken close to each other: their mean has less noise than either
        values, vectors = jnp.linalg.eigh(jnp.mean(precisions[-2:], axis=0))
        return GaussianApproximation(last.centre, vectors / jnp.sqrt(jnp.maximum(values, 1e-7 * values[-1])))

    def _curvature(self, oracle: Oracle, at: GaussianApproximation) -> tuple[jax.Array, jax.Array]:
        """Return minus the Hessian of the log-posterior, and the size of eigenvalues that may be noise alone."""
        if isinstance(self.curvature, PublicCurvature):
            return at.factor.T @ self.curvature(at.centre) @ at.factor, jnp.zeros(())
        matrix, variance = oracle.curvature(self.curvature, self.layout.unravel(at.centre), at.factor)
        # a random symmetric matrix with entries of this noise has eigenvalues of up to about its sd times sqrt(2 d)
        return matrix, jnp.sqrt(2.0 * self.layout.dimension * variance)


def _precision(factor: jax.Array) -> jax.Array:
    """Return the inverse of a covariance F F^T."""
    inverse = jnp.linalg.inv(factor)
    return inverse.T @ inverse


def trusted_move(
    matrix: jax.Array, factor: jax.Array, force: jax.Array, lowest: jax.Array, longest: jax.Array
) -> jax.Array:
    """Return the Newton step with the smallest damping that keeps it within the trust region `longest`.

    Far from the mode a Hessian may be indefinite, as that of a mean and its scale. An undamped Newton step along
    directions of positive curvature moves away from the mode; with damping it moves uphill in all directions.
    """
    sizes = jnp.diag(jnp.sum(jnp.abs(matrix), axis=1))

    def damped(amount: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, vectors = jnp.linalg.eigh(matrix + amount * sizes)
        move = vectors @ ((vectors.T @ force) / jnp.maximum(values, lowest))
        return move, (values[0] > -lowest) & (jnp.linalg.norm(factor @ move) <= longest)

    moves, are_trusted = jax.vmap(damped)(jnp.asarray(DAMPINGS))
    return moves[jnp.where(jnp.any(are_trusted), jnp.argmax(are_trusted), len(DAMPINGS) - 1)]


@dataclass(frozen=True)
class Refinement:
    """Gradient steps in whitened coordinates: ``refinement(oracle, start)``.

    The noise multiplier is that of a single release with the same cost as all steps. The gain of a step is its share of
    the budget so far, so that for a Gaussian posterior the final error is a weighted mean of all noises, with the
    variance of that single release. The bias from clipping is small, since the first gains are large.
    """

    clip: float
    noise_multiplier: float

    @property
    def gradients(self) -> tuple[GradientSum, ...]:
        """The gradient mechanisms of the steps, in order."""
        return tuple(GradientSum(self.clip, self.noise_multiplier / math.sqrt(share)) for share in POLISH_SHARES)

    @property
    def event(self) -> Event:
        """The event for planning: without the error of the noise sampler."""
        return compose(Gaussian(gradient.noise_multiplier) for gradient in self.gradients)

    def __call__(self, oracle: Oracle, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the final position, and the squared norm of the last gradient in variances of its noise.

        At the mode the last gradient consists of its own noise and of the noise of earlier steps. The second number
        is then chi-square with as many degrees of freedom as there are coordinates.
        """
        position, missed = start, jnp.zeros(())
        for gradient, share, so_far in zip(self.gradients, POLISH_SHARES, np.cumsum(POLISH_SHARES), strict=True):
            force = oracle.force(gradient, position)
            expected = force.variance * (1 + share / jnp.maximum(so_far - share, 1e-6))
            missed = jnp.sum(force.value**2) / expected
            position = position + share / so_far * force.value  # line 3
        return position, missed


LOST = "The pilot did not find the posterior: scores of many records are too long for any clip."
"""The reason of a bad verdict if releases show that the pilot did not reach the posterior."""


class Found(NamedTuple):
    """The estimates of a pilot."""

    approximation: GaussianApproximation
    clip_scale: float
    """Factor by which the usual clips are multiplied."""
    is_lost: bool
    bias: float
    """Bias from clipping, in posterior standard deviations, estimated from the score histogram."""


@dataclass(frozen=True)
class Pilot:
    """Newton steps with clips from synthetic records, further steps in whitened coordinates, and a score histogram."""

    approach: Newton
    refine: Newton
    reach: ScoreHistogram
    start: GaussianApproximation
    share: float
    """Share of the budget (mean privacy loss)."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the pilot, as plain values."""
        phases = {"approach": self.approach, "refine": self.refine}
        steps = {
            f"{name}_{what}": value
            for name, phase in phases.items()
            for what, value in (
                ("steps", phase.num_steps),
                ("gradient", repr(phase.gradient)),
                ("curvature", repr(phase.curvature)),
            )
        }
        return {**steps, "reach": repr(self.reach.sums)}

    def price(self, data: PrivateData) -> Event:
        """Return the event of all parts."""
        somewhere = placeholder(self.approach.layout.dimension)
        parts = (self.approach, self.refine, self.reach)
        prices = [data.price(part, somewhere, model=self.approach.model) for part in parts]
        return sum(prices[1:], start=prices[0])

    def run(self, paid: Session, left: float) -> Found:
        """Run the pilot and return its estimates; `left` is the rest of the budget, for the gradients after it."""
        model = self.approach.model
        approximation = paid.run(self.refine, paid.run(self.approach, self.start, model=model), model=model)  # line 1
        long = paid.run(self.reach, approximation, model=model)
        clip_scale = self.reach.clip_scale(long, left)  # line 2
        return Found(approximation, clip_scale, self.reach.is_lost(long), self.reach.bias(long, clip_scale))
