"""A formula for sigma: what it means, on the model's scale and as people read it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpmcmc.errors import InvalidArgument
from dpmcmc.model import from_formula
from dpmcmc.model.formula.host import constrain_all, draw_prior
from dpmcmc.schema import Column, Schema

SCHEMA = Schema(
    {
        "y": Column(kind="number", lower=10, upper=50),
        "x": Column(kind="number", lower=-1, upper=5),
        "ward": Column(kind="category", categories=("a", "b", "c")),
        "z": Column(kind="number", lower=0, upper=1),
    }
)
MODEL = from_formula("y ~ x + ward + z; sigma ~ x + ward", SCHEMA, family="gaussian")
RECORD = {"x": np.float32(1.5), "ward": np.int32(2), "z": np.float32(0.25), "y": np.float32(31.0)}


def test_the_density_is_a_normal_one_with_its_own_sigma() -> None:
    position = MODEL.sample_prior(jax.random.key(1))
    read = {name: float(value) for name, value in MODEL.constrain(position).items()}
    mean = read["intercept"] + 1.5 * read["x"] + read["ward[c]"] + 0.25 * read["z"]
    sigma = np.exp(read["sigma: intercept"] + 1.5 * read["sigma: x"] + read["sigma: ward[c]"])
    expected = stats.norm(mean, sigma).logpdf(31.0) - stats.norm(mean, sigma).logpdf(mean) + np.log(20 / sigma)
    assert float(MODEL.log_likelihood(position, RECORD)) == pytest.approx(expected, rel=1e-4)


def test_positions_go_there_and_back_and_the_host_agrees() -> None:
    positions = draw_prior(MODEL.coordinates, np.random.default_rng(0), 5)
    named = constrain_all(MODEL.coordinates, positions)
    for draw in range(2):
        one = {name: jnp.asarray(values[draw], jnp.float32) for name, values in positions.items()}
        again = MODEL.unconstrain(MODEL.constrain(one))
        for name, value in MODEL.constrain(one).items():
            assert float(value) == pytest.approx(float(named[name][draw]), rel=1e-3, abs=1e-3)
        for name, value in one.items():
            np.testing.assert_allclose(again[name], value, atol=1e-4)


def test_simulated_responses_spread_as_sigma_says() -> None:
    position = {name: jnp.zeros(leaf.shape) for name, leaf in MODEL.position.items()}
    position["sigma"] = jnp.array([-2.0, 1.0, 0.0, 0.0])
    records = MODEL.simulate(jax.random.key(3), 4000, position).records
    scaled, x = (np.asarray(records["y"]) - 30) / 20, (np.asarray(records["x"]) - 2) / 3
    assert np.std(scaled / np.exp(-2.0 + x)) == pytest.approx(1.0, abs=0.05)
    assert MODEL.predict(MODEL.constrain(position), records).shape == (4000,)
    assert MODEL.gradient_bound().value > 0


@pytest.mark.parametrize(
    ("formula", "family", "why"),
    [
        ("y ~ x; sigma ~ z", "gaussian", "only in its second part"),
        ("y ~ x; nu ~ x", "gaussian", "expected sigma"),
        ("y ~ x; shape ~ x", "gamma", "lognormal"),
        ("y ~ x; sigma ~ 0 + x", "gaussian", "intercept in both"),
        ("y ~ x; sigma ~ x; nu ~ x", "student_t", "at most one"),
        ("y ~ x*z; sigma ~ x:z", "gaussian", "without its factors"),
    ],
)
def test_what_is_refused(formula, family, why) -> None:
    with pytest.raises(InvalidArgument, match=why):
        from_formula(formula, SCHEMA, family=family)


def test_priors_of_sigma() -> None:
    model = from_formula("y ~ x; sigma ~ x", SCHEMA, family="gaussian", priors={"sigma: x": "normal(0, 2)"})
    assert model.priors["sigma: x"] == "normal(0, 2)"
    assert model.priors["sigma: intercept"] == "normal(-1, 1)"
