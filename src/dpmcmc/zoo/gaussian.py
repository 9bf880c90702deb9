"""The mean of a normal law with known covariance (Räisä, Koskela and Honkela 2021, Section 4)."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmcmc import validation
from dpmcmc.model import Model
from dpmcmc.zoo.normal import Normal, covariance_matrix
from dpmcmc.zoo.priors import normal_prior, sample_normal_prior
from dpmcmc.zoo.problem import Problem, generator, vector

SPREAD = 10.0
"""Bounds are so many standard deviations away from the mean: no simulated record is moved by them."""


def gaussian(
    rng: np.random.Generator,
    *,
    num_records: int,
    covariance: NDArray[np.float64],
    truth: ArrayLike,
    prior_mean: ArrayLike = 0.0,
    prior_variance: float = 1e4,
    temperature: float = 1.0,
    name: str = "gaussian",
    paper: str = "",
    start_scale: float | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> Problem:
    """Return n records x ~ N(theta, S) with theta ~ N(m0, v0 I): the posterior is normal (`Normal.posterior`)."""
    num_records = validation.integer("num_records", num_records, at_least=1)
    prior_variance = validation.positive("prior_variance", prior_variance)
    truth = vector("truth", truth)
    centre = vector("prior_mean", np.broadcast_to(prior_mean, truth.shape), truth.size)
    known = covariance_matrix("covariance", covariance, truth.size)
    model = gaussian_model(known, centre, prior_variance, temperature)
    records = generator(rng).multivariate_normal(truth, known, num_records, method="cholesky").astype(np.float32)
    precision = model.temperature * num_records * np.linalg.inv(known).astype(np.float64)
    law = Normal.posterior(centre, prior_variance, precision, precision @ records.mean(axis=0, dtype=np.float64))
    reach = float(np.max(np.abs(truth)) + SPREAD * np.sqrt(np.diag(known).max()))
    return Problem(
        name,
        paper,
        model,
        records,
        {"records": (-reach, reach)},
        law,
        truth,
        law.average_deviation if start_scale is None else start_scale,
        settings or {},
    )


def gaussian_model(
    covariance: NDArray[np.float64], prior_mean: NDArray[np.float64], prior_variance: float, temperature: float
) -> Model:
    """Return the model of one record N(x; theta, S), by the root of the precision: the residual is |W (x - theta)|."""
    dimension = len(prior_mean)
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    constant = -0.5 * (dimension * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1])

    def log_likelihood(position: jax.Array, record: jax.Array) -> jax.Array:
        whitened = jnp.asarray(root, position.dtype) @ (record - position)
        return -0.5 * jnp.sum(whitened**2) + float(constant)

    return Model(
        normal_prior(prior_mean, prior_variance),
        log_likelihood,
        temperature=temperature,
        sample_prior=sample_normal_prior(prior_mean, prior_variance),
        position=jax.ShapeDtypeStruct((dimension,), jnp.float32),
    )


def random_covariance(rng: np.random.Generator, eigenvalues: ArrayLike) -> NDArray[np.float64]:
    """Return a covariance with these eigenvalues; its eigenvectors orthonormalise a matrix of uniform entries.

    So Räisä, Koskela and Honkela (2021, Section 4) after Hoffman et al. (2019); `rng.gamma(0.5, 1.0, d)` are their
    eigenvalues.
    """
    values = vector("eigenvalues", eigenvalues)
    basis, _ = np.linalg.qr(generator(rng).uniform(size=(values.size, values.size)))
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2
