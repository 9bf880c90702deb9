"""Effects of persons' own: the integral, the draws of a record, centred scores, what is read and what is refused.

Statistical cases have a fixed seed and compare means of n = 4,000 or more with six standard errors or with a p-value
of 1e-6: with some 60 of these one of the file fails by chance in 10,000.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import dpmcmc as dp
from dpmcmc.errors import InvalidArgument
from dpmcmc.fitting.strategies.centred_scores.drawn import score_and_slope
from dpmcmc.fitting.strategies.centred_scores.releases import RADII, Asked
from dpmcmc.fitting.strategies.centred_scores.simulator import share_kept
from dpmcmc.fitting.strategies.centred_scores.terms import term_laws
from dpmcmc.model import from_formula, per_person
from dpmcmc.model.drawn import uniforms
from dpmcmc.model.quadrature import log_integral
from dpmcmc.run.program import Layout
from dpmcmc.schema import PRESENT, SEED

ROWS = 5
RESPONSES = {
    "bernoulli": dp.Column(kind="boolean"),
    "probit": dp.Column(kind="boolean"),
    "binomial": dp.Column(kind="integer", lower=0, upper=7),
    "ordinal": dp.Column(kind="category", categories=("u", "v", "w")),
    "poisson": dp.Column(kind="integer", lower=0, upper=60),
    "negative_binomial": dp.Column(kind="integer", lower=0, upper=400),
    "geometric": dp.Column(kind="integer", lower=0, upper=300),
    "gaussian": dp.Column(kind="number", lower=-10, upper=10),
    "lognormal": dp.Column(kind="number", lower=1e-4, upper=1e4),
    "exponential": dp.Column(kind="number", lower=1e-6, upper=1e4),
    "weibull": dp.Column(kind="number", lower=1e-6, upper=1e4),
}
X = dp.Column(kind="number", lower=-1, upper=1)


def schema(family: str = "bernoulli", rows: int = ROWS, **others: dp.Column) -> dp.Schema:
    return dp.Schema({"y": RESPONSES[family], "x": X, **others}, person="id", max_rows_per_person=rows)


def model_of(family: str, effects: str = "(1|person)", **options):
    response = "y | trials(7)" if family == "binomial" else "y"
    return from_formula(f"{response} ~ x + {effects}", schema(family), family=family, **options)


def at_truth(model, **others: float):
    """A position with a slope of 0.6, and effects of 0.8 and 0.5."""
    position = {name: jnp.full(leaf.shape, 0.3) for name, leaf in model.position.items()}
    position |= {"coefficients": jnp.asarray([-0.4, 0.6])[-len(position["coefficients"]) :]}
    sds = {"1|person_sigma": 0.8, "x|person_sigma": 0.5, "sigma": 0.6, "shape": 1.4, "concentration": 2.0, **others}
    return position | {name: jnp.float32(np.log(sd)) for name, sd in sds.items() if name in position}


# the integral

DENSITIES = {
    "bernoulli": (lambda xp, y, eta: -xp.logaddexp(0.0, (1 - 2 * y) * eta)),
    "poisson": (lambda xp, y, eta: y * eta - xp.exp(eta)),
    "gaussian": (lambda _, y, eta: -0.5 * ((y - eta) / 0.3) ** 2),
}


@pytest.mark.parametrize("family", list(DENSITIES))
@pytest.mark.parametrize(("sd", "off"), [(0.01, 1e-5), (0.3, 1e-5), (1.0, 1e-4), (3.0, 2e-2)])
def test_the_rule_is_right_in_one_dimension(family: str, sd: float, off: float) -> None:
    """The integral and its derivative by the logarithm of the sd; scores are centred whatever is left of an error."""
    density, rng = DENSITIES[family], np.random.default_rng(0)
    even = np.linspace(-12, 12, 20_001)

    def fine(log_sd: float, y: np.ndarray, eta: np.ndarray) -> float:
        logs = np.sum(density(np, y[:, None], eta[:, None] + np.exp(log_sd) * even), axis=0) + stats.norm.logpdf(even)
        return float(special.logsumexp(logs) + np.log(even[1] - even[0]))

    def ours(log_sd, y, eta):
        return log_integral(lambda u, s: jnp.sum(density(jnp, y, eta + jnp.exp(s) * u[0])), log_sd, 1)

    both = jax.jit(jax.value_and_grad(ours))
    for rows in (1, 3, 20):
        for _ in range(4):
            eta = rng.normal(size=rows)
            own = eta + sd * rng.normal()
            y = {
                "bernoulli": 1.0 * (rng.random(rows) < special.expit(own)),
                "poisson": 1.0 * rng.poisson(np.exp(np.minimum(own, 6))),
                "gaussian": own + 0.3 * rng.normal(size=rows),
            }[family]
            value, slope = both(jnp.float32(np.log(sd)), y.astype(np.float32), eta.astype(np.float32))
            exact = fine(np.log(sd), y, eta)
            exact_slope = (fine(np.log(sd) + 1e-4, y, eta) - fine(np.log(sd) - 1e-4, y, eta)) / 2e-4
            assert abs(float(value) - exact) <= off / 10 * (1 + abs(exact))
            assert abs(float(slope) - exact_slope) <= off * (1 + abs(exact_slope))


def person(rng, family: str, number: int) -> dict[str, jax.Array]:
    """A person with so many rows, the places of the others full of numbers that must not count."""
    draw = {"bernoulli": rng.random(ROWS) < 0.4, "poisson": rng.poisson(1.5, ROWS), "gaussian": rng.normal(size=ROWS)}
    return {
        "x": jnp.float32(rng.uniform(-1, 1, ROWS)),
        "y": jnp.float32(np.where(np.arange(ROWS) < number, draw[family], 9.0)),
        PRESENT: jnp.float32(np.arange(ROWS) < number),
        SEED: jnp.float32(rng.integers(2**24)),
    }


@pytest.mark.parametrize("family", list(DENSITIES))
@pytest.mark.parametrize("effects", ["(1|person)", "(1|id)", "(0 + x|person)", "(x|id)"])
def test_the_likelihood_of_a_person_is_the_integral(family: str, effects: str) -> None:
    model = per_person(model_of(family, effects.replace("id", "person"), priors={}))
    own = per_person(model_of(family, effects)) if "id" in effects else model
    position = at_truth(model)
    a, b = (0.8 if "1|" in effects or effects.startswith("(x") else 0.0), (0.5 if "x|" in effects else 0.0)
    rng = np.random.default_rng(3)
    places, weights = np.polynomial.hermite_e.hermegauss(80)
    u, v = (each.ravel() for each in np.meshgrid(places, places))
    logs = np.log(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    for number in (1, 3, ROWS):
        one = person(rng, family, number)
        x, y = (np.asarray(one[name], float)[:number, None] for name in ("x", "y"))
        if family == "gaussian":  # scaled by its bounds
            eta, y = -0.4 + 0.6 * x, y / 10
            density = -0.5 * ((y - eta - a * u - b * v * x) / 0.6) ** 2 - np.log(0.6)
        else:
            density = DENSITIES[family](np, y, -0.4 + 0.6 * x + a * u + b * v * x)
        exact = special.logsumexp(density.sum(axis=0) + logs)
        renamed = {name.replace("person", "id") if "id" in effects else name: leaf for name, leaf in position.items()}
        assert float(own.log_likelihood(renamed, one)) == pytest.approx(exact, abs=3e-4)


def test_one_row_is_a_person_with_one_row() -> None:
    model = model_of("bernoulli")
    row = {"x": jnp.float32(0.3), "y": jnp.float32(1.0)}
    exact, _ = integrate.quad(lambda u: special.expit(-0.4 + 0.18 + 0.8 * u) * stats.norm.pdf(u), -10, 10)
    assert float(model.log_likelihood(at_truth(model), row)) == pytest.approx(np.log(exact), abs=1e-5)


def test_predictions_are_means_over_persons() -> None:
    model = model_of("poisson")
    draws = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], model.constrain(at_truth(model)))
    rows = {"x": np.float32([-0.5, 0.5])}
    expected = np.exp(-0.4 + 0.6 * rows["x"] + 0.8**2 / 2)
    np.testing.assert_allclose(np.asarray(model.predict(draws, rows))[0], expected, rtol=1e-4)
    np.testing.assert_allclose(np.asarray(model.linear_predictor(draws, rows))[0], -0.4 + 0.6 * rows["x"], atol=1e-5)
    many = {"x": np.zeros(20_000, np.float32)}
    drawn = np.asarray(model.respond(jax.random.key(0), draws, many))[0]
    assert abs(drawn.mean() - np.exp(-0.4 + 0.32)) < 6 * drawn.std() / np.sqrt(drawn.size)


# the draws of a record


def test_uniform_numbers_are_uniform_and_apart() -> None:
    """Between places, numbers of a draw, and seeds that follow each other."""
    found = np.asarray(jax.vmap(lambda seed: jax.vmap(lambda m: uniforms(seed, m, 6))(jnp.arange(8)))(jnp.arange(500)))
    assert found.min() > 0
    assert found.max() < 1
    assert stats.kstest(found.ravel(), "uniform").pvalue > 1e-6
    for axis in range(3):
        one, other = (np.take(found, range(start, found.shape[axis] - 1 + start), axis).ravel() for start in (0, 1))
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / np.sqrt(one.size)
    assert len(np.unique(found)) > 0.99 * found.size


def population(family: str, number: int, effects: str = "(1|person)", **others: float):
    """A model of persons, its position, and records of which all but the responses are drawn."""
    model = per_person(model_of(family, effects))
    rng = np.random.default_rng(11)
    shape = (number, ROWS)
    records = {
        "x": jnp.float32(rng.uniform(-1, 1, shape)),
        "y": jnp.zeros(shape),
        PRESENT: jnp.float32(np.arange(ROWS) < rng.integers(1, ROWS + 1, (number, 1))),
        SEED: jnp.float32(rng.permutation(number)),
    }
    position = at_truth(model, **others)
    if family == "gaussian":  # within the bounds
        position |= {"coefficients": 0.2 * position["coefficients"], "sigma": position["sigma"] + np.log(0.2)}
        position |= {name: leaf + np.log(0.2) for name, leaf in position.items() if "|" in name}
    return model, position, records


def simulated(family: str, position, records, seed: int = 5):
    """The same records with responses by NumPy, with nothing of the library's but the position."""
    rng = np.random.default_rng(seed)
    x = np.asarray(records["x"], float)
    sd, slope = (float(np.exp(position.get(name, -np.inf))) for name in ("1|person_sigma", "x|person_sigma"))
    effects = rng.standard_normal((2, len(x), 1))
    level, by_x = np.resize(np.asarray(position["coefficients"], float)[::-1], 2)[::-1]
    eta = level + by_x * x + sd * effects[0] + slope * effects[1] * x
    if family == "ordinal":
        eta = eta - level
        cuts = 0.3 + np.array([0.0, np.exp(0.3)])
        y = np.digitize(eta + rng.logistic(size=x.shape), cuts)
    else:
        y = {
            "bernoulli": lambda: rng.random(x.shape) < special.expit(eta),
            "probit": lambda: rng.standard_normal(x.shape) < eta,
            "binomial": lambda: rng.binomial(7, special.expit(eta)),
            "poisson": lambda: rng.poisson(np.exp(eta)),
            "negative_binomial": lambda: rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta))),
            "geometric": lambda: rng.geometric(1 / (1 + np.exp(eta))) - 1,
            "gaussian": lambda: 10 * (eta + 0.12 * rng.standard_normal(x.shape)),
            "lognormal": lambda: np.exp(eta + 0.6 * rng.standard_normal(x.shape)),
            "exponential": lambda: np.exp(eta) * rng.exponential(1.0, x.shape),
            "weibull": lambda: np.exp(eta) * rng.weibull(1.4, x.shape) / special.gamma(1 + 1 / 1.4),
        }[family]()
    return {**records, "y": jnp.float32(y)}


