"""Latent variables of single records in NumPyro models: integrated over, one or two of each; others are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.reparam import LocScaleReparam
from scipy import special, stats

from dpmcmc.errors import ModelRefused
from dpmcmc.model import from_numpyro

ROWS = 4
RECORD = {"x": jax.ShapeDtypeStruct((ROWS,), jnp.float32), "y": jax.ShapeDtypeStruct((ROWS,), jnp.float32)}


def priors():
    return numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("tau", dist.HalfNormal(1))


def answers(y, eta) -> None:
    numpyro.sample("y", dist.Bernoulli(logits=eta).to_event(1), obs=y)


def centred(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.Normal(a, tau))
        answers(y, b[:, None] + x)


def standard(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        answers(y, a + tau * numpyro.sample("b", dist.Normal(0, 1))[:, None] + x)


def reparametrised(x, y) -> None:
    with numpyro.handlers.reparam(config={"b": LocScaleReparam(0)}):
        centred(x, y)


def logarithm(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        answers(y, jnp.log(numpyro.sample("b", dist.LogNormal(a, tau)))[:, None] + x)


def two(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.Normal(a, tau))
        c = numpyro.sample("c", dist.Normal(0, 0.7))
        answers(y, b[:, None] + (1 + c[:, None]) * x)


def vector(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.Normal(jnp.array([0.0, 0.0]), jnp.array([1.0, 0.7])).to_event(1))
        answers(y, a + tau * b[:, :1] + (1 + b[:, 1:]) * x)


def correlated(x, y) -> None:
    a, tau = priors()
    scales = jnp.array([[tau, 0.0], [0.0, 0.7]])
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.MultivariateNormal(jnp.zeros(2), scale_tril=scales))
        answers(y, a + b[:, :1] + (1 + b[:, 1:]) * x)


@pytest.mark.parametrize("model", [centred, standard, reparametrised, logarithm, two, vector, correlated])
def test_the_likelihood_of_a_record_is_the_integral(model) -> None:
    made = from_numpyro(model, RECORD)
    assert sorted(made.position) == ["a", "tau"]
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=ROWS), 1.0 * (rng.random(ROWS) < 0.5)
    even = np.linspace(-8, 8, 321)
    u, v = np.meshgrid(even, even)
    slope = 0.7 * v if model in (two, vector, correlated) else 0.0
    eta = -0.5 + 1.3 * u + (1 + slope) * x[:, None, None]
    density = np.sum(-np.logaddexp(0, (1 - 2 * y)[:, None, None] * eta), axis=0)
    exact = special.logsumexp(density + stats.norm.logpdf(u) + stats.norm.logpdf(v)) + 2 * np.log(even[1] - even[0])
    position = made.unconstrain({"a": jnp.float32(-0.5), "tau": jnp.float32(1.3)})
    found = made.log_likelihood(position, {"x": jnp.float32(x), "y": jnp.float32(y)})
    assert float(found) == pytest.approx(exact, abs=2e-4)
    assert np.isfinite(jax.tree.leaves(jax.grad(made.log_likelihood)(position, {"x": x, "y": y}))).all()


def mixed(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.Normal(a, tau))
        answers(y, b[:, None] - jnp.mean(b) + x)


def three(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        b = numpyro.sample("b", dist.Normal(a, tau).expand([3]).to_event(1))
        answers(y, jnp.sum(b, axis=1)[:, None] + x)


def gamma(x, y) -> None:
    a, _ = priors()
    with numpyro.plate("data", y.shape[0]):
        answers(y, a + numpyro.sample("b", dist.Gamma(2.0, 1.0))[:, None] + x)


def masked(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        answers(y, a + numpyro.sample("b", dist.Normal(0, tau).mask(False))[:, None] + x)


def nothing_observed(x, y) -> None:
    a, tau = priors()
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("b", dist.Normal(a + x[:, 0], tau))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (mixed, "mixes records"),
        (three, "of 3 numbers for each record; expected at most 2"),
        (gamma, "with the distribution Gamma; expected a Normal"),
        (masked, "with the distribution MaskedDistribution"),
        (nothing_observed, "nothing is observed there. If it is meant to be observed"),
    ],
)
def test_others_are_refused(model, message) -> None:
    with pytest.raises(ModelRefused, match=message):
        from_numpyro(model, RECORD)
