"""The conjugate normal posterior."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpmcmc import validation
from dpmcmc.zoo.problem import Vector


@dataclass(frozen=True, eq=False)
class Normal:
    """The normal law with a mean and a covariance."""

    mean: Vector
    covariance: NDArray[np.float64]

    @classmethod
    def posterior(
        cls, prior_mean: Vector, prior_variance: float, precision: NDArray[np.float64], shift: Vector
    ) -> Self:
        """Return the law with density proportional to N(t; m0, v0 I) exp(t' shift - t' precision t / 2).

        The covariance is (I / v0 + precision)^-1, the mean is covariance (m0 / v0 + shift). For n records N(t, S) with
        the mean x and the temperature T, precision is T n S^-1 and shift is T n S^-1 x (Räisä 2021, Theorem 12).
        """
        covariance = np.linalg.inv(np.eye(len(prior_mean)) / prior_variance + precision)
        return cls(covariance @ (prior_mean / prior_variance + shift), (covariance + covariance.T) / 2)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Vector:
        """Return independent draws, shape (num_draws, d)."""
        factor = np.linalg.cholesky(self.covariance)
        return self.mean + rng.standard_normal((num_draws, len(self.mean))) @ factor.T

    @property
    def average_deviation(self) -> float:
        """The mean over the coordinates of the standard deviations: the papers' scale of start points."""
        return float(np.mean(np.sqrt(np.diag(self.covariance))))


def covariance_matrix(name: str, value: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return a symmetric positive definite matrix."""
    matrix = np.asarray(value, dtype=np.float64)
    if matrix.shape != (dimension, dimension) or not np.allclose(matrix, matrix.T):
        validation.refuse(name, value, f"must be a symmetric matrix with {dimension} rows")
    if np.linalg.eigvalsh(matrix).min() <= 0:
        validation.refuse(name, value, "must be positive definite")
    return matrix