def asked(position, layout, radius: float) -> Asked:
    size = layout.dimension
    centre = layout.ravel(position)
    return Asked(centre, jnp.eye(size), jnp.float32(radius), jnp.float32(1e3), jnp.ones(2) / 2, jnp.float32(RADII))


def answers(model, position, records, radius: float):
    layout = Layout.of(model.position)
    given = asked(position, layout, radius)

    def one(record):
        (site,) = term_laws(model.observed, layout, given.centre, given.factor, record)
        score, slope, variance, _ = score_and_slope(given, site)
        place = jnp.mean((site.values[0] < site.response[0]).astype(jnp.float32))
        bare = share_kept(jnp.sum(site.own[0] ** 2), radius) * site.own[0]
        return score, slope, variance, place, bare

    return [np.asarray(each, float) for each in jax.jit(lambda rows: jax.lax.map(one, rows, batch_size=500))(records)]


def in_errors(values: np.ndarray) -> np.ndarray:
    return np.abs(values.mean(axis=0)) / (values.std(axis=0) / np.sqrt(len(values)) + 1e-12)


@pytest.mark.parametrize("family", list(RESPONSES))
def test_centred_scores_have_mean_zero_and_places_are_even(family: str) -> None:
    """Whatever the bound, which is tight here; without centring, the control, means are off."""
    model, position, records = population(family, 4000)
    responded = simulated(family, position, records)
    scores, _, variances, places, bare = answers(model, position, responded, 0.5)
    assert np.linalg.norm(scores, axis=1).max() <= 0.5 * (1 + 1e-5)
    assert np.all(in_errors(scores) < 6)
    assert np.any(in_errors(bare) > 8), "clipped scores have another mean"
    assert np.sum(variances) == pytest.approx(np.sum(scores**2), rel=0.15)
    assert stats.chisquare(np.histogram(places, np.linspace(-1 / 64, 1 + 1 / 64, 4))[0]).pvalue > 1e-6


