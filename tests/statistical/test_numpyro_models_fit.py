"""NumPyro models end to end: several sites, vectors, persons, laws that are simulated, and what is still clipped.

A fit is right, or its verdict says that it is not. *Right* is within four and a half of its own standard deviations of
the exact posterior's mean in every parameter that is not marked, of which one in 150,000 is further off by chance; with
some 60 parameters one of these tests fails by chance in 2,000. Those through the vault are real runs with a known seed,
on records without a guarantee; the others have the noise of an emulated oracle, and are otherwise the library's own.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import dpmcmc as dp
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.centred_scores.simulation import Simulated
from dpmcmc.fitting.strategies.centred_scores.strategy import CentredScores
from dpmcmc.fitting.strategies.chains import PilotedChains
from dpmcmc.model import from_numpyro
from experiments.stress.emulated import Emulated
from experiments.stress.models import ModelProblem
from experiments.stress.reference import exact

FAR = 4.5
SIZE = 20_000


def two_sites(x, y, z) -> None:
    a, b = (numpyro.sample(name, dist.Normal(0, 3)) for name in ("a", "b"))
    s = numpyro.sample("s", dist.HalfNormal(3))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.StudentT(3.0, a + b * x, s), obs=y)
        numpyro.sample("z", dist.Poisson(jnp.exp(b * x - a)), obs=z)


def _two_sites(rng, size):
    x = rng.uniform(-2, 2, size)
    return {"x": x, "y": 1 + 0.5 * x + 0.8 * rng.standard_t(3, size), "z": 1.0 * rng.poisson(np.exp(0.5 * x - 1))}


def chained(x, y, z) -> None:
    a, b, c = (numpyro.sample(name, dist.Normal(0, 2)) for name in ("a", "b", "c"))
    s = numpyro.sample("s", dist.HalfNormal(3))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Gamma(2.0, 2 * jnp.exp(-a - b * x)), obs=y)
        numpyro.sample("z", dist.Normal(c * jnp.log(y) + b * x, s), obs=z)


def _chained(rng, size):
    x = rng.uniform(-2, 2, size)
    y = np.maximum(rng.gamma(2, np.exp(0.5 + 0.4 * x) / 2), 1e-3)
    return {"x": x, "y": y, "z": 0.7 * np.log(y) + 0.4 * x + 0.9 * rng.standard_normal(size)}


def items(v) -> None:
    """Answers, some of which nearly nobody gives."""
    b = numpyro.sample("b", dist.Normal(0, 3).expand([4]).to_event(1))
    with numpyro.plate("data", v.shape[0]):
        numpyro.sample("v", dist.Bernoulli(logits=b).to_event(1), obs=v)


def _items(rng, size):
    return {"v": (rng.random((size, 4)) < [0.01, 0.2, 0.5, 0.9]).astype(float)}


def normal_vector(v) -> None:
    m = numpyro.sample("m", dist.Normal(0, 5).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(3).expand([2]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
    with numpyro.plate("data", v.shape[0]):
        numpyro.sample("v", dist.MultivariateNormal(m, scale_tril=s[:, None] * root), obs=v)


def _normal_vector(rng, size):
    return {"v": [1.0, -2.0] + rng.standard_normal((size, 2)) @ [[1.0, 0.5], [0.0, 1.5]]}


def counts_vector(v) -> None:
    c = numpyro.sample("c", dist.LogNormal(0, 1.5).expand([3]).to_event(1))
    with numpyro.plate("data", v.shape[0]):
        numpyro.sample("v", dist.DirichletMultinomial(c, total_count=10), obs=v)


def _counts_vector(rng, size):
    return {"v": rng.multinomial(10, rng.dirichlet([0.3, 1.0, 2.0], size)).astype(float)}


PROBLEMS = {
    "two sites": (two_sites, _two_sites, {"x": (-2, 2), "y": (-500, 500), "z": (0, 500)}),
    "chained": (chained, _chained, {"x": (-2, 2), "y": (1e-3, 500), "z": (-100, 100)}),
    "items": (items, _items, {"v": (0, 1)}),
    "normal vector": (normal_vector, _normal_vector, {"v": (-50, 50)}),
    "counts": (counts_vector, _counts_vector, {"v": (0, 10)}),
}


def problem(name: str) -> ModelProblem:
    model, make, bounds = PROBLEMS[name]
    return ModelProblem(name, model, make, SIZE, bounds)


def off(draws, its) -> dict[str, float]:
    """How far each number is from the exact posterior's mean, in the result's own standard deviations."""
    own = {name: values for name, values in coordinates(draws).items() if np.ptp(values) > 0}
    return {name: abs(float(values.mean() - its[name]) / float(values.std())) for name, values in own.items()}


def is_right(emulated, records, drawn) -> None:
    assert drawn.quality.verdict != "bad", drawn.quality.words
    reference = exact(emulated, records)
    assert reference.is_valid, reference.check
    found = off(drawn.draws, reference.means)
    marked = [name for name, grade in drawn.quality.parameters.items() if grade.verdict == "bad"]
    assert len(marked) <= len(found) / 2
    assert not {name: value for name, value in found.items() if value > FAR and name not in marked}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("two sites", marks=pytest.mark.slow),
        pytest.param("chained", marks=pytest.mark.slow),
        pytest.param("items", marks=pytest.mark.slow),
        "normal vector",
        pytest.param("counts", marks=pytest.mark.slow),
    ],
)
def test_several_numbers_of_a_record(name: str) -> None:
    emulated = Emulated(problem(name), 4.0)
    assert isinstance(emulated.strategy, CentredScores)
    assert isinstance(emulated.strategy.questions, Simulated) == (name in {"items", "normal vector", "counts"})
    records = emulated.records(0)
    is_right(emulated, records, emulated.fit(records, 0))


@pytest.mark.slow
def test_heavier_tails_than_a_simulated_law_has_are_said() -> None:
    """The control of the look at lengths: rows of a t law with three degrees of freedom are no normal ones."""

    def heavy(rng, size):
        return {"v": rng.standard_t(3, (size, 2))}

    model, _, bounds = PROBLEMS["normal vector"]
    emulated = Emulated(ModelProblem("heavy", model, heavy, SIZE, bounds), 4.0)
    drawn = emulated.fit(emulated.records(0), 0)
    assert any("residuals" in reason for reason in drawn.quality.reasons), drawn.quality.words


# persons, and the cases that once were narrow and wrong, through the vault


def real(model, rows, bounds, epsilon: float, seed: int = 0, **options):
    rows = {name: np.asarray(values, np.float32) for name, values in rows.items()}
    data = dp.PrivateData.without_guarantee(rows, bounds=bounds)
    return prepare_fit(model, data, epsilon=epsilon, delta=1e-6, insecure_seed=seed, allow_low_accuracy=True, **options)


def from_truth(posterior, truth) -> dict[str, float]:
    own = coordinates(posterior.draws)
    return {name: abs(float(own[name].mean() - value) / float(own[name].std())) for name, value in truth.items()}


@pytest.mark.slow
def test_persons_with_several_rows() -> None:
    rng = np.random.default_rng(5)
    number = rng.integers(1, 5, (SIZE // 2, 1))
    x = rng.uniform(-2, 2, (SIZE // 2, 4))
    rows = {"x": x, "y": 1 + 0.5 * x + 0.8 * rng.standard_t(3, x.shape), "z": rng.poisson(np.exp(0.5 * x - 1))}
    rows["present"] = np.arange(4) < number
    shapes = {name: jax.ShapeDtypeStruct((), jnp.float32) for name in ("x", "y", "z")}
    person = dp.model.per_person(from_numpyro(two_sites, shapes))
    bounds = {"x": (-2, 2), "y": (-500, 500), "z": (0, 500), "present": (0, 1)}
    prepared = real(person, rows, bounds, 4.0)
    assert isinstance(prepared.strategy, CentredScores)
    posterior = prepared.run(progress=False)
    assert posterior.quality.verdict != "bad", posterior.quality.words
    assert max(from_truth(posterior, {"a": 1.0, "b": 0.5, "s": 0.8}).values()) < FAR


def student(x, y) -> None:
    a, b = (numpyro.sample(name, dist.Normal(0, 5)) for name in ("a", "b"))
    s, nu = numpyro.sample("s", dist.HalfNormal(5)), numpyro.sample("nu", dist.Gamma(2, 0.1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.StudentT(nu, a + b * x, s), obs=y)


@pytest.mark.slow
def test_degrees_of_freedom() -> None:
    """Was 25 of its own standard deviations off, and said nothing."""
    rng = np.random.default_rng([3, 0])
    x = rng.uniform(-1, 1, SIZE)
    rows = {"x": x, "y": np.clip(1 + 2 * x + 1.5 * rng.standard_t(4, SIZE), -100, 100)}
    posterior = real(student, rows, {"x": (-1, 1), "y": (-100, 100)}, 1.0).run(progress=False)
    assert posterior.quality.verdict != "bad", posterior.quality.words
    assert max(from_truth(posterior, {"a": 1.0, "b": 2.0, "s": 1.5, "nu": 4.0}).values()) < FAR


def rate(y) -> None:
    own = numpyro.sample("rate", dist.Gamma(1, 0.1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Poisson(own), obs=y)


@pytest.mark.parametrize("sampler", ["auto", "clipped_laplace"])
def test_eleven_events_among_five_thousand(sampler: str) -> None:
    """Was 6 of its own standard deviations off. Clipped scores, the control, are off or must say so."""
    rows = {"y": (np.arange(5000) < 11).astype(float)}
    posterior = real(rate, rows, {"y": (0, 20)}, 8.0, sampler=sampler).run(progress=False)
    own = coordinates(posterior.draws)["rate"]
    wrong = abs(float(own.mean()) - 12 / 5000.1) / float(own.std())  # the exact posterior is Gamma(12, 5000.1)
    if sampler == "auto":
        assert wrong < FAR
        assert posterior.quality.verdict != "bad", posterior.quality.words
    else:
        assert wrong < FAR or posterior.quality.verdict == "bad", posterior.quality.words


def three_normals(y) -> None:
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-3.0, 0.0, 3.0]), 2.0).to_event(1))
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(mu, 1.0)), obs=y)


@pytest.mark.slow
def test_a_mixture_of_three() -> None:
    """Was 11 of its own standard deviations off."""
    rng = np.random.default_rng([3, 0])
    rows = {"y": np.array([-4.0, 0.0, 4.0])[rng.choice(3, SIZE, p=[0.3, 0.3, 0.4])] + rng.standard_normal(SIZE)}
    posterior = real(three_normals, rows, {"y": (-15, 15)}, 2.0).run(progress=False)
    truth = {"mu[0]": -4.0, "mu[1]": 0.0, "mu[2]": 4.0, "w[0]": 0.3, "w[1]": 0.3}
    assert max(from_truth(posterior, truth).values()) < FAR or posterior.quality.verdict == "bad"
    assert posterior.quality.verdict != "bad", posterior.quality.words


def two_normals(y) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(3).expand([2]).to_event(1))
    w = numpyro.sample("w", dist.Beta(2, 2))
    with numpyro.plate("data", y.shape[0]):
        law = dist.MixtureSameFamily(dist.Categorical(jnp.stack([w, 1 - w])), dist.Normal(mu, s))
        numpyro.sample("y", law, obs=y)


@pytest.mark.slow
def test_a_mixture_that_starts_at_its_saddle() -> None:
    """Of two modes, which differ by the names of the components, one is found, or the verdict is bad."""
    rng = np.random.default_rng([3, 0])
    rows = {"y": np.where(rng.random(SIZE) < 0.4, rng.normal(-2, 0.7, SIZE), rng.normal(3, 1.2, SIZE))}
    posterior = real(two_normals, rows, {"y": (-20, 20)}, 4.0).run(progress=False)
    first = {"mu[0]": -2.0, "mu[1]": 3.0, "s[0]": 0.7, "s[1]": 1.2, "w": 0.4}
    second = {"mu[0]": 3.0, "mu[1]": -2.0, "s[0]": 1.2, "s[1]": 0.7, "w": 0.6}
    nearest = min(max(from_truth(posterior, mode).values()) for mode in (first, second))
    assert nearest < FAR or posterior.quality.verdict == "bad", posterior.quality.words


def censored(x, t, seen) -> None:
    a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in ("a", "b"))
    k = numpyro.sample("k", dist.LogNormal(0, 1))
    with numpyro.plate("data", t.shape[0]):
        hazard = (t * jnp.exp(-a - b * x)) ** k
        density = jnp.log(k) - a - b * x + (k - 1) * (jnp.log(t) - a - b * x) - hazard
        numpyro.factor("t", jnp.where(seen > 0.5, density, -hazard))


def censored_law(x, t, seen) -> None:
    a, b = (numpyro.sample(name, dist.Normal(0, 2)) for name in ("a", "b"))
    k = numpyro.sample("k", dist.LogNormal(0, 1))
    with numpyro.plate("data", t.shape[0]):
        law = dist.RightCensoredDistribution(dist.Weibull(jnp.exp(a + b * x), k), seen < 0.5)
        numpyro.sample("t", law, obs=t)


@pytest.mark.parametrize("model", [pytest.param(censored_law, marks=pytest.mark.slow), censored])
def test_censored_times_are_clipped_and_right(model) -> None:
    """`auto` once died after the charge, in a sketch of it; NumPyro's own censored law has no sum over responses."""
    rng = np.random.default_rng([3, 0])
    x = rng.uniform(-1, 1, SIZE)
    lifetime, end = np.exp(0.5 - 0.4 * x) * rng.weibull(1.5, SIZE), rng.uniform(0.5, 4, SIZE)
    rows = {"x": x, "t": np.maximum(np.minimum(lifetime, end), 1e-3), "seen": lifetime < end}
    prepared = real(model, rows, {"x": (-1, 1), "t": (1e-3, 50), "seen": (0, 1)}, 4.0)
    assert isinstance(prepared.strategy, PilotedChains)
    posterior = prepared.run(progress=False)
    assert posterior.quality.verdict != "bad", posterior.quality.words
    assert max(from_truth(posterior, {"a": 0.5, "b": -0.4, "k": 1.5}).values()) < FAR
