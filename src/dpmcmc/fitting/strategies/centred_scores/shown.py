"""Distances of parameters from a point, measured by the distributions of responses.

The released scores tell about the parameters through the distributions of the responses alone. Where directions of the
parameters change no distribution, as a common mean raised and all effects lowered, or a spread doubled and its effects
halved, the likelihood is constant along curves: a normal one in the parameters themselves would close them off. So
distances are measured in the distributions' own parameters, mapped to the real line, at synthetic records within the
stated bounds.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpmcmc.fitting.strategies.centred_scores.points import Points, laws_at
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats
from dpmcmc.fitting.strategies.weighted_scores.whitening import Whitening
from dpmcmc.model.observed import Observed
from dpmcmc.run.program import Layout

SMALLEST = 1e-4
"""Singular values below this share of the largest are directions that the distributions do not show."""


class Displacement(NamedTuple):
    """The whitened displacement from a point: measured by distributions at synthetic records, or in the parameters."""

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
    """Return the displacement from a point, measured by the distributions.

    Synthetic records at which they are not finite, such as the logarithm of a zero, have no part in it: another one
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
    """Return the directions at a point that change no distribution, as unit rows, orthogonal in prior scales."""
    found = _hidden(points, point, scales) * scales
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-30)


def _hidden(points: Points, point: Floats, scales: Floats) -> Floats:
    """Return the same in widths of the prior."""
    _, jacobian, kept = _at(points, point, scales)
    moves = jacobian[kept].reshape(-1, len(point))
    _, values, rows = np.linalg.svd(moves, full_matrices=len(moves) < len(point))  # the left side is large, and unused
    values = np.append(values, np.zeros(len(rows) - len(values)))
    return rows[values <= SMALLEST * values.max(initial=0.0)]


class Chart(NamedTuple):
    """Whitened coordinates at a point, some of which change no distribution."""

    whitening: Whitening
    blind: Floats
    """These coordinates, as columns that are orthogonal."""

    @property
    def visible(self) -> Floats:
        """What projects on the others."""
        return np.eye(len(self.blind)) - self.blind @ self.blind.T

    def carried(self, points: Points, first: Floats, second: Floats, prior: Floats, scales: Floats) -> "Chart | None":
        """Return the corresponding coordinates at another point; None if the number of hidden directions differs.

        Args:
            points: of the model.
            first: where the coordinates are those of this chart.
            second: the other point.
            prior: the precision of the prior there.
            scales: its widths.
        """
        hidden = _hidden(points, second, scales)
        if len(hidden) != self.blind.shape[1]:
            return None
        there = same_change(points, first, second, scales)
        root, _ = _roots(hidden @ (scales[:, None] * prior * scales) @ hidden.T)
        inverse = self.visible @ self.whitening.inverse @ there + self.blind @ root @ hidden / scales
        return Chart(Whitening(np.asarray(np.linalg.inv(inverse), float), inverse), self.blind)


def chart(points: Points, point: Floats, information: Floats, prior: Floats, scales: Floats) -> Chart:
    """Return whitened coordinates at a point, with directions that change no distribution kept separate.

    As a point moves, the directions that change no distribution turn. In coordinates in which these are as wide as the
    prior and the others as narrow as the posterior, a little of that turns one into the other: so those that
    distributions show are kept free of them.

    Args:
        points: of the model.
        point: the centre.
        information: of the records there.
        prior: its precision there.
        scales: its widths.
    """
    hidden = _hidden(points, point, scales)
    shown = linalg.null_space(hidden).T if len(hidden) else np.eye(len(point))
    prior, information = (scales[:, None] * each * scales for each in (prior, information))
    of_shown, of_hidden = _roots(shown @ (information + prior) @ shown.T), _roots(hidden @ prior @ hidden.T)
    inverse = (shown.T @ of_shown[0] @ shown + hidden.T @ of_hidden[0] @ hidden) / scales
    factor = scales[:, None] * (shown.T @ of_shown[1] @ shown + hidden.T @ of_hidden[1] @ hidden)
    return Chart(Whitening(factor, inverse), hidden.T)


def same_change(points: Points, first: Floats, second: Floats, scales: Floats) -> Floats:
    """Return the map of moves from one point to those from another, the first, that change the distributions alike."""
    (_, before, kept), (_, after, also) = (_at(points, point, scales) for point in (first, second))
    before, after = (each[kept & also].reshape(-1, len(first)) for each in (before, after))
    return scales[:, None] * (np.linalg.pinv(before, rcond=SMALLEST) @ after) / scales


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the root of a positive matrix, and its inverse."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    roots = np.sqrt(np.maximum(values, 1e-12 * values.max(initial=0.0)))
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T


def _at(points: Points, point: Floats, scales: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return distribution parameters at synthetic records, their derivatives in prior scales, and which are finite."""
    found = points.at(point)
    jacobian = found.moves * scales
    kept = np.asarray(np.isfinite(found.laws).all(axis=1) & np.isfinite(jacobian).all(axis=(1, 2)))
    if not kept.any():
        raise ValueError("the distributions are not finite at any synthetic record at the point that the steps reached")
    return found.laws, jacobian, kept
