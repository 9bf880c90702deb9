"""Poisson regression: counts with a logarithmic link."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from numpy.typing import ArrayLike

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.predictor import predictor, simulated_rows, with_intercept
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator, vector
from dpmcmc.zoo.reference import LongRun


def poisson_regression(
    rng: np.random.Generator,
    *,
    num_records: int = 10_000,
    truth: ArrayLike = (0.5, 0.5, -0.5, 0.25),
    prior_variance: float = 1.0,
    temperature: float = 1.0,
) -> Problem:
    """Return counts y ~ Poisson(exp(eta)) with eta = intercept + x' slopes and the prior N(0, prior_variance I)."""
    num_records = validation.integer("num_records", num_records, at_least=1)
    truth = vector("truth", truth)
    model = poisson_model(truth.size, validation.positive("prior_variance", prior_variance), temperature)
    x = simulated_rows(generator(rng), num_records, truth.size - 1)
    y = rng.poisson(np.exp(with_intercept(x) @ truth)).astype(np.int32)
    records = {"x": x, "y": y}
    largest_rate = float(np.exp(truth[0] + np.sum(np.abs(truth[1:]))))
    return Problem(
        "poisson_regression",
        "",
        model,
        records,
        {"x": (-1.0, 1.0), "y": (0.0, float(np.ceil(SPREAD + largest_rate + SPREAD * np.sqrt(largest_rate))))},
        LongRun(model, records, int(rng.integers(2**31))),
        truth,
        float(1 / np.sqrt(model.temperature * num_records)),
    )


def poisson_model(dimension: int, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record: y eta - exp(eta) - log(y!)."""

    def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
        eta = predictor(position, record["x"])
        count = record["y"].astype(position.dtype)
        return count * eta - jnp.exp(eta) - gammaln(count + 1)

    return Model(
        normal_prior(np.zeros(dimension), prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(np.zeros(dimension), prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )
