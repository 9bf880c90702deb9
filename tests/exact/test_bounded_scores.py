"""Bounded scores are the likelihood's where nothing is cut, and have mean zero under the model at any cut."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpmcmc.fitting.strategies.weighted_scores.classes import Bernoulli, Binomial, Categorical, Ordinal
from dpmcmc.fitting.strategies.weighted_scores.counts import NegativeBinomial, Poisson
from dpmcmc.fitting.strategies.weighted_scores.numbers import Gaussian, StudentT
from dpmcmc.model.formula.families import FAMILIES

TRIALS = 6
UNCUT = 50.0


def others(family, shapes):
    """The shape parameters as the family's density takes them."""
    if family == "ordinal":
        gaps = jnp.exp(shapes[1:])
        return {"cutpoints": shapes[0] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)]), "gaps": gaps}
    names = {"gaussian": ["sigma"], "student_t": ["sigma", "nu"], "negative_binomial": ["concentration"]}
    return {name: jnp.exp(shape) for name, shape in zip(names.get(family, []), shapes, strict=True)}


CASES = {
    "bernoulli": (Bernoulli(), [-1.3], [], np.arange(2.0)),
    "binomial": (Binomial(TRIALS), [0.4], [], np.arange(TRIALS + 1.0)),
    "categorical": (Categorical(), [0.5, -1.0, 0.2], [], np.arange(4.0)),
    "ordinal": (Ordinal(4), [0.3], [-1.0, 0.2, -0.5], np.arange(4.0)),
    "poisson": (Poisson(100), [1.2], [], np.arange(80.0)),
    "negative_binomial": (NegativeBinomial(200), [1.5], [-0.3], np.arange(900.0)),
    "gaussian": (Gaussian(), [0.2], [-0.7], np.linspace(-5, 5, 20001)),
    "student_t": (StudentT(), [0.2], [-0.7, 1.2], 0.2 + np.exp(-0.7) * np.sinh(np.linspace(-12, 12, 40001))),
}


def log_density(family, arguments, response):
    outputs = 3 if family == "categorical" else 1
    predictors, shapes = arguments[:outputs], arguments[outputs:]
    eta = predictors if family == "categorical" else predictors[0]
    return FAMILIES[family].log_density(eta, response, jnp.float32(TRIALS), others(family, shapes))


def law(family):
    """All responses with their probabilities under the model: by brute force, in double precision."""
    scores, predictors, shapes, responses = CASES[family]
    with jax.enable_x64():
        arguments = jnp.array([*predictors, *shapes], jnp.float64)
        logs = np.array(jax.vmap(lambda y: log_density(family, arguments, y))(jnp.asarray(responses)))
    if family in {"poisson", "negative_binomial"}:
        logs = logs - np.array([float(np.sum(np.log(np.arange(1, y + 1)))) for y in responses])
    if family == "binomial":
        from math import comb, log

        logs = logs + np.array([log(comb(TRIALS, int(y))) for y in responses])
    weights = np.exp(logs - logs.max()) * (np.gradient(responses) if family in {"gaussian", "student_t"} else 1.0)
    return scores, np.array(predictors), np.array(shapes), responses, weights / weights.sum()


def bounded(scores, predictors, shapes, responses, bound):
    table = jnp.asarray(scores.table(shapes, bound), jnp.float32)

    def one(y):
        found = scores.at(jnp.asarray(predictors, jnp.float32), jnp.asarray(shapes, jnp.float32), y, TRIALS, table)
        return found.score, found.slope, found.variance

    score, slope, variance = jax.vmap(one)(jnp.asarray(responses, jnp.float32))
    return np.asarray(score, float), np.asarray(slope[0], float), np.asarray(variance[0], float)


