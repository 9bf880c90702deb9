"""Regressions with so many parameters that noise hides their slopes: a public guess helps, and is doubted where wrong.

On an emulated oracle, rows and noise by fixed seeds. With 40 parameters the mean square of errors in own standard
deviations is above 2.1 with a probability below 1e-4 if these are right.
"""

import numpy as np
import pytest

from benchmarks.many_parameters import PRIOR_SD, fitted, without_guess

SIZE, ROWS, MOST = 40, 40_000, 2.1


def own_errors(found) -> float:
    return float(np.mean((found.off * found.sds / found.draws.std(axis=0)) ** 2))


def test_a_guess_gives_a_posterior_where_noise_hides_slopes() -> None:
    found = fitted("even", SIZE, ROWS, 1)
    assert found.expected < 1
    assert found.verdict in {"good", "fair"}
    assert own_errors(found) < MOST
    assert np.sqrt(np.mean(found.off**2)) < 1.2
    assert np.median(found.draws.std(axis=0) / found.sds) < 1.6
    with without_guess():  # the control
        found = fitted("even", SIZE, ROWS, 1)
    assert found.verdict == "bad" or np.median(found.draws.std(axis=0) / found.sds) > 1.8


@pytest.mark.parametrize("kind", ["one factor", "twice the same"])
def test_a_guess_that_is_wrong_is_noticed(kind: str) -> None:
    """Columns with one factor in common, and one column twice: what data cannot tell keeps most of its prior."""
    found = fitted(kind, SIZE, ROWS, 2)
    assert found.verdict == "bad" or own_errors(found) < MOST
    if kind == "twice the same":
        assert (found.draws[:, 1] - found.draws[:, 2]).std() > 0.5 * PRIOR_SD * np.sqrt(2.0)
        assert (found.draws[:, 1] + found.draws[:, 2]).std() < 0.5
