"""Bounded scores are the likelihood's where nothing is cut, and have mean zero under the model at any cut.

What a family says of its law is held against SciPy's, summed or integrated independently of the family's own rule.
"""

from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from dpmcmc.model.bounded_scores.base import RESIDUALS
from dpmcmc.model.bounded_scores.zeros import ZERO
from dpmcmc.model.formula.families import FAMILIES
from dpmcmc.model.formula.families.binomial import Binomial
from dpmcmc.model.formula.families.gaussian import Gaussian

TRIALS = 6
UNCUT = 50.0


def stated(family):
    low, high = {"positive": (np.log(0.01), np.log(100.0)), "share": (special.logit(0.001), special.logit(0.999))}.get(
        FAMILIES[family].response, (-1.0, 1.0)
    )
    return SimpleNamespace(
        bounds=(0.0, 200.0), read_bounds=(low, high), most_trials=TRIALS, classes=("a", "b", "c", "d")
    )


def truncated(law, hu):
    """The probabilities of counts behind a hurdle."""
    return lambda y: np.where(y == 0, hu, (1 - hu) * law.pmf(y) / law.sf(0))


def negative_binomial(mean, c):
    return stats.nbinom(c, c / (c + mean))


def weibull(eta, k):
    return stats.weibull_min(k, scale=np.exp(eta) / special.gamma(1 + 1 / k))


def on_log(law):
    """The density of the logarithm of a positive number."""
    return lambda x: law.pdf(np.exp(x)) * np.exp(x)


def share(x):
    return special.expit(x)


SHARE, ODDS = special.expit(-0.8), -0.8
# predictors, shapes as a sampler moves them, and SciPy's law: probabilities of counts, or a density of what is read
CASES = {
    "bernoulli": ([-1.3], [], stats.bernoulli(share(-1.3)).pmf),
    "probit": ([-0.9], [], stats.bernoulli(stats.norm.cdf(-0.9)).pmf),
    "binomial": ([0.4], [], stats.binom(TRIALS, share(0.4)).pmf),
    "beta_binomial": ([-0.6], [0.9], stats.betabinom(TRIALS, np.exp(0.9) * share(-0.6), np.exp(0.9) * share(0.6)).pmf),
    "categorical": ([0.5, -1.0, 0.2], [], lambda y: special.softmax([0, 0.5, -1.0, 0.2])[y.astype(int)]),
    "ordinal": (
        [0.3],
        [-1.0, 0.2, -0.5],
        lambda y: np.diff(
            np.r_[0, share(-1.0 + np.cumsum(np.r_[0, np.exp([0.2, -0.5])]) - 0.3), 1],
        )[y.astype(int)],
    ),
    "poisson": ([1.2], [], stats.poisson(np.exp(1.2)).pmf),
    "negative_binomial": ([1.5], [-0.3], negative_binomial(np.exp(1.5), np.exp(-0.3)).pmf),
    "geometric": ([0.7], [], negative_binomial(np.exp(0.7), 1.0).pmf),
    "zero_inflated_poisson": (
        [1.1],
        [ODDS],
        lambda y: SHARE * (y == 0) + (1 - SHARE) * stats.poisson(np.exp(1.1)).pmf(y),
    ),
    "zero_inflated_negative_binomial": (
        [1.4],
        [0.5, ODDS],
        lambda y: SHARE * (y == 0) + (1 - SHARE) * negative_binomial(np.exp(1.4), np.exp(0.5)).pmf(y),
    ),
    "hurdle_poisson": ([0.2], [ODDS], truncated(stats.poisson(np.exp(0.2)), SHARE)),
    "hurdle_negative_binomial": ([0.8], [0.5, ODDS], truncated(negative_binomial(np.exp(0.8), np.exp(0.5)), SHARE)),
    "gaussian": ([0.2], [-0.7], stats.norm(0.2, np.exp(-0.7)).pdf),
    "student_t": ([0.2], [-0.7, 1.2], stats.t(np.exp(1.2), 0.2, np.exp(-0.7)).pdf),
    "laplace": ([0.2], [-0.7], stats.laplace(0.2, np.exp(-0.7)).pdf),
    "lognormal": ([1.2], [-0.4], on_log(stats.lognorm(np.exp(-0.4), scale=np.exp(1.2)))),
    "gamma": ([1.2], [0.4], on_log(stats.gamma(np.exp(0.4), scale=np.exp(1.2 - 0.4)))),
    "exponential": ([1.2], [], on_log(stats.expon(scale=np.exp(1.2)))),
    "weibull": ([1.2], [0.5], on_log(weibull(1.2, np.exp(0.5)))),
    "inverse_gaussian": ([1.2], [0.7], on_log(stats.invgauss(np.exp(1.2 - 0.7), scale=np.exp(0.7)))),
    "hurdle_gamma": ([1.2], [0.4, ODDS], on_log(stats.gamma(np.exp(0.4), scale=np.exp(1.2 - 0.4)))),
    "hurdle_lognormal": ([1.2], [-0.4, ODDS], on_log(stats.lognorm(np.exp(-0.4), scale=np.exp(1.2)))),
    "beta": (
        [0.6],
        [1.5],
        lambda x: stats.beta(np.exp(1.5) * share(0.6), np.exp(1.5) * share(-0.6)).pdf(share(x)) * share(x) * share(-x),
    ),
}
CLASSES = {
    "bernoulli": 2,
    "probit": 2,
    "binomial": TRIALS + 1,
    "beta_binomial": TRIALS + 1,
    "categorical": 4,
    "ordinal": 4,
}
COUNTS = [name for name, family in FAMILIES.items() if family.response == "count"]
NUMBERS = [name for name in FAMILIES if name not in CLASSES and name not in COUNTS]
NAMES = {name: list(family.others) for name, family in FAMILIES.items()}


def _factorial(y):
    return special.gammaln(y + 1)


LEFT_OUT = {
    **dict.fromkeys(set(COUNTS) - {"geometric"}, _factorial),
    **dict.fromkeys(["binomial", "beta_binomial"], lambda y: _factorial(y) + _factorial(TRIALS - y)),
    "inverse_gaussian": lambda x: x / 2,
}
"""What of the logarithm of a density depends on the record alone."""


def test_every_family_stands_here() -> None:
    assert set(CASES) == set(FAMILIES)
    assert len(FAMILIES) >= 20


def others(family, shapes):
    """The shape parameters as the family's density takes them."""
    if family == "ordinal":
        gaps = jnp.exp(shapes[1:])
        return {"cutpoints": shapes[0] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)]), "gaps": gaps}
    of = {"zi": jax.nn.sigmoid, "hu": jax.nn.sigmoid}
    return {name: of.get(name, jnp.exp)(shape) for name, shape in zip(NAMES[family], shapes, strict=True)}


def log_density(family, arguments, response):
    outputs = 3 if family == "categorical" else 1
    predictors, shapes = arguments[:outputs], arguments[outputs:]
    eta = predictors if family == "categorical" else predictors[0]
    return FAMILIES[family].log_density(eta, response, jnp.float32(TRIALS), others(family, shapes))


@cache
def law(family):
    """Responses with their probabilities under the model, by SciPy's law: numbers by Gauss and Legendre's rule."""
    predictors, shapes, of = CASES[family]
    if family in CLASSES or family in COUNTS:
        responses = np.arange(float(CLASSES.get(family, 2000)))
        weights = np.asarray(of(responses), float)
    else:
        nodes, steps = np.polynomial.legendre.leggauss(16)
        width = 60.0 if family == "student_t" else 30.0
        edges = predictors[0] + np.sinh(np.linspace(-np.arcsinh(1000), np.arcsinh(1000), 401)) * width / 1000
        middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        responses = (middles[:, None] + halves[:, None] * nodes).ravel()
        weights = of(responses) * (halves[:, None] * steps).ravel()
    if family.startswith("hurdle") and family not in COUNTS:
        responses, weights = np.append(ZERO, responses), np.append(SHARE, (1 - SHARE) * weights)
    assert weights.sum() == pytest.approx(1.0, abs=1e-3 if family == "student_t" else 1e-9)
    scores = FAMILIES[family].scores(stated(family))
    return scores, np.array(predictors), np.array(shapes), responses, weights / weights.sum()


@cache
def compiled(family):
    """The bounded scores of many responses, and their lengths in some coordinates with the longest that is said."""
    scores, predictors, shapes = law(family)[:3]
    moves = np.random.default_rng(1).standard_normal((len(predictors) + len(shapes), 7))

    def one(at, own_shapes, y, table):
        found = scores.at(at, own_shapes, y, jnp.asarray(float(TRIALS), at.dtype), table)
        lengths = jnp.linalg.norm(moves.T @ found.score), found.longest(jnp.asarray(moves @ moves.T, at.dtype))
        return found.score, found.slope, found.variance, *lengths

    return jax.jit(jax.vmap(one, in_axes=(None, None, 0, None)))


def bounded(family, predictors, shapes, responses, bound):
    scores = law(family)[0]
    with jax.enable_x64():
        table = jnp.asarray(scores.table(shapes, bound))
        found = compiled(family)(jnp.asarray(predictors), jnp.asarray(shapes), jnp.asarray(responses), table)
        score, slope, variance, lengths, longest = (np.asarray(each) for each in found)
        return score, slope[0], variance[0], lengths, longest[0]


@pytest.mark.parametrize("family", CASES)
def test_densities_are_scipys(family) -> None:
    _, predictors, shapes, responses, weights = law(family)
    of = CASES[family][2]
    kept = responses[weights > 1e-9]
    kept = kept[kept > ZERO / 2][:: max(1, len(kept) // 40)]
    with jax.enable_x64():
        arguments = jnp.array([*predictors, *shapes])
        logs = np.array(jax.vmap(lambda y: log_density(family, arguments, y))(jnp.asarray(kept)))
    left_out = LEFT_OUT.get(family, lambda y: 0 * y)(kept)
    assert np.ptp(logs - np.log(of(kept)) - left_out) < 1e-6, "up to what depends on the record alone, and a constant"


@cache
def compiled_gradient(family):
    return jax.jit(jax.vmap(jax.grad(lambda at, y: log_density(family, at, y)), in_axes=(None, 0)))


def gradient(family, predictors, shapes, responses):
    with jax.enable_x64():
        return np.asarray(compiled_gradient(family)(jnp.array([*predictors, *shapes]), jnp.asarray(responses)))


@pytest.mark.parametrize("family", CASES)
def test_uncut_scores_are_the_likelihoods_gradient(family) -> None:
    scores, predictors, shapes, responses, weights = law(family)
    few = responses[weights > 1e-9][:: max(1, len(responses) // 50)]
    if family in COUNTS:  # whose scores are those of the nearest predictor of a grid
        predictors = scores.grid[[np.argmin(np.abs(scores.grid - predictors[0]))]]
    found, slope, *_ = bounded(family, predictors, shapes, few, UNCUT)
    assert np.allclose(found, gradient(family, predictors, shapes, few), rtol=2e-3, atol=2e-3)
    information = scores.information(predictors, shapes) * (TRIALS if family == "binomial" else 1)
    assert np.allclose(slope, information, rtol=5e-3, atol=1e-4), "without a cut the slope is Fisher's information"


SMALL_ERROR = 1e-4
"""Of a mean, in standard deviations: a tenth of one over the root of a million records."""


@pytest.mark.parametrize("bound", [0.7, 1.0, 1.5, 4.0])
@pytest.mark.parametrize("family", CASES)
def test_scores_have_mean_zero_and_the_moments_that_are_said(family, bound) -> None:
    _, predictors, shapes, responses, weights = law(family)
    found, slope, variance, *_ = bounded(family, predictors, shapes, responses, bound)
    sds = np.sqrt(weights @ found**2)
    assert np.all(np.abs(weights @ found) < SMALL_ERROR * sds), "the mean is zero whatever the cut"
    assert np.allclose((found * weights[:, None]).T @ found, variance, rtol=1e-2, atol=1e-3 * np.max(variance))
    covariance = (found * weights[:, None]).T @ gradient(family, predictors, shapes, responses)
    assert np.allclose((covariance + covariance.T) / 2, slope, rtol=1e-2, atol=2e-3 * np.max(np.abs(slope)))


@pytest.mark.parametrize("family", ["poisson", "negative_binomial", "gamma", "weibull", "hurdle_poisson"])
def test_clipping_without_a_centre_is_biased(family) -> None:
    """The negative control: what `test_scores_have_mean_zero` would say of plain clipping."""
    _, predictors, shapes, responses, weights = law(family)
    full, *_ = bounded(family, predictors, shapes, responses, UNCUT)
    sds = np.sqrt(weights @ full**2)
    assert np.any(np.abs(weights @ np.clip(full, -sds, sds)) > 0.02 * sds), "far more than is let pass above"


@pytest.mark.parametrize("family", CASES)
def test_no_response_is_longer_than_the_longest(family) -> None:
    _, predictors, shapes, responses, _ = law(family)
    *_, lengths, longest = bounded(family, predictors, shapes, responses, 1.5)
    assert np.all(lengths <= longest * (1 + 1e-4))
    if family in CLASSES:
        assert np.max(lengths) == pytest.approx(longest, rel=1e-4), "and one of them is as long"


FAR = [-1e4, -300.0, -3.0, 3.0, 300.0, 1e4]


@pytest.mark.parametrize("family", CASES)
def test_scores_are_finite_wherever_the_predictor_is(family) -> None:
    scores, predictors, shapes, responses, _ = law(family)
    with np.errstate(all="raise", under="ignore"):
        table = jnp.asarray(scores.table(shapes, 1.0), jnp.float32)
    some = responses[:: max(1, len(responses) // 20)]
    for eta in FAR:
        at = (
            jnp.full(len(predictors), eta, jnp.float32),
            jnp.asarray(shapes, jnp.float32),
            jnp.asarray(some, jnp.float32),
        )
        assert all(np.all(np.isfinite(each)) for each in compiled(family)(*at, table)), eta


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


@pytest.mark.parametrize("family", [*NUMBERS, *COUNTS, "binomial", "beta_binomial"])
def test_bins_of_residuals_have_the_probabilities_that_are_said(family) -> None:
    scores, predictors, shapes, responses, weights = law(family)
    table = jnp.asarray(scores.residual_table(shapes), jnp.float32)

    def one(y):
        point = jnp.asarray(predictors, jnp.float32), jnp.asarray(shapes, jnp.float32)
        return scores.residual(*point, y, float(TRIALS), table)

    residuals, probabilities = jax.vmap(one)(jnp.asarray(responses, jnp.float32))
    assert np.sum(probabilities[0]) == pytest.approx(1.0, abs=1e-4)
    on_host = scores.bins_at(np.array(predictors), np.array(shapes), np.asarray(table))
    np.testing.assert_allclose(on_host, probabilities[0], atol=1e-4)
    assert weights @ np.asarray(residuals, float) ** 2 == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_draws_have_the_mean_that_is_said_and_the_law_of_scipy(family) -> None:
    """Means of 40,000 draws, and counts by bins: one of these fails by chance in some 10,000, and the seed is fixed."""
    _, predictors, shapes, responses, weights = law(family)
    number, of = 40_000, FAMILIES[family]
    eta = jnp.broadcast_to(
        jnp.asarray(predictors if family == "categorical" else predictors[0]),
        (number, *([3] if family == "categorical" else [])),
    )
    trials, parameters = jnp.full(number, float(TRIALS)), others(family, jnp.asarray(shapes))
    drawn = np.asarray(of.draw(jax.random.key(3), eta, trials, parameters), float)
    read = {
        "positive": np.log,
        "share": special.logit,
        "zero_or_positive": lambda y: np.where(y > 0, np.log(np.maximum(y, 1e-9)), ZERO),
    }
    values = read.get(of.response, lambda y: y)(drawn)
    cumulative = np.cumsum(weights)
    for probability in (0.1, 0.3, 0.5, 0.7, 0.9):
        at = responses[np.searchsorted(cumulative, probability)]
        below = cumulative[np.searchsorted(responses, at, side="right") - 1]
        assert np.mean(values <= at + 1e-6) == pytest.approx(below, abs=4.5 * 0.5 / np.sqrt(number) + 2e-3)
    if family not in {"student_t", "categorical", "ordinal"}:
        mean = np.asarray(of.mean(eta, trials, parameters), float)[0] / (
            1 if of.response != "binary" else TRIALS if family == "bernoulli" else 1
        )
        assert mean == pytest.approx(drawn.mean(), abs=5 * drawn.std() / np.sqrt(number))


@pytest.mark.parametrize(("trials", "p"), [(2000, 0.5), (300, 0.1), (1000, 0.97), (2000, 0.011), (10_000, 0.003)])
def test_bins_of_many_trials_are_as_probable_as_they_are_said_to_be(trials, p) -> None:
    """By Edgeworth's series, to 2e-4; a normal law is off by twenty times as much where successes are rare."""
    scores, mean, sd = Binomial(trials), trials * p, np.sqrt(trials * p * (1 - p))
    predictor = jnp.array([np.log(p / (1 - p))], jnp.float32)
    residual, bins = scores.residual(predictor, jnp.zeros(0), jnp.float32(mean + 2 * sd), jnp.float32(trials), None)
    below = stats.binom.cdf(np.floor(mean + RESIDUALS * sd), trials, p)
    np.testing.assert_allclose(bins, np.diff(below, prepend=0.0, append=1.0), atol=3e-4)
    assert float(residual) == pytest.approx(2.0, abs=1e-3)
    off = np.abs(stats.norm.cdf(RESIDUALS) - below).max()
    assert off > 4e-3 or p == 0.5


def test_rows_with_few_of_many_trials_are_left_out_of_the_look_at_residuals() -> None:
    """Their law is not known from four moments: they are expected where they are put."""
    residual, bins = Binomial(2000).residual(jnp.array([-3.0]), jnp.zeros(0), jnp.float32(9), jnp.float32(10), None)
    assert float(residual) == 0.0
    assert np.flatnonzero(np.asarray(bins)).tolist() == [len(RESIDUALS) // 2]
