"""Missing predictors that are integrated over: the rule, the likelihood of a row, its law, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import integrate, stats

import dpmcmc as dp
from dpmcmc.enclave import traces
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.centred_scores import laws
from dpmcmc.missing_cells import places
from dpmcmc.model import from_formula
from dpmcmc.model.formula.columns import Columns
from dpmcmc.model.formula.integration import read_integration

X = dp.Column(kind="number", lower=10, upper=60, missing="integrate", mean=27, sd=6)
Z = dp.Column(kind="boolean", missing="integrate", mean=0.25)
G = dp.Column(kind="category", categories=("a", "b", "c"), missing="integrate", probabilities=(0.5, 0.3, 0.2))
K = dp.Column(kind="integer", lower=0, upper=4, missing="integrate", mean=2, sd=1)
RESPONSES = {
    "gaussian": dp.Column(kind="number", lower=-10, upper=10),
    "student_t": dp.Column(kind="number", lower=-10, upper=10),
    "laplace": dp.Column(kind="number", lower=-10, upper=10),
    "lognormal": dp.Column(kind="number", lower=0.01, upper=100),
    "gamma": dp.Column(kind="number", lower=0.01, upper=100),
    "exponential": dp.Column(kind="number", lower=0.01, upper=100),
    "weibull": dp.Column(kind="number", lower=0.01, upper=100),
    "beta": dp.Column(kind="number", lower=0.01, upper=0.99),
    "poisson": dp.Column(kind="integer", lower=0, upper=50),
    "negative_binomial": dp.Column(kind="integer", lower=0, upper=50),
    "bernoulli": dp.Column(kind="boolean"),
    "probit": dp.Column(kind="boolean"),
    "categorical": dp.Column(kind="category", categories=("u", "v", "w")),
    "ordinal": dp.Column(kind="category", categories=("u", "v", "w")),
}


def schema(family: str = "gaussian", **others: dp.Column) -> dp.Schema:
    return dp.Schema(
        {"y": RESPONSES[family], "x": X, "z": Z, "w": dp.Column(kind="number", lower=0, upper=2), **others}
    )


def marked(schema: dp.Schema, record, *names: str):
    """A record that says which of its cells are missing."""
    where = places(schema.columns)
    leaves = {place.leaf: 0.0 for place in where.values()}
    for name in names:
        leaves[where[name].leaf] += 2.0 ** where[name].bit
    blank = dict.fromkeys(schema.columns, 0.0)
    return {name: jnp.asarray(value) for name, value in {**blank, **record, **leaves}.items()}


def test_the_rule_of_a_number_has_the_moments_of_its_law() -> None:
    found = read_integration(["x"], Columns(schema()))
    law = stats.truncnorm((10 - 27) / 6, (60 - 27) / 6, 27, 6)
    for power in range(1, 12):
        assert found.weights @ found.values[:, 0] ** power == pytest.approx(law.moment(power), rel=1e-5)
    assert found.values.min() > 10


def test_levels_and_whole_numbers_are_taken_one_by_one() -> None:
    found = read_integration(["z", "g", "k"], Columns(schema(g=G, k=K)))
    assert found.names == ("g", "k", "z")
    assert len(found.weights) == 3 * 5 * 2
    assert found.weights.sum() == pytest.approx(1.0)
    of_k = [found.weights[found.values[:, 1] == value].sum() for value in range(5)]
    edges = stats.norm(2, 1).cdf([-np.inf, 0.5, 1.5, 2.5, 3.5, np.inf])
    np.testing.assert_allclose(of_k, np.diff(edges), atol=1e-12)
    assert found.weights[found.values[:, 2] == 1].sum() == pytest.approx(0.25)


@pytest.mark.parametrize("missing", [(), ("x",), ("z",), ("x", "z")])
def test_the_likelihood_of_a_row_is_a_mean_over_the_law(missing) -> None:
    own = schema("bernoulli")
    model = from_formula("y ~ x + z + w", own)
    names = ("intercept", "x", "z", "w")
    parameters = dict(zip(names, (-2.0, 0.06, 0.8, 0.5), strict=True))
    position = model.unconstrain({name: jnp.float32(value) for name, value in parameters.items()})
    record = marked(own, {"y": 1.0, "x": 40.0, "z": 1.0, "w": 1.0}, *missing)
    truncated = stats.truncnorm((10 - 27) / 6, (60 - 27) / 6, 27, 6)

    def yes(x: float, z: float) -> float:
        return 1 / (1 + np.exp(-(-2 + 0.06 * x + 0.8 * z + 0.5)))

    def over_x(z: float) -> float:
        if "x" not in missing:
            return yes(40.0, z)
        return integrate.quad(lambda x: yes(x, z) * truncated.pdf(x), 10, 60)[0]

    expected = 0.75 * over_x(0.0) + 0.25 * over_x(1.0) if "z" in missing else over_x(1.0)
    assert float(model.log_likelihood(position, record)) == pytest.approx(np.log(expected), abs=1e-5)


@pytest.mark.parametrize("family", list(RESPONSES))
def test_the_law_of_a_response_is_that_of_the_likelihood(family) -> None:
    """Its density differs from the likelihood by what depends on the response alone; its nodes add up to one."""
    own = schema(family)
    model = from_formula("y ~ x + z + w", own, family=family)
    observed = model.observed
    assert laws.is_known(observed.sites[0].example)
    _, rows = model.simulate(jax.random.key(0), 3)
    positions = [model.sample_prior(jax.random.key(seed)) for seed in (1, 2)]
    for row in range(3):
        record = {name: leaf[row] for name, leaf in rows.items()}
        for names in ((), ("x",), ("x", "z")):
            found = marked(own, record, *names)
            logs = []
            for position in positions:
                (law,) = observed.at(position, found)
                made = observed.sites[0].law(law.parameters[0], tuple(each[0] for each in law.others))
                logs.append(float(made.log_prob(law.response)[0]) - float(model.log_likelihood(position, found)))
                nodes = laws.nodes(made)
                assert float(nodes.weights.sum()) == pytest.approx(1.0, abs=1e-4)
                assert bool(jnp.isfinite(nodes.weights).all())
            if min(float(model.log_likelihood(position, found)) for position in positions) > -5:
                assert logs[0] == pytest.approx(logs[1], abs=2e-3)


def test_panels_integrate_over_a_mixture() -> None:
    """Means of bounded functions are right to a tenth of the error of 100,000 records."""
    own = schema()
    model = from_formula("y ~ x + w", own, family="gaussian", priors={"sigma": "fixed(0.1)"})
    values = {"intercept": -3.0, "x": 0.15, "w": 0.2}
    position = model.unconstrain({name: jnp.float32(value) for name, value in values.items()})
    (law,) = model.observed.at(position, marked(own, {"y": 0.0, "x": 30.0, "z": 0.0, "w": 1.0}, "x"))
    made = model.observed.sites[0].law(law.parameters[0], ())
    nodes = laws.nodes(made)
    grid = np.linspace(-3, 3, 200_001)
    density = np.exp(np.asarray(jax.vmap(lambda y: made.log_prob(y[None]))(jnp.asarray(grid, jnp.float32)), float))[
        :, 0
    ]
    for function in (np.tanh, np.square, lambda y: np.tanh(3 * (y - 0.2)), lambda y: np.exp(-(y**2))):
        exact = integrate.trapezoid(function(grid) * density, grid)
        found = float(np.asarray(nodes.weights, float)[:, 0] @ function(np.asarray(nodes.values, float)[:, 0]))
        assert found == pytest.approx(exact, abs=3e-5)
    below, exactly = np.asarray(nodes.below, float)[:, 0], integrate.cumulative_trapezoid(density, grid, initial=0)
    places = np.asarray(nodes.values, float)[:, 0]
    np.testing.assert_allclose(below, np.interp(places, grid, exactly), atol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "number", "lower": 0, "upper": 1, "mean": 0.5}, "needs mean and sd"),
        ({"kind": "number", "lower": 0, "upper": 1, "mean": 2, "sd": 1}, "mean=2"),
        ({"kind": "number", "lower": 0, "upper": 1, "mean": 0.5, "sd": 0}, "sd=0"),
        ({"kind": "boolean"}, "needs mean"),
        ({"kind": "category", "categories": ("a", "b"), "probabilities": (0.5, 0.6)}, "add up to one"),
        ({"kind": "category", "categories": ("a", "b")}, "needs probabilities"),
        ({"kind": "date", "lower": "2024-01-01", "upper": "2024-12-31"}, "not for dates"),
    ],
)
def test_laws_are_checked(changes, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        dp.Column(missing="integrate", **changes)


def test_a_law_without_its_policy_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="only missing='integrate'"):
        dp.Column(kind="number", lower=0, upper=1, missing="fill", fill=0.5, mean=0.5)


def test_schemas_are_written_and_read_back(tmp_path) -> None:
    own = schema(g=G, k=K)
    path = tmp_path / "schema.toml"
    path.write_text(own.to_toml())
    assert dp.Schema.read(path) == own


@pytest.mark.parametrize(
    ("formula", "family", "message"),
    [
        ("y ~ x; sigma ~ x", "gaussian", "do not go together"),
        ("y | weights(w) ~ x", "gaussian", "do not go together"),
        ("y ~ x", "hurdle_gamma", "cannot integrate"),
        ("k | trials(9) ~ x", "binomial", "cannot integrate"),
        ("y ~ x + x2 + x3", "gaussian", "too many combinations"),
        ("Surv(y, e) ~ x", "weibull", "cannot integrate"),
    ],
)
def test_what_cannot_be_integrated_over_is_refused(formula, family, message) -> None:
    positive = dp.Column(kind="number", lower=0, upper=10)
    y = positive if family in {"hurdle_gamma", "weibull"} else RESPONSES["gaussian"]
    others = {
        "x2": X,
        "x3": X,
        "e": dp.Column(kind="boolean"),
        "y": y,
        "k": dp.Column(kind="integer", lower=0, upper=9),
    }
    with pytest.raises(InvalidArgument, match=message):
        from_formula(formula, schema(**others), family=family)


def test_numpyro_models_are_not_given_such_columns() -> None:
    def model(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("data", y.shape[0]):
            numpyro.sample("y", dist.Normal(b * x, 1), obs=y)

    table = pd.DataFrame({"x": [20.0, None], "y": [0.0, 1.0], "z": [True, None], "w": [1.0, 1.0]})
    data = dp.PrivateData.from_table(table, schema=schema(), budget=dp.Budget(1.0, 1e-6))
    with pytest.raises(InvalidArgument, match="a NumPyro model does not know which cells are missing"):
        dp.fit(model, data, epsilon=1.0)


def test_a_fit_with_another_noise_traces_nothing_anew() -> None:
    rows = pd.DataFrame({"x": [20.0, np.nan] * 50, "z": [True, False] * 50, "w": [True] * 100, "y": [0.5, -0.5] * 50})
    data = dp.PrivateData.from_table(rows, schema=schema(), budget=dp.Budget(100.0, 1e-3))

    def traced(epsilon: float) -> int:
        before = traces._trace.cache_info().misses
        options = {"epsilon": epsilon, "delta": 1e-6, "allow_low_accuracy": True}
        assert prepare_fit("y ~ x + w", data, family="gaussian", **options).event is not None
        return traces._trace.cache_info().misses - before

    assert traced(2.0) == 3  # the shape, scores for pilot and end alike, places
    assert traced(4.0) == 0