def test_centred_scores_of_two_effects() -> None:
    model, position, records = population("gaussian", 4000, "(x|person)")
    responded = simulated("gaussian", position, records)
    scores, *_, bare = answers(model, position, responded, 0.5)
    assert np.all(in_errors(scores) < 6)
    assert np.any(in_errors(bare) > 8)


def test_the_slope_is_that_of_the_mean() -> None:
    """Scores asked a little off the truth are in the mean the slope times the way there."""
    model, position, records = population("poisson", 8000)
    responded = simulated("poisson", position, records)
    layout = Layout.of(model.position)
    scores, slopes, *_ = answers(model, position, responded, 0.5)
    for axis in range(layout.dimension):
        move = 0.2 * np.eye(layout.dimension)[axis]
        there = layout.unravel(layout.ravel(position) + move.astype(np.float32))
        moved, *_ = answers(model, there, responded, 0.5)
        change, expected = scores.mean(axis=0) - moved.mean(axis=0), slopes.mean(axis=0) @ move
        assert change[axis] == pytest.approx(expected[axis], rel=0.3)
        assert expected[axis] > 0


# what is read, and refused


def test_names_priors_and_words() -> None:
    model = from_formula(
        "y ~ x + (x|id)", schema("gaussian"), family="gaussian", priors={"1|id": "half_normal(2) original"}
    )
    assert model.parameter_names == ("intercept", "x", "sigma", "1|id_sigma", "x|id_sigma")
    assert model.priors["1|id"] == "half_normal(0.2)"
    assert "random intercepts of persons" in model.describe()
    position = at_truth(from_formula("y ~ x + (x|person)", schema("gaussian"), family="gaussian"))
    there = model.constrain({name.replace("person", "id"): leaf for name, leaf in position.items()})
    assert float(there["1|id_sigma"]) == pytest.approx(8.0)
    back = model.unconstrain(there)
    assert float(back["x|id_sigma"]) == pytest.approx(np.log(0.5), abs=1e-5)


