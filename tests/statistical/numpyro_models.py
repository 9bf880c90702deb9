"""Models as people write them in NumPyro, each with synthetic data: what the bridge is tested on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.infer.reparam import LocScaleReparam

ROWS = 50


@dataclass(frozen=True)
class Example:
    """A model with a table, whose columns are the model's data arguments, and the model's public arguments."""

    model: Callable[..., Any]
    data: Mapping[str, np.ndarray]
    public: Mapping[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes of one record."""
        return {name: jax.ShapeDtypeStruct(column.shape[1:], column.dtype) for name, column in self.data.items()}


def columns(seed, width=3):
    """Return a generator, covariates and a linear predictor."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (ROWS, width)).astype(np.float32)
    return random, x, x @ np.linspace(-1, 1, width)


def logistic(x, y):
    intercept = numpyro.sample("intercept", dist.Normal(0, 5))
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=intercept + x @ beta), obs=y)


def logistic_data():
    random, x, eta = columns(1)
    return {"x": x, "y": random.binomial(1, 1 / (1 + np.exp(-eta))).astype(np.int32)}


def poisson(x, y, exposure):
    beta = numpyro.sample("beta", dist.Laplace(0, 1).expand([x.shape[1]]))
    with numpyro.plate("data", len(y)):
        rate = numpyro.deterministic("rate", exposure * jnp.exp(x @ beta))
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def poisson_data():
    random, x, eta = columns(2)
    exposure = random.uniform(0.5, 2, ROWS).astype(np.float32)
    return {"x": x, "y": random.poisson(exposure * np.exp(eta)).astype(np.int32), "exposure": exposure}


def negative_binomial(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    concentration = numpyro.sample("concentration", dist.Gamma(2, 0.5))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(x @ beta), concentration), obs=y)


def negative_binomial_data():
    random, x, eta = columns(3)
    return {"x": x, "y": random.negative_binomial(4, 4 / (4 + np.exp(eta))).astype(np.int32)}


def robust(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1))
    degrees = numpyro.sample("degrees", dist.Gamma(2, 0.1))
    mean = numpyro.deterministic("mean", x @ beta)
    numpyro.deterministic("variance", sigma**2)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.StudentT(degrees, mean, sigma), obs=y)


def robust_data():
    random, x, eta = columns(4)
    return {"x": x, "y": (eta + 0.3 * random.standard_t(4, ROWS)).astype(np.float32)}


def hierarchical(x, group, y, num_groups):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    sigma = numpyro.sample("sigma", dist.Exponential(1))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("groups", num_groups), numpyro.handlers.reparam(config={"intercept": LocScaleReparam(0)}):
        intercept = numpyro.sample("intercept", dist.Normal(mu, tau))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(intercept[group] + slope * x, sigma), obs=y)


def hierarchical_data():
    random, x, _ = columns(5, 1)
    group = random.integers(0, 4, ROWS).astype(np.int32)
    y = np.linspace(-1, 1, 4)[group] + 0.5 * x[:, 0] + 0.4 * random.normal(size=ROWS)
    return {"x": x[:, 0], "group": group, "y": y.astype(np.float32)}


def ordinal(x, y, num_classes):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    improper = dist.ImproperUniform(constraints.ordered_vector, (), (num_classes - 1,))
    cutpoints = numpyro.sample("cutpoints", improper)
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.OrderedLogistic(x @ beta, cutpoints), obs=y)


def ordinal_data():
    random, x, eta = columns(6)
    return {"x": x, "y": np.digitize(eta + random.logistic(size=ROWS), [-1.5, 0, 1.5]).astype(np.int32)}


def softmax(x, y, num_classes):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1], num_classes]).to_event(2))
    bias = numpyro.sample("bias", dist.ZeroSumNormal(1.0, event_shape=(num_classes,)))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Categorical(logits=x @ weights + bias), obs=y)


def softmax_data():
    random, x, _ = columns(7)
    logits = x @ random.normal(size=(3, 4)) + random.gumbel(size=(ROWS, 4))
    return {"x": x, "y": np.argmax(logits, axis=1).astype(np.int32)}


def mixture(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    means = numpyro.sample(
        "means", dist.TransformedDistribution(dist.Normal(0, 3).expand([2]), dist.transforms.OrderedTransform())
    )
    scales = numpyro.sample("scales", dist.LogNormal(0, 0.5).expand([2]))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, scales)), obs=y)


def mixture_data():
    random = np.random.default_rng(8)
    component = random.binomial(1, 0.4, ROWS)
    return {"y": np.where(component, random.normal(2, 0.7, ROWS), random.normal(-1, 0.5, ROWS)).astype(np.float32)}


def gaussian_process(x, y, inducing):
    length = numpyro.sample("length", dist.InverseGamma(5, 2))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.HalfNormal(0.5))

    def kernel(first, second):
        return amplitude**2 * jnp.exp(-0.5 * ((first[:, None] - second[None, :]) / length) ** 2)

    size = inducing.shape[0]
    root = jnp.linalg.cholesky(kernel(inducing, inducing) + 0.05 * jnp.eye(size))
    white = numpyro.sample("white", dist.Normal(0, 1).expand([size]).to_event(1))
    numpyro.deterministic("at_inducing", root @ white)
    projection = jax.scipy.linalg.solve_triangular(root, kernel(inducing, x), lower=True)
    spare = amplitude**2 - jnp.sum(projection**2, axis=0)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(white @ projection, jnp.sqrt(noise**2 + jnp.maximum(spare, 0.0))), obs=y)


def gaussian_process_data():
    random, x, _ = columns(9, 1)
    return {"x": x[:, 0], "y": (np.sin(3 * x[:, 0]) + 0.2 * random.normal(size=ROWS)).astype(np.float32)}


def neural_network(x, y, num_hidden):
    precision = numpyro.sample("precision", dist.Gamma(3, 1))
    first = numpyro.sample("first", dist.Normal(0, 1).expand([x.shape[1], num_hidden]).to_event(2))
    bias = numpyro.sample("bias", dist.Normal(0, 1).expand([num_hidden]).to_event(1))
    second = numpyro.sample("second", dist.Normal(0, 1).expand([num_hidden, 1]).to_event(2))
    hidden = jnp.tanh(x @ first + bias)
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(jnp.squeeze(hidden @ second, -1), 1 / jnp.sqrt(precision)), obs=y)


def neural_network_data():
    random, x, _ = columns(10, 2)
    return {"x": x, "y": (np.sin(3 * x[:, 0]) * x[:, 1] + 0.1 * random.normal(size=ROWS)).astype(np.float32)}


def survival(x, time, event):
    """Weibull times; a censored one contributes the probability of lasting longer."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]))
    shape = numpyro.sample("shape", dist.TruncatedNormal(1, 0.5, low=0.2, high=3))
    lifetime = dist.Weibull(jnp.exp(x @ beta), shape)
    with numpyro.plate("data", time.shape[0]):
        with numpyro.handlers.mask(mask=event):
            numpyro.sample("died", lifetime, obs=time)
        numpyro.factor("alive", jnp.where(event, 0.0, -((time / lifetime.scale) ** shape)))


