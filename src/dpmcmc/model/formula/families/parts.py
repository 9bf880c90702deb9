"""What several families share: links, draws of counts, default priors, starts."""

from collections.abc import Callable
from math import log
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import sigmoid
from jax.scipy import special as of_jax
from scipy import special

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.zeros import ZERO
from dpmcmc.model.formula.families.family import Others, Stated

MOST_LOG_RATE = 13.8
"""Rates beyond a million count as a million, far above every bound that can be of use."""

FARTHEST_LOG = 60.0
"""Logarithms of a number over its mean count as this beyond it."""

NO_SHAPES: Floats = np.zeros(0)


def location(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return the predictor."""
    del others
    return eta


def rate(eta: jax.Array, _: jax.Array, others: Others) -> jax.Array:
    """Return what the predictor is the logarithm of."""
    del others
    return jnp.exp(eta)


def share(eta: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the expected successes."""
    del others
    return trials * sigmoid(eta)


def poisson(key: jax.Array, eta: jax.Array) -> jax.Array:
    """Draw Poisson counts."""
    return random.poisson(key, jnp.exp(jnp.minimum(eta, MOST_LOG_RATE))).astype(jnp.float32)


def negative_binomial(key: jax.Array, eta: jax.Array, concentration: Any) -> jax.Array:
    """Draw overdispersed counts."""
    first, second = random.split(key)
    rates = random.gamma(first, concentration, eta.shape) / concentration
    return poisson(second, eta + jnp.log(jnp.maximum(rates, 1e-30)))


def count_intercept(response: Stated) -> str:
    """Return the default prior of a count's intercept, which reaches from one to the largest count."""
    middle = log(1 + response.bounds[1]) / 2
    return f"normal({middle:.3g}, {max(1.0, middle):.3g})"


def log_intercept(response: Stated) -> str:
    """Return the default prior of a positive number's intercept, which reaches over its bounds."""
    low, high = (log(bound) for bound in response.bounds)
    return f"normal({(low + high) / 2:.3g}, {max(1.0, (high - low) / 2):.3g})"


SMALLEST = 1e-5
"""Of a response that may be zero: numbers below so much of its upper bound are read as that."""


def log_upper_intercept(response: Stated) -> str:
    """Return the default prior of the intercept of a number that may be zero."""
    high = log(response.bounds[1])
    low = log(SMALLEST) + high
    return f"normal({(low + high) / 2:.3g}, {(high - low) / 2:.3g})"


def inflated(counts: jax.Array, log_zero: jax.Array, y: jax.Array, share_of: Any) -> jax.Array:
    """Return the log-density of counts of which a share is zero whatever the predictor says."""
    at_zero = jnp.logaddexp(jnp.log(share_of), jnp.log1p(-share_of) + log_zero)
    return jnp.where(y == 0, at_zero, jnp.log1p(-share_of) + counts)


def hurdle(counts: jax.Array, log_zero: jax.Array, y: jax.Array, share_of: Any) -> jax.Array:
    """Return the log-density of zero with one probability, and else of counts that are not zero."""
    least = jnp.minimum(log_zero, -1e-30)
    above = jnp.log1p(-share_of) + counts - jnp.log(-jnp.expm1(least))
    return jnp.where(y == 0, jnp.log(share_of), above)


def number_or_zero(numbers: Callable[[jax.Array], jax.Array], eta: jax.Array, y: jax.Array, share_of: Any) -> jax.Array:
    """Return the log-density of zero with one probability, and else of numbers, given theirs."""
    is_zero = y <= ZERO / 2
    above = jnp.log1p(-share_of) + numbers(jnp.where(is_zero, eta, y))
    return jnp.where(is_zero, jnp.log(share_of), above)


def keep_or_zero(key: jax.Array, share_of: Any, draw: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Draw, and put zero in the place of a share of it."""
    first, second = random.split(key)
    drawn = draw(first)
    return jnp.where(random.uniform(second, drawn.shape) < share_of, 0.0, drawn)


def poisson_above_zero(key: jax.Array, eta: jax.Array) -> jax.Array:
    """Draw Poisson counts that are not zero: the time of the first event, and the events after it."""
    first, second = random.split(key)
    mean = jnp.exp(jnp.minimum(eta, MOST_LOG_RATE))
    time = -jnp.log1p(random.uniform(first, eta.shape) * jnp.expm1(-mean))
    return 1.0 + random.poisson(second, jnp.maximum(mean - time, 0.0)).astype(jnp.float32)


def digamma(xp: Any, value: Any) -> Any:
    """Return the digamma function, of NumPy's or JAX's arrays."""
    return special.digamma(value) if xp is np else of_jax.digamma(value)


def logistic(xp: Any, value: Any) -> Any:
    """Return the logistic function, of NumPy's or JAX's arrays."""
    return special.expit(value) if xp is np else sigmoid(value)


def log_odds(response: Spread, floor: float) -> Floats:
    """Return the log-odds of a share, to start from."""
    return np.array([special.logit(np.clip(response.mean, floor, 1 - floor))])
