"""The circle: a thin ring around the origin (Räisä 2021, Section 5.3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.problem import Problem, Vector, generator


@dataclass(frozen=True)
class Ring:
    """The law of (x, y) whose t = x^2 + y^2 is N(mean, variance) given t > 0, and whose angle is uniform."""

    mean: float
    variance: float

    def draw(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return independent draws, shape (num_draws, 2), by the inverse of the distribution function of t."""
        deviation = np.sqrt(self.variance)
        upper = ndtr(self.mean / deviation) * (1 - rng.uniform(size=num_draws))  # in (0, P(t > 0)]
        radius = np.sqrt(np.maximum(self.mean - deviation * ndtri(upper), 0))
        angle = rng.uniform(0, 2 * np.pi, num_draws)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)

    def squared_radius_cdf(self, t: Vector) -> Vector:
        """Return P(x^2 + y^2 <= t) at t >= 0."""
        deviation = np.sqrt(self.variance)
        return 1 - ndtr((self.mean - t) / deviation) / ndtr(self.mean / deviation)


def circle(
    rng: np.random.Generator,
    *,
    num_records: int,
    a: float = 1e-5,
    radius: float = 3.0,
    deviation: float = 1.0,
    temperature: float = 1.0,
    name: str = "circle",
    paper: str = "",
    start_scale: float = 0.1,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Problem:
    """Return n records r ~ N(radius, deviation^2) with the log-likelihood -a (x^2 + y^2 - r^2)^2 and a flat prior.

    It is a pseudo-likelihood: as a density of r it is not normalised. As dx dy is dt d(angle) / 2, t = x^2 + y^2 has
    the density exp(-a T n (t - mean(r^2))^2), up to a factor, on t > 0: the variance is 1 / (2 a T n).
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    a, deviation = validation.positive("a", a), validation.positive("deviation", deviation)
    radius = validation.number("radius", radius)
    model = circle_model(a, temperature)
    records = generator(rng).normal(radius, deviation, num_records).astype(np.float32)
    mean = float(np.mean(records.astype(np.float64) ** 2))
    return Problem(
        name,
        paper,
        model,
        records,
        {"records": (radius - SPREAD * deviation, radius + SPREAD * deviation)},
        Ring(mean, 1 / (2 * a * model.temperature * num_records)),
        np.array([0.0, 1.0]),
        start_scale,
        settings or {},
    )


def circle_model(a: float, temperature: float) -> Model:
    """Return the model; its prior is flat, so nothing can be drawn from it."""

    def log_likelihood(position: jax.Array, record: jax.Array) -> jax.Array:
        return -a * (jnp.sum(position**2) - record**2) ** 2

    return Model(
        lambda position: jnp.zeros((), position.dtype),
        log_likelihood,
        temperature=temperature,
        position=jax.ShapeDtypeStruct((2,), jnp.float32),
    )