def test_a_column_may_be_called_person() -> None:
    own = dp.Schema({"y": RESPONSES["bernoulli"], "person": dp.Column(kind="category", categories=("a", "b"))})
    assert "1|person[b]" in from_formula("y ~ (1|person)", own).parameter_names


@pytest.mark.parametrize(
    ("formula", "family", "changes", "message"),
    [
        ("y ~ x + (1|person)", "bernoulli", {"person": None}, "names no person"),
        ("y ~ x + (1|person)", "bernoulli", {"rows": 1}, "max_rows_per_person=1"),
        ("y ~ x + (x|id)", "gaussian", {"rows": 1}, "max_rows_per_person=1"),
        ("y ~ x + (x + z|id)", "gaussian", {}, "3 effects of each person"),
        ("y ~ x + (1|id:g)", "gaussian", {}, "no other column behind it"),
        ("y ~ x + (1|id)", "student_t", {}, "cannot have; expected one of gaussian"),
        ("y ~ x + (1|id); sigma ~ x", "gaussian", {}, "do not go together"),
        ("y | weights(z) ~ x + (1|id)", "gaussian", {}, "do not go together"),
        ("y ~ x + m + (1|id)", "gaussian", {}, "do not go together"),
        ("k ~ x + (1|id)", "poisson", {}, "at most 500"),
        ("y ~ x + (1|nobody)", "gaussian", {}, "not a column"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_charged(formula, family, changes, message) -> None:
    """By the model, and by `fit`, after which nothing is spent."""
    response = RESPONSES["gaussian"] if family == "student_t" else RESPONSES[family]
    columns = {
        "y": response,
        "x": X,
        "z": dp.Column(kind="number", lower=0, upper=2),
        "k": dp.Column(kind="integer", lower=0, upper=100_000),
        "g": dp.Column(kind="category", categories=("a", "b")),
        "m": dp.Column(kind="number", lower=0, upper=1, missing="integrate", mean=0.5, sd=0.2),
    }
    who = changes.get("person", "id")
    stated = {} if who is None else {"person": who, "max_rows_per_person": changes.get("rows", 3)}
    own = dp.Schema(columns, **stated)
    with pytest.raises(InvalidArgument, match=message):
        from_formula(formula, own, family=family)
    table = pd.DataFrame({name: ["a" if name == "g" else 1.0] * 4 for name in columns} | {"id": ["p", "p", "q", "q"]})
    table["y"] = [True, False, True, True] if family == "bernoulli" else 1
    table["k"] = 1
    data = dp.PrivateData.from_table(table, schema=own, budget=dp.Budget(1.0, 1e-6))
    with pytest.raises(InvalidArgument, match=message):
        dp.fit(formula, data, family=family, epsilon=1.0)
    assert data.account.epsilon_spent == 0
