"""Logistic regression: the model that Li et al. (2019, Section 5) fit to census data, on simulated records."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.predictor import predictor, simulated_rows, with_intercept
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator, vector
from dpmcmc.zoo.reference import LongRun


def logistic_regression(
    rng: np.random.Generator,
    *,
    num_records: int = 10_000,
    truth: ArrayLike = (0.5, 1.0, -1.0, 0.25),
    prior_variance: float = 10.0,
    temperature: float = 1.0,
) -> Problem:
    """Return y in {0, 1}, one with probability 1 / (1 + exp(-eta)), eta = intercept + x' slopes ~ N(0, v0 I)."""
    num_records = validation.integer("num_records", num_records, at_least=1)
    truth = vector("truth", truth)
    model = logistic_model(truth.size, validation.positive("prior_variance", prior_variance), temperature)
    x = simulated_rows(generator(rng), num_records, truth.size - 1)
    y = rng.binomial(1, expit(with_intercept(x) @ truth)).astype(np.int32)
    records = {"x": x, "y": y}
    return Problem(
        "logistic_regression",
        "",
        model,
        records,
        {"x": (-1.0, 1.0), "y": (0.0, 1.0)},
        LongRun(model, records, int(rng.integers(2**31))),
        truth,
        float(2 / np.sqrt(model.temperature * num_records)),
    )


def logistic_model(dimension: int, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record: log(1 / (1 + exp(-(2 y - 1) eta)))."""

    def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
        sign = 2 * record["y"].astype(position.dtype) - 1
        return jax.nn.log_sigmoid(sign * predictor(position, record["x"]))

    return Model(
        normal_prior(np.zeros(dimension), prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(np.zeros(dimension), prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )
