"""Monotonic effects: their parameters, their prior, and draws that meet it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.strategies.weighted_scores.monotone_draws import Effect, Normal, draw_effects
from dpmcmc.model import from_formula
from dpmcmc.model.formula.host import constrain_all
from dpmcmc.model.formula.monotone import Monotone
from dpmcmc.model.formula.priors import Prior
from dpmcmc.schema import Column, Schema

SCHEMA = Schema(
    {
        "y": Column(kind="number", lower=0, upper=100),
        "sick": Column(kind="boolean"),
        "stage": Column(kind="category", categories=("i", "ii", "iii")),
        "grade": Column(kind="integer", lower=1, upper=4),
        "pain": Column(kind="category", categories=("none", "some", "much"), missing="category"),
        "age": Column(kind="number", lower=20, upper=80),
    }
)


def test_the_predictor_rises_by_shares_of_one_effect() -> None:
    model = from_formula("y ~ age + mo(grade)", SCHEMA, family="gaussian")
    assert model.parameter_names == (
        "intercept",
        "age",
        "mo(grade)",
        "mo(grade)_share[2]",
        "mo(grade)_share[3]",
        "mo(grade)_share[4]",
        "sigma",
    )
    shares = {"mo(grade)_share[2]": 0.5, "mo(grade)_share[3]": 0.2, "mo(grade)_share[4]": 0.3}
    parameters = {"intercept": 40.0, "age": 0.1, "mo(grade)": -2.0, **shares, "sigma": 5.0}
    rows = {"age": np.full(4, 30.0), "grade": np.arange(1.0, 5.0)}
    found = model.predict({name: np.array(value) for name, value in parameters.items()}, rows)
    np.testing.assert_allclose(found, 43 - 6 * np.array([0.0, 0.5, 0.7, 1.0]), rtol=1e-5)


def test_products_have_shares_of_their_own() -> None:
    """As brms has them: an effect where the number is zero, and one for each unit of it; the same of categories."""
    model = from_formula("y ~ mo(grade)*age + stage:mo(grade)", SCHEMA, family="gaussian")
    first, second, third = ("mo(grade)_share[{}]", "mo(grade)_share[{}]:age", "stage[iii]:mo(grade)_share[{}]")
    rng = np.random.default_rng(0)
    parameters = {name: rng.normal() for name in model.parameter_names if "_share" not in name}
    parameters["sigma"] = 5.0
    shares = {name: rng.dirichlet(np.ones(3)) for name in (first, second, "stage[ii]:mo(grade)_share[{}]", third)}
    parameters |= {
        name.format(level): share for name, own in shares.items() for level, share in zip((2, 3, 4), own, strict=True)
    }
    rows = {"age": np.array([30.0, 70.0]), "grade": np.array([3.0, 4.0]), "stage": np.array([0, 2])}
    found = model.predict({name: np.array(value) for name, value in parameters.items()}, rows)

    def reached(name, grade):
        return shares[name][: grade - 1].sum()

    effect, by_age, in_iii = (3 * parameters[name] for name in ("mo(grade)", "mo(grade):age", "stage[iii]:mo(grade)"))
    plain = parameters["intercept"] + parameters["age"] * rows["age"]
    own = effect * np.array([reached(first, 3), reached(first, 4)])
    own += by_age * rows["age"] * [reached(second, 3), reached(second, 4)] + [0.0, in_iii * reached(third, 4)]
    np.testing.assert_allclose(found, plain + own, rtol=1e-4)
    with_priors = from_formula(
        "y ~ mo(grade):stage",
        SCHEMA,
        family="gaussian",
        priors={
            "mo(grade):stage": "normal(0, 3)",
            "mo(grade):stage[ii]": "laplace(0, 1)",
            "mo(grade)_share:stage[i]": "dirichlet(2)",
        },
    ).priors
    assert with_priors["mo(grade):stage[iii]"] == "normal(0, 3)"
    assert with_priors["mo(grade):stage[ii]"] == "laplace(0, 1)"
    assert with_priors["mo(grade)_share:stage[i]"] == "dirichlet(2, 2, 2)"
    assert with_priors["mo(grade)_share:stage[ii]"] == "dirichlet(1, 1, 1)"
    again = from_formula("y ~ mo(grade):stage", SCHEMA, family="gaussian", priors=with_priors)
    assert again.priors == with_priors


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ mo(grade) + age + mo(stage)", "gaussian"),
        ("y ~ 0 + mo(grade)", "gaussian"),
        ("stage ~ age + mo(grade)", "ordinal"),
        ("stage ~ mo(grade) + age", "categorical"),
        ("y ~ mo(grade)*age", "gaussian"),
        ("y ~ mo(grade):stage + age", "gaussian"),
        ("y ~ stage*mo(grade) + mo(stage):age", "gaussian"),
        ("stage ~ mo(grade)*age", "categorical"),
        ("stage ~ age*mo(grade)", "ordinal"),
    ],
)
def test_positions_and_parameters_are_the_same_thing(formula, family) -> None:
    model = from_formula(formula, SCHEMA, family=family)
    positions = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(1), 20))
    named = jax.vmap(model.constrain)(positions)
    again = jax.vmap(model.unconstrain)(named)
    for name, values in positions.items():
        np.testing.assert_allclose(again[name], values, atol=2e-3, err_msg=name)
    on_host = constrain_all(model.coordinates, {name: np.asarray(values) for name, values in positions.items()})
    assert list(on_host) == list(model.parameter_names)
    for name, values in named.items():
        np.testing.assert_allclose(on_host[name], values, atol=1e-4, rtol=1e-4, err_msg=name)


def test_the_prior_is_a_normal_and_a_dirichlet_law() -> None:
    priors = {"mo(grade)": "normal(0.5, 2)", "mo(grade)_share": "dirichlet(1, 2, 3)"}
    model = from_formula("sick ~ mo(grade)", SCHEMA, priors=priors)
    assert model.priors == {"intercept": "normal(0, 2)", **priors}
    assert from_formula("sick ~ mo(grade)", SCHEMA, priors=model.priors).priors == model.priors

    def by_hand(values: jax.Array) -> jax.Array:
        ratios = values[2:]

        def shares(z: jax.Array) -> jax.Array:
            return jax.nn.softmax(jnp.append(z, 0.0))

        jacobian = jnp.linalg.slogdet(jax.jacobian(lambda z: shares(z)[:2])(ratios))[1]
        return (
            dist.Normal(0, 2).log_prob(values[0])
            + dist.Normal(0.5, 2).log_prob(values[1])
            + dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])).log_prob(shares(ratios))
            + jacobian
        )

    for seed in range(5):
        values = jax.random.normal(jax.random.key(seed), (4,))
        np.testing.assert_allclose(model.log_prior({"coefficients": values}), by_hand(values), rtol=1e-4)


def test_draws_from_the_prior_have_its_moments() -> None:
    """Means of 20,000 draws are off by six standard errors once in 5e8 comparisons."""
    term = Monotone("mo(x)", ("b", "c"), (0, 1), Prior("normal", (1.0, 0.5)), (2.0, 6.0))
    for drawn in (term.draw(jax.random.key(0), (2, 20_000)), term.draw_on_host(np.random.default_rng(0), (2, 20_000))):
        shares = np.asarray(term.shares(np, np.asarray(drawn)))
        assert abs(shares[0].mean() - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 9 / 20_000)
        assert abs(np.mean(drawn[0]) - 1.0) < 6 * 0.5 / np.sqrt(20_000)
        coefficients = np.asarray(term.coefficients(np, np.asarray(drawn)))
        for stand_in, values in zip(term.stand_ins, coefficients, strict=True):
            assert stand_in.arguments[0] == pytest.approx(values.mean(), abs=0.01)
            assert stand_in.arguments[1] == pytest.approx(values.std(), rel=0.05)


@pytest.mark.parametrize(
    ("mean", "sd"),
    [((0.3, 0.1, 0.2), 0.05), ((0.01, -0.02, 0.01), 0.03), ((-0.2, 0.05, -0.1), 0.04), ((0.0, 0.0, 0.0), 3.0)],
)
def test_draws_are_those_of_the_likelihood_and_the_prior(mean, sd) -> None:
    """Beside weighted draws from the prior: two signs, steps at zero, a likelihood that says nothing.

    Means of 4,000 draws that are moved a few times are off by a tenth of a standard deviation, six times what chance
    makes of independent ones.
    """
    term = Monotone("mo(x)", ("b", "c", "d"), (1, 2, 3), Prior("normal", (0.0, 0.5)), (1.0, 1.0, 1.0))
    effect = Effect(term, np.array([1, 2, 3]))
    correlated = sd**2 * (0.6 * np.eye(3) + 0.4)
    precision, tilt = np.zeros((4, 4)), np.zeros(4)
    precision[0, 0], precision[1:, 1:] = 1.0, np.linalg.inv(correlated)
    tilt[1:] = precision[1:, 1:] @ mean
    means, sds = np.array([each.arguments for each in term.stand_ins]).T
    precision[1:, 1:] += np.diag(sds**-2.0)
    tilt[1:] += means / sds**2
    normal = Normal(np.linalg.solve(precision, tilt), np.linalg.inv(precision))
    found = draw_effects([effect], normal, 4000, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    from_prior = term.coefficients(np, term.draw_on_host(rng, (3, 2_000_000))).T
    off = from_prior - np.array(mean)
    logs = -0.5 * np.sum((off @ np.linalg.inv(correlated)) * off, axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    expected = weights @ from_prior
    spread = np.sqrt(weights @ (from_prior - expected) ** 2)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 0.1 * spread)
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.1)
    assert np.mean(found.sum(axis=1) > 0) == pytest.approx(weights @ (from_prior.sum(axis=1) > 0), abs=0.05)
    assert np.all(np.sign(found) == np.sign(found.sum(axis=1))[:, None])


def test_a_prior_on_the_original_scale_is_of_the_average_step() -> None:
    model = from_formula("y ~ mo(grade)", SCHEMA, family="gaussian", priors={"mo(grade)": "normal(0, 2) original"})
    drawn = constrain_all(
        model.coordinates,
        {
            name: np.asarray(values)
            for name, values in jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), 4000)).items()
        },
    )
    assert drawn["mo(grade)"].std() == pytest.approx(2.0, rel=0.1)


def test_the_gradient_bound_holds_in_its_region() -> None:
    model = from_formula("sick ~ age + mo(grade) + mo(stage)", SCHEMA)
    bound = model.gradient_bound()
    assert "mo(grade) within" in bound.region
    assert not bound.everywhere

    def longest(key: jax.Array) -> jax.Array:
        position, records = model.simulate(key, 50)
        gradients = jax.vmap(jax.grad(model.log_likelihood), in_axes=(None, 0))(position, records)
        return jnp.max(jnp.linalg.norm(gradients["coefficients"], axis=1))

    assert float(jnp.max(jax.vmap(longest)(jax.random.split(jax.random.key(0), 200)))) <= bound.value


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ mo(grade):mo(stage)", "by numbers, booleans and categories alone"),
        ("y ~ mo(grade):bs(age, df=4)", "by numbers, booleans and categories alone"),
        ("y ~ mo(age)", "no category"),
        ("y ~ mo(pain)", "missing values"),
        ("y ~ mo(grad)", "one column of the schema"),
        ("y ~ I(mo(grade))", "a term of its own"),
        ("y ~ mo(grade); sigma ~ mo(grade)", "second part"),
        ("y ~ monotonic(grade)", r"mo\(x\)"),
    ],
)
def test_what_cannot_be_is_refused(formula, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        from_formula(formula, SCHEMA, family="gaussian")


@pytest.mark.parametrize("prior", ["dirichlet(1, 2)", "dirichlet(0)", "normal(0, 1)", "dirichlet(a)"])
def test_priors_of_shares_are_checked(prior) -> None:
    with pytest.raises(InvalidArgument, match="one for each step"):
        from_formula("sick ~ mo(grade)", SCHEMA, priors={"mo(grade)_share": prior})


def test_single_steps_have_no_prior() -> None:
    with pytest.raises(InvalidArgument, match=r"expected some of intercept, mo\(grade\)"):
        from_formula("sick ~ mo(grade)", SCHEMA, priors={"mo(grade)[2]": "normal(0, 1)"})
