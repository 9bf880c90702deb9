"""Priors as NumPyro's distributions: the same as texts on the original scale."""

from types import SimpleNamespace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import from_formula
from dpmcmc.model.formula.prior_texts import as_texts

SCHEMA = dp.Schema(
    {
        "y": dp.Column(kind="number", lower=0, upper=100),
        "sick": dp.Column(kind="boolean"),
        "age": dp.Column(kind="number", lower=20, upper=80),
        "grade": dp.Column(kind="integer", lower=1, upper=4),
        "site": dp.Column(kind="category", categories=("a", "b", "c")),
    }
)


@pytest.mark.parametrize(
    ("name", "law", "text"),
    [
        ("age", dist.Normal(0, 0.1), "normal(0, 0.1) per unit"),
        ("age", dist.StudentT(4, 0, 0.1), "student_t(4, 0, 0.1) original"),
        ("age", dist.Laplace(0, 0.1), "laplace(0, 0.1) original"),
        ("age", dist.Cauchy(0, 0.1), "student_t(1, 0, 0.1) original"),
        ("age", SimpleNamespace(name="Normal", args={"mu": 0, "sigma": 0.1}), "normal(0, 0.1) original"),  # bambi's
        ("slopes", dist.Normal(0, 2), "normal(0, 2) original"),
        ("sigma", dist.HalfNormal(5), "half_normal(5) original"),
        ("sigma", dist.HalfCauchy(5), "half_cauchy(5) original"),
        ("sigma", dist.Exponential(0.5), "exponential(0.5) original"),
        ("sigma", dist.Gamma(2, 0.5), "gamma(2, 0.5) original"),
        ("sigma", dist.LogNormal(1, 0.5), "lognormal(1, 0.5) original"),
        ("sigma", dist.FoldedDistribution(dist.StudentT(3, 0, 5)), "half_student_t(3, 5) original"),
        ("sigma", dist.Delta(4.0), "fixed(4) original"),
        ("1|site", dist.HalfNormal(5), "half_normal(5) original"),
        ("mo(grade)", dist.Normal(0, 2), "normal(0, 2) original"),
        ("mo(grade)_share", dist.Dirichlet(np.array([1.0, 2.0, 3.0])), "dirichlet(1, 2, 3)"),
    ],
)
def test_an_object_is_a_text_on_the_original_scale(name, law, text) -> None:
    formula = "y ~ age + mo(grade) + (1|site)"
    first, second = (from_formula(formula, SCHEMA, family="gaussian", priors={name: each}) for each in (law, text))
    usual = from_formula(formula, SCHEMA, family="gaussian").priors
    assert first.priors.keys() == second.priors.keys()
    for key, prior in first.priors.items():
        assert prior == second.priors[key]
    assert first.priors != usual


def test_shares_have_beta_laws() -> None:
    counts = dp.Schema({"y": dp.Column(kind="integer", lower=0, upper=30)})
    model = from_formula("y ~ 1", counts, family="zip", priors={"zi": dist.Beta(2.0, 5.0)})
    assert model.priors["zi"] == "beta(2, 5)"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Normal(0, 1)", "normal(0, 1)"),
        ("Normal(mu=0, sigma=1) per year", "normal(0, 1) per year"),
        ("normal(sd=1, mean=0)", "normal(0, 1)"),
        ("StudentT(nu=4, mu=0, sigma=2)", "student_t(4, 0, 2)"),
        ("cauchy(0, 2)", "student_t(1, 0, 2)"),
        ("Cauchy(loc=0, scale=2)", "student_t(1, 0, 2)"),
        ("HalfNormal(sigma=2) original", "half_normal(2) original"),
        ("Gamma(alpha=2, beta=0.1)", "gamma(2, 0.1)"),
        ("Beta(alpha=1, beta=9)", "beta(1, 9)"),
        ("normal(mu=0)", "normal(mu=0)"),  # is refused in its own words
        ("normal(mu=0, mean=1, sd=2)", "normal(mu=0, mean=1, sd=2)"),
        ("N(0, 1)", "N(0, 1)"),
    ],
)
def test_texts_may_be_in_the_words_of_other_packages(written, meant) -> None:
    assert as_texts({"age": written}) == {"age": meant}


def test_what_is_no_mapping_of_priors_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be a mapping from parameters to priors"):
        from_formula("y ~ age", SCHEMA, family="gaussian", priors="normal(0, 1)")
    with pytest.raises(InvalidArgument, match="Did you mean 'intercept'"):
        from_formula("y ~ age", SCHEMA, family="gaussian", priors={"Intercept": "normal(0, 1)"})


@pytest.mark.parametrize(
    ("name", "law", "message"),
    [
        ("age", dist.Uniform(0, 1), "one of NumPyro's Normal"),
        ("age", dist.Normal(np.array([0.0, 1.0]), 1), "of one number"),
        ("age", dist.HalfNormal(1), "must be one of normal"),
        ("intercept", dist.Normal(0, 10), "State it as a text"),
        ("age", 3.0, "must be one of normal"),
    ],
)
def test_others_are_refused(name, law, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        from_formula("y ~ age", SCHEMA, family="gaussian", priors={name: law})


def test_a_prepared_fit_keeps_them_as_texts() -> None:
    table = pd.DataFrame({"y": [1.0] * 2000, "sick": [True] * 2000, "age": [30.0] * 2000, "grade": 1, "site": "a"})
    data = dp.PrivateData.from_table(table, schema=SCHEMA, budget=dp.Budget(2.0, 1e-6))
    prepared = dp.prepare_fit("sick ~ age", data, epsilon=2.0, priors={"age": dist.Normal(0, 0.1)})
    assert prepared.arguments["priors"] == {"age": "normal(0, 0.1) original"}
    assert prepared.model.priors["age"] == "normal(0, 3)"
