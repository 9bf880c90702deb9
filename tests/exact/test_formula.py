"""Formulas: designs against formulaic's own, densities against NumPyro, bounds against random records, refusals."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from formulaic import model_matrix
from hypothesis import given, settings
from hypothesis import strategies as st
from numpyro.infer.util import potential_energy
from scipy import stats

from dpmcmc.enclave import GradientSum, PrivateData
from dpmcmc.enclave.accelerate.linear.form import factorise
from dpmcmc.enclave.accelerate.linear.rows import find_rows
from dpmcmc.enclave.core.mechanism import Term
from dpmcmc.enclave.mechanisms.gradient import flat_gradient
from dpmcmc.errors import InvalidArgument
from dpmcmc.model.formula import FormulaModel, from_formula
from dpmcmc.model.formula.families import FAMILIES
from dpmcmc.model.formula.priors import POSITIVE, REAL, Prior
from dpmcmc.schema import Column, Schema

SCHEMA = Schema(
    {
        "readmitted": Column(kind="boolean"),
        "alive": Column(kind="category", categories=("no", "yes")),
        "cost": Column(kind="number", lower=100, upper=1000),
        "visits": Column(kind="integer", lower=0, upper=30),
        "hits": Column(kind="integer", lower=0, upper=20),
        "tries": Column(kind="integer", lower=1, upper=20),
        "stage": Column(kind="category", categories=("i", "ii", "iii", "iv")),
        "age": Column(kind="number", lower=20, upper=90, missing="indicator", fill=50),
        "bmi": Column(kind="number", lower=-3, upper=9),
        "smoker": Column(kind="boolean"),
        "grade": Column(kind="integer", lower=1, upper=4),
        "ward": Column(kind="category", categories=("a", "b", "c")),
        "site": Column(kind="category", categories=("k", "l/m"), missing="category"),
        "weight (kg)": Column(kind="number", lower=1, upper=3),
        "paid": Column(kind="number", lower=0, upper=1000),
        "part": Column(kind="number", lower=0.01, upper=0.98),
    }
)
BY_KIND = {
    "number": "cost",
    "positive": "cost",
    "zero_or_positive": "paid",
    "share": "part",
    "binary": "readmitted",
    "proportion": "hits | trials(tries)",
    "count": "visits",
    "classes": "stage",
    "order": "stage",
}
RESPONSES = {name: BY_KIND[family.response] for name, family in FAMILIES.items()}
BY_HAND = (
    *("gaussian", "student_t", "bernoulli", "binomial", "poisson", "negative_binomial", "categorical", "ordinal"),
)
"""Families that stand in `numpyro_model`, with bounds of their gradients; the others are held against SciPy."""


@cache
def build(formula, family, **priors) -> FormulaModel:
    return from_formula(
        formula, SCHEMA, family=family, priors={key.replace("_bar_", "|"): p for key, p in priors.items()}
    )


def table(num_records=60, seed=0, names=tuple(SCHEMA.columns)):
    rng, records = np.random.default_rng(seed), {}
    for name in names:
        column = SCHEMA.columns[name]
        lower, upper = column.bounds
        if column.kind == "number":
            records[name] = rng.uniform(lower, upper, num_records).astype(np.float32)
        else:
            values = rng.integers(int(lower), int(upper) + 1, num_records)
            records[name] = values.astype(np.int32 if column.kind == "category" else np.float32)
    return records


def frame(records):
    """The records as people have them, for formulaic."""
    columns = {name: SCHEMA.columns[name] for name in records}
    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(values, columns[name].levels)
            if columns[name].kind == "category"
            else values.astype(int if columns[name].kind == "integer" else float)
            for name, values in records.items()
        }
    )


def formulaic_design(right, records):
    """Formulaic's model matrix with the columns under our names."""
    matrix = model_matrix(right, frame(records))
    names = [name.replace("Intercept", "intercept").replace("[T.", "[").replace(" ", "") for name in matrix.columns]
    names = [re.sub(r"\bC\((\w+)\)", r"\1", name) for name in names]
    names = [re.sub(r"\bI\(((?:[^()]|\([^()]*\))*)\)", r"\1", name).replace("np.", "") for name in names]
    return {
        name.replace("/", "∕").replace("`", ""): column for name, column in zip(names, matrix.to_numpy().T, strict=True)
    }


def positions(model, number, seed, scale=1.0):
    """Positions to compare at, stacked."""
    rng = np.random.default_rng(seed)
    return {
        name: jnp.asarray(scale * rng.standard_normal((number, *leaf.shape)), jnp.float32)
        for name, leaf in model.position.items()
    }


def rows(model, records):
    return np.asarray(jax.vmap(model.features)({name: jnp.asarray(values) for name, values in records.items()}))


DESIGNS = [
    "1",
    "age + bmi + smoker + C(ward)",
    "0 + age + bmi",
    "age * smoker",
    "age:smoker",
    "age + bmi + C(ward) + age:smoker",
    "ward + age:ward",
    "age:ward",
    "0 + ward + site",
    "0 + ward + age",
    "0 + ward:site",
    "ward:site",
    "ward + ward:site",
    "ward * site * age",
    "0 + age:ward:site + ward",
    "age + I(age**2) + I(age**3)",
    "I(age**2)",
    "{age**2}:ward + age",
    "C(ward):age + I(age**2)",
    "age:bmi",
    "age * bmi + I(bmi**2):smoker",
    "(age + bmi + ward)**2",
    "log(age) + np.sqrt(age) + exp(bmi) + I(abs(bmi))",
    "log(age):site",
    "I(age/(bmi+4)) + I(2*age-bmi)",
    "C(grade) + grade:smoker",
    "ward/age",
    "age - 1 + smoker:ward",
    "I(age**0.5) + I(age**-1)",
]


@pytest.mark.parametrize("right", DESIGNS)
def test_rows_are_those_of_formulaic_after_scaling(right):
    records = table()
    model = build(f"readmitted ~ {right}", "bernoulli")
    expected = formulaic_design(right, records)
    assert set(model.feature_names) == set(expected)
    scaled = rows(model, records).astype(float)
    assert np.abs(scaled).max() <= 1
    assert np.linalg.norm(scaled, axis=1).max() <= model.row_bound + 1e-6
    # scaled columns are combinations of the unscaled ones, the same number of them: the span is the same
    matrix = np.stack([expected[name] for name in model.feature_names], axis=1)
    to_unscaled = model.coordinates.design.to_unscaled
    np.testing.assert_allclose(scaled, matrix @ to_unscaled, atol=3e-6)
    assert np.linalg.cond(to_unscaled / np.abs(to_unscaled).max(axis=0)) < np.inf
    assert np.linalg.matrix_rank(to_unscaled) == len(expected)


def test_powers_and_interactions_are_those_of_centred_columns_where_that_is_the_same_model():
    records = table(500)
    entangled = np.linalg.cond(np.stack(list(formulaic_design("age * bmi + I(age**2)", records).values()), axis=1))
    scaled = rows(build("readmitted ~ age * bmi + I(age**2)", "bernoulli"), records)
    assert np.linalg.cond(scaled) < 10
    assert entangled > 1e4
    z = (records["age"] - 55) / 35
    np.testing.assert_allclose(rows(build("readmitted ~ age + I(age**2)", "bernoulli"), records)[:, 2], z**2, atol=1e-5)
    alone = rows(build("readmitted ~ I(age**2)", "bernoulli"), records)[:, 1]
    np.testing.assert_allclose(alone, (records["age"] ** 2 - 4250) / 3850, atol=1e-5)


def test_a_column_may_have_any_name():
    model = build("readmitted ~ `weight (kg)` + log(`weight (kg)`)", "bernoulli")
    assert model.feature_names == ("intercept", "weight (kg)", "log(weight (kg))")
    records = {"weight (kg)": np.array([1.0, 2.0, 3.0], np.float32)}
    np.testing.assert_allclose(rows(model, records)[:, 1], [-1, 0, 1], atol=1e-6)


def test_values_outside_the_bounds_count_as_the_bounds():
    model = build("readmitted ~ age + log(age)", "bernoulli")
    outside, inside = ({"age": np.array(values, np.float32)} for values in ([-5.0, 500.0], [20.0, 90.0]))
    np.testing.assert_array_equal(rows(model, outside), rows(model, inside))


# Densities.

RIGHT = "age + C(ward) + (1|site)"