@pytest.mark.parametrize("family", CASES)
def test_uncut_scores_are_the_likelihoods_gradient(family) -> None:
    scores, predictors, shapes, responses, weights = law(family)
    few = responses[weights > 1e-6][:: max(1, len(responses) // 50)]
    found, slope, _ = bounded(scores, predictors, shapes, few, UNCUT)
    arguments = jnp.array([*predictors, *shapes], jnp.float32)
    expected = jax.vmap(jax.grad(lambda at, y: log_density(family, at, y)), in_axes=(None, 0))(
        arguments, jnp.asarray(few, jnp.float32)
    )
    assert np.allclose(found, expected, rtol=2e-3, atol=2e-3)
    information = scores.information(predictors, shapes) * (TRIALS if family == "binomial" else 1)
    assert np.allclose(slope, information, rtol=5e-3, atol=1e-4), "without a cut the slope is Fisher's information"


@pytest.mark.parametrize("bound", [0.7, 1.5, 4.0])
@pytest.mark.parametrize("family", CASES)
def test_scores_have_mean_zero_and_the_moments_that_are_said(family, bound) -> None:
    scores, predictors, shapes, responses, weights = law(family)
    found, slope, variance = bounded(scores, predictors, shapes, responses, bound)
    sds = np.sqrt(weights @ found**2)
    assert np.all(np.abs(weights @ found) < 2e-3 * sds), "the mean is zero whatever the cut"
    assert np.allclose((found * weights[:, None]).T @ found, variance, rtol=1e-2, atol=1e-3 * np.max(variance))
    full, _, _ = bounded(scores, predictors, shapes, responses, UNCUT)
    covariance = (found * weights[:, None]).T @ full
    assert np.allclose((covariance + covariance.T) / 2, slope, rtol=1e-2, atol=2e-3 * np.max(np.abs(slope)))


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_clipping_without_a_centre_is_biased(family) -> None:
    """The negative control: what `test_scores_have_mean_zero` would say of plain clipping."""
    scores, predictors, shapes, responses, weights = law(family)
    full, _, _ = bounded(scores, predictors, shapes, responses, UNCUT)
    sds = np.sqrt(weights @ full**2)
    assert np.any(np.abs(weights @ np.clip(full, -sds, sds)) > 0.02 * sds), "ten times what is let pass above"


@pytest.mark.parametrize("family", CASES)
def test_no_response_is_longer_than_the_longest(family) -> None:
    scores, predictors, shapes, responses, _ = law(family)
    moves = np.random.default_rng(1).standard_normal((len(predictors) + len(shapes), 7))
    table = jnp.asarray(scores.table(shapes, 1.5), jnp.float32)

    def one(y):
        found = scores.at(jnp.asarray(predictors, jnp.float32), jnp.asarray(shapes, jnp.float32), y, TRIALS, table)
        return jnp.linalg.norm(moves.T @ found.score), found.longest(jnp.asarray(moves @ moves.T, jnp.float32))

    lengths, longest = jax.vmap(one)(jnp.asarray(responses, jnp.float32))
    assert np.all(np.asarray(lengths) <= np.asarray(longest) * (1 + 1e-4))
    if family in {"bernoulli", "categorical", "ordinal", "binomial"}:
        assert np.max(lengths) == pytest.approx(float(longest[0]), rel=1e-4), "and one of them is as long"


def test_a_scale_that_is_far_off_is_found_in_one_step() -> None:
    scores, shapes = Gaussian(), np.array([-1.0])
    residuals, weights = scores.rule(shapes)
    for off in (-1.2, -0.3, 0.5, 1.5):
        limits, means, _, slope, _ = scores.columns(scores.table(shapes, 1.0)[0])
        seen = scores.scores(np, np.exp(off) * residuals, shapes)[:, 1]
        mean = weights @ np.clip(seen, -limits[1], limits[1]) - means[1]
        assert scores.step_of_scale(shapes, 1.0, mean / slope[1, 1]) == pytest.approx(off, abs=5e-3)
        if abs(off) > 1:
            assert abs(mean / slope[1, 1] - off) > 0.05, "Newton's own step is another one"


@pytest.mark.parametrize("family", ["gaussian", "student_t", "poisson", "negative_binomial", "binomial"])
def test_bins_of_residuals_have_the_probabilities_that_are_said(family) -> None:
    scores, predictors, shapes, responses, weights = law(family)
    table = jnp.asarray(scores.residual_table(shapes), jnp.float32)

    def one(y):
        point = jnp.asarray(predictors, jnp.float32), jnp.asarray(shapes, jnp.float32)
        return scores.residual(*point, y, TRIALS, table)

    residuals, probabilities = jax.vmap(one)(jnp.asarray(responses, jnp.float32))
    assert np.sum(probabilities[0]) == pytest.approx(1.0, abs=1e-4)
    assert weights @ np.asarray(residuals, float) ** 2 == pytest.approx(1.0, rel=0.05)
