"""Linear regression with known noise: the conjugate case among the regressions."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.normal import Normal
from dpmcmc.zoo.predictor import predictor, simulated_rows, with_intercept
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator, vector


def linear_regression(
    rng: np.random.Generator,
    *,
    num_records: int = 10_000,
    truth: ArrayLike = (0.5, 1.0, -1.0, 0.25),
    noise_variance: float = 1.0,
    prior_variance: float = 10.0,
    temperature: float = 1.0,
) -> Problem:
    """Return y ~ N(intercept + x' slopes, noise_variance) with the prior N(0, prior_variance I) on both.

    With the rows z = (1, x) the posterior has the precision I / v0 + T Z'Z / noise_variance.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    noise_variance = validation.positive("noise_variance", noise_variance)
    prior_variance = validation.positive("prior_variance", prior_variance)
    truth = vector("truth", truth)
    model = linear_model(truth.size, noise_variance, prior_variance, temperature)
    x = simulated_rows(generator(rng), num_records, truth.size - 1)
    rows = with_intercept(x)
    y = rng.normal(rows @ truth, np.sqrt(noise_variance)).astype(np.float32)
    weight = model.temperature / noise_variance
    law = Normal.posterior(
        np.zeros(truth.size), prior_variance, weight * rows.T @ rows, weight * rows.T @ y.astype(np.float64)
    )
    reach = float(np.sum(np.abs(truth)) + SPREAD * np.sqrt(noise_variance))
    return Problem(
        "linear_regression",
        "",
        model,
        {"x": x, "y": y},
        {"x": (-1.0, 1.0), "y": (-reach, reach)},
        law,
        truth,
        law.average_deviation,
    )


def linear_model(dimension: int, noise_variance: float, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record."""
    constant = -0.5 * float(np.log(2 * np.pi * noise_variance))

    def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
        return -0.5 / noise_variance * (record["y"] - predictor(position, record["x"])) ** 2 + constant

    return Model(
        normal_prior(np.zeros(dimension), prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(np.zeros(dimension), prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )
