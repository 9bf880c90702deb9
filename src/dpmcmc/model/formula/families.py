"""What a response is distributed like, given its linear predictor.

Log-densities leave out what depends on the record alone: it changes no posterior, and rounding likes small numbers.
Each takes the predictor, the response, the number of trials, and the other parameters by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.nn import log_sigmoid, log_softmax, sigmoid, softmax
from jax.scipy.special import gammaln

Others = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """A family of distributions.

    Attributes:
        words: what it says about the response.
        response: what kind of response it needs: number, binary, count, proportion, classes or order.
        log_density: of a response.
        mean: the expected response, or the probabilities of its classes.
        draw: a response, from a key and the rest.
        intercept: the default prior of the intercept; empty if it follows from the largest count.
        coefficients: the default prior of slopes.
        spread: the default prior of the standard deviation of random intercepts.
        others: further positive parameters and their default priors.
    """

    words: str
    response: str
    log_density: Callable[[jax.Array, jax.Array, jax.Array, Others], jax.Array]
    mean: Callable[[jax.Array, jax.Array, Others], jax.Array]
    draw: Callable[[jax.Array, jax.Array, jax.Array, Others], jax.Array]
    intercept: str
    coefficients: str
    spread: str
    others: Mapping[str, str] = field(default_factory=dict[str, str])


def _gaussian(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    return -0.5 * ((y - eta) / others["sigma"]) ** 2 - jnp.log(others["sigma"])


def _student_t(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    nu, sigma = others["nu"], others["sigma"]
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu) - jnp.log(sigma)
    return constant - (nu + 1) / 2 * jnp.log1p(((y - eta) / sigma) ** 2 / nu)


def _bernoulli(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    del others
    return log_sigmoid((2 * y - 1) * eta)


def _binomial(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    del others
    return y * eta + trials * log_sigmoid(-eta)


def _poisson(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    del others
    return y * eta - jnp.exp(eta)


def _negative_binomial(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    concentration = others["concentration"]
    log_concentration = jnp.log(concentration)
    log_total = jnp.logaddexp(log_concentration, eta)
    known = gammaln(y + concentration) - gammaln(concentration)
    return known + concentration * (log_concentration - log_total) + y * (eta - log_total)


def _categorical(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """The first class is the reference, with predictor zero."""
    del others
    scores = log_softmax(jnp.concatenate([jnp.zeros(1), eta]))
    return jnp.sum(jnp.where(y == jnp.arange(scores.shape[0]), scores, 0.0))


def _ordinal(eta: jax.Array, y: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Log of F(b - eta) - F(a - eta) for a class between the cutpoints a < b, F the logistic function.

    It equals log F(b - eta) + log(1 - F(a - eta)) + log(1 - exp(a - b)), which nothing cancels in.
    """
    cutpoints, gaps = others["cutpoints"], others["gaps"]
    places = jnp.arange(cutpoints.shape[0])
    below = jnp.sum(jnp.where(places == y, log_sigmoid(cutpoints - eta), 0.0))
    above = jnp.sum(jnp.where(places == y - 1, log_sigmoid(eta - cutpoints), 0.0))
    return below + above + jnp.sum(jnp.where(places[1:] == y, jnp.log(-jnp.expm1(-gaps)), 0.0))


def _ordinal_probabilities(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    cumulative = sigmoid(others["cutpoints"] - eta[..., None])
    edge = jnp.zeros((*cumulative.shape[:-1], 1))
    return jnp.diff(jnp.concatenate([edge, cumulative, edge + 1], axis=-1))


def _class_probabilities(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    del others
    return softmax(jnp.concatenate([jnp.zeros((*eta.shape[:-1], 1)), eta], axis=-1))


def _count(key: jax.Array, eta: jax.Array, others: Others) -> jax.Array:
    """Draw a Poisson count; rates beyond a million count as a million, far above every bound that can be of use."""
    del others
    return random.poisson(key, jnp.exp(jnp.minimum(eta, 13.8))).astype(jnp.float32)


def _overdispersed(key: jax.Array, eta: jax.Array, others: Others) -> jax.Array:
    first, second = random.split(key)
    rate = random.gamma(first, others["concentration"], eta.shape) / others["concentration"]
    return _count(second, eta + jnp.log(jnp.maximum(rate, 1e-30)), others)


def _location(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    del others
    return eta


def _rate(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    del others
    return jnp.exp(eta)


def _share(eta: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    del others
    return trials * sigmoid(eta)


FAMILIES: Mapping[str, Family] = {
    "gaussian": Family(
        "normal around the predictor, with the standard deviation sigma",
        "number",
        _gaussian,
        _location,
        lambda key, eta, _, others: eta + others["sigma"] * random.normal(key, eta.shape),
        "normal(0, 1)",
        "normal(0, 0.5)",
        "half_normal(0.5)",
        {"sigma": "half_normal(0.5)"},
    ),
    "student_t": Family(
        "Student t around the predictor, with the scale sigma and nu degrees of freedom",
        "number",
        _student_t,
        _location,
        lambda key, eta, _, others: eta + others["sigma"] * random.t(key, others["nu"], eta.shape),
        "normal(0, 1)",
        "normal(0, 0.5)",
        "half_normal(0.5)",
        {"sigma": "half_normal(0.5)", "nu": "gamma(2, 0.1)"},
    ),
    "bernoulli": Family(
        "yes with log-odds equal to the predictor",
        "binary",
        _bernoulli,
        _share,
        lambda key, eta, _trials, _others: random.bernoulli(key, sigmoid(eta)).astype(jnp.float32),
        "normal(0, 2)",
        "normal(0, 1.5)",
        "half_normal(1)",
    ),
    "binomial": Family(
        "a number of successes in some trials, each with log-odds equal to the predictor",
        "proportion",
        _binomial,
        _share,
        lambda key, eta, trials, _others: random.binomial(key, trials, sigmoid(eta)),
        "normal(0, 2)",
        "normal(0, 1.5)",
        "half_normal(1)",
    ),
    "poisson": Family(
        "a Poisson count, the predictor is the logarithm of its mean",
        "count",
        _poisson,
        _rate,
        lambda key, eta, _, others: _count(key, eta, others),
        "",
        "normal(0, 1)",
        "half_normal(1)",
    ),
    "negative_binomial": Family(
        "a count with variance mean + mean^2 / concentration, the predictor is the logarithm of its mean",
        "count",
        _negative_binomial,
        _rate,
        lambda key, eta, _, others: _overdispersed(key, eta, others),
        "",
        "normal(0, 1)",
        "half_normal(1)",
        {"concentration": "gamma(2, 0.1)"},
    ),
    "categorical": Family(
        "one of the classes; each but the first has a predictor, its log-odds against the first",
        "classes",
        _categorical,
        _class_probabilities,
        lambda key, eta, _trials, _others: random.categorical(
            key, jnp.concatenate([jnp.zeros((*eta.shape[:-1], 1)), eta], axis=-1)
        ),
        "normal(0, 2)",
        "normal(0, 1.5)",
        "half_normal(1)",
    ),
    "ordinal": Family(
        "one of ordered classes; at most class k with log-odds equal to cutpoint k less the predictor",
        "order",
        _ordinal,
        _ordinal_probabilities,
        lambda key, eta, trials, others: random.categorical(
            key, jnp.log(_ordinal_probabilities(eta, trials, others) + 1e-30)
        ),
        "normal(0, 2)",
        "normal(0, 1.5)",
        "half_normal(1)",
        {},
    ),
}
"""All families by name."""

CUTPOINTS = "normal(0, 2)"
"""The default prior of the cutpoints of an ordinal response: independent normals, in order."""
