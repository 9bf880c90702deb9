"""Second-order expansion of a model around a centre: a quadratic that is released once, and a remainder per record.

A record's log-likelihood is its Taylor polynomial of second order plus a remainder. The polynomials of all records add
up to a few numbers, the sum of `taylor_terms`; released with noise they are public, and from then on part of the
prior. Only the sum of the remainders, which are small near the centre, still has to be queried.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from dpmcmc.errors import InvalidArgument
from dpmcmc.model.model import Model


def taylor_terms(model: Model) -> Callable[[Any, Any], jax.Array]:
    """Return ``terms(centre, record)``: gradient and Hessian of one record's log-likelihood, as one flat vector.

    Entries of the Hessian above the diagonal are multiplied by the root of two, so that the norm of the vector is that
    of gradient and Hessian together. `remainder` needs the sum over the records, released by `Sum`.

    Args:
        model: the model with the likelihood.
    """

    def terms(centre: Any, record: Any) -> jax.Array:
        flat, unravel = ravel_pytree(centre)

        def added(vector: jax.Array) -> jax.Array:
            return model.temperature * model.log_likelihood(unravel(vector), record)

        rows, columns, weight = _triangle(flat.size)
        hessian = jax.hessian(added)(flat)[rows, columns]
        return jnp.concatenate([jax.grad(added)(flat), weight * hessian])

    return terms


def normal_terms(model: Model, centre: Any, covariance: Any) -> jax.Array:
    """Return the terms that correspond to a released normal approximation of the posterior, such as private Laplace's.

    They are the quadratic of the approximation less that of the prior. So the prior of `remainder` is the normal
    approximation, times the part of the prior beyond its quadratic.

    Args:
        model: any model.
        centre: the mean of the approximation, a position.
        covariance: its covariance, of the flat position.
    """
    flat, unravel = ravel_pytree(centre)
    matrix = jnp.asarray(covariance, jnp.float32)
    if matrix.shape != (flat.size, flat.size):
        raise InvalidArgument(f"covariance has the shape {matrix.shape}; expected {(flat.size, flat.size)}")

    def log_prior(vector: jax.Array) -> jax.Array:
        return model.log_prior(unravel(vector))

    rows, columns, weight = _triangle(flat.size)
    hessian = -jnp.linalg.inv(matrix) - jax.hessian(log_prior)(flat)
    return jnp.concatenate([-jax.grad(log_prior)(flat), weight * hessian[rows, columns]])


def remainder(model: Model, centre: Any, terms: Any) -> Model:
    """Return the model of flat displacements u from a centre, whose likelihood is the remainder of the expansion.

    Its prior is the model's times exp(S(u)), S the quadratic of the released terms; the log-likelihood of a record is
    log p(x; centre + u) less its own polynomial. Without noise and clipping in the terms the posterior is the model's;
    with them it is that times exp of the quadratic of the noise.

    Args:
        model: any model.
        centre: a position near which the posterior is: public, or released.
        terms: the sum of `taylor_terms` at the centre over the records, released; or `normal_terms`.
    """
    flat, unravel = ravel_pytree(centre)
    released = jnp.asarray(terms, jnp.float32)
    rows, columns, weight = _triangle(flat.size)
    if released.shape != (flat.size + len(rows),):
        raise InvalidArgument(
            f"terms has the shape {released.shape}; expected ({flat.size + len(rows)},), gradient and half a Hessian "
            f"of the {flat.size} coordinates of the centre"
        )

    def original(displacement: jax.Array) -> Any:
        return unravel(flat + displacement)

    def surrogate(displacement: jax.Array) -> jax.Array:
        squares = displacement[rows] * displacement[columns] / (2 * weight) * np.where(rows == columns, 1.0, 2.0)
        return released @ jnp.concatenate([displacement, squares])

    def left_over(displacement: jax.Array, record: Any) -> jax.Array:
        def along(time: jax.Array) -> jax.Array:
            return model.log_likelihood(original(time * displacement), record)

        def slope(time: jax.Array) -> jax.Array:
            return jax.jvp(along, (time,), (jnp.ones(()),))[1]

        first, bend = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
        return along(jnp.ones(())) - along(jnp.zeros(())) - first - bend / 2

    return replace(
        model,
        log_prior=lambda displacement: model.log_prior(original(displacement)) + surrogate(displacement),
        log_likelihood=left_over,
        constrain=lambda displacement: model.constrain(original(displacement)),
        unconstrain=lambda parameters: ravel_pytree(model.unconstrain(parameters))[0] - flat,
        sample_prior=None,
        position=jax.ShapeDtypeStruct(flat.shape, flat.dtype),
        observed=None,
    )


def _triangle(dimension: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows and columns of a symmetric matrix's upper half, and the weights of its entries."""
    rows, columns = np.triu_indices(dimension)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0)).astype(np.float32)
