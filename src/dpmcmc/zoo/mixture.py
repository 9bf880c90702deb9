"""A mixture of two normal laws with a tied mean (Heikkilä et al. 2019, Section 4; Welling and Teh 2011)."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.gaussian import SPREAD
from dpmcmc.zoo.grid import Grid
from dpmcmc.zoo.problem import Problem, Vector, generator, vector

NODES = 512
"""So many places stand for the records where there are more records than that."""


def mixture(
    rng: np.random.Generator,
    *,
    num_records: int,
    truth: ArrayLike = (0.0, 1.0),
    variance: float = 2.0,
    prior_variances: ArrayLike = (10.0, 1.0),
    temperature: float = 1.0,
    name: str = "mixture",
    paper: str = "",
    start_scale: float | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Problem:
    """Return n records x ~ (N(theta1, variance) + N(theta1 + theta2, variance)) / 2 with independent normal priors.

    The posterior has two modes, (theta1, theta2) and (theta1 + theta2, -theta2), and is found by quadrature.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    variance = validation.positive("variance", variance)
    truth = vector("truth", truth, 2)
    prior = vector("prior_variances", prior_variances, 2)
    if prior.min() <= 0:
        validation.refuse("prior_variances", prior_variances, "must be > 0")
    model = mixture_model(variance, prior, temperature)
    middle = truth[0] + truth[1] * generator(rng).integers(0, 2, num_records)
    records = rng.normal(middle, np.sqrt(variance)).astype(np.float32)
    law = quadrature(records.astype(np.float64), variance, prior, model.temperature)
    reach = float(np.sum(np.abs(truth)) + SPREAD * np.sqrt(variance))
    return Problem(
        name,
        paper,
        model,
        records,
        {"records": (-reach, reach)},
        law,
        truth,
        float(np.mean(np.sqrt(law.variances))) if start_scale is None else start_scale,
        settings or {},
    )


def mixture_model(variance: float, prior_variances: Vector, temperature: float) -> Model:
    """Return the model of one record."""
    constant = -0.5 * float(np.log(2 * np.pi * variance)) - float(np.log(2))
    of_prior = -0.5 * float(np.sum(np.log(2 * np.pi * prior_variances)))

    def log_prior(position: jax.Array) -> jax.Array:
        return of_prior - jnp.sum(jnp.asarray(0.5 / prior_variances, position.dtype) * position**2)

    def log_likelihood(position: jax.Array, record: jax.Array) -> jax.Array:
        first = -0.5 / variance * (record - position[0]) ** 2
        second = -0.5 / variance * (record - position[0] - position[1]) ** 2
        return jnp.logaddexp(first, second) + constant

    def sample_prior(key: jax.Array) -> jax.Array:
        return jnp.asarray(np.sqrt(prior_variances), jnp.float32) * jax.random.normal(key, (2,))

    return Model(
        log_prior,
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_prior,
        position=jax.ShapeDtypeStruct((2,), jnp.float32),
    )


def quadrature(records: Vector, variance: float, prior_variances: Vector, temperature: float) -> Grid:
    """Return the posterior on a grid.

    One record's log-likelihood is that of N(x; theta1, variance) plus log((1 + exp(theta2 z)) / 2) with
    z = (x - theta1 - theta2 / 2) / variance. The first part is summed in closed form; of the second the sum depends on
    the records through `condensed` places and weights.
    """
    places, weights = condensed(records)
    total, squares = weights.sum(), weights @ places**2

    def log_density(first: Vector, second: Vector) -> NDArray[np.float64]:
        table = -0.5 * (first[:, None] ** 2 / prior_variances[0] + second**2 / prior_variances[1])
        normal = -0.5 / variance * (squares - 2 * first * (weights @ places) + total * first**2)
        table += temperature * normal[:, None]
        for row, theta1 in enumerate(first):
            scaled = second / variance * (places[:, None] - theta1 - second / 2)
            table[row] += temperature * (weights @ np.logaddexp(0.0, scaled))
        return table

    reach = 6 * np.sqrt(prior_variances)
    return Grid.of(log_density, -reach, reach)


def condensed(records: Vector) -> tuple[Vector, Vector]:
    """Return places and weights such that sums of smooth functions over records and over places are nearly equal.

    Each of many records is split between four neighbours of a regular grid by cubic interpolation: the error of a sum
    is at most 0.024 h^4 max(f'''') a record, where h is the distance of the neighbours.
    """
    if len(records) <= NODES:
        return records, np.ones(len(records))
    lower, upper = records.min(), records.max()
    width = (upper - lower) / (NODES - 4)
    places = lower + width * (np.arange(NODES) - 1)
    index = np.clip(np.floor((records - lower) / width).astype(np.int64) + 1, 1, NODES - 3)
    u = (records - places[index]) / width
    parts = {
        -1: -u * (u - 1) * (u - 2) / 6,
        0: (u + 1) * (u - 1) * (u - 2) / 2,
        1: -(u + 1) * u * (u - 2) / 2,
        2: (u + 1) * u * (u - 1) / 6,
    }
    weights = np.zeros(NODES)
    for move, part in parts.items():
        weights += np.bincount(index + move, part, NODES)
    return places, weights
