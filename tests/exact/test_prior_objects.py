"""Priors as NumPyro's distributions: the same as texts on the original scale."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.errors import InvalidArgument
from dpmcmc.model import from_formula

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
    ("name", "law", "message"),
    [
        ("age", dist.Cauchy(0, 1), "one of NumPyro's Normal"),
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