def survival_data():
    random, x, eta = columns(11)
    lifetime, censored = np.exp(eta) * random.weibull(1.3, ROWS), random.uniform(0.5, 2, ROWS)
    return {"x": x, "time": np.minimum(lifetime, censored).astype(np.float32), "event": lifetime < censored}


def multivariate(y):
    dimension = y.shape[1]
    mean = numpyro.sample("mean", dist.Normal(0, 2).expand([dimension]).to_event(1))
    with numpyro.plate("dimensions", dimension):
        scale = numpyro.sample("scale", dist.HalfNormal(2))
    correlation = numpyro.sample("correlation", dist.LKJCholesky(dimension, concentration=2))
    root = numpyro.deterministic("root", scale[:, None] * correlation)
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(mean, scale_tril=root), obs=y)


def multivariate_data():
    random = np.random.default_rng(12)
    return {"y": (random.normal(size=(ROWS, 3)) @ random.normal(size=(3, 3))).astype(np.float32)}


MODELS: dict[str, Example] = {
    "logistic": Example(logistic, logistic_data()),
    "poisson": Example(poisson, poisson_data()),
    "negative binomial": Example(negative_binomial, negative_binomial_data()),
    "robust": Example(robust, robust_data()),
    "hierarchical": Example(hierarchical, hierarchical_data(), {"num_groups": 4}),
    "ordinal": Example(ordinal, ordinal_data(), {"num_classes": 4}),
    "softmax": Example(softmax, softmax_data(), {"num_classes": 4}),
    "mixture": Example(mixture, mixture_data()),
    "gaussian process": Example(
        gaussian_process, gaussian_process_data(), {"inducing": np.linspace(-1, 1, 6, dtype=np.float32)}
    ),
    "neural network": Example(neural_network, neural_network_data(), {"num_hidden": 4}),
    "survival": Example(survival, survival_data()),
    "multivariate": Example(multivariate, multivariate_data()),
}