def numpyro_model(family, records, rates=False):
    """The model of RIGHT, written by hand in NumPyro on the scaled columns."""
    z = (records["age"] - 55) / 35
    wards = [(records["ward"] == level).astype(np.float32) for level in (1, 2)]
    design = np.stack([np.ones_like(z), z, *wards], axis=1)
    y = {"number": (records["cost"] - 550) / 450, "count": records["visits"], "binary": records["readmitted"]}
    kind = FAMILIES[family].response
    outcome = y.get(kind, records["hits"] if kind == "proportion" else records["stage"])
    scale = {"number": 0.5, "binary": 1.5, "proportion": 1.5, "count": 1.0, "classes": 1.5, "order": 1.5}[kind]
    middle = round(float(np.log(31) / 2), 2)
    location, spread = {"number": (0.0, 1.0), "count": (middle, middle)}.get(kind, (0.0, 2.0))
    sites = 3

    def model():
        outputs = (3,) if kind == "classes" else ()
        means, sds = np.array([location, 0, 0, 0]), np.array([spread, scale, scale, scale])
        if kind == "order":
            means, sds = means[1:], sds[1:]
        if outputs:
            means, sds = means[:, None], sds[:, None]
        law = dist.Normal(means, sds).expand((len(means), *outputs))
        slopes = numpyro.sample("coefficients", law.to_event(1 + len(outputs)))
        site_sigma = numpyro.sample(
            "1|site_sigma", dist.HalfNormal(0.5 if kind == "number" else 1.0).expand(outputs).to_event(len(outputs))
        )
        raw = numpyro.sample("1|site", dist.Normal(0, 1).expand((sites, *outputs)).to_event(1 + len(outputs)))
        eta = (design[:, 1:] if kind == "order" else design) @ slopes + (site_sigma * raw)[records["site"]]
        if rates:
            eta = eta + np.log(records["tries"])
        if family in {"gaussian", "student_t"}:
            sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
        if family == "student_t":
            nu = numpyro.sample("nu", dist.Gamma(2.0, 0.1))
        if family == "negative_binomial":
            concentration = numpyro.sample("concentration", dist.Gamma(2.0, 0.1))
        if family == "ordinal":
            cutpoints = numpyro.sample("cutpoints", dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,)))
            numpyro.factor("prior", dist.Normal(0.0, 2.0).log_prob(cutpoints).sum())
        likelihood = {
            "gaussian": lambda: dist.Normal(eta, sigma),
            "student_t": lambda: dist.StudentT(nu, eta, sigma),
            "bernoulli": lambda: dist.Bernoulli(logits=eta),
            "binomial": lambda: dist.Binomial(records["tries"].astype(np.int32), logits=eta),
            "poisson": lambda: dist.Poisson(jnp.exp(eta)),
            "negative_binomial": lambda: dist.NegativeBinomial2(jnp.exp(eta), concentration),
            "categorical": lambda: dist.Categorical(logits=jnp.concatenate([jnp.zeros((len(z), 1)), eta], axis=1)),
            "ordinal": lambda: dist.OrderedLogistic(eta, cutpoints),
        }[family]()
        whole = outcome if kind in {"number", "binary"} else outcome.astype(np.int32)
        with numpyro.plate("records", len(z)):
            numpyro.sample("y", likelihood, obs=whole)

    return model


@pytest.mark.parametrize("family", BY_HAND)
def test_log_densities_are_those_of_numpyro(family):
    model = build(f"{RESPONSES[family]} ~ {RIGHT}" + (" + offset(log(tries))" if family == "poisson" else ""), family)
    records = table(40, seed=1)
    records["hits"] = np.minimum(records["hits"], records["tries"])
    other = numpyro_model(family, records, rates=family == "poisson")

    def ours(position):
        return model.log_prior(position) + jnp.sum(jax.vmap(model.log_likelihood, (None, 0))(position, records))

    def theirs(position):
        return -potential_energy(other, (), {}, position)

    stacked = positions(model, 4, seed=2, scale=0.5)
    first, second = (jax.jit(jax.vmap(jax.value_and_grad(function)))(stacked) for function in (ours, theirs))
    differences = first[0] - second[0]  # what depends on the records alone is left out
    np.testing.assert_allclose(differences - differences[0], 0, atol=3e-6 * float(jnp.abs(second[0]).max()) + 1e-3)
    assert float(jnp.ptp(first[0])) > 1
    for name in model.position:
        bound = 1e-4 * float(jnp.abs(second[1][name]).max()) + 1e-3
        np.testing.assert_allclose(first[1][name], second[1][name], atol=bound, err_msg=name)


@pytest.mark.parametrize("kind", [*REAL, *POSITIVE])
def test_quantiles_belong_to_the_densities(kind):
    prior = Prior(kind, {"gamma": (2.0, 0.7), "student_t": (4.0, 0.5, 2.0), "half_student_t": (3.0, 1.5)}.get(
        kind, (0.3, 1.3) if kind in {"normal", "laplace", "lognormal"} else (1.3,)))  # fmt: skip
    ends = [prior.quantile(probability) for probability in (0.2, 0.7)]
    grid = np.linspace(*ends, 2001)
    assert np.trapezoid(np.exp(prior.law.log_prob(grid)), grid) == pytest.approx(0.5, abs=1e-4)


def test_priors_are_drawn_from_as_stated():
    model = build("cost ~ age + bmi + (1|site)", "gaussian", age="laplace(1, 2)", sigma="lognormal(0, 0.5)")
    drawn = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(3), 4000))
    laws = {
        0: stats.norm(0, 1),
        1: stats.laplace(1, 2),
        2: stats.norm(0, 0.5),
    }
    for place, law in laws.items():
        assert stats.kstest(drawn["coefficients"][:, place], law.cdf).pvalue > 1e-4
        assert stats.kstest(1.3 * drawn["coefficients"][:, place], law.cdf).pvalue < 1e-4
    assert stats.kstest(np.exp(drawn["sigma"]), stats.lognorm(0.5).cdf).pvalue > 1e-4
    assert stats.kstest(np.exp(drawn["1|site_sigma"]), stats.halfnorm(scale=0.5).cdf).pvalue > 1e-4
    cuts = jax.vmap(build("stage ~ age", "ordinal").sample_prior)(jax.random.split(jax.random.key(4), 4000))
    assert stats.kstest(cuts["cutpoints"][:, 0], lambda x: 1 - (1 - stats.norm(0, 2).cdf(x)) ** 3).pvalue > 1e-4


# Parameters on the original scale.


