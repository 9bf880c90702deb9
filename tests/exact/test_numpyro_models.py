"""Models from NumPyro have NumPyro's own log-density and gradient, bijectors and prior."""

import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import constrain_fn, potential_energy

from dpmcmc.accounting import Gaussian
from dpmcmc.enclave import GradientSum, PrivateData
from dpmcmc.enclave.accelerate.linear.form import factorise
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.model import from_numpyro

sys.path.insert(0, str(Path(__file__).parents[1] / "statistical"))
from numpyro_models import MODELS, Example

GRADIENT = GradientSum(clip=1.0, noise_multiplier=10.0)
FLOAT = jnp.float32

quick_jit = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Compiles in half of the time, for functions that are evaluated once or twice."""


@cache
def build(name):
    example = MODELS[name]
    return from_numpyro(example.model, example.record, public_arguments=example.public)


def random_position(model, seed):
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(random.normal(0, 0.7, leaf.shape), leaf.dtype), model.position)


def assert_same_density(model, example):
    """Compare log-density and gradient with NumPyro's own potential on the whole table, at two positions."""

    def ours(position, data):
        each = jax.vmap(model.log_likelihood, in_axes=(None, 0))(position, data)
        return model.log_prior(position) + jnp.sum(each)

    def theirs(position, data):
        return -potential_energy(example.model, (), {**data, **example.public}, position)

    data = {name: jnp.asarray(column) for name, column in example.data.items()}
    compute = quick_jit(lambda position: [jax.value_and_grad(side)(position, data) for side in (ours, theirs)])
    for seed in (1, 2):
        (value, gradient), (expected, expected_gradient) = compute(random_position(model, seed))
        assert np.isfinite(expected)
        np.testing.assert_allclose(value, expected, rtol=2e-5)
        jax.tree.map(
            lambda own, other: np.testing.assert_allclose(own, other, rtol=2e-3, atol=2e-3),
            gradient,
            expected_gradient,
        )


@pytest.mark.parametrize("name", MODELS)
def test_density_and_gradient_are_those_of_numpyro(name):
    assert_same_density(build(name), MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_constrain_is_that_of_numpyro_and_unconstrain_undoes_it(name):
    model, example = build(name), MODELS[name]
    arguments = {**{key: jnp.asarray(column[:1]) for key, column in example.data.items()}, **example.public}

    @quick_jit
    def compute(position):
        ours = model.constrain(position)
        return ours, model.unconstrain(ours), constrain_fn(example.model, (), arguments, position, True)

    position = random_position(model, 3)
    ours, back, theirs = compute(position)
    assert set(position) <= set(ours) <= set(theirs)
    for site, value in ours.items():
        np.testing.assert_allclose(value, theirs[site], rtol=1e-5, atol=1e-6)
    jax.tree.map(lambda own, other: np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5), back, position)


@pytest.mark.parametrize("name", MODELS)
def test_the_prior_is_drawn_in_unconstrained_space(name):
    model = build(name)
    if name == "ordinal":  # an improper prior
        assert model.sample_prior is None
        return
    assert model.sample_prior is not None
    draws = quick_jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(4), 3))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), draws)
    assert shapes == model.position
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(draws))
    assert all(np.unique(leaf, axis=0).shape == leaf.shape for leaf in jax.tree.leaves(draws))


@pytest.mark.parametrize("name", MODELS)
def test_the_auditor_accepts_and_prices_the_likelihood(name):
    model, example = build(name), MODELS[name]
    data = PrivateData.without_guarantee(dict(example.data))
    event = data.price(
        lambda oracle, position: oracle.force(GRADIENT, position).value, random_position(model, 5), model=model
    )
    assert f"{Gaussian(10.0)!r} * 1" in str(event)


@pytest.mark.parametrize(("name", "num_residuals"), [("logistic", 1), ("poisson", 1), ("softmax", 7)])
def test_linear_predictors_keep_their_fast_path(name, num_residuals):
    model, example = build(name), MODELS[name]
    queries, structure = jax.tree.flatten((model.position,))
    factors = factorise(GRADIENT.contribution(Term(model.log_likelihood, structure)), queries, example.record)
    assert factors is not None
    assert factors.num_residuals == num_residuals


def test_the_draws_of_the_prior_have_its_law():
    model = build("hierarchical")
    draws = quick_jit(jax.vmap(lambda key: model.constrain(model.sample_prior(key))))(
        jax.random.split(jax.random.key(7), 20_000)
    )
    assert abs(np.mean(draws["mu"])) < 0.1
    np.testing.assert_allclose(np.std(draws["mu"]), 2, rtol=0.05)
    np.testing.assert_allclose(np.mean(draws["tau"]), np.sqrt(2 / np.pi), rtol=0.05)
    np.testing.assert_allclose(np.var(draws["intercept"]), 4 + 1, rtol=0.1)


def test_draws_that_were_made_with_the_model_have_its_law():
    """4,096 positions: the bounds are five standard errors or more of the mean and of the standard deviation."""
    model = build("hierarchical")
    mu = model.prior_draws.positions["mu"]
    assert abs(np.mean(mu)) < 5 * 2 / np.sqrt(len(mu))
    np.testing.assert_allclose(np.std(mu), 2, rtol=5 / np.sqrt(2 * len(mu)))
    read = model.prior_draws.parameters
    first = {name: leaf[0] for name, leaf in model.prior_draws.positions.items()}
    for name, leaf in model.constrain(first).items():
        np.testing.assert_allclose(read[name][0], leaf, rtol=1e-5)


