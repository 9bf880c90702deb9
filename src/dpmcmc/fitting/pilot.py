"""The pilot: private steps that find where the posterior is, how wide it is, and how long the records' scores are.

Everything it asks is paid for. What follows from the answers is post-processing, and lets every sampler work in
coordinates in which the posterior is round, with clips that suit the records.
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
"""How far one Newton step may go, in units of the prior's scales: neither noise nor a bend may throw the pilot off.
Less far from where on a Hessian was no hill, and near the approximation."""

DAMPINGS = np.append(0.0, 0.02 * 2.0 ** np.arange(9)).astype(np.float32)
"""What is added to a Hessian that leads too far, or that is no hill: so much of the sums of its rows' sizes."""

FLATTEST = 0.1
"""The least precision of the posterior that is believed, in coordinates in which it was thought to be one."""


@dataclass(frozen=True)
class Newton:
    """Private Newton steps: ``newton(oracle, approximation)``.

    Gradients and Hessians are clipped in the coordinates of the approximation that they start from. If `adapts` is
    set, every step changes to the whitened coordinates that it found: there a clip that suits the records is known
    (`recipes`), and directions in which the posterior is wide are not drowned in noise.
    """

    model: Model
    layout: Layout
    gradient: Sum
    curvature: CurvatureSum | PublicCurvature
    num_steps: int
    adapts: bool
    scales: jax.Array
    """Of the prior, in every coordinate."""

    def __call__(self, oracle: Oracle, start: GaussianApproximation) -> GaussianApproximation:
        """Return the approximation that the steps lead to."""

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
            # lost in the wild, it stays where it was: what was paid for ends in draws, and in a verdict
            kept = jax.tree.map(
                lambda one, other: jnp.where(is_sound, one, other), (new, precision), (at, _precision(at.factor))
            )
            return (kept[0], longest), kept[1]

        longest = jnp.asarray(LONGEST_CAREFUL_STEP if self.adapts else LONGEST_STEP)
        (last, _), precisions = jax.lax.scan(step, (start, longest), None, length=self.num_steps)
        # the last two Hessians were taken near the approximation: their mean has less noise than either
        values, vectors = jnp.linalg.eigh(jnp.mean(precisions[-2:], axis=0))
        return GaussianApproximation(last.centre, vectors / jnp.sqrt(jnp.maximum(values, 1e-7 * values[-1])))

    def _curvature(self, oracle: Oracle, at: GaussianApproximation) -> tuple[jax.Array, jax.Array]:
        """Return minus the Hessian of the log-posterior, and what of its eigenvalues may be noise alone."""
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
    """Return the step of a Hessian that is damped as little as keeps it within `longest`.

    Far from the mode a Hessian may be indefinite: that of a mean and its scale is, where the mean is off. Newton's step
    along upward directions leads away, at any length; damped by its rows it leads uphill in all of them.
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

    The noise multiplier is that of one release which would cost as much as all of them. With gains as large as the
    share of a step in those so far, the mode of a Gaussian is met with the mean of all noises, weighted so that it is
    the noise of that one release; what clipping leaves of the way to it is little, since the first gains are large.
    """

    clip: float
    noise_multiplier: float

    @property
    def gradients(self) -> tuple[GradientSum, ...]:
        """What the steps release, one after the other."""
        return tuple(GradientSum(self.clip, self.noise_multiplier / math.sqrt(share)) for share in POLISH_SHARES)

    @property
    def event(self) -> Event:
        """What it costs, for planning: the distances of its noise from the ideal law are left out."""
        return compose(Gaussian(gradient.noise_multiplier) for gradient in self.gradients)

    def __call__(self, oracle: Oracle, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return where the steps lead, and how far from zero the last gradient was, in variances of its noise.

        At the mode the last gradient is what the noise of the steps before left, and its own noise: the second number
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
"""What is said where only paid releases can tell that what was found is not near the posterior."""


class Found(NamedTuple):
    """What a pilot finds."""

    approximation: GaussianApproximation
    clip_scale: float
    """How much longer than usual clips should be."""
    is_lost: bool
    bias: float
    """How far such clips move the posterior, in its standard deviations, as far as the score histogram tells."""


@dataclass(frozen=True)
class Pilot:
    """Newton steps with clips from synthetic records, more in whitened coordinates, and a look at the scores."""

    approach: Newton
    refine: Newton
    reach: ScoreHistogram
    start: GaussianApproximation
    share: float
    """What of the budget it takes, in mean privacy loss."""

    @property
    def settings(self) -> dict[str, Any]:
        """How it is made, in plain values."""
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
        """Return what all parts release."""
        somewhere = placeholder(self.approach.layout.dimension)
        parts = (self.approach, self.refine, self.reach)
        prices = [data.price(part, somewhere, model=self.approach.model) for part in parts]
        return sum(prices[1:], start=prices[0])

    def run(self, paid: Session, left: float) -> Found:
        """Return what it finds. Gradients may still cost `left`."""
        model = self.approach.model
        approximation = paid.run(self.refine, paid.run(self.approach, self.start, model=model), model=model)  # line 1
        long = paid.run(self.reach, approximation, model=model)
        clip_scale = self.reach.clip_scale(long, left)  # line 2
        return Found(approximation, clip_scale, self.reach.is_lost(long), self.reach.bias(long, clip_scale))