@pytest.mark.parametrize(
    ("family", "right"),
    [
        *((family, "age + bmi + C(ward)*smoker + I(age**2) + (1|site)") for family in FAMILIES),
        *((family, "0 + ward + age:smoker") for family in ("gaussian", "categorical")),
    ],
)
def test_original_coefficients_predict_the_same(family, right):
    model = build(f"{RESPONSES[family]} ~ {right}", family)
    records = table(30, seed=5)
    draws = positions(model, 6, seed=6)
    parameters = jax.vmap(model.constrain)(draws)
    again = jax.vmap(model.unconstrain)(parameters)
    for name, leaf in draws.items():
        np.testing.assert_allclose(again[name], leaf, atol=2e-4, err_msg=name)
    fixed = formulaic_design(right.replace(" + (1|site)", ""), records)
    labels = [f"{label}: " for label in ("ii", "iii", "iv")] if family == "categorical" else [""]

    def predictor(label):
        eta = 0.0
        for name, column in fixed.items():
            if family != "ordinal" or name != "intercept":
                eta = eta + np.asarray(parameters[label + name], float)[:, None] * column
        if "site" in right:
            levels = [np.asarray(parameters[f"{label}1|site[{level}]"]) for level in ("k", "l∕m", "(missing)")]
            eta = eta + np.stack(levels, axis=1)[:, records["site"]]
        return eta

    found = np.asarray(
        model.predict(jax.tree.map(lambda leaf: leaf.reshape(2, 3, *leaf.shape[1:]), parameters), records)
    )
    assert found.shape[:3] == (2, 3, 30)
    found, eta = found.reshape(6, 30, *found.shape[3:]), np.stack([predictor(label) for label in labels], axis=2)
    if family in {"gaussian", "student_t"}:
        expected = eta[..., 0]
    elif family == "ordinal":
        cumulative = 1 / (1 + np.exp(-(np.asarray(parameters["cutpoints"])[:, None] - eta)))
        expected = np.diff(cumulative, prepend=0, append=1)
    elif family == "categorical":
        odds = np.exp(np.concatenate([np.zeros((6, 30, 1)), eta], axis=2))
        expected = odds / odds.sum(axis=2, keepdims=True)
    elif family in {"poisson", "negative_binomial"}:
        expected = np.exp(eta[..., 0])
    elif family not in BY_HAND:
        others = {name: np.asarray(parameters[name])[:, None] for name in FAMILIES[family].others}
        expected = np.asarray(FAMILIES[family].mean(jnp.asarray(eta[..., 0]), jnp.asarray(records["tries"]), others))
    else:
        expected = (records["tries"] if family == "binomial" else 1) / (1 + np.exp(-eta[..., 0]))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
    if family in {"bernoulli", "categorical", "ordinal"}:
        assert model.classes == (("False", "True") if family == "bernoulli" else ("i", "ii", "iii", "iv"))


def test_sigma_and_random_intercepts_are_in_the_units_of_the_response():
    model = build("cost ~ age + (1|site)", "gaussian")
    position = {
        "coefficients": jnp.array([0.2, -0.4]),
        "sigma": jnp.log(0.1),
        "1|site": jnp.array([1.0, -1.0, 0.5]),
        "1|site_sigma": jnp.log(0.2),
    }
    parameters = model.constrain(position)
    assert parameters["sigma"] == pytest.approx(45)
    assert parameters["1|site_sigma"] == pytest.approx(90)
    assert parameters["1|site[l∕m]"] == pytest.approx(-90)
    assert parameters["age"] == pytest.approx(-0.4 * 450 / 35)
    assert parameters["intercept"] == pytest.approx(550 + 450 * (0.2 + 0.4 * 55 / 35), rel=1e-5)


# Bounds.

REGIONS = {"sigma": (0.2, 0.8), "nu": (2.0, 30.0), "concentration": (0.5, 20.0), "1|site_sigma": (0.1, 1.5)}


@cache
def gradient_norm(family):
    model = build(f"{RESPONSES[family]} ~ age * smoker + C(ward) + (1|site)", family)

    def norm(position, record):
        leaves = jax.tree.leaves(jax.grad(model.log_likelihood)(position, record))
        natural = model.coordinates.natural(position)
        return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves)), model.coordinates.predictor(natural, record)

    return model, jax.jit(norm)


def corner(draw, lower, upper):
    return draw(st.sampled_from([lower, upper]) | st.floats(lower, upper, width=32))


@st.composite
def inside(draw, model):
    """A position in the region and a record within the schema, both often at an end."""
    position, record = {}, {}
    for name, leaf in model.position.items():
        size = int(np.prod(leaf.shape, dtype=int))
        if name in REGIONS:
            lower, upper = np.log(np.array(REGIONS[name], np.float32))
        else:
            lower, upper = (-3.0, 3.0) if name == "1|site" else (-6.0, 6.0)
        values = [corner(draw, float(lower), float(upper)) for _ in range(size)]
        position[name] = np.array(values, np.float32).reshape(leaf.shape)
    if "cutpoints" in position:  # the gaps add up to at most eight
        position["cutpoints"][1:] = np.log([draw(st.floats(1e-3, 4.0)) for _ in range(2)])
    for name in model.columns:
        column = SCHEMA.columns[name]
        lower, upper = column.bounds
        if column.kind == "number":
            record[name] = np.float32(corner(draw, lower, upper))
        else:
            whole = draw(st.integers(int(lower), int(upper)))
            record[name] = (np.int32 if column.kind == "category" else np.float32)(whole)
    return position, record