def test_another_prior_in_its_place_has_draws_of_its_own():
    model = build("hierarchical")
    assert model.tempered(0.5).prior_draws is model.prior_draws
    assert replace(model, sample_prior=lambda key: model.sample_prior(key)).prior_draws is None
    assert replace(model, constrain=lambda position: position).prior_draws is None


def test_only_deterministic_sites_without_records_are_read():
    assert set(build("robust").constrain(random_position(build("robust"), 8))) == {
        "beta",
        "sigma",
        "degrees",
        "variance",  # not "mean", which has one entry a record
    }


# --- shapes that the twelve models do not have ------------------------------------------------------------------------

COLUMNS = np.random.default_rng(9)
TABLE = {
    "x": COLUMNS.normal(size=(50, 3)).astype(np.float32),
    "y": COLUMNS.integers(0, 3, 50).astype(np.int32),
    "seen": COLUMNS.binomial(1, 0.7, (50, 4)).astype(bool),
    "z": COLUMNS.normal(size=(50, 4)).astype(np.float32),
    "weight": COLUMNS.uniform(0.5, 2, 50).astype(np.float32),
}


def nested_plates(z, seen):
    with numpyro.plate("items", 4, dim=-1):
        loc = numpyro.sample("loc", dist.Normal(0, 1))
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        with numpyro.plate("data", z.shape[0], dim=-2), numpyro.handlers.mask(mask=seen):
            numpyro.sample("z", dist.Normal(loc, scale), obs=z)


def weighted(x, z, weight):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]))
    with numpyro.plate("data", x.shape[0]), numpyro.handlers.scale(scale=0.5 * weight):
        numpyro.sample("z", dist.Normal(x @ beta, 1), obs=z[:, 0])


def rows_by_arange(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3, 3]))
    logits = jax.nn.log_softmax(x @ beta)
    with numpyro.plate("data", x.shape[0]):
        numpyro.factor("y", logits[jnp.arange(x.shape[0]), y])


def factor_in_the_prior(x, z):
    field = numpyro.sample("field", dist.ImproperUniform(dist.constraints.real_vector, (), (3,)))
    numpyro.factor("smooth", -0.5 * jnp.sum(jnp.diff(field) ** 2) - 0.01 * jnp.sum(field**2))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("z", dist.Normal(x @ field, 1), obs=z[:, 0])


def dependent_support(z):
    low = numpyro.sample("low", dist.Normal(-3, 1))
    high = numpyro.sample("high", dist.TruncatedNormal(3, 1, low=low + 0.1))
    share = numpyro.sample("share", dist.Uniform(low, high))
    with numpyro.plate("data", z.shape[0]):
        numpyro.sample("z", dist.Normal(share, high - low).expand([4]).to_event(1), obs=z)


def loop_within_a_record(z):
    decay = numpyro.sample("decay", dist.Beta(2, 2))
    with numpyro.plate("data", z.shape[0]):
        _, means = jax.lax.scan(lambda last, now: (decay * last + now, last), jnp.zeros(z.shape[0]), z.T)
        numpyro.sample("z", dist.Normal(means.T, 1).to_event(1), obs=z)


EXTRA = {
    "nested plates and a mask": (nested_plates, ("z", "seen")),
    "weights": (weighted, ("x", "z", "weight")),
    "rows picked by arange": (rows_by_arange, ("x", "y")),
    "a factor in the prior": (factor_in_the_prior, ("x", "z")),
    "a support that depends on another site": (dependent_support, ("z",)),
    "a loop within a record": (loop_within_a_record, ("z",)),
}


@pytest.mark.parametrize("name", EXTRA)
def test_other_shapes_of_models_have_numpyros_density(name):
    function, arguments = EXTRA[name]
    example = Example(function, {key: TABLE[key] for key in arguments})
    assert_same_density(from_numpyro(function, example.record), example)


def test_a_factor_in_the_prior_means_that_it_cannot_be_drawn():
    function, arguments = EXTRA["a factor in the prior"]
    model = from_numpyro(function, {key: jax.ShapeDtypeStruct(TABLE[key].shape[1:], FLOAT) for key in arguments})
    assert model.sample_prior is None


def test_arguments_may_be_some_columns_or_the_whole_record():
    def of_table(table):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("data", table["z"].shape[0]):
            numpyro.sample("z", dist.Normal(mean, 1).expand([4]).to_event(1), obs=table["z"])

    def of_columns(z, prior_scale):
        mean = numpyro.sample("mean", dist.Normal(0, prior_scale))
        with numpyro.plate("data", z.shape[0]):
            numpyro.sample("z", dist.Normal(mean, 1).expand([4]).to_event(1), obs=z)

    data = PrivateData.without_guarantee(TABLE, bounds={"z": (-3, 3)})
    whole = from_numpyro(of_table, data, data_arguments="table", temperature=0.5)
    some = from_numpyro(of_columns, data, public_arguments={"prior_scale": 1.0})  # the other columns are left out
    assert (whole.temperature, some.temperature) == (0.5, 1.0)
    record = {name: jnp.asarray(column[0]) for name, column in TABLE.items()}
    position = {"mean": jnp.asarray(0.3)}
    assert whole.log_prior(position) == some.log_prior(position)
    assert whole.log_likelihood(position, record) == some.log_likelihood(position, record)


def test_nothing_of_a_vault_but_its_facts_is_read():
    class Vault:
        facts = PrivateData.without_guarantee(TABLE).facts

    assert from_numpyro(weighted, Vault(), data_arguments=("x", "z", "weight")).position.keys() == {"beta"}
