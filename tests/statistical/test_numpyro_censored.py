"""NumPyro models with factors, and with sites that are censored or truncated: fits of them are right.

A number of a right fit is further than four and a half of its standard deviations from the truth in one of 150,000.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import dpmcmc as dp

A, B = 0.5, 0.4
SIZE = 20_000


def line():
    return numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("b", dist.Normal(0, 2))


def right_censored(x, y, is_censored):
    (a, b), shape = line(), numpyro.sample("shape", dist.Gamma(4, 4))
    with numpyro.plate("data", y.shape[0]):
        times = dist.Weibull(jnp.exp(a + b * x), shape)
        numpyro.sample("y", dist.RightCensoredDistribution(times, is_censored), obs=y)


def right_censored_by_a_factor(x, y, is_censored):
    (a, b), shape = line(), numpyro.sample("shape", dist.Gamma(4, 4))
    with numpyro.plate("data", y.shape[0]):
        times = dist.Weibull(jnp.exp(a + b * x), shape)
        numpyro.factor("y", jnp.where(is_censored > 0, -((y / jnp.exp(a + b * x)) ** shape), times.log_prob(y)))


def left_censored(x, y):
    """The response itself says that it is censored, at its lower bound, where synthetic rows seldom are."""
    (a, b), sd = line(), numpyro.sample("sd", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        is_censored = (y <= 0).astype(jnp.float32)
        numpyro.sample("y", dist.LeftCensoredDistribution(dist.Normal(a + b * x, sd), is_censored), obs=y)


def left_censored_by_a_factor(x, y):
    (a, b), sd = line(), numpyro.sample("sd", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        below = jax.scipy.special.log_ndtr(-(a + b * x) / sd)
        numpyro.factor("y", jnp.where(y <= 0, below, dist.Normal(a + b * x, sd).log_prob(y)))


def rounded_down(x, y):
    (a, b), sd = line(), numpyro.sample("sd", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        nothing = jnp.zeros_like(y)
        between = dist.IntervalCensoredDistribution(dist.Normal(a + b * x, sd), nothing, nothing)
        numpyro.sample("y", between, obs=jnp.stack([y, y + 1.0], axis=-1))


def truncated(x, y):
    (a, b), sd = line(), numpyro.sample("sd", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.TruncatedNormal(a + b * x, sd, low=0.0), obs=y)


def times(rng, x):
    passed = np.exp(A + B * x) * rng.exponential(size=len(x)) ** (1 / 1.5)
    leaves = rng.uniform(0, 6, len(x))
    return {"y": np.minimum(passed, leaves).clip(1e-3), "is_censored": 1.0 * (passed > leaves)}


MODELS = {
    right_censored: (times, 1e-3, {"shape": 1.5}),
    right_censored_by_a_factor: (times, 1e-3, {"shape": 1.5}),
    left_censored: (lambda rng, x: {"y": (A + B * x + 0.7 * rng.normal(size=len(x))).clip(0)}, 0.0, {"sd": 0.7}),
    left_censored_by_a_factor: (
        lambda rng, x: {"y": (A + B * x + 0.7 * rng.normal(size=len(x))).clip(0)},
        0.0,
        {"sd": 0.7},
    ),
    rounded_down: (lambda rng, x: {"y": np.floor(A + B * x + 0.7 * rng.normal(size=len(x)))}, -6.0, {"sd": 0.7}),
    truncated: (lambda rng, x: {"y": A + B * x + 0.7 * rng.normal(size=len(x))}, 0.0, {"sd": 0.7}),
}


@pytest.mark.parametrize("model", list(MODELS), ids=lambda model: model.__name__)
def test_a_fit_is_right(model) -> None:
    make, lower, others = MODELS[model]
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, SIZE)
    table = pd.DataFrame({"x": x, **make(rng, x)})
    table = table[table["y"] > 0] if model is truncated else table
    schema = dp.Schema(
        {
            "x": dp.Column(kind="number", lower=-2, upper=2),
            "y": dp.Column(kind="number", lower=lower, upper=10),
            **({"is_censored": dp.Column(kind="boolean")} if "is_censored" in table else {}),
        }
    )
    data = dp.PrivateData.from_table(table, schema=schema, budget=dp.Budget(4.0, 1e-6))
    posterior = dp.fit(model, data, epsilon=4.0, progress=False)
    assert posterior.quality.verdict in {"good", "fair"}
    for name, truth in {"a": A, "b": B, **others}.items():
        assert abs(posterior[name].mean() - truth) < 4.5 * posterior[name].std(), name
        assert posterior[name].std() < 0.05, name
