"""Linear regression from noisy sufficient statistics, with their noise in the posterior (Bernstein and Sheldon, 2019).

Of rows v = (1, x, y) in [-1, 1] the matrix S = sum v v^T is released once, by a Gaussian mechanism in the place of
their Laplace one. Given the normal model, X^T X = A and the number of records, X^T y and y^T y have known means and
covariances and are normal, as theirs are; X^T X is a parameter, any positive definite matrix beforehand, which needs
no fourth moments of x. NUTS draws coefficients, scale and A together.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS, init_to_value

from dpmcmc.accounting import Gaussian, noise_for
from experiments.beyond.real_tables import Question

NUM_WARMUP, NUM_DRAWS = 400, 600


class Released(NamedTuple):
    """The noisy matrix, the standard deviation of the noise on its diagonal, and the number of records.

    Entries off the diagonal have a root of two less noise.
    """

    matrix: Any
    sd: Any
    size: Any


class Around(NamedTuple):
    """Where the sampler starts, and in which coordinates it moves."""

    coefficients: Any
    log_sigma: Any
    size: Any
    root: Any
    widths: Any
    """About how far the noise moves entries of the triangle, at most one."""


def sensitivity(num_columns: int) -> float:
    """Return how far apart v v^T and w w^T are, in the Frobenius norm, at most: root two times the columns.

    |v v^T - w w^T|^2 = |v|^4 + |w|^4 - 2 (v . w)^2, and no entry is longer than one.
    """
    return float(np.sqrt(2.0)) * num_columns


def release(rows: np.ndarray, epsilon: float, delta: float, rng: np.random.Generator) -> Released:
    """Return the noisy matrix of rows (1, x, y), one record replaced; that the first column is one is public."""
    rows = np.clip(rows, -1.0, 1.0)
    sd = sensitivity(rows.shape[1]) * noise_for(Gaussian, epsilon, delta)
    noise = rng.normal(size=(rows.shape[1],) * 2) * sd / np.sqrt(2.0)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.sqrt(2.0) * np.diag(np.diag(noise))
    matrix = rows.T @ rows + noise
    matrix[0, 0] = len(rows)
    return Released(matrix, sd, float(len(rows)))


def noise_aware(question: Question, epsilon: float, seed: int, delta: float) -> Any:
    """Return draws of the posterior given the release, as positions; None where the model is another."""
    if question.family != "gaussian" or question.schema.person is not None:
        return None
    response = question.of_row.coordinates.response
    features = np.asarray(jax.vmap(question.of_row.features)(question.records), np.float64)
    labels = (np.asarray(question.records[response.name], np.float64) - response.centre) / response.half
    rng = np.random.default_rng(seed)
    found = release(np.column_stack([features, labels]), epsilon, delta, rng)
    return draws_given(question.of_row, found, seed)


def draws_given(model: Any, found: Released, seed: int) -> Any:
    """Return draws of the posterior, as positions of the model."""
    near = _positive(found.matrix[:-1, :-1], found.sd)
    begun = np.linalg.solve(near, found.matrix[:-1, -1])
    left = max(found.matrix[-1, -1] - found.matrix[:-1, -1] @ begun, found.sd)
    root = np.linalg.cholesky(near)
    lengths = np.linalg.norm(np.linalg.inv(root), axis=1)
    widths = np.minimum(found.sd * np.outer(lengths, lengths) / np.sqrt(2.0), 1.0)
    around = Around(begun, 0.5 * np.log(left / found.size), found.size, root, widths)
    with jax.enable_x64(True):
        given = jax.tree.map(lambda value: jnp.asarray(value, jnp.float64), (found, around))
        sampler = _sampler(model, len(begun))
        sampler.run(jax.random.key(seed), *given)
        positions = jax.vmap(lambda moved: _parameters(moved, given[1])[0])(sampler.get_samples()["moved"])
        plain = {name: np.asarray(values, np.float32) for name, values in positions.items()}
    return {name: jnp.asarray(values) for name, values in plain.items()}


def _positive(matrix: np.ndarray, sd: float) -> np.ndarray:
    """Return a matrix that is positive definite, near a noisy one; its first entry is the number of records."""
    values, directions = np.linalg.eigh(matrix)
    near = (directions * np.maximum(values, sd)) @ directions.T
    near[0, 0] = max(near[0, 0], matrix[0, 0])
    scale = np.ones(len(near))
    scale[0] = np.sqrt(matrix[0, 0] / near[0, 0])
    return near * np.outer(scale, scale)


@lru_cache(maxsize=8)
def _sampler(model: Any, dimension: int) -> MCMC:
    number = dimension + 1 + dimension - 1 + dimension * (dimension - 1) // 2

    def joint(found: Released, around: Around) -> None:
        moved = numpyro.sample("moved", dist.ImproperUniform(dist.constraints.real, (), (number,)))
        position, root, log_volume = _parameters(moved, around)
        numpyro.factor("density", model.log_prior(position) + log_volume + _log_likelihood(position, root, found))

    start = init_to_value(values={"moved": np.zeros(number)})
    kernel = NUTS(joint, dense_mass=True, init_strategy=start)
    return MCMC(kernel, num_warmup=NUM_WARMUP, num_samples=NUM_DRAWS, progress_bar=False, jit_model_args=True)


def _parameters(moved: jax.Array, around: Around) -> tuple[dict[str, jax.Array], jax.Array, jax.Array]:
    """Return a position of the model, a root of A, and the log-volume of what is moved in that of positions and A.

    A = C L L^T C^T, C the root that it starts from, L lower triangular with a first entry of one: that of A is known.
    """
    size = len(around.coefficients)
    scale = jnp.exp(around.log_sigma)
    coefficients = around.coefficients + scale * jnp.linalg.solve(around.root.T, moved[:size])
    position = {"coefficients": coefficients, "sigma": around.log_sigma + moved[size] / jnp.sqrt(2 * around.size)}
    diagonal = jnp.concatenate([jnp.zeros(1), jnp.diag(around.widths)[1:] * moved[size + 1 : 2 * size]])
    below = jnp.zeros((size, size)).at[np.tril_indices(size, -1)].set(moved[2 * size :])
    triangle = around.widths * below + jnp.diag(jnp.exp(diagonal))
    log_volume = jnp.sum((size + 1 - jnp.arange(size)) * diagonal)
    return position, around.root @ triangle, log_volume


def _log_likelihood(position: dict[str, jax.Array], root: jax.Array, found: Released) -> jax.Array:
    """Return the log-density of the released matrix."""
    coefficients, variance = position["coefficients"], jnp.exp(2 * position["sigma"])
    inner, places = root @ root.T, np.triu_indices(len(root))
    off = (found.matrix[:-1, :-1] - inner)[places] / jnp.where(places[0] == places[1], 1.0, np.sqrt(0.5))
    fitted = inner @ coefficients
    square = coefficients @ fitted
    mean = jnp.append(fitted, square + found.size * variance)
    cross = 2 * variance * fitted[:, None]
    last = 4 * variance * square + 2 * found.size * variance**2
    covariance = jnp.block([[variance * inner, cross], [cross.T, last[None, None]]])
    noise = found.sd**2 * jnp.append(jnp.full(len(root), 0.5), 1.0)
    of_response = dist.MultivariateNormal(mean, covariance + jnp.diag(noise))
    return of_response.log_prob(found.matrix[:, -1]) - 0.5 * jnp.sum((off / found.sd) ** 2)
