"""Calibration passes a method that knows its own noise, and catches those that do not.

A normal mean under a normal prior, of which a method sees no more than the sum of the records with noise: the posterior
given that is known. The tests raise a false alarm with a chance of at most 1e-4.
"""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from dpmcmc.diagnostics import Calibration, calibrate, plot_ranks
from dpmcmc.errors import InvalidArgument

NUM_RECORDS, NOISE, NUM_DATA_SETS, FALSE_ALARMS = 8, 4.0, 1500, 1e-4
PRIOR_SCALE = np.array([1.0, 3.0])


def simulate(rng):
    mean = PRIOR_SCALE * rng.standard_normal(2)
    return {"mean": mean}, mean + rng.standard_normal((NUM_RECORDS, 2))


def method(seed, *, counted=1.0, shift=0.0, num_draws=99, copies=1):
    """Return a method that counts some of its privacy noise and is off by a shift, in standard deviations."""
    own = np.random.default_rng(seed)

    def posterior(records):
        total = records.sum(0) + NOISE * own.standard_normal(2)
        spread = NUM_RECORDS + counted * NOISE**2  # the variance of the sum, given the mean
        precision = PRIOR_SCALE**-2 + NUM_RECORDS**2 / spread
        centre = total * NUM_RECORDS / spread / precision
        draws = centre + (shift + own.standard_normal((num_draws, 2))) / np.sqrt(precision)
        return {"mean": np.repeat(draws, copies, axis=0)[None]}

    return posterior


def found(*given, **options):
    return calibrate(simulate, method(*given, **options), NUM_DATA_SETS, np.random.default_rng(2))


def is_calibrated(calibration):
    table = calibration.coverage()
    furthest = stats.norm.isf(FALSE_ALARMS / 4 / len(table))
    return bool(
        np.all(np.abs(table["coverage"] - table["level"]) < furthest * table["error"])
        and np.all(calibration.uniformity() > FALSE_ALARMS / 4)
    )


def test_a_calibrated_method_passes():
    calibration = found(1)
    assert is_calibrated(calibration)
    assert calibration.labels == ("mean[0]", "mean[1]")
    assert calibration.ranks.shape == (NUM_DATA_SETS, 2)
    table = calibration.coverage()
    assert list(table["level"]) == [0.5, 0.8, 0.95] * 2
    assert table["error"][2] == pytest.approx(math.sqrt(0.95 * 0.05 / NUM_DATA_SETS))


def test_few_draws_do_not_bend_the_ranks():
    assert is_calibrated(found(1, num_draws=4))


@pytest.mark.parametrize(
    "mutant",
    [{"counted": 0.0}, {"counted": 2.0}, {"shift": 0.3}, {"num_draws": 5, "copies": 20}],
    ids=["privacy noise left out", "counted twice", "off", "draws that repeat each other"],
)
def test_a_miscalibrated_method_is_caught(mutant):
    assert not is_calibrated(found(1, **mutant))


def test_a_method_that_leaves_its_noise_out_is_too_sure():
    plug_in, aware = found(1, counted=0.0).coverage(), found(1).coverage()
    assert np.all(plug_in["coverage"] < aware["coverage"] - 5 * aware["error"])


def test_ties_and_plain_arrays():
    """Draws that are all the truth say nothing about where it stands."""
    same = calibrate(lambda rng: (1.0, rng), lambda _: np.ones((9, 1)), 500, np.random.default_rng(3))
    assert same.labels == ("coordinate 0",)
    assert same.uniformity()["coordinate 0"] > FALSE_ALARMS
    above = calibrate(lambda rng: ([2.0], rng), lambda _: np.ones((9, 1)), 50, np.random.default_rng(3))
    assert np.all(above.ranks > 0.9)


def test_wrong_arguments_are_refused():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidArgument, match="draws of a must be of the parameters that simulate returned, b"):
        calibrate(lambda rng: ({"b": 0.0}, rng), lambda _: {"a": np.zeros((1, 5))}, 2, rng)
    with pytest.raises(InvalidArgument, match="rng=1 must be a numpy generator"):
        calibrate(simulate, method(1), 2, 1)
    with pytest.raises(InvalidArgument, match="num_data_sets=0 must"):
        calibrate(simulate, method(1), 0, rng)
    with pytest.raises(InvalidArgument, match=r"levels=1\.5 must"):
        Calibration(np.ones((2, 1)), ("a",)).coverage([1.5])


def test_the_picture_shows_every_data_set():
    calibration = found(1)
    ax = plot_ranks(calibration, coordinate=1, num_bins=10)
    assert isinstance(ax.figure, Figure)
    assert sum(bar.get_height() for bar in ax.containers[0]) == NUM_DATA_SETS
    assert ax.get_xlabel() == "rank of mean[1]"
    with pytest.raises(InvalidArgument, match="coordinate=2 must be below 2"):
        plot_ranks(calibration, coordinate=2)
