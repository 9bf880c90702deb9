"""A slope of one row in every few differs from that of all rows as is said, in whatever order the rows stand.

Over tables of fixed seeds the squared difference of the two, in whitened coordinates, is compared with its prediction:
a mean of 30 times 15 squares, of which a mean above 1.5 would be seen in fewer than one of 10,000 runs if the
prediction were right (a chi-square with half as many degrees, since entries are not independent). The controls are
as many rows in a few places, and a prediction for one row in four times as few.
"""

import numpy as np
import pytest

from dpmcmc.enclave.mechanisms.spaced_sum import places_read
from dpmcmc.fitting.strategies.weighted_scores.releases import LENGTHS
from dpmcmc.fitting.strategies.weighted_scores.spacing import sampling_variance, squares_of, usual_squares

ROWS, SIZE, SPACING, TABLES, BLOCKS = 40_000, 5, 8, 30, 30
THETA = np.array([0.6, -0.4, 0.2, 0.7, -0.5])
EDGES = LENGTHS * np.sqrt(SIZE / ROWS)


def whitened(seed: int, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in coordinates in which the slope of all is the identity, and the information of each."""
    rng = np.random.default_rng(seed)
    design = np.column_stack([rng.uniform(-1, 1, (ROWS, 3)), rng.random(ROWS) < 0.02, np.ones(ROWS)])
    share = 1 / (1 + np.exp(-design @ THETA))
    places = {
        "random": np.arange(ROWS),
        "site": np.argsort(design[:, 3], kind="stable"),
        "outcome": np.argsort(rng.random(ROWS) < share, kind="stable"),
    }[order]
    design, told = design[places], (share * (1 - share))[places]
    return design @ np.linalg.inv(np.linalg.cholesky((design.T * told) @ design)).T, told


def differences(order: str, in_blocks: bool) -> float:
    """Return the mean squared difference between the two slopes, in predictions of it."""
    found = []
    for seed in range(TABLES):
        rows, told = whitened(seed, order)
        read = np.asarray(places_read(SPACING, ROWS))
        if in_blocks:
            length = ROWS // (SPACING * BLOCKS)
            starts = np.arange(BLOCKS) * (ROWS // BLOCKS)
            shifts = np.random.default_rng(seed).integers(0, ROWS // BLOCKS - length, BLOCKS)
            read = ((starts + shifts)[:, None] + np.arange(length)).ravel()
        slope = SPACING * (rows[read].T * told[read]) @ rows[read]
        squares = float(np.sum((told * np.sum(rows**2, axis=1)) ** 2))
        predicted = sampling_variance(SPACING, squares, SIZE) * SIZE * (SIZE + 1) / 2
        found.append(np.sum((slope - np.eye(SIZE)) ** 2) / predicted)
    return float(np.mean(found))


@pytest.mark.parametrize("order", ["random", "site", "outcome"])
def test_the_slope_of_few_rows_is_as_near_as_is_said(order: str) -> None:
    found = differences(order, in_blocks=False)
    assert found < 1.5
    assert found > 0.4 or order == "site", "sorted by what matters most, rows that are spread evenly do better"


def test_rows_in_a_few_places_would_mislead_where_kinds_stand_together() -> None:
    """The control: as many rows in blocks, one in each of equal stretches of the table."""
    assert differences("site", in_blocks=True) > 3.0
    assert 0.4 < differences("random", in_blocks=True) < 1.5


def test_what_was_left_out_is_seen_in_the_lengths_of_scores() -> None:
    """Scores are at most as long as the longest: what is estimated by bins is at least the truth, and not far off."""
    rows, told = whitened(0, "random")
    traces = told * np.sum(rows**2, axis=1)
    longest = np.sqrt(np.sum(rows**2, axis=1)) * (1 + np.sqrt(1 - 4 * told)) / 2
    bins = np.searchsorted(EDGES, longest)
    lengths = np.bincount(bins, traces, minlength=len(EDGES) + 1)
    found, truth = squares_of(lengths, EDGES, traces.max()), float(np.sum(traces**2))
    assert truth <= found <= 5 * truth
    assert usual_squares(SIZE, ROWS) / 2 < truth < 8 * usual_squares(SIZE, ROWS), "a fiftieth of the rows is unusual"
    assert squares_of(lengths, EDGES, SIZE / ROWS / 10) <= SIZE * SIZE / ROWS / 10 * 1.001
