"""NumPyro models for the stress suite, each with synthetic records that follow it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.random import Generator

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ModelProblem:
    """A model, its records, and the parameters that they were made with."""

    name: str
    model: Callable[..., Any]
    make: Callable[[Generator, int], Arrays]
    size: int
    bounds: Mapping[str, tuple[float, float]]
    truth: Mapping[str, float] = field(default_factory=dict)
    """Of parameters that are single numbers."""
    start: Mapping[str, Any] = field(default_factory=dict)
    """Of all parameters, should `truth` not have them: where the search for the exact posterior starts."""
    spreads: Mapping[str, str] = field(default_factory=dict)
    """Groups in units of their standard deviation, with its name."""
    compared: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]] | None = None
    """Functions of draws by parameter that are compared in their place, each (draws,)."""
    holds: bool = True
    family: str = "numpyro"

    def records(self, seed: int) -> Arrays:
        """Return the records of a seed."""
        made = self.make(np.random.default_rng([7, seed]), self.size)
        return {
            name: np.clip(values, *self.bounds[name]).astype(np.float32 if values.dtype.kind == "f" else np.int32)
            for name, values in made.items()
        }


def _predictors(rng: Generator, size: int, number: int) -> np.ndarray:
    return np.clip(rng.standard_normal((size, number)), -4, 4)


def rare_logistic(x: Any, y: Any) -> None:
    """One in a hundred."""
    a = numpyro.sample("a", dist.Normal(0, 5))
    b = numpyro.sample("b", dist.Normal(0, 2.5).expand([3]).to_event(1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=a + x @ b), obs=y)


def _rare_logistic(rng: Generator, size: int) -> Arrays:
    x = _predictors(rng, size, 3)
    eta = -4.8 + x @ np.array([0.5, -0.5, 0.2])
    return {"x": x, "y": (rng.random(size) < 1 / (1 + np.exp(-eta))).astype(float)}


def gamma_poisson(x: Any, y: Any) -> None:
    """Counts with a Gamma-distributed rate, integrated out."""
    a = numpyro.sample("a", dist.Normal(0, 3))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    shape = numpyro.sample("shape", dist.LogNormal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.GammaPoisson(shape, shape * jnp.exp(-(a + x @ b))), obs=y)


def _gamma_poisson(rng: Generator, size: int) -> Arrays:
    x = _predictors(rng, size, 2)
    rate = rng.gamma(1.5, 1 / 1.5, size) * np.exp(1.0 + x @ np.array([0.4, -0.3]))
    return {"x": x, "y": rng.poisson(rate).astype(float)}


def weibull(x: Any, t: Any) -> None:
    """Times, all seen."""
    a = numpyro.sample("a", dist.Normal(0, 3))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    k = numpyro.sample("k", dist.LogNormal(0, 1))
    with numpyro.plate("data", t.shape[0]):
        numpyro.sample("t", dist.Weibull(jnp.exp(a + x @ b), k), obs=t)


def _weibull(rng: Generator, size: int) -> Arrays:
    x = _predictors(rng, size, 2)
    return {"x": x, "t": np.maximum(np.exp(1.0 + x @ np.array([0.3, -0.2])) * rng.weibull(1.6, size), 1e-3)}


def censored_weibull(x: Any, t: Any, seen: Any) -> None:
    """Times that end with the study."""
    a = numpyro.sample("a", dist.Normal(0, 3))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    k = numpyro.sample("k", dist.LogNormal(0, 1))
    with numpyro.plate("data", t.shape[0]):
        hazard = (t / jnp.exp(a + x @ b)) ** k
        density = jnp.log(k) - a - x @ b + (k - 1) * (jnp.log(t) - a - x @ b) - hazard
        numpyro.factor("t", jnp.where(seen > 0.5, density, -hazard))


def _censored_weibull(rng: Generator, size: int) -> Arrays:
    made = _weibull(rng, size)
    end = rng.uniform(0.5, 6.0, size)
    return {"x": made["x"], "t": np.minimum(made["t"], end), "seen": (made["t"] < end).astype(float)}


def dose_response(dose: Any, y: Any) -> None:
    """Hill's curve."""
    base = numpyro.sample("base", dist.Normal(0, 2))
    top = numpyro.sample("top", dist.LogNormal(0.5, 1))
    half = numpyro.sample("half", dist.LogNormal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(base + top * dose / (half + dose), sigma), obs=y)


