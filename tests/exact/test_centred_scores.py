"""Centred scores of NumPyro models: sums over laws are exact, scores bounded, their mean under the model is zero."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

from dpmcmc.fitting.strategies.centred_scores import laws
from dpmcmc.fitting.strategies.centred_scores.points import unconstrained
from dpmcmc.fitting.strategies.centred_scores.releases import bounded
from dpmcmc.fitting.strategies.centred_scores.terms import term_laws
from dpmcmc.model import from_numpyro
from dpmcmc.run.program import Layout


def one(*values: float) -> list[jax.Array]:
    return [jnp.array([float(value)]) for value in values]


LAWS = {
    "normal": (dist.Normal(*one(3, 2)), stats.norm(3, 2)),
    "t(2)": (dist.StudentT(*one(2, 1, 0.5)), stats.t(2, 1, 0.5)),
    "cauchy": (dist.Cauchy(*one(0, 1)), stats.cauchy()),
    "laplace": (dist.Laplace(*one(0, 1)), stats.laplace()),
    "logistic": (dist.Logistic(*one(1, 2)), stats.logistic(1, 2)),
    "gumbel": (dist.Gumbel(*one(1, 2)), stats.gumbel_r(1, 2)),
    "log-normal": (dist.LogNormal(*one(3, 2)), stats.lognorm(2, scale=np.exp(3))),
    "gamma, steep": (dist.Gamma(*one(0.2, 1)), stats.gamma(0.2)),
    "gamma": (dist.Gamma(*one(5, 2)), stats.gamma(5, scale=0.5)),
    "exponential": (dist.Exponential(*one(3)), stats.expon(scale=1 / 3)),
    "inverse gamma": (dist.InverseGamma(*one(3, 2)), stats.invgamma(3, scale=2)),
    "weibull": (dist.Weibull(*one(3, 0.7)), stats.weibull_min(0.7, scale=3)),
    "half normal": (dist.HalfNormal(*one(2)), stats.halfnorm(scale=2)),
    "half cauchy": (dist.HalfCauchy(*one(2)), stats.halfcauchy(scale=2)),
    "beta": (dist.Beta(*one(0.5, 6)), stats.beta(0.5, 6)),
    "normal above 0": (dist.TruncatedNormal(*one(1, 2), low=0.0), stats.truncnorm(-0.5, np.inf, 1, 2)),
    "normal far below 0": (dist.TruncatedNormal(*one(-9, 2), low=0.0), stats.truncnorm(4.5, np.inf, -9, 2)),
    "normal far above 0": (dist.TruncatedNormal(*one(40, 2), low=0.0), stats.truncnorm(-20, np.inf, 40, 2)),
    "normal below 3": (dist.TruncatedNormal(*one(1, 2), high=3.0), stats.truncnorm(-np.inf, 1, 1, 2)),
    "normal between": (dist.TruncatedNormal(*one(1, 2), low=0.0, high=3.0), stats.truncnorm(-0.5, 1, 1, 2)),
    "normal at an end": (dist.TruncatedNormal(*one(-4, 1), low=0.0, high=9.0), stats.truncnorm(4, 13, -4, 1)),
    "normal well inside": (dist.TruncatedNormal(*one(7, 0.1), low=0.0, high=9.0), stats.truncnorm(-70, 20, 7, 0.1)),
    "nearly uniform": (dist.TruncatedNormal(*one(1, 50), low=0.0, high=3.0), stats.truncnorm(-0.02, 0.04, 1, 50)),
    "poisson, rare": (dist.Poisson(*one(0.01)), stats.poisson(0.01)),
    "poisson": (dist.Poisson(*one(3)), stats.poisson(3)),
    "poisson, across the seam": (dist.Poisson(*one(62)), stats.poisson(62)),
    "poisson, large": (dist.Poisson(*one(400)), stats.poisson(400)),
    "negative binomial": (dist.NegativeBinomial2(*one(50, 0.3)), stats.nbinom(0.3, 0.3 / 50.3)),
    "binomial": (dist.Binomial(200, *one(0.3)), stats.binom(200, 0.3)),
    "geometric": (dist.GeometricProbs(*one(0.02)), stats.geom(0.02, -1)),
    "bernoulli": (dist.Bernoulli(*one(0.01)), stats.bernoulli(0.01)),
}


@pytest.mark.parametrize("name", LAWS)
def test_means_over_a_law_are_exact(name: str) -> None:
    """Against sums and integrals in double precision: a bounded, smooth function of the response."""
    law, its = LAWS[name]
    assert laws.is_known(law)
    values, weights, _ = (np.asarray(each, float)[:, 0] for each in laws.nodes(law))
    middle, width = its.median(), float(its.ppf(0.75) - its.ppf(0.25)) or 1.0

    def function(value):
        return np.arctan((value - middle) / width)

    if hasattr(its.dist, "pmf"):
        counts = np.arange(int(its.ppf(1 - 1e-13)) + 2)
        expected = float(its.pmf(counts) @ function(counts))
    else:
        edges = [0, 1e-6, 0.01, 0.25, 0.5, 0.75, 0.99, 1 - 1e-6, 1]
        parts = [integrate.quad(lambda share: function(its.ppf(share)), *ends)[0] for ends in pairwise(edges)]
        expected = sum(parts)
    assert weights.sum() == pytest.approx(1, abs=2e-6)
    assert weights @ function(values) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("name", LAWS)
def test_the_probability_below_a_node(name: str) -> None:
    law, its = LAWS[name]
    values, weights, below = (np.asarray(each, float)[:, 0] for each in laws.nodes(law))
    told = np.isfinite(below) & (weights > 1e-4)
    np.testing.assert_allclose(below[told], its.cdf(values[told]), atol=4e-4)


def test_a_mixture_is_the_sum_of_its_parts() -> None:
    parts = dist.Normal(jnp.array([[0.0, 5.0]]), jnp.array([[1.0, 0.1]]))
    law = dist.MixtureSameFamily(dist.Categorical(jnp.array([[0.3, 0.7]])), parts)
    values, weights, below = laws.nodes(law)
    assert float(jnp.sum(weights * jnp.sin(values))) == pytest.approx(
        0.7 * np.sin(5) * np.exp(-0.005), abs=1e-5
    )  # E sin X = sin(mean) exp(-variance / 2)
    assert below is None


def test_laws_without_nodes_are_not_known() -> None:
    assert not laws.is_known(dist.Uniform(*one(0, 1)))
    assert not laws.is_known(dist.VonMises(*one(0, 1)))
    assert not laws.is_known(dist.TruncatedDistribution(dist.StudentT(*one(3, 0, 1)), low=0.0))
    assert not laws.is_known(dist.RightCensoredDistribution(dist.Weibull(*one(1, 1)), jnp.array([True])))


# scores


def regression(family):
    def model(x, y) -> None:
        b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        with numpyro.plate("data", y.shape[0]):
            numpyro.sample("y", family(x @ b, scale), obs=y)

    return model


FAMILIES = {
    "normal": dist.Normal,
    "t": lambda eta, scale: dist.StudentT(3.0, eta, scale),
    "bernoulli": lambda eta, scale: dist.Bernoulli(logits=eta * scale),
    "poisson": lambda eta, scale: dist.Poisson(jnp.exp(eta) * scale),
    "negative binomial": lambda eta, scale: dist.NegativeBinomial2(jnp.exp(eta), scale),
    "gamma": lambda eta, scale: dist.Gamma(scale, scale * jnp.exp(-eta)),
}
RECORD = {"x": jax.ShapeDtypeStruct((2,), jnp.float32), "y": jax.ShapeDtypeStruct((), jnp.float32)}


def total_score(observed, layout, centre, factor, record, radius: float) -> jax.Array:
    """The centred score of one record."""
    total = jnp.zeros(factor.shape[1])
    for site in term_laws(observed, layout, centre, factor, record):
        found = bounded(site, radius)
        own = jnp.where(site.is_there[:, None], found.score, 0.0)
        total = total + jnp.einsum("t,tp,tpd->d", found.weight, own, site.moves)
    return total


def drawn(observed, position, record, size: int, key: int = 0) -> jax.Array:
    """Responses of the only term of a record's first site."""
    found = observed.at(position, record)[0]
    law = observed.sites[0].law(found.parameters[0], [other[0] for other in found.others])
    return law.sample(jax.random.key(key), (size,))[:, 0].astype(jnp.float32)