@pytest.mark.parametrize("family", BY_HAND)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_gradients_keep_within_the_bound(family, data):
    model, norm = gradient_norm(family)
    region = {name: ends for name, ends in REGIONS.items() if name in model.position}
    bound = model.gradient_bound(region | ({"cutpoints": (0.0, 8.0)} if family == "ordinal" else {}))
    position, record = data.draw(inside(model))
    found, eta = norm(position, record)
    limit = {"number": 1.0, "count": np.log(30.0)}.get(FAMILIES[family].response, np.inf)
    if abs(eta).max() > limit:  # the region has the predicted mean within the bounds of the response
        shrink = np.float32(0.999 * limit / abs(eta))
        position |= {name: position[name] * shrink for name in ("coefficients", "1|site")}
        found, eta = norm(position, record)
    assert found <= bound.value * (1 + 1e-4)


def extremes(rng, lower, upper, shape):
    """Numbers that are an end of the interval more often than not."""
    ends = np.where(rng.random(shape) < 0.5, lower, upper)
    return np.where(rng.random(shape) < 0.7, ends, rng.uniform(lower, upper, shape)).astype(np.float32)


@pytest.mark.parametrize("family", BY_HAND)
def test_bounds_hold_and_are_not_idle(family):
    """Of many extreme positions and records none is above the bound, and some come within two thirds of it."""
    model, rng, number = build(f"{RESPONSES[family]} ~ age", family), np.random.default_rng(9), 20_000
    position, record = {}, {}
    for name, leaf in model.position.items():
        lower, upper = np.log(REGIONS[name]) if name in REGIONS else (-6.0, 6.0)
        position[name] = extremes(rng, lower, upper, (number, *leaf.shape))
    if family == "ordinal":
        position["cutpoints"][:, 1:] = np.log(extremes(rng, 1e-3, 4.0, (number, 2)))
    for name in model.columns:
        values = extremes(rng, *SCHEMA.columns[name].bounds, number)
        kind = SCHEMA.columns[name].kind
        record[name] = values if kind == "number" else np.round(values).astype("i4" if kind == "category" else "f4")
    coordinates = model.coordinates
    limit = {"number": 1.0, "count": np.log(30.0)}.get(FAMILIES[family].response)
    if limit is not None:
        eta = jax.vmap(lambda p, r: coordinates.predictor(coordinates.natural(p), r))(position, record)
        position["coefficients"] /= np.maximum(np.abs(eta) / (0.9999 * limit), 1)[:, None]
    gradients = jax.jit(jax.vmap(jax.grad(model.log_likelihood)))(position, record)
    norms = np.sqrt(sum((np.asarray(leaf).reshape(number, -1) ** 2).sum(axis=1) for leaf in gradients.values()))
    region = {name: ends for name, ends in REGIONS.items() if name in model.position}
    bound = model.gradient_bound(region | ({"cutpoints": (0.0, 8.0)} if family == "ordinal" else {})).value
    assert norms.max() <= bound * (1 + 1e-4)
    assert norms.max() > 0.6 * bound


def test_bounds_are_attained_where_they_hold_everywhere():
    model = build("readmitted ~ age + smoker + C(ward)", "bernoulli")
    bound = model.gradient_bound()
    assert bound.everywhere
    assert bound.region == "everywhere"
    assert bound.value == model.row_bound == 2.0
    record = {"age": 90.0, "smoker": 1.0, "ward": 1, "readmitted": 0.0}
    gradient = jax.grad(model.log_likelihood)({"coefficients": jnp.full(5, 9.0)}, record)["coefficients"]
    assert np.linalg.norm(gradient) == pytest.approx(2.0, abs=1e-4)
    assert model.tempered(0.1).gradient_bound().value == pytest.approx(0.2)
    assert isinstance(model.tempered(0.1), FormulaModel)
    assert build("hits | trials(7) ~ 1", "binomial").gradient_bound().value == 7.0
    known = build("cost ~ age", "gaussian", sigma="fixed(0.5)").gradient_bound()
    assert known.value == pytest.approx(2 / 0.25 * np.sqrt(2))
    assert known.region == "the predicted mean within the bounds of the response"
    with pytest.raises(InvalidArgument, match="region has tau; expected some of sigma"):
        build("cost ~ age", "gaussian").gradient_bound({"tau": (0.1, 1.0)})
    with pytest.raises(InvalidArgument, match=r"region\['sigma'\]=.* the smaller one first"):
        build("cost ~ age", "gaussian").gradient_bound({"sigma": (1.0, 0.1)})


