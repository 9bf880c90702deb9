"""How far parameters are from a point in what the laws of responses show of them.

The released scores tell about the parameters through the laws of the responses alone. Where directions of the
parameters change no law, as a common mean raised and all effects lowered, or a spread doubled and its effects halved,
the likelihood is constant along curves: a normal one in the parameters themselves would close them off. So distances
are measured in the laws' own parameters, mapped to the real line, at made-up records within the stated bounds.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from dpmcmc.fitting.strategies.centred_scores.points import Points, laws_at
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import Whitening
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

SMALLEST = 1e-4
"""Singular values below this share of the largest are directions that the laws do not show."""


class Displacement(NamedTuple):
    """The whitened displacement from a point, as arrays: that which laws show at made-up records, or that itself."""

    rows: Any
    """The records; None if it is measured in the parameters themselves."""
    base: Any
    back: Any

    def of(self, observed: Observed | None, layout: Layout, vector: Any) -> jax.Array:
        """Return the displacement of a flat position; in JAX."""
        there = vector if self.rows is None else laws_at(observed, layout, vector, self.rows).ravel()
        return self.back @ (there - self.base)

    def on_host(self, points: Points, vector: Floats) -> Floats:
        """Return the same on the host."""
        there = vector if self.rows is None else points.at(vector, self.rows).laws.ravel()
        return np.asarray(self.back @ (there - self.base), float)


def displacement(points: Points, point: Floats, whitening: Whitening, scales: Floats) -> Displacement:
    """Return the displacement from a point that the laws show.

    Made-up records at which they are not finite, such as the logarithm of a zero, have no part in it: another one
    stands in their places, for a derivative through them would not be a number.
    """
    base, jacobian, kept = _at(points, point, scales)
    stand_in = np.where(kept, np.arange(len(kept)), np.flatnonzero(kept)[0])
    rows = jax.tree.map(lambda leaf: leaf[stand_in], points.rows)
    columns = np.zeros((len(point), *base.shape))
    inverse = np.linalg.pinv(jacobian[kept].reshape(-1, len(point)), rcond=SMALLEST)
    columns[:, kept] = inverse.reshape(len(point), -1, base.shape[1])
    back = whitening.inverse @ (scales[:, None] * columns.reshape(len(point), -1))
    return Displacement(rows, *(each.astype(np.float32) for each in (base[stand_in].ravel(), back)))


def linear_displacement(point: Floats, whitening: Whitening) -> Displacement:
    """Return the whitened displacement from a point itself."""
    return Displacement(None, *(np.asarray(each, np.float32) for each in (point, whitening.inverse)))


def hidden_directions(points: Points, point: Floats, scales: Floats) -> Floats:
    """Return the directions at a point that change no law, as rows of length one."""
    _, jacobian, kept = _at(points, point, scales)
    _, values, rows = np.linalg.svd(jacobian[kept].reshape(-1, len(point)), full_matrices=True)
    values = np.append(values, np.zeros(len(rows) - len(values)))
    found = rows[values <= SMALLEST * values.max(initial=0.0)] * scales
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)


def _at(points: Points, point: Floats, scales: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the laws' parameters at made-up records, how they move in widths of the prior, and which are finite."""
    found = points.at(point)
    jacobian = found.moves * scales
    kept = np.asarray(np.isfinite(found.laws).all(axis=1) & np.isfinite(jacobian).all(axis=(1, 2)))
    if not kept.any():
        raise ValueError("the laws are not finite at any made-up record where the steps led")
    return found.laws, jacobian, kept