def scores_of(family: str, radius: float, responses: jax.Array) -> jax.Array:
    """The centred scores of one row with some responses, at a point."""
    model = from_numpyro(regression(FAMILIES[family]), RECORD)
    assert model.observed is not None
    layout = Layout.of(model.position)
    centre, factor = jnp.array([0.4, -0.3, 0.2]), jnp.array([[1.0, 0.2, 0.0], [0.0, 0.5, 0.1], [0.0, 0.0, 2.0]])

    def score(response: jax.Array) -> jax.Array:
        record = {"x": jnp.array([1.5, -2.0]), "y": response}
        return total_score(model.observed, layout, centre, factor, record, radius)

    return jax.vmap(score)(responses)


@pytest.mark.parametrize("radius", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_bounded_and_have_mean_zero(family: str, radius: float) -> None:
    """Means over 200,000 responses: six standard errors, so one of these tests fails by chance in ten million."""
    model = from_numpyro(regression(FAMILIES[family]), RECORD)
    position = Layout.of(model.position).unravel(jnp.array([0.4, -0.3, 0.2]))
    responses = drawn(model.observed, position, {"x": jnp.array([1.5, -2.0]), "y": jnp.zeros(())}, 200_000)
    scores = np.asarray(scores_of(family, radius, responses), float)
    assert np.linalg.norm(scores, axis=1).max() <= radius * (1 + 1e-5)
    errors = scores.std(axis=0) / np.sqrt(len(scores))
    assert np.all(np.abs(scores.mean(axis=0)) <= 6 * errors + 1e-6)


def test_clipped_scores_have_another_mean() -> None:
    """The control: what the test above would see, were the mean not taken off."""
    model = from_numpyro(regression(FAMILIES["gamma"]), RECORD)
    layout, centre = Layout.of(model.position), jnp.array([0.4, -0.3, 0.2])
    record = {"x": jnp.array([1.5, -2.0]), "y": jnp.ones(())}
    responses = drawn(model.observed, layout.unravel(centre), record, 200_000)

    def score(response):
        record = {"x": jnp.array([1.5, -2.0]), "y": response}
        return jax.grad(lambda vector: model.log_likelihood(layout.unravel(vector), record))(centre)

    scores = np.asarray(jax.vmap(score)(responses), float)
    clipped = scores * np.minimum(1, 1 / np.linalg.norm(scores, axis=1, keepdims=True))
    errors = clipped.std(axis=0) / np.sqrt(len(clipped))
    assert np.any(np.abs(clipped.mean(axis=0)) > 50 * errors)


@pytest.mark.parametrize("family", FAMILIES)
def test_hostile_responses_are_bounded(family: str) -> None:
    hostile = jnp.array([jnp.inf, -jnp.inf, jnp.nan, 1e30, -1e30, 0.0, -1.0, 0.5, 1e-30])
    scores = np.asarray(scores_of(family, 1.0, hostile))
    finite = np.isfinite(scores).all(axis=1)
    assert np.linalg.norm(scores[finite], axis=1).max() <= 1 + 1e-5


# which models have an observed site


def factor(x, y) -> None:
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.factor("y", -0.5 * (y - b * x[:, 0]) ** 2)


def scaled(x, y) -> None:
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]), numpyro.handlers.scale(scale=2.0):
        numpyro.sample("y", dist.Normal(b * x[:, 0], 1), obs=y)