def test_few_simulated_records_exceed_the_suggested_clip():
    model = build("readmitted ~ age + smoker + C(ward)", "bernoulli")
    clip = model.suggested_clip(jax.random.key(0), num_draws=8)
    assert 0.5 < clip <= 2.0
    assert model.tempered(0.1).suggested_clip(jax.random.key(0), num_draws=8) == pytest.approx(0.1 * clip)
    assert model.suggested_clip(jax.random.key(0), num_draws=8, quantile=0.5) < clip


# The fast path.


@pytest.mark.parametrize(
    ("family", "right", "priors", "num_residuals"),
    [
        ("gaussian", "age + bmi + C(ward) + age:smoker", {"sigma": "fixed(0.3)"}, 1),
        ("gaussian", "age + bmi + C(ward) + age:smoker", {}, 2),
        ("bernoulli", "age + bmi + C(ward) + age:smoker", {}, 1),
        ("binomial", "age + bmi + C(ward) + age:smoker", {}, 1),
        ("poisson", "age * bmi + I(age**2) + C(ward) + offset(log(tries))", {}, 1),
        ("negative_binomial", "age * bmi + C(ward)", {"concentration": "fixed(3)"}, 1),
        ("student_t", "age * bmi + C(ward)", {"sigma": "fixed(1)", "nu": "fixed(4)"}, 1),
        ("categorical", "age * bmi + C(ward)", {}, 3),
        ("ordinal", "age * bmi + C(ward)", {}, 4),
        ("bernoulli", "age + bmi + (1|site)", {"1_bar_site": "fixed(1)"}, 2),
        ("bernoulli", "age + bmi + (1|site)", {}, 3),
    ],
)
def test_the_gradient_is_found_to_be_residual_times_row(family, right, priors, num_residuals):
    model = build(f"{RESPONSES[family]} ~ {right}", family, **priors)
    records = table(50, names=model.columns)
    data = PrivateData.without_guarantee(records)
    position = {name: jnp.zeros(leaf.shape) for name, leaf in model.position.items()}
    queries, structure = jax.tree.flatten((position,))
    contribution = flat_gradient(Term(model.log_likelihood, structure))
    factors = factorise(contribution, queries, data.facts.record)
    assert factors is not None
    assert factors.num_residuals == num_residuals
    assert find_rows(data.facts, contribution, queries) is not None
    mechanism = GradientSum(clip=1.0, noise_multiplier=5.0)
    audit = data.audit(lambda oracle, at: oracle.force(mechanism, at).value, position, model=model)
    assert len(audit.charges) == 1
    assert audit.paths == ("linear rows",)


# Simulation.


@pytest.mark.parametrize("family", FAMILIES)
def test_simulated_records_respect_the_schema(family):
    model = build(f"{RESPONSES[family]} ~ age + age_missing + grade + smoker + site + (1|ward)", family)
    position, records = model.simulate(jax.random.key(7), 400)
    assert set(records) == set(model.columns)
    for name, values in records.items():
        column = SCHEMA.columns.get(name, Column(kind="boolean"))
        lower, upper = column.bounds
        assert values.shape == (400,)
        assert values.dtype == (jnp.int32 if column.kind == "category" else jnp.float32)
        assert lower <= values.min() <= values.max() <= upper
        if column.kind != "number":
            np.testing.assert_array_equal(values, np.round(values))
    assert 10 < records["age_missing"].sum() < 90
    np.testing.assert_array_equal(records["age"][records["age_missing"] == 1], 50)
    assert {name: leaf.shape for name, leaf in position.items()} == {n: s.shape for n, s in model.position.items()}
    assert np.isfinite(jax.vmap(model.log_likelihood, (None, 0))(position, records)).all()
    again = model.simulate(jax.random.key(7), 400, position)
    np.testing.assert_array_equal(again.records[model.response], records[model.response])
    with pytest.raises(InvalidArgument, match="num_records=0 must be >= 1"):
        model.simulate(jax.random.key(7), 0)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "binomial", "poisson", "ordinal"])
def test_simulated_responses_have_the_predicted_mean(family):
    model = build(f"{RESPONSES[family]} ~ age", family)
    position = {name: jnp.zeros(leaf.shape) for name, leaf in model.position.items()}
    position["coefficients"] = jnp.array([0.3]) if family == "ordinal" else jnp.array([0.1, 0.2])
    if family == "gaussian":
        position["sigma"] = jnp.log(0.1)
    _, records = model.simulate(jax.random.key(8), 20_000, position)
    few = {name: column[:200] for name, column in records.items()}
    draws = jax.tree.map(lambda leaf: jnp.stack([leaf] * 100), model.constrain(position))
    new = model.respond(jax.random.key(9), draws, few)
    assert new.shape == (100, 200)
    for table, found in ((records, records[model.response]), (few, new)):
        predicted = model.predict(model.constrain(position), table)
        if family == "ordinal":
            predicted, found = predicted[:, 3], (found == 3).astype(jnp.float32)
        error = float(jnp.std(found - predicted) / np.sqrt(20_000))
        assert abs(float(jnp.mean(found - predicted))) < 4 * error
        assert abs(float(jnp.mean(found - 1.1 * predicted))) > 4 * error


