"""Softmax regression: the classifier of the thesis on DP-SGHMC, on simulated records in the shape of its radon data."""

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.predictor import simulated_rows, with_intercept
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator
from dpmcmc.zoo.reference import LongRun
from dpmcmc.zoo.settings import SGHMC_THESIS, dp_sghmc


def softmax_regression(
    rng: np.random.Generator,
    *,
    num_records: int = 10_000,
    num_classes: int = 5,
    num_covariates: int = 2,
    prior_variance: float = 10.0,
    temperature: float = 1.0,
) -> Problem:
    """Return classes with probabilities proportional to exp(eta), eta_k = intercept_k + x' slopes_k.

    The position is the table of coefficients, one row (intercept, slopes) a class, row after row: 15 numbers by
    default. The prior N(0, prior_variance I) makes it identified. The true coefficients are standard normal.

    The thesis minimises a mean over the records: the posterior at temperature 1 / n, which its settings are for.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    num_classes = validation.integer("num_classes", num_classes, at_least=2)
    num_covariates = validation.integer("num_covariates", num_covariates, at_least=1)
    prior_variance = validation.positive("prior_variance", prior_variance)
    model = softmax_model(num_classes, num_covariates, prior_variance, temperature)
    truth = generator(rng).standard_normal((num_classes, num_covariates + 1))
    x = simulated_rows(rng, num_records, num_covariates)
    # the class with the largest eta + Gumbel noise has the right law
    label = np.argmax(with_intercept(x) @ truth.T + rng.gumbel(size=(num_records, num_classes)), axis=1)
    records = {"label": label.astype(np.int32), "x": x}
    settings = {
        "dp_sghmc": dp_sghmc(
            num_records, friction=0.15, clip=1.0, rate=0.01, multiplier=1.7, num_leapfrog=10, num_steps=1500
        ),
        "hmc": {"step_size": 3.0, "num_leapfrog": 23},
    }
    return Problem(
        "softmax_regression",
        SGHMC_THESIS,
        model,
        records,
        {"label": (0.0, float(num_classes - 1)), "x": (-1.0, 1.0)},
        LongRun(model, records, int(rng.integers(2**31))),
        truth.ravel(),
        float(2 / np.sqrt(model.temperature * num_records)),
        settings,
    )


def softmax_model(num_classes: int, num_covariates: int, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record: eta[label] - log(sum of exp(eta))."""
    dimension = num_classes * (num_covariates + 1)

    def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
        table = position.reshape(num_classes, num_covariates + 1)
        return jax.nn.log_softmax(table[:, 0] + table[:, 1:] @ record["x"])[record["label"]]

    return Model(
        normal_prior(np.zeros(dimension), prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(np.zeros(dimension), prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )
