"""Successes in trials that share their luck: more variance than the binomial law has."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.nn import sigmoid
from jax.scipy.special import gammaln

from dpmcmc.model.bounded_scores.base import Floats
from dpmcmc.model.bounded_scores.spread import Spread
from dpmcmc.model.bounded_scores.trials import MOST_TRIALS, TrialsScores
from dpmcmc.model.formula.families.binomial import log_coefficients
from dpmcmc.model.formula.families.family import Family, Others
from dpmcmc.model.formula.families.parts import log_odds, logistic, share
from dpmcmc.model.formula.links import LOGIT

LEAST = 1e-6
"""Means are at least so far from zero and one."""


def log_density(eta: jax.Array, y: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    """Return the logarithm of the probability, without the binomial coefficient."""
    phi, mean = others["phi"], jnp.clip(sigmoid(eta), LEAST, 1 - LEAST)
    first, second = mean * phi, (1 - mean) * phi
    ratio = gammaln(first + y) - gammaln(first) + gammaln(second + trials - y) - gammaln(second)
    return ratio - gammaln(phi + trials) + gammaln(phi)


class BetaBinomial(TrialsScores):
    """The shape is the logarithm of the precision phi: of the beta law that each record's chance has."""

    num_shapes = 1
    usual_length = 1.4

    def law(self, xp: Any, counts: Any, predictor: Any, shapes: Any, trials: Any) -> tuple[Any, Any]:
        """Return log-probabilities and scores, by sums over the trials: no gamma function is needed."""
        phi = xp.exp(shapes[0])
        mean = xp.clip(logistic(xp, predictor), LEAST, 1 - LEAST)
        first, second = mean * phi, (1 - mean) * phi
        failures = xp.clip(trials - counts, 0, self.trials).astype(np.int32)
        logs_first, sums_first = _sums(xp, first, counts)
        logs_second, sums_second = (each[failures] for each in _sums(xp, second, counts))
        _, sums_phi = _sums(xp, phi, counts)
        all_of = sums_phi[xp.asarray(trials).astype(np.int32)]
        by_mean = phi * mean * (1 - mean) * (sums_first - sums_second)
        by_phi = first * sums_first + second * sums_second - phi * all_of
        logs = log_coefficients(xp, counts, trials) + logs_first + logs_second
        return logs, xp.stack([by_mean, by_phi], axis=-1)

    def start(self, response: Spread, floor: float) -> tuple[Floats, Floats]:
        """Return the log-odds, and the precision that the variance of the shares has."""
        constants = log_odds(response, floor)
        mean = float(np.clip(response.mean, floor, 1 - floor))
        excess = response.variance / (mean * (1 - mean))  # (1 + (n - 1) rho) / n, rho = 1 / (1 + phi)
        rho = (excess * self.trials - 1) / max(self.trials - 1, 1.0)
        return constants, np.array([np.log(1 / np.clip(rho, 0.01, 0.9) - 1)])


def _sums(xp: Any, base: Any, counts: Any) -> tuple[Any, Any]:
    """Return for each count the sums of log(base + j) and of 1 / (base + j) over the j below it."""
    terms = base + counts[:-1]
    zero = xp.zeros(1)
    return xp.concatenate([zero, xp.cumsum(xp.log(terms))]), xp.concatenate([zero, xp.cumsum(1 / terms)])


def _draw(key: jax.Array, eta: jax.Array, trials: jax.Array, others: Others) -> jax.Array:
    first, second = random.split(key)
    mean = jnp.clip(sigmoid(eta), LEAST, 1 - LEAST)
    chance = random.beta(first, mean * others["phi"], (1 - mean) * others["phi"])
    return random.binomial(second, trials, jnp.clip(chance, 0.0, 1.0))


FAMILY = Family(
    name="beta_binomial",
    words="a number of successes in some trials, whose chance varies around the predictor with the precision phi",
    response="proportion",
    link=LOGIT,
    log_density=log_density,
    mean=share,
    draw=_draw,
    scores=lambda response: BetaBinomial(response.most_trials),
    intercept="normal(0, 2)",
    coefficients="normal(0, 1.5)",
    spread="half_normal(1)",
    others={"phi": "gamma(2, 0.1)"},
    most_trials=MOST_TRIALS,
    aliases=("betabinomial",),
)