def _dose_response(rng: Generator, size: int) -> Arrays:
    dose = rng.choice([0.0, 0.1, 0.3, 1.0, 3.0, 10.0], size)
    return {"dose": dose, "y": 0.5 + 3.0 * dose / (0.8 + dose) + 0.7 * rng.standard_normal(size)}


GROUPS = 8
EFFECTS = np.array([-0.9, 0.3, 0.7, -0.2, 1.1, -0.6, 0.1, 0.4])


def hierarchical(g: Any, y: Any) -> None:
    """Groups around a common mean."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5))
    with numpyro.plate("groups", GROUPS):
        z = numpyro.sample("z", dist.Normal(0, 1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(mu + tau * (jax.nn.one_hot(g, GROUPS) @ z), sigma), obs=y)


def _hierarchical(rng: Generator, size: int) -> Arrays:
    g = rng.integers(0, GROUPS, size)
    return {"g": g, "y": 5.0 + EFFECTS[g] + 1.5 * rng.standard_normal(size)}


def mixture(y: Any) -> None:
    """Two normals with ordered means."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    low = numpyro.sample("low", dist.Normal(-2, 2))
    gap = numpyro.sample("gap", dist.LogNormal(1, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    means = jnp.stack([low, low + gap])
    with numpyro.plate("data", y.shape[0]):
        law = dist.MixtureSameFamily(dist.Categorical(jnp.stack([share, 1 - share])), dist.Normal(means, sigma))
        numpyro.sample("y", law, obs=y)


def _mixture(rng: Generator, size: int) -> Arrays:
    return {"y": np.where(rng.random(size) < 0.35, -1.5, 2.0) + 0.8 * rng.standard_normal(size)}


def network(x: Any, y: Any) -> None:
    """One hidden layer of two units: with one more than the curve needs, the posterior would be singular."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2, 2]).to_event(2))
    v = numpyro.sample("v", dist.Normal(0, 1).expand([2]).to_event(1))
    c = numpyro.sample("c", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Normal(jnp.tanh(x @ w) @ v + c, sigma), obs=y)


def _network(rng: Generator, size: int) -> Arrays:
    x = _predictors(rng, size, 2)
    return {"x": x, "y": np.tanh(x @ [1.0, -0.5]) - 0.5 * np.tanh(x @ [0.2, 1.2]) + 0.5 * rng.standard_normal(size)}


PLACES = np.array([(a, b) for a in (-1.5, 0.0, 1.5) for b in (-1.5, 0.0, 1.5)])
"""Where the curve of the network is compared."""


def curve(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what a network says at some places: the same however its units are ordered or signed."""
    hidden = np.tanh(np.einsum("pi,dij->dpj", PLACES, draws["w"]))
    values = np.einsum("dpj,dj->dp", hidden, draws["v"]) + draws["c"][:, None]
    said = {f"f({a:g}, {b:g})": values[:, place] for place, (a, b) in enumerate(PLACES)}
    return {**said, "sigma": draws["sigma"]}


CURVE = {f"f({a:g}, {b:g})": float(np.tanh(a - 0.5 * b) - 0.5 * np.tanh(0.2 * a + 1.2 * b)) for a, b in PLACES}


def student(x: Any, y: Any) -> None:
    """A line with heavy tails, far from its prior's centre."""
    a = numpyro.sample("a", dist.Normal(0, 100))
    b = numpyro.sample("b", dist.Normal(0, 10))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.StudentT(3.0, a + b * x, sigma), obs=y)


def _student(rng: Generator, size: int) -> Arrays:
    x = np.clip(rng.standard_normal(size), -4, 4)
    return {"x": x, "y": 40.0 - 3.0 * x + 2.0 * rng.standard_t(3, size)}


def proportion(x: Any, y: Any) -> None:
    """Shares between zero and one."""
    a = numpyro.sample("a", dist.Normal(0, 2))
    b = numpyro.sample("b", dist.Normal(0, 1))
    size = numpyro.sample("size", dist.LogNormal(2, 1))
    mean = jax.nn.sigmoid(a + b * x)
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Beta(mean * size, (1 - mean) * size), obs=y)


def _proportion(rng: Generator, size: int) -> Arrays:
    x = np.clip(rng.standard_normal(size), -4, 4)
    mean = 1 / (1 + np.exp(1.0 - 0.5 * x))
    return {"x": x, "y": np.clip(rng.beta(12 * mean, 12 * (1 - mean)), 1e-4, 1 - 1e-4)}


