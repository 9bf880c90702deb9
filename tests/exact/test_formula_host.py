"""Formulas on the host: NumPy makes of many positions what `constrain` makes of each, and draws from the same prior."""

import jax
import numpy as np
import pytest
from scipy import stats

import dpmcmc as dp
from dpmcmc.model.formula.host import constrain_all, draw_prior

SCHEMA = dp.Schema(
    {
        "x": dp.Column(kind="number", lower=5, upper=15),
        "w": dp.Column(kind="category", categories=("a", "b", "c")),
        "g": dp.Column(kind="category", categories=("p", "q")),
        "u": dp.Column(kind="number", lower=-4, upper=9),
        "y": dp.Column(kind="boolean"),
        "k": dp.Column(kind="integer", lower=0, upper=30),
        "c": dp.Column(kind="category", categories=("r", "s", "t")),
        "o": dp.Column(kind="category", categories=("low", "mid", "high")),
    }
)
CASES = {
    "bernoulli": ("y ~ x + w", None),
    "groups": ("y ~ x + (1|g)", None),
    "gaussian": ("u ~ x*w + (1|g)", {"1|g": "fixed(0.5)"}),
    "student_t": ("u ~ x", {"slopes": "student_t(3, 0, 1)"}),
    "negative_binomial": ("k ~ x + w", None),
    "categorical": ("c ~ x + (1|g)", None),
    "ordinal": ("o ~ x + w", None),
}
FAMILY = {"groups": "bernoulli"}
FALSE_ALARM = 1e-4


@pytest.fixture(params=CASES)
def model(request):
    formula, priors = CASES[request.param]
    return dp.from_formula(formula, SCHEMA, family=FAMILY.get(request.param, request.param), priors=priors)


def test_many_positions_are_read_as_each_is(model):
    drawn = draw_prior(model.coordinates, np.random.default_rng(1), 50)
    assert {name: values.shape[1:] for name, values in drawn.items()} == {
        name: shape.shape for name, shape in model.coordinates.shapes.items()
    }
    found = constrain_all(model.coordinates, drawn)
    expected = jax.vmap(model.constrain)({name: np.asarray(values, np.float32) for name, values in drawn.items()})
    assert set(found) == set(expected)
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=2e-5, atol=2e-4, err_msg=name)


def test_draws_on_the_host_have_the_law_of_the_others(model):
    """Two samples, parameter by parameter; the seeds are fixed."""
    ours = draw_prior(model.coordinates, np.random.default_rng(2), 4000)
    theirs = jax.jit(jax.vmap(model.sample_prior))(jax.random.split(jax.random.key(3), 4000))
    for name, values in ours.items():
        for one, other in zip(values.reshape(4000, -1).T, np.asarray(theirs[name]).reshape(4000, -1).T, strict=True):
            assert stats.ks_2samp(one, other).pvalue > FALSE_ALARM, name
            assert stats.ks_2samp(1.2 * one + 0.1, other).pvalue < FALSE_ALARM, "a wrong scale would be seen"


@pytest.mark.parametrize(
    ("text", "law"), [("normal(1, 2.5)", stats.norm(1, 2.5)), ("student_t(4, -1, 0.5)", stats.t(4, -1, 0.5))]
)
def test_densities_are_those_of_scipy(text, law):
    from dpmcmc.model.formula.priors import read_prior

    places = np.linspace(-9, 9, 200)
    np.testing.assert_allclose(read_prior("a", text).density(places), law.logpdf(places), rtol=1e-12)
