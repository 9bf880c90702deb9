"""The banana: a normal posterior, bent (Räisä 2021, Section 5.2 and Theorem 12)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.normal import Normal
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, Vector, generator, vector


@dataclass(frozen=True)
class Bend:
    """The map u -> (u1, u2 - a (u1 - m)^2 - b, u3, ...), which keeps volumes."""

    a: float
    b: float = 0.0
    m: float = 0.0

    def bent(self, straight: Any) -> Any:
        """Return positions, whose last axis are the coordinates, from straight ones."""
        return self._moved(straight, -1.0)

    def straight(self, bent: Any) -> Any:
        """Return what was bent: the coordinates in which the posterior is normal."""
        return self._moved(bent, 1.0)

    def _moved(self, position: Any, sign: float) -> Any:
        first, second = position[..., :1], position[..., 1:2]
        second = second + sign * (self.a * (first - self.m) ** 2 + self.b)
        library = jnp if isinstance(position, jax.Array) else np
        return library.concatenate([first, second, position[..., 2:]], axis=-1)


@dataclass(frozen=True, eq=False)
class BentNormal:
    """The law of a normal vector after the bend."""

    normal: Normal
    bend: Bend

    def draw(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return independent draws, shape (num_draws, d)."""
        return self.bend.bent(self.normal.draw(rng, num_draws))

    @property
    def variances(self) -> Vector:
        """The variances of the coordinates, which are independent before the bend.

        That of the second one is v2 + a^2 (2 v1^2 + 4 (mu1 - m)^2 v1).
        """
        variances = np.diag(self.normal.covariance).copy()
        first, distance = variances[0], self.normal.mean[0] - self.bend.m
        variances[1] += self.bend.a**2 * (2 * first**2 + 4 * distance**2 * first)
        return variances


def banana(
    rng: np.random.Generator,
    *,
    num_records: int,
    truth: ArrayLike = (0.0, 3.0),
    variances: ArrayLike = (2000.0, 2500.0),
    a: float = 20.0,
    b: float = 0.0,
    m: float = 0.0,
    prior_variance: float = 1000.0,
    temperature: float = 1.0,
    name: str = "banana",
    paper: str = "",
    start_scale: float | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Problem:
    """Return n records x ~ N(u, diag(variances)), u the straightened theta, with u ~ N(0, prior_variance I) a priori.

    With t_i = T n / variances_i the straightened posterior is normal with independent coordinates of the variances
    1 / (t_i + 1 / prior_variance) and the means t_i mean(x_i) times these.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    prior_variance = validation.positive("prior_variance", prior_variance)
    bend = Bend(validation.number("a", a), validation.number("b", b), validation.number("m", m))
    truth = vector("truth", truth)
    spread = vector("variances", variances, truth.size)
    if truth.size < 2 or spread.min() <= 0:
        validation.refuse("variances", variances, "must be two or more numbers > 0, as many as truth has")
    model = banana_model(bend, spread, prior_variance, temperature)
    middle = bend.straight(truth)
    noise = generator(rng).standard_normal((num_records, truth.size)) * np.sqrt(spread)
    records = (middle + noise).astype(np.float32)
    precision = model.temperature * num_records / spread
    shift = precision * records.mean(axis=0, dtype=np.float64)
    normal = Normal.posterior(np.zeros(truth.size), prior_variance, np.diag(precision), shift)
    law = BentNormal(normal, bend)
    reach = float(np.max(np.abs(middle)) + SPREAD * np.sqrt(spread.max()))
    return Problem(
        name,
        paper,
        model,
        records,
        {"records": (-reach, reach)},
        law,
        truth,
        float(np.mean(np.sqrt(law.variances))) if start_scale is None else start_scale,
        settings or {},
    )


def banana_model(bend: Bend, variances: Vector, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record N(x; straight(theta), diag(variances)); the bend has Jacobian one."""
    straight_prior = normal_prior(np.zeros(variances.size), prior_variance)
    sample_straight = sample_normal_prior(np.zeros(variances.size), prior_variance)
    constant = -0.5 * float(np.sum(np.log(2 * np.pi * variances)))

    def log_likelihood(position: jax.Array, record: jax.Array) -> jax.Array:
        weights = jnp.asarray(0.5 / variances, position.dtype)
        return constant - jnp.sum(weights * (record - bend.straight(position)) ** 2)

    return Model(
        lambda position: straight_prior(bend.straight(position)),
        log_likelihood,
        temperature=temperature,
        sample_prior=lambda key: bend.bent(sample_straight(key)),
        position=jax.ShapeDtypeStruct((variances.size,), jnp.float32),
    )