# Words.


def test_the_description_states_scales_and_priors():
    model = build(
        "cost ~ age + I(age**2) + C(ward) + (1|site)",
        "gaussian",
        age="normal(0, 2)",
        **{"1_bar_site": "half_student_t(3, 0.2)"},
    )
    text = model.describe()
    for line in (
        "cost ~ age + I(age**2) + C(ward) + (1|site), family gaussian",
        "The response is scaled to (cost - 550) / 450.",
        "age: (age - 55) / 35",
        "ward: a",
        "age ~ normal(0, 2)",
        "age**2 ~ normal(0, 0.5)",
        "sigma ~ half_normal(0.5)",
        "1|site ~ half_student_t(3, 0.2) for the standard deviation of 3 random intercepts",
        "missing values of age count as 50. Add age_missing to let these rows differ.",
    ):
        assert line in text
    assert "Note" not in build("readmitted ~ age + age_missing", "bernoulli").describe()


@pytest.mark.parametrize(
    ("priors", "means"),
    [
        ({"slopes": "laplace(5, 1)"}, [0, 5, 5, 5, 5]),
        ({"ward": "normal(1, 1)", "ward[c]": "normal(2, 1)"}, [0, 0, 0, 1, 2]),
        ({"C(ward)": "normal(1, 1)", "I(age ** 2)": "normal(3, 1)", "slopes": "normal(5, 1)"}, [0, 5, 3, 1, 1]),
        ({"intercept": "normal(6, 1)", "age": "normal(4, 1)"}, [6, 4, 0, 0, 0]),
    ],
)
def test_priors_can_be_stated_by_coefficient_term_or_all_together(priors, means):
    model = from_formula("readmitted ~ age + I(age**2) + C(ward)", SCHEMA, family="bernoulli", priors=priors)
    assert model.feature_names == ("intercept", "age", "age**2", "ward[b]", "ward[c]")
    assert [prior.arguments[0] for prior in model.coordinates.coefficients.priors] == means
    assert from_formula(model.formula, SCHEMA, family="bernoulli", priors=model.priors).priors == model.priors


def test_nothing_in_a_model_depends_on_a_table():
    """The same formula and schema give the same model: there is no argument that a record could come in by."""
    first, second = (from_formula("cost ~ age * ward", SCHEMA, family="gaussian") for _ in range(2))
    assert first.describe() == second.describe()
    assert first.priors == second.priors


