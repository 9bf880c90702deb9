"""Fits with effects of persons' own, beside NUTS on the same records.

At epsilon 15 noise is small beside the posterior. Asserted is that means are within half a standard deviation beside
what the noise adds, 4.5 of its standard deviations, of which one in 150,000 is further off by chance, and that widths
are what the stress suite calls right, 0.7 to 1.5 of the posterior's and the noise's together. Bounded scores lose
little: 1 to 4 % of a standard deviation at the bounds that fits choose. Effects of normal responses are integrated out
in closed form: chains with an effect of each person mix badly (an effective size of 80 to 100 of 500 draws), and their
spread was 1.14 times too narrow. The control leaves the effects out, as one could before: its slope is several standard
deviations off.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer import MCMC, NUTS
from scipy import special

import dpmcmc as dp
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.centred_scores.strategy import CentredScores
from dpmcmc.fitting.strategies.chains import PilotedChains
from dpmcmc.model import from_numpyro

PERSONS, MOST, EPSILON = 1000, 6, 15.0
RESPONSES = {
    "bernoulli": dp.Column(kind="boolean"),
    "poisson": dp.Column(kind="integer", lower=0, upper=80),
    "gaussian": dp.Column(kind="number", lower=-1, upper=1),
}


def table(family: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of persons, and whose they are."""
    rng = np.random.default_rng(7)
    who = np.repeat(np.arange(PERSONS), rng.integers(2, MOST + 1, PERSONS))
    x = rng.uniform(-1, 1, len(who))
    eta = -0.3 + 0.7 * x + rng.normal(0, 1.2, PERSONS)[who]
    y = {
        "bernoulli": lambda: rng.random(len(who)) < special.expit(eta),
        "poisson": lambda: np.minimum(rng.poisson(np.exp(eta)), 80),
        "gaussian": lambda: np.clip(0.15 * eta + 0.1 * rng.standard_normal(len(who)), -1, 1),
    }[family]()
    return pd.DataFrame({"x": x, "y": y, "id": [f"person {number}" for number in who]}), who


def private(rows: pd.DataFrame, family: str) -> dp.PrivateData:
    columns = {"x": dp.Column(kind="number", lower=-1, upper=1), "y": RESPONSES[family]}
    schema = dp.Schema(columns, person="id", max_rows_per_person=MOST)
    return dp.PrivateData.from_table(rows, schema=schema, budget=dp.Budget(EPSILON, 1e-6))


def explicit(priors, family: str, x, y, who) -> None:
    """The same model with a parameter for each person, and the priors that the formula has."""
    level = numpyro.sample("intercept", priors["intercept"])
    slope = numpyro.sample("x", priors["x"])
    spread = numpyro.sample("1|id_sigma", priors["1|id"])
    effects = numpyro.sample("effects", dist.Normal(0, 1).expand([PERSONS]).to_event(1))
    eta = level + slope * x + spread * effects[who]
    if family == "bernoulli":
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
    elif family == "poisson":
        numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)
    else:
        numpyro.sample("y", dist.Normal(eta, numpyro.sample("sigma", priors["sigma"])), obs=y)


def integrated(priors, family: str, x, y, who) -> None:
    """The same with normal responses, whose effects are integrated out."""
    del family
    level = numpyro.sample("intercept", priors["intercept"])
    slope = numpyro.sample("x", priors["x"])
    spread = numpyro.sample("1|id_sigma", priors["1|id"])
    sigma = numpyro.sample("sigma", priors["sigma"])
    residuals, number = y - level - slope * x, np.bincount(who)
    sums, whole = jnp.zeros(PERSONS).at[who].add(residuals), sigma**2 + number * spread**2
    squares = (jnp.sum(residuals**2) - jnp.sum(sums**2 * spread**2 / whole)) / sigma**2
    determinants = 2 * (len(x) - PERSONS) * jnp.log(sigma) + jnp.sum(jnp.log(whole))
    numpyro.factor("y", -0.5 * (squares + determinants))


def law(text: str):
    """A prior as the formula's model states it."""
    kind, arguments = text.rstrip(")").split("(")
    numbers = [float(each) for each in arguments.split(",")]
    return {"normal": dist.Normal, "half_normal": dist.HalfNormal}[kind](*numbers)


@pytest.mark.parametrize("family", list(RESPONSES))
def test_fits_are_those_of_nuts_with_an_effect_of_each_person(family: str) -> None:
    rows, who = table(family)
    prepared = prepare_fit("y ~ x + (1|id)", private(rows, family), family=family, epsilon=EPSILON, delta=1e-6)
    assert isinstance(prepared.strategy, CentredScores)
    posterior = prepared.run(progress=False)
    assert posterior.quality.verdict != "bad", posterior.quality.words
    priors = {name: law(text) for name, text in prepared.model.priors.items()}
    own = coordinates(posterior.draws)
    model, number = (integrated, 2000) if family == "gaussian" else (explicit, 500)
    sampler = MCMC(NUTS(model), num_warmup=300, num_samples=number, progress_bar=False)
    sampler.run(jax.random.key(0), priors, family, rows["x"].to_numpy(), 1.0 * rows["y"].to_numpy(), who)
    exact = sampler.get_samples()
    for name, values in own.items():
        mean, sd = float(exact[name].mean()), float(exact[name].std())
        noise = np.sqrt(posterior.quality.parameters[name].shares["privacy"]) * float(values.std())
        assert abs(float(values.mean()) - mean) < 0.5 * sd + 4.5 * noise, name
        assert 0.7 * np.hypot(sd, noise) < float(values.std()) < 1.5 * np.hypot(sd, noise), name


def test_without_their_effects_persons_are_taken_for_more_than_they_are() -> None:
    """The control: a slope is nearer to zero by what the effects spread, and its interval leaves the truth out."""
    rows, _ = table("bernoulli")
    posterior = dp.fit("y ~ x", private(rows, "bernoulli"), epsilon=EPSILON, progress=False)
    slope = coordinates(posterior.draws)["x"]
    assert float(slope.mean()) < 0.7 - 2 * float(slope.std())


def visits(x, y) -> None:
    a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in ("a", "b"))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    with numpyro.plate("data", y.shape[0]):
        own = numpyro.sample("own", dist.Normal(0, spread))
        numpyro.sample("y", dist.Bernoulli(logits=a + b * x + own[:, None]).to_event(1), obs=y)


def test_a_numpyro_model_with_a_latent_of_each_record_is_right_or_marked() -> None:
    """Its scores are clipped: the bias by that is for the verdict to see."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (10_000, 5))
    eta = -0.3 + 0.7 * x + rng.normal(0, 1.0, (10_000, 1))
    rows = {"x": np.float32(x), "y": np.float32(rng.random(x.shape) < special.expit(eta))}
    data = dp.PrivateData.without_guarantee(rows, bounds={"x": (-1, 1), "y": (0, 1)})
    model = from_numpyro(visits, data)
    assert model.observed is None
    prepared = prepare_fit(model, data, epsilon=4.0, delta=1e-6, insecure_seed=2, allow_low_accuracy=True)
    assert isinstance(prepared.strategy, PilotedChains)
    posterior = prepared.run(progress=False)
    own = coordinates(posterior.draws)
    off = {
        name: abs(float(own[name].mean() - truth)) / float(own[name].std())
        for name, truth in {"a": -0.3, "b": 0.7, "spread": 1.0}.items()
    }
    assert max(off.values()) < 4.5 or posterior.quality.verdict == "bad", (off, posterior.quality.words)