def reads_itself(x, y) -> None:
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(b * y + x[:, 0], 1), obs=y)


def circular(x, y) -> None:
    """A label that is read by the mask of the times that its own law reads."""
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample(
            "label", dist.Bernoulli(jnp.exp(-jnp.abs(y) * jnp.exp(b))), obs=(x[:, 0] > 0).astype(jnp.float32)
        )
        numpyro.sample("y", dist.Exponential(jnp.exp(b)).mask(x[:, 0] > 0), obs=jnp.abs(y))


def same_column(y) -> None:
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(b, 1), obs=y)
        numpyro.sample("sign", dist.Bernoulli(logits=b), obs=(y > 0).astype(jnp.float32))


def constant(y) -> None:
    """Something that is always observed to have happened."""
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=b * y), obs=jnp.ones(y.shape))


@pytest.mark.parametrize("model", [factor, scaled, reads_itself, circular, same_column, constant])
def test_models_without_laws_of_responses(model) -> None:
    assert from_numpyro(model, RECORD).observed is None


def test_a_law_of_a_transformed_response_is_one() -> None:
    def model(x, y) -> None:
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("data", y.shape[0]):
            numpyro.sample("y", dist.Normal(b * x[:, 0], 1.0), obs=jnp.log1p(y))

    made = from_numpyro(model, RECORD)
    (found,) = made.observed.at({"b": jnp.array(2.0)}, {"x": jnp.array([3.0, 0.0]), "y": jnp.array(1.0)})
    assert float(found.response[0]) == pytest.approx(np.log(2))
    assert sorted(np.asarray(found.parameters[0])) == [1.0, 6.0]


def test_parameters_of_laws_on_the_real_line() -> None:
    np.testing.assert_allclose(unconstrained(dist.Poisson(*one(np.e))), [1.0], rtol=1e-6)
    np.testing.assert_allclose(sorted(np.asarray(unconstrained(dist.Normal(*one(3, np.e**2))))), [2.0, 3.0], rtol=1e-6)
    twice = unconstrained(dist.NegativeBinomial2(*one(np.e, np.e**2)))  # it keeps a Gamma instead of its mean
    np.testing.assert_allclose(sorted(np.asarray(twice)), [1.0, 2.0], rtol=1e-6)


@pytest.mark.parametrize("name", LAWS)
def test_what_a_law_is_made_of_is_shown(name: str) -> None:
    """Moving any parameter of a law moves what is shown of it."""
    leaves, structure = jax.tree.flatten(LAWS[name][0])
    reals = [jnp.asarray(leaf) for leaf in leaves]
    is_real = [bool(jnp.issubdtype(leaf.dtype, jnp.floating)) for leaf in reals]

    def shown(scale):
        moved = [leaf * scale if real else leaf for leaf, real in zip(reals, is_real, strict=True)]
        return unconstrained(jax.tree.unflatten(structure, moved))

    moved = np.abs(np.asarray(jax.jacfwd(shown)(1.0))) > 0
    assert np.all(moved | (np.asarray(shown(1.0)) == 0))  # a centre, or an end, that is zero stays so
    assert np.any(moved)
