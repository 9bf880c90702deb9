"""Many chains that start at exact draws of the posterior: if the kernel keeps the posterior, they stay draws of it.

After K steps the states of M chains are independent draws of one law, so that textbook statistics apply to them: no
burn-in, no autocorrelation. Each statistic comes divided by its threshold, which is Bonferroni's for a false alarm in
one test of `FALSE_ALARMS`: a correct kernel stays below one, a mutant goes beyond.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from dpmcmc.enclave import PrivateData
from dpmcmc.kernels import Kernel
from dpmcmc.model import Model
from dpmcmc.run.program import Advance, Begin, Layout

FALSE_ALARMS = 1e-4
CLEARLY = 1.5
"""A mutant must exceed the threshold by this factor."""


@dataclass(frozen=True)
class NormalTarget:
    """The mean of normal records under a normal prior: the posterior is normal, correlated and away from the prior."""

    model: Model
    data: PrivateData
    mean: np.ndarray
    covariance: np.ndarray

    def draw(self, num_draws: int, seed: int) -> np.ndarray:
        normal = np.random.default_rng(seed).standard_normal((num_draws, len(self.mean)))
        return (self.mean + normal @ np.linalg.cholesky(self.covariance).T).astype(np.float32)


def normal_target(num_records: int = 10, temperature: float = 1.0, spread: float = 4.0) -> NormalTarget:
    """Return a target in two dimensions; `spread` scales the covariance of the records."""
    known = spread * np.array([[1.0, 0.6], [0.6, 2.0]])
    precision = np.linalg.inv(known)
    prior_precision, prior_mean = np.diag([0.5, 0.25]), np.array([-1.0, 0.5])
    rng = np.random.default_rng(0)
    records = rng.multivariate_normal([1.0, -0.5], known, size=num_records).clip(-10, 10).astype(np.float32)

    def log_prior(position):
        away = position - jnp.asarray(prior_mean, jnp.float32)
        return -0.5 * away @ jnp.asarray(prior_precision, jnp.float32) @ away

    def log_likelihood(position, record):
        away = record - position
        return -0.5 * away @ jnp.asarray(precision, jnp.float32) @ away

    weight = temperature * num_records * precision
    covariance = np.linalg.inv(prior_precision + weight)
    mean = covariance @ (prior_precision @ prior_mean + weight @ records.mean(0, dtype=np.float64))
    data = PrivateData.without_guarantee(records, bounds={"records": (-10, 10)})
    return NormalTarget(Model(log_prior, log_likelihood, temperature=temperature), data, mean, covariance)


def advance(
    kernel: Kernel, model: Model, data: PrivateData, starts: np.ndarray, num_steps: int, seed: int
) -> tuple[Any, Any]:
    """Start one chain at each place and move it, through the enclave; return the last states and what they told."""
    keys = jax.random.split(jax.random.key(seed), len(starts))
    begin = Begin(kernel, Layout.of(jnp.zeros(starts.shape[1])))
    return move(
        kernel, model, data, data.run(begin, starts, keys, model=model, insecure_seed=2 * seed), num_steps, seed
    )


def move(kernel: Kernel, model: Model, data: PrivateData, states: Any, num_steps: int, seed: int) -> tuple[Any, Any]:
    """Move chains that are in these states."""
    keys = jax.random.split(jax.random.key(seed), len(states.position))
    program = Advance(kernel, Layout.of(jnp.zeros(states.position.shape[1])), num_steps)
    states, (_, info) = data.run(program, states, keys, jnp.uint32(0), model=model, insecure_seed=2 * seed + 1)
    return states, info


def normal_statistics(draws: Any, mean: np.ndarray, covariance: np.ndarray) -> dict[str, float]:
    """Return mean, variance and Kolmogorov-Smirnov statistics of each coordinate and of their sum, over thresholds."""
    draws = np.asarray(draws, np.float64)
    directions = [*np.eye(len(mean)), np.ones(len(mean))]
    found = {}
    for index, direction in enumerate(directions):
        scaled = (draws - mean) @ direction / np.sqrt(direction @ covariance @ direction)
        found |= {
            f"mean {index}": abs(scaled.mean()) * len(draws) ** 0.5,
            f"variance {index}": abs(scaled.var() - 1) * (len(draws) / 2) ** 0.5,
            f"KS {index}": stats.ks_1samp(scaled, stats.norm.cdf, method="asymp").statistic * len(draws) ** 0.5,
        }
    return over_thresholds(found)


def over_thresholds(statistics: Mapping[str, float]) -> dict[str, float]:
    """Divide statistics by their thresholds: abs(z), or sqrt(M) times the distance where the name begins with KS."""
    rate = FALSE_ALARMS / len(statistics)
    normal, kolmogorov = stats.norm.isf(rate / 2), stats.kstwobign.isf(rate)
    return {
        name: float(value / (kolmogorov if name.startswith("KS") else normal)) for name, value in statistics.items()
    }


def worst(kernel: Kernel, target: NormalTarget, *, num_chains: int, num_steps: int = 10, seed: int = 1) -> float:
    """Return the largest statistic of a kernel over its threshold."""
    starts = target.draw(num_chains, seed)
    states, _ = advance(kernel, target.model, target.data, starts, num_steps, seed)
    return max(normal_statistics(states.position, target.mean, target.covariance).values())