def poisson_rate(y: Any) -> None:
    """A rate, with no predictor at all."""
    rate = numpyro.sample("rate", dist.Gamma(1, 0.1))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def _poisson_rate(rng: Generator, size: int) -> Arrays:
    return {"y": rng.poisson(0.3, size).astype(float)}


def few_events(y: Any) -> None:
    """A rate, with a handful of events."""
    rate = numpyro.sample("rate", dist.Gamma(0.5, 10.0))
    with numpyro.plate("data", y.shape[0]):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def _few_events(rng: Generator, size: int) -> Arrays:
    return {"y": rng.poisson(0.0024, size).astype(float)}


_LINE = {"x": (-4.0, 4.0)}
_WEIBULL = {"a": 1.0, "k": 1.6, "b[0]": 0.3, "b[1]": -0.2}
_WEIBULL_START = {"a": 1.0, "k": 1.6, "b": [0.3, -0.2]}
_NETWORK_START = {"w": [[1.0, 0.2], [-0.5, 1.2]], "v": [1.0, -0.5], "c": 0.0, "sigma": 0.5}
MODELS = {
    problem.name: problem
    for problem in (
        ModelProblem(
            "np rare logistic",
            rare_logistic,
            _rare_logistic,
            50_000,
            {**_LINE, "y": (0, 1)},
            {"a": -4.8, "b[0]": 0.5, "b[1]": -0.5, "b[2]": 0.2},
            {"a": -4.8, "b": [0.5, -0.5, 0.2]},
        ),
        ModelProblem(
            "np Gamma-Poisson",
            gamma_poisson,
            _gamma_poisson,
            10_000,
            {**_LINE, "y": (0, 200)},
            {"a": 1.0, "shape": 1.5, "b[0]": 0.4, "b[1]": -0.3},
            {"a": 1.0, "shape": 1.5, "b": [0.4, -0.3]},
        ),
        ModelProblem("np Weibull", weibull, _weibull, 10_000, {**_LINE, "t": (1e-3, 100)}, _WEIBULL, _WEIBULL_START),
        ModelProblem(
            "np Weibull censored",
            censored_weibull,
            _censored_weibull,
            10_000,
            {**_LINE, "t": (1e-3, 100), "seen": (0, 1)},
            _WEIBULL,
            _WEIBULL_START,
        ),
        ModelProblem(
            "np dose-response",
            dose_response,
            _dose_response,
            10_000,
            {"dose": (0, 10), "y": (-10, 10)},
            {"base": 0.5, "top": 3.0, "half": 0.8, "sigma": 0.7},
        ),
        ModelProblem(
            "np hierarchical normal",
            hierarchical,
            _hierarchical,
            20_000,
            {"g": (0, 7), "y": (-50, 50)},
            {"sigma": 1.5},
            {"mu": 5.1, "tau": 0.65, "sigma": 1.5, "z": (EFFECTS - EFFECTS.mean()) / 0.65},
            {"z": "tau"},
        ),
        ModelProblem(
            "np mixture",
            mixture,
            _mixture,
            10_000,
            {"y": (-20, 20)},
            {"share": 0.35, "low": -1.5, "gap": 3.5, "sigma": 0.8},
        ),
        ModelProblem(
            "np neural network",
            network,
            _network,
            20_000,
            {**_LINE, "y": (-10, 10)},
            {**CURVE, "sigma": 0.5},
            _NETWORK_START,
            compared=curve,
        ),
        ModelProblem(
            "np Student t far off",
            student,
            _student,
            10_000,
            {**_LINE, "y": (-1000, 1000)},
            {"a": 40.0, "b": -3.0, "sigma": 2.0},
        ),
        ModelProblem(
            "np Beta",
            proportion,
            _proportion,
            10_000,
            {**_LINE, "y": (1e-4, 1 - 1e-4)},
            {"a": -1.0, "b": 0.5, "size": 12.0},
        ),
        ModelProblem("np Poisson rate", poisson_rate, _poisson_rate, 2_000, {"y": (0, 100)}, {"rate": 0.3}),
        ModelProblem("np few events", few_events, _few_events, 5_000, {"y": (0, 20)}, {"rate": 0.0024}),
    )
}