# Refusals.


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("readmitted ~ agee", "bernoulli", "'agee', which is not a column of the schema; .*Did you mean 'age'"),
        ("readmited ~ age", "bernoulli", "Did you mean 'readmitted'"),
        ("readmitted ~ log(agee)", "bernoulli", "'agee', which is not a column"),
        ("readmitted ~ age + (1|clinic)", "bernoulli", "'clinic', which is not a column"),
        ("readmitted ~ age +", "bernoulli", r"cannot be read: a term is missing after '\+'"),
        ("readmitted ~ age + bmi)", "bernoulli", "cannot be read"),
        ("readmitted ~ log(body mass)", "bernoulli", "cannot be read: .*Names with spaces or signs go in backticks"),
        ("readmitted ~ body mass", "bernoulli", "cannot be read: .*Names with spaces or signs go in backticks"),
        ("readmitted age", "bernoulli", "must have one ~"),
        ("readmitted ~ age ~ bmi", "bernoulli", "must have one ~"),
        ("readmitted ~ ", "bernoulli", "must have terms"),
        ("", "bernoulli", "formula='' must be a text"),
        ("| trials(3) ~ age", "bernoulli", "must have a column of the schema on the left"),
        ("cost + visits ~ age", "gaussian", "expected a function of one column"),
        ("cost ~ center(age)", "gaussian", "center would read the data, its mean.* write just the column"),
        ("cost ~ scale(age)", "gaussian", "scale would read the data"),
        ("cost ~ standardize(age)", "gaussian", "standardize would read the data"),
        ("cost ~ s(age)", "gaussian", r"s would read the data, its quantiles.*bs\(x, df=5\)"),
        ("cost ~ lag(age)", "gaussian", "lag would read the data, the row before"),
        ("cost ~ rank(age)", "gaussian", "rank is not among the functions of a single record"),
        ("cost ~ age.mean()", "gaussian", "is not among the functions"),
        ("cost ~ I(age if age > 3 else 1)", "gaussian", "expected columns, numbers"),
        ("cost ~ log(bmi)", "gaussian", "bmi lies between -3 and 9 by the schema; log needs a number > 0"),
        ("cost ~ I(1/bmi)", "gaussian", "a divisor must not be zero"),
        ("cost ~ I(bmi**0.5)", "gaussian", "whole unless the base is >= 0"),
        ("cost ~ I(age**bmi)", "gaussian", "a number as the exponent"),
        ("cost ~ exp(age)", "gaussian", "at most 80"),
        ("cost ~ I(age - age + 1e400)", "gaussian", "expected something that varies"),
        ("cost ~ log(ward)", "gaussian", "ward is a category and no number"),
        ("cost ~ C(age)", "gaussian", "age'? is number from 20 to 90 and no category"),
        ("cost ~ C(ward, contr.sum)", "gaussian", "put that one first in the schema"),
        ("cost ~ 2:age", "gaussian", "multiplies a term with 2"),
        ("cost ~ age + I(age)", "gaussian", "which earlier terms amount to already"),
        ("cost ~ C(ward) + ward", "gaussian", "which earlier terms amount to already"),
        ("cost ~ (age*bmi|ward)", "gaussian", r"has \(age\*bmi\|ward\); expected intercepts or slopes"),
        ("cost ~ (ward|site)", "gaussian", "expected a number, an integer or a boolean"),
        ("cost ~ age:(1|ward)", "gaussian", "cannot be part of an interaction"),
        ("cost ~ (1|bmi)", "gaussian", "bmi'? is number from -3 to 9 and no category"),
        ("cost ~ age + cost", "gaussian", "'cost' on both sides"),
        ("cost ~ age + I(cost**2)", "gaussian", "'cost' on both sides"),
        ("cost ~ 0", "gaussian", "has no parameter"),
        ("cost ~ age", "gausian", "family='gausian' must be one of gaussian.*Did you mean 'gaussian'"),
        ("cost ~ age", "bernoulli", "a number between 100 and 1000; family='bernoulli' needs a boolean or a category"),
        ("stage ~ age", "bernoulli", "a category with 4 levels; family='bernoulli' needs"),
        ("cost ~ age", "poisson", "needs an integer with lower >= 0"),
        ("readmitted ~ age", "gaussian", "a boolean; family='gaussian' needs a number"),
        ("cost ~ age", "categorical", "needs a category"),
        ("site ~ age", "ordinal", "without a level for missing values"),
        ("stage ~ 0 + age", "ordinal", "has cutpoints for an intercept"),
        ("stage ~ offset(age)", "categorical", "has no offset"),
        ("hits ~ age", "binomial", r"needs the number of trials: write 'y \| trials\(n\)"),
        ("hits | trials(bmi) ~ age", "binomial", r"trials\(bmi\) is a number between -3 and 9; expected"),
        ("hits | trials(0) ~ age", "binomial", "trials=0 must be >= 1"),
        ("visits | trials(3) ~ age", "poisson", "has no trials"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_the_reason(formula, family, message):
    with pytest.raises(InvalidArgument, match=message):
        from_formula(formula, SCHEMA, family=family)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"agee": "normal(0, 1)"}, "priors has agee; expected some of intercept, age, ward.b., ward.c., slopes, sigma"),
        ({"ward[d]": "normal(0, 1)"}, r"priors has ward\[d\]"),
        ({"age": "uniform(0, 1)"}, r"priors\['age'\]='uniform\(0, 1\)' must be one of normal\(mean, sd\)"),
        ({"age": "half_normal(1)"}, r"must be one of normal"),
        ({"sigma": "normal(0, 1)"}, r"must be one of half_normal\(sd\)"),
        ({"age": "normal(0)"}, r"must have the numbers normal\(mean, sd\)"),
        ({"age": "normal(0, x)"}, "must have the numbers"),
        ({"age": "normal(0, -1)"}, "must have sd > 0"),
        ({"age": "normal(0, inf)"}, "must have the numbers"),
        ({"age": 3}, r"priors\['age'\]=3 must be one of"),
        ({"sigma": "fixed(0)"}, "must have value > 0"),
    ],
)
def test_priors_are_checked(priors, message):
    with pytest.raises(InvalidArgument, match=message):
        from_formula("cost ~ age + C(ward)", SCHEMA, family="gaussian", priors=priors)


def test_columns_without_bounds_never_reach_a_formula():
    with pytest.raises(InvalidArgument, match="needs lower and upper"):
        from_formula("y ~ x", {"columns": {"y": {"kind": "boolean"}, "x": {"kind": "number"}}}, family="bernoulli")


def test_names_of_parameters_are_no_names_of_columns():
    schema = {"columns": {"y": {"kind": "number", "lower": 0, "upper": 1}, "sigma": {"kind": "boolean"}}}
    with pytest.raises(InvalidArgument, match="sigma has the name of a parameter"):
        from_formula("y ~ sigma", schema, family="gaussian")


def test_predictions_name_what_is_missing():
    model = build("cost ~ age", "gaussian")
    with pytest.raises(InvalidArgument, match="records has no age"):
        model.predict({}, {})
    with pytest.raises(InvalidArgument, match="parameters has no sigma"):
        model.predict({"intercept": 1.0, "age": 1.0}, {"age": np.ones(3)})
    with pytest.raises(InvalidArgument, match="parameters has no age"):
        model.unconstrain({"intercept": 1.0, "sigma": 1.0})
