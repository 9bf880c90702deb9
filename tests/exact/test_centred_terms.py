"""Centred scores of several numbers of a record: sites, vectors, masks, missing cells, persons; simulated means.

Means over 100,000 synthetic records at the truth are held to six standard errors in each coordinate: one of these tests
fails by chance in ten million. Each has a control whose mean is seen not to be zero.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Budget
from dpmcmc.enclave.tables import read_table
from dpmcmc.fitting.strategies.centred_scores import laws
from dpmcmc.fitting.strategies.centred_scores.releases import RADII, Asked, bounded
from dpmcmc.fitting.strategies.centred_scores.simulation import simulated
from dpmcmc.fitting.strategies.centred_scores.simulator import BATCH, MOST_DRAWS, Simulator
from dpmcmc.fitting.strategies.centred_scores.terms import term_laws
from dpmcmc.model import from_numpyro, per_person
from dpmcmc.run.program import Layout
from dpmcmc.schema import PRESENT, Column, Schema

SIZE = 100_000
CENTRE = jnp.array([0.3, -0.4, 0.2])


def shapes(**sizes) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: jax.ShapeDtypeStruct(size, jnp.float32) for name, size in sizes.items()}


def priors():
    a, b = (numpyro.sample(name, dist.Normal(0, 1)) for name in ("a", "b"))
    return a, b, numpyro.sample("s", dist.LogNormal(0, 1))


def two_sites(x, y, z) -> None:
    a, b, s = priors()
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Gamma(s, s * jnp.exp(-a - b * x)), obs=y)
        numpyro.sample("z", dist.Poisson(jnp.exp(b - a)), obs=z)


def chained(x, y, z) -> None:
    """The law of z reads y, a later one does not."""
    a, b, s = priors()
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("z", dist.Normal(b * y**2, s), obs=z)
        numpyro.sample("y", dist.Gamma(s, s * jnp.exp(-a - b * x)), obs=y)


def vector(x, v) -> None:
    a, b, s = priors()
    with numpyro.plate("data", x.shape[0]):
        mean = a + b * x[:, None] * jnp.array([0.0, 1.0, 3.0])
        numpyro.sample("v", dist.Gamma(s, s * jnp.exp(-mean)).to_event(1), obs=v)


def masked(x, v, seen) -> None:
    a, b, s = priors()
    with numpyro.plate("data", x.shape[0]):
        mean = a + b * x[:, None] * jnp.array([0.0, 1.0, 3.0])
        numpyro.sample("v", dist.Gamma(s, s * jnp.exp(-mean)).mask(seen > 0.5).to_event(1), obs=v)


def draws_of(name: str, rng) -> dict[str, np.ndarray]:
    """Records at the truth."""
    (a, b), s = np.asarray(CENTRE[:2], float), float(np.exp(CENTRE[2]))
    x = rng.uniform(-1, 1, SIZE)
    first = rng.gamma(s, np.exp(a + b * x) / s)
    if name == "two sites":
        return {"x": x, "y": first, "z": rng.poisson(np.exp(b - a), SIZE)}
    if name == "chained":
        return {"x": x, "y": first, "z": b * first**2 + s * rng.standard_normal(SIZE)}
    mean = a + b * x[:, None] * np.array([0.0, 1.0, 3.0])
    v = rng.gamma(s, np.exp(mean) / s)
    # who drops out depends on the value before
    seen = np.stack([np.ones(SIZE), v[:, 0] < 1.5, (v[:, 0] < 1.5) & (v[:, 1] < 1.0)], axis=1)
    return {"x": x, "v": v, **({"seen": seen} if name == "masked" else {})}


MODELS = {
    "two sites": (two_sites, shapes(x=(), y=(), z=())),
    "chained": (chained, shapes(x=(), y=(), z=())),
    "vector": (vector, shapes(x=(), v=(3,))),
    "masked": (masked, shapes(x=(), v=(3,), seen=(3,))),
}


def scores(observed, layout, records, radius: float, *, centred: bool = True, factor=None) -> np.ndarray:
    """The scores of records at the truth, in whitened coordinates."""
    factor = jnp.eye(3) * jnp.array([1.0, 0.7, 1.5]) if factor is None else factor

    def one(record):
        total = jnp.zeros(3)
        for site in term_laws(observed, layout, CENTRE, factor, record):
            found = bounded(site, radius)
            score = found.score
            if not centred:
                length = jnp.sqrt(jnp.einsum("tp,tpq,tq->t", site.own, site.gram, site.own))
                score = site.own * jnp.minimum(1, radius * site.share / length)[:, None]
            own = jnp.where(site.is_there[:, None], score, 0.0)
            total = total + jnp.einsum("t,tp,tpd->d", found.weight, own, site.moves)
        return total

    chunks = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32).reshape(100, -1, *leaf.shape[1:]), records)
    return np.asarray(jax.jit(lambda chunks: jax.lax.map(jax.vmap(one), chunks))(chunks), float).reshape(-1, 3)


def in_errors(found: np.ndarray) -> np.ndarray:
    return np.abs(found.mean(axis=0)) / (found.std(axis=0) / np.sqrt(len(found)))


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_several_numbers_have_mean_zero(name: str) -> None:
    made = from_numpyro(*MODELS[name])
    assert made.observed is not None
    assert all(laws.is_known(site.example) for site in made.observed.sites)
    assert made.observed.is_chained == (name == "chained")
    layout, records = Layout.of(made.position), draws_of(name, np.random.default_rng(1))
    found = scores(made.observed, layout, records, 1.0)
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-5
    assert np.all(in_errors(found) < 6)
    control = scores(made.observed, layout, records, 1.0, centred=False)
    assert np.any(in_errors(control) > 20), "clipped scores have another mean"


def test_a_share_that_reads_a_response_has_another_mean() -> None:
    """The control of equal shares: those of usual lengths read y, in the law of z, and weigh the score of y by it."""
    made = from_numpyro(*MODELS["chained"])
    records = draws_of("chained", np.random.default_rng(1))
    unaware = type(made.observed)(made.observed.sites, made.observed.at, is_chained=False, has_covariates=True)
    assert np.any(in_errors(scores(unaware, Layout.of(made.position), records, 1.0)) > 20)


def one_law(y) -> None:
    a, b, s = priors()
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Gamma(s, s * jnp.exp(-a - 0.5 * b)), obs=y)


def test_persons_divide_the_radius_between_their_rows() -> None:
    rows = shapes(x=(), y=(), z=())
    person = per_person(from_numpyro(two_sites, rows))
    rng = np.random.default_rng(2)
    drawn = draws_of("two sites", rng)
    records = {name: values.reshape(-1, 4) for name, values in drawn.items()}
    records[PRESENT] = (np.arange(4) < rng.integers(1, 5, (SIZE // 4, 1))).astype(float)
    found = scores(person.observed, Layout.of(person.position), records, 1.0)
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-5
    assert np.all(in_errors(found) < 6)
    other = {**records, "y": np.where(records[PRESENT] > 0, records["y"], 99.0)}
    np.testing.assert_array_equal(scores(person.observed, Layout.of(person.position), other, 1.0), found)


# missing cells

SCHEMA = Schema(
    {
        "x": Column(kind="number", lower=-1, upper=1),
        "y": Column(kind="number", lower=0, upper=9, missing="fill", fill=5),
        "z": Column(kind="integer", lower=0, upper=9, missing="fill", fill=2),
    }
)


@pytest.mark.parametrize(
    ("model", "gone"), [(two_sites, {"y": ["y"], "z": ["z"]}), (chained, {"y": ["y", "z"], "z": ["z"]})]
)
def test_a_missing_response_contributes_nothing(model, gone) -> None:
    """Neither does a site whose law reads a response that is missing; a missing predictor is filled in."""
    whole = {"x": 0.5, "y": 3.0, "z": 2}
    table = pd.DataFrame([whole, {**whole, "y": None}, {**whole, "z": None}, {**whole, "x": None}], dtype=object)
    records = {name: jnp.asarray(leaf) for name, leaf in read_table(table, SCHEMA).records.items()}
    made = from_numpyro(model, dp.PrivateData.from_table(table, schema=SCHEMA, budget=Budget(1.0, 1e-6)))
    position = Layout.of(made.position).unravel(CENTRE)
    names = ["z", "y"] if model is chained else ["y", "z"]

    def terms(row: int) -> list[bool]:
        record = {name: leaf[row] for name, leaf in records.items()}
        return [bool(law.is_there[0]) for law in made.observed.at(position, record)]

    def density(row: int, *, of: str | None = None) -> float:
        record = {name: leaf[row] for name, leaf in records.items()}
        if of is None:
            return float(made.log_likelihood(position, record))
        found = dict(zip(names, zip(made.observed.sites, made.observed.at(position, record), strict=True), strict=True))
        site, law = found[of]
        return float(site.law(law.parameters[0], [each[0] for each in law.others]).log_prob(law.response)[0])

    assert terms(0) == terms(3) == [True, True]
    for row, column in ((1, "y"), (2, "z")):
        assert terms(row) == [name not in gone[column] for name in names]
        kept = sum(density(0, of=name) for name in names if name not in gone[column])
        assert density(row) == pytest.approx(kept, abs=1e-4)
    assert density(3) != 0


# simulation


def simulator_of(model, record):
    made = from_numpyro(model, record)
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), record)
    return made, Simulator(made.observed, Layout.of(made.position), blank)


def asked_at(radius: float) -> Asked:
    values = (CENTRE, jnp.eye(3), radius, 1.0, np.ones(2), RADII)
    return Asked(*(np.asarray(value, np.float32) for value in values))


@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_simulated_means_are_those_of_the_law(radius: float) -> None:
    """A law whose sums are known: six standard errors of the simulation, which control variates make smaller."""
    made, simulator = simulator_of(one_law, shapes(y=()))
    means = simulator.means(asked_at(radius), 16 * BATCH, np.inf, 1.0)
    (site,) = term_laws(made.observed, Layout.of(made.position), CENTRE, jnp.eye(3), {"y": jnp.ones(())})
    expected = np.asarray(bounded(site, radius).slope[0], float)
    moves, weight = np.asarray(site.moves[0], float), float(bounded(site, radius).weight[0])
    own = np.asarray(site.own[0], float)
    kept = (1 + (own @ np.asarray(site.gram[0], float) @ own / radius**2) ** 2) ** -0.25
    mean = (kept * own - np.asarray(bounded(site, radius).score[0], float)) @ moves
    errors = np.sqrt(np.maximum(np.diag(means.mean_error), 1e-14))
    assert np.all(np.abs(means.mean - mean) <= 6 * errors + 1e-5)
    plain = np.sqrt(np.diag(means.information) / means.number)
    assert np.all(errors[:2] < 0.6 * plain[:2]), "control variates help"
    np.testing.assert_allclose(means.slope, weight * moves.T @ expected @ moves, rtol=0.02, atol=0.01)


def wrong_support(y) -> None:
    """Its support depends on a parameter: scores do not have mean zero."""
    s = numpyro.sample("s", dist.LogNormal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Uniform(0, s), obs=y)


def many(v) -> None:
    m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("data", v.shape[0]):
        numpyro.sample("v", dist.MultivariateNormal(m, jnp.eye(2)), obs=v)


def with_covariate(x, v) -> None:
    m = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("data", v.shape[0]):
        numpyro.sample("v", dist.MultivariateNormal(m * x[:, None], jnp.eye(2)), obs=v)


@pytest.mark.parametrize(
    ("model", "columns", "size", "is_simulated"),
    [
        (many, {"v": (2,)}, 1000, True),
        (many, {"v": (2,)}, MOST_DRAWS // 25 + 1, False),
        (with_covariate, {"v": (2,), "x": ()}, 1000, False),
        (wrong_support, {"y": ()}, 1000, False),
    ],
)
def test_where_means_are_simulated(model, columns, size, is_simulated) -> None:
    rows = {name: np.full((size, *shape), 0.5, np.float32) for name, shape in columns.items()}
    data = dp.PrivateData.without_guarantee(rows, bounds=dict.fromkeys(rows, (0.0, 1.0)))
    made = from_numpyro(model, data)
    layout = Layout.of(made.position)
    found = simulated(made.observed, data, Budget(1.0, 1e-6), layout, np.zeros(layout.dimension))
    assert (found is not None) == is_simulated
