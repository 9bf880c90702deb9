"""A low-rank form of a public matrix, carried by few of its rows and columns.

The entry in row j and column k is the log-likelihood of a synthetic record j at a position k, minus that at an
origin. It is written as base(k) + <c(j), b(k)> by a singular value decomposition.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.float64]

SPARE = 3
"""Factor by which more rows and columns are kept than the rank requires: coefficients are least-squares fits."""


class Skeleton(NamedTuple):
    """The chosen rows and columns, and the maps from the entries there to the factors."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    to_basis: Matrix
    """(1 + rank, rows): from a column's entries in the chosen rows to (base, b)."""

    to_coefficients: Matrix
    """(columns, rank): from a row's entries in the chosen columns to c."""

    middle: Matrix
    """Subtracted from c, so that its mean is about zero."""

    @property
    def rank(self) -> int:
        """How many coefficients a row has."""
        return self.to_coefficients.shape[1]

    def coefficients(self, in_columns: Matrix) -> Matrix:
        """Return c of rows, one row each, from their entries in the chosen columns."""
        return in_columns @ self.to_coefficients - self.middle

    def basis(self, in_rows: Matrix) -> Matrix:
        """Return (base, b) of columns, one row each, from their entries in the chosen rows."""
        return (self.to_basis @ in_rows).T

    def scaled(self, by: Matrix) -> "Skeleton":
        """Return the same with the coefficients A c in the place of c, and b to match."""
        to_basis = np.vstack([self.to_basis[:1], np.linalg.solve(by.T, self.to_basis[1:])])
        return self._replace(to_basis=to_basis, to_coefficients=self.to_coefficients @ by.T, middle=self.middle @ by.T)

    def centred(self, at: Matrix) -> "Skeleton":
        """Return the same with c - at in the place of c, and the base to match."""
        return self.refilled(at)._replace(middle=self.middle + at)

    def refilled(self, by: Matrix) -> "Skeleton":
        """Return the same where each row counts as if it had the coefficients c + by."""
        to_basis = self.to_basis.copy()
        to_basis[0] += by @ self.to_basis[1:]
        return self._replace(to_basis=to_basis)


class Decomposition:
    """The singular value decomposition of a matrix, with its column means taken out if it is `centred`."""

    def __init__(self, matrix: Matrix, *, centred: bool) -> None:
        self._centred = centred
        self._base = matrix.mean(axis=0) * centred
        self._left, self._values, self._right = scipy.linalg.svd(matrix - self._base, full_matrices=False)

    def cut(self, rank: int) -> Skeleton:
        """Return the skeleton with `rank` coefficients."""
        shares = np.sqrt(self._values[:rank])
        coefficients, basis = self._left[:, :rank] * shares, self._right[:rank].T * shares
        rows, columns = _spanning(coefficients), _spanning(basis)
        with_base = np.column_stack([np.full(len(rows), float(self._centred)), coefficients[rows]])
        to_coefficients = np.asarray(np.linalg.pinv(basis[columns]).T, np.float64)
        middle = self._base[columns] @ to_coefficients
        return Skeleton(rows, columns, np.asarray(np.linalg.pinv(with_base), np.float64), to_coefficients, middle)


def _spanning(factor: Matrix) -> NDArray[np.int64]:
    """Return rows of a factor that span it: those that pivots choose, and as many others as are to spare."""
    _, _, pivots = scipy.linalg.qr(factor.T, mode="economic", pivoting=True)
    return np.asarray(pivots[: SPARE * factor.shape[1] + 2], dtype=np.int64)


def balance(coefficients: Matrix, steps: Matrix) -> Matrix:
    """Return the map A for which noise on the sum of A c disturbs <c, b> the least.

    The noise is as large as the clip, whose square goes with tr(A C A^T); it moves a difference of two log-likelihoods
    by itself times A^-T (b - b'), whose square goes with tr(A^-T B A^-1). C and B are the second moments of c and of
    b - b'. The product is smallest at A^T A = C^-1/2 (C^1/2 B C^1/2)^1/2 C^-1/2.
    """
    of_records, of_steps = (factor.T @ factor / len(factor) for factor in (coefficients, steps))
    root, inverse = _power(of_records, 0.5), _power(of_records, -0.5)
    return _power(inverse @ _power(root @ of_steps @ root, 0.5) @ inverse, 0.5)


def _power(matrix: Matrix, exponent: float) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, values.max() * 1e-12) ** exponent) @ vectors.T
