"""Arrow-shaped symmetric matrices: a small block for each group, a border, and a corner that all groups share.

A record is in one group, so that what it knows of two groups at once is zero. Groups stand first: then the lower root
of an arrow is an arrow too, and solving takes time that grows with the number of groups, not with its cube.
"""

from typing import NamedTuple

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.scores import Floats


def cholesky(matrix: Floats) -> Floats:
    """Return the lower root."""
    return np.asarray(np.linalg.cholesky(matrix), np.float64)


def solve(left: Floats, right: Floats) -> Floats:
    """Return left^-1 right."""
    return np.asarray(np.linalg.solve(left, right), np.float64)


def at_least(numbers: Floats, rows: Floats) -> Floats:
    """Return numbers of rows that are positive: no less than a hundredth of what is usual, in any direction."""
    values, vectors = np.linalg.eigh((numbers + np.swapaxes(numbers, 1, 2)) / 2)
    least = np.maximum(0.02 * rows, 1.0)[:, None]
    return (vectors * np.maximum(values, least)[:, None, :]) @ np.swapaxes(vectors, 1, 2)


class Vectors(NamedTuple):
    """Vectors over groups and what is common to them: as many as there are columns in the last axis."""

    groups: Floats
    """(groups, size of a block, vectors)."""
    common: Floats
    """(common, vectors)."""

    def plus(self, other: "Vectors") -> "Vectors":
        """Return the sum of vectors; one alone is added to all."""
        return Vectors(self.groups + other.groups, self.common + other.common)


class Arrow(NamedTuple):
    """A symmetric matrix."""

    blocks: Floats
    """(groups, size, size)."""
    border: Floats
    """(groups, size, common)."""
    corner: Floats
    """(common, common)."""

    def plus(self, other: "Arrow") -> "Arrow":
        """Return the sum of two."""
        return Arrow(self.blocks + other.blocks, self.border + other.border, self.corner + other.corner)

    def times(self, vectors: Vectors) -> Vectors:
        """Return its products with vectors."""
        return Vectors(
            self.blocks @ vectors.groups + self.border @ vectors.common,
            np.einsum("gkc,gkv->cv", self.border, vectors.groups) + self.corner @ vectors.common,
        )

    def root(self) -> "Root":
        """Return the lower root.

        Raises:
            LinAlgError: it is not positive.
        """
        blocks = cholesky(self.blocks)
        border = solve(blocks, self.border)
        corner = cholesky(self.corner - np.einsum("gkc,gkd->cd", border, border))
        return Root(blocks, border, corner)

    def dense(self) -> Floats:
        """Return it written out, groups first."""
        number, size = self.border.shape[:2]
        whole = np.zeros((number * size + len(self.corner),) * 2)
        for group, (block, border) in enumerate(zip(self.blocks, self.border, strict=True)):
            own = slice(group * size, (group + 1) * size)
            whole[own, own], whole[own, number * size :], whole[number * size :, own] = block, border, border.T
        whole[number * size :, number * size :] = self.corner
        return whole


class Root(NamedTuple):
    """The lower root of an arrow: blocks, the transpose of what stands below them, and the lower right corner."""

    blocks: Floats
    border: Floats
    corner: Floats

    def times(self, vectors: Vectors) -> Vectors:
        """Return its products with vectors."""
        below = np.einsum("gkc,gkv->cv", self.border, vectors.groups)
        return Vectors(self.blocks @ vectors.groups, below + self.corner @ vectors.common)

    def forward(self, vectors: Vectors) -> Vectors:
        """Return root^-1 vectors."""
        groups = solve(self.blocks, vectors.groups)
        rest = vectors.common - np.einsum("gkc,gkv->cv", self.border, groups)
        return Vectors(groups, solve(self.corner, rest))

    def solve(self, vectors: Vectors) -> Vectors:
        """Return arrow^-1 vectors."""
        half = self.forward(vectors)
        common = solve(self.corner.T, half.common)
        return Vectors(solve(np.swapaxes(self.blocks, 1, 2), half.groups - self.border @ common), common)

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant of the arrow."""
        both = np.diagonal(self.blocks, axis1=1, axis2=2), np.diagonal(self.corner)
        return 2 * float(sum(np.sum(np.log(each)) for each in both))


class Precision:
    """An arrow plus a few rows: arrow + rows^T rows, the precision of a normal law."""

    def __init__(self, arrow: Arrow, rows: Vectors) -> None:
        """Take it apart; the rows are vectors of the arrow's shape."""
        self._root, self._rows = arrow.root(), rows
        self._through = self._root.solve(rows)
        self._inner = cholesky(np.eye(rows.common.shape[1]) + _products(rows, self._through))

    def solve(self, vectors: Vectors) -> Vectors:
        """Return (arrow + rows^T rows)^-1 vectors."""
        plain = self._root.solve(vectors)
        inner = solve(self._inner.T, solve(self._inner, _products(self._rows, plain)))
        return Vectors(plain.groups - self._through.groups @ inner, plain.common - self._through.common @ inner)

    def log_determinant(self) -> float:
        """Return the logarithm of the determinant."""
        return self._root.log_determinant() + 2 * float(np.sum(np.log(np.diag(self._inner))))

    def draw(self, tilt: Vectors, number: int, rng: np.random.Generator) -> Vectors:
        """Return draws of the normal law with this precision, and precision times mean as given."""
        size, own = self._rows.common.shape
        noise = self._root.times(
            Vectors(rng.standard_normal((*self._rows.groups.shape[:2], number)), rng.standard_normal((size, number)))
        )
        more = rng.standard_normal((own, number))
        noise = noise.plus(Vectors(self._rows.groups @ more, self._rows.common @ more))
        return self.solve(noise.plus(tilt))


class Measured(NamedTuple):
    """What a measurement of slope * parameters tells of the parameters: an arrow plus rows, and precision times mean.

    What a group's own measurement tells is an arrow; what the common ones tell reads all groups, and is told as rows.
    """

    told: Arrow
    rows: Vectors
    tilt: Vectors

    def beside(self, prior: Arrow) -> Precision:
        """Return the precision beside a prior."""
        return Precision(self.told.plus(prior), self.rows)


def measured(slope: Arrow, spread: Arrow, score: Vectors) -> Measured:
    """Return what is known of parameters of which slope * parameters was measured with a covariance."""
    root = spread.root()
    own, beside = solve(root.blocks, slope.blocks), solve(root.blocks, slope.border)
    turned = np.swapaxes(own, 1, 2)
    told = Arrow(turned @ own, turned @ beside, np.einsum("gkc,gkd->cd", beside, beside))
    below = np.swapaxes(slope.border, 1, 2) - np.swapaxes(root.border, 1, 2) @ own
    of_groups = np.swapaxes(solve(root.corner, below), 1, 2)
    corner = solve(root.corner, slope.corner - np.einsum("gkc,gkd->cd", root.border, beside))
    return Measured(told, Vectors(of_groups, corner.T), slope.times(root.solve(score)))


def _products(first: Vectors, second: Vectors) -> Floats:
    """Return the products of vectors with others."""
    return np.einsum("gku,gkv->uv", first.groups, second.groups) + first.common.T @ second.common
