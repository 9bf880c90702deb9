"""A small Bayesian neural network for regression on a line."""

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.predictor import simulated_rows
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator
from dpmcmc.zoo.reference import LongRun


def neural_network(
    rng: np.random.Generator,
    *,
    num_records: int = 500,
    num_hidden: int = 4,
    noise_variance: float = 0.25,
    prior_variance: float = 1.0,
    temperature: float = 1.0,
) -> Problem:
    """Return y ~ N(f(x), noise_variance), f one hidden layer of tanh, with the prior N(0, prior_variance I).

    The position holds, one after the other, the hidden slopes and intercepts, the output weights and the output
    intercept: 3 * num_hidden + 1 numbers. Permuting the hidden units, or turning their signs, changes nothing, so the
    reference was checked for its predictions alone: compare `predict` at draws, not the draws.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    num_hidden = validation.integer("num_hidden", num_hidden, at_least=1)
    noise_variance = validation.positive("noise_variance", noise_variance)
    prior_variance = validation.positive("prior_variance", prior_variance)
    model = neural_network_model(num_hidden, noise_variance, prior_variance, temperature)
    truth = generator(rng).standard_normal(3 * num_hidden + 1)
    x = simulated_rows(rng, num_records, 1)[:, 0]
    middle = np.asarray(predict(jnp.asarray(truth, jnp.float32), jnp.asarray(x)), np.float64)
    y = rng.normal(middle, np.sqrt(noise_variance)).astype(np.float32)
    records = {"x": x, "y": y}
    reach = float(np.sum(np.abs(truth[2 * num_hidden :])) + SPREAD * np.sqrt(noise_variance))
    return Problem(
        "neural_network",
        "",
        model,
        records,
        {"x": (-1.0, 1.0), "y": (-reach, reach)},
        LongRun(
            model,
            records,
            int(rng.integers(2**31)),
            target_acceptance=0.98,
            dense_mass=False,
            quantity=lambda position: predict(position, jnp.linspace(-1.0, 1.0, 11)),
        ),
        truth,
        0.1,
    )


def predict(position: jax.Array, x: jax.Array) -> jax.Array:
    """Return f(x) = sum of output weights * tanh(slopes x + intercepts) + output intercept, of the shape of x."""
    num_hidden = (position.shape[0] - 1) // 3
    slopes, intercepts, weights = (position[start * num_hidden : (start + 1) * num_hidden] for start in range(3))
    return jnp.tanh(x[..., None] * slopes + intercepts) @ weights + position[-1]


def neural_network_model(num_hidden: int, noise_variance: float, prior_variance: float, temperature: float) -> Model:
    """Return the model of one record."""
    dimension = 3 * num_hidden + 1
    constant = -0.5 * float(np.log(2 * np.pi * noise_variance))

    def log_likelihood(position: jax.Array, record: dict[str, jax.Array]) -> jax.Array:
        return -0.5 / noise_variance * (record["y"] - predict(position, record["x"])) ** 2 + constant

    return Model(
        normal_prior(np.zeros(dimension), prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(np.zeros(dimension), prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )
