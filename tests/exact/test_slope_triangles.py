"""The upper triangle of a slope, however it is put together: by slices, by entries, of one factor or of several."""

import numpy as np
import pytest

from dpmcmc.fitting.strategies.weighted_scores import releases


@pytest.mark.parametrize("size", [1, 2, 7, releases.MOST_SLICES, releases.MOST_SLICES + 1])
@pytest.mark.parametrize("num_factors", [1, 3])
def test_the_triangle_is_that_of_the_product_with_entries_off_the_diagonal_weighted(size, num_factors):
    steep, moves = np.random.default_rng(size).normal(size=(2, num_factors, size)).astype(np.float32)
    whole = steep.T.astype(float) @ moves
    rows, columns = np.triu_indices(size)
    expected = whole[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
    found = np.concatenate([np.asarray(piece) for piece in releases.upper_triangle(steep, moves)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
