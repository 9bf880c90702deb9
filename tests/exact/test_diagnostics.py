"""Diagnostics of draws: equalities with brute force and closed forms, laws with a stated rate, and what must fail."""

import math
import os
import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from dpmcmc import diagnostics
from dpmcmc.diagnostics import (
    ess,
    mean_error,
    median_bandwidth,
    mmd,
    plot_chain_ranks,
    plot_contour,
    plot_density,
    plot_distances,
    plot_pairs,
    plot_privacy,
    plot_trace,
    plot_traces,
    rhat,
    sliced_wasserstein,
    smoothing,
    squared_mmd_unbiased,
    total_variation,
)
from dpmcmc.diagnostics.arviz_adapter import arviz
from dpmcmc.diagnostics.quality import Grade, Quality
from dpmcmc.diagnostics.ranks import rank_counts
from dpmcmc.errors import InvalidArgument

mmd_module = sys.modules["dpmcmc.diagnostics.mmd"]

FALSE_ALARM = 1e-4
LIMIT = stats.norm.isf(FALSE_ALARM / 2)
"""Standard errors that the mean of independent repeats exceeds with probability `FALSE_ALARM`."""

NOISE_FLOOR = 0.075
"""1000 draws against 1000 of the same law score above this with probability below 5e-6: in 8,000 repeats the median was
0.019, one in a hundred was above 0.045 and one in ten thousand above 0.062 (2 dimensions; 0.013, 0.028, 0.038 in 10),
and the square falls off exponentially."""


def kernel(x, y, bandwidth):
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * bandwidth**2))


def brute_force(x, y, bandwidth):
    n, m = len(x), len(y)
    first = sum(kernel(x[i], x[j], bandwidth) for i in range(n) for j in range(i + 1, n))
    second = sum(kernel(y[i], y[j], bandwidth) for i in range(m) for j in range(i + 1, m))
    cross = sum(kernel(a, b, bandwidth) for a in x for b in y)
    return 2 * first / (n * (n - 1)) + 2 * second / (m * (m - 1)) - 2 * cross / (n * m)


def with_diagonal(x, y, bandwidth):
    """The biased estimate, which counts each draw's distance from itself."""
    # against itself a sample scores 2 (mean of k off the diagonal - mean of k over all), the difference doubled
    own = squared_mmd_unbiased(x, x, bandwidth) + squared_mmd_unbiased(y, y, bandwidth)
    return squared_mmd_unbiased(x, y, bandwidth) - own / 2


def mean_kernel(mean, covariance, bandwidth):
    """E exp(-|z|^2 / (2 s^2)) of a normal difference z."""
    total = bandwidth**2 * np.eye(len(mean)) + covariance
    return bandwidth ** len(mean) / math.sqrt(np.linalg.det(total)) * math.exp(-mean @ np.linalg.solve(total, mean) / 2)


def squared_mmd_of_normals(first, second, bandwidth):
    (m1, c1), (m2, c2) = first, second
    zero = np.zeros(len(m1))
    within = mean_kernel(zero, 2 * c1, bandwidth) + mean_kernel(zero, 2 * c2, bandwidth)
    return within - 2 * mean_kernel(m1 - m2, c1 + c2, bandwidth)


# --- MMD


@pytest.mark.parametrize(("n", "m", "dimension"), [(2, 2, 1), (7, 12, 2), (60, 41, 3)])
def test_the_unbiased_estimate_is_the_sum_over_all_pairs(n, m, dimension):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, dimension)), 0.3 + 2 * rng.normal(size=(m, dimension))
    for bandwidth in (0.1, 1.0, 30.0):
        assert squared_mmd_unbiased(x, y, bandwidth) == pytest.approx(brute_force(x, y, bandwidth), abs=1e-13)


def test_blocks_and_cores_change_nothing(monkeypatch):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(701, 2)), rng.normal(size=(530, 2))
    whole = squared_mmd_unbiased(x, y, 0.7)
    monkeypatch.setattr(mmd_module.os, "cpu_count", lambda: 1)
    assert squared_mmd_unbiased(x, y, 0.7) == whole
    for rows, columns in [(1, 1000), (64, 7), (10_000, 10_000)]:
        monkeypatch.setattr(mmd_module, "ROWS", rows)
        monkeypatch.setattr(mmd_module, "COLUMNS", columns)
        assert squared_mmd_unbiased(x, y, 0.7) == pytest.approx(whole, abs=1e-13)


def test_a_shift_of_both_samples_changes_no_digit():
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-1000, 1000, size=(80, 2)) / 256 for _ in range(2))  # exact in binary, shifted or not
    assert squared_mmd_unbiased(x + 2.0**30, y + 2.0**30, 0.5) == squared_mmd_unbiased(x, y, 0.5)


@pytest.mark.parametrize("num_points", [500, 50])
def test_the_bandwidth_is_the_median_distance_of_pairs_drawn_with_replacement(num_points):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(1000, 2))
    picks = np.random.default_rng(4)
    first, second = picks.integers(30, size=num_points), picks.integers(1000, size=num_points)
    distances = [math.dist(x[i], y[j]) for i, j in zip(first, second, strict=True)]
    bandwidth = median_bandwidth(x, y, np.random.default_rng(4), num_points=num_points)
    assert bandwidth == pytest.approx(np.median(distances), rel=1e-14)
    score = mmd(x, y, np.random.default_rng(4), num_bandwidth_points=num_points)
    assert score == math.sqrt(abs(squared_mmd_unbiased(x, y, bandwidth)))


def test_the_papers_points_are_500():
    x, y = np.random.default_rng(5).normal(size=(2, 90, 2))
    assert mmd(x, y, np.random.default_rng(6)) == mmd(x, y, np.random.default_rng(6), num_bandwidth_points=500)
    assert mmd(x, y, np.random.default_rng(6)) != mmd(x, y, np.random.default_rng(6), num_bandwidth_points=50)


@pytest.mark.parametrize("dimension", [2, 10])
def test_the_floor_and_above_it(dimension):
    rng = np.random.default_rng(7)
    same = [mmd(*rng.normal(size=(2, 1000, dimension)), rng) for _ in range(20)]
    assert max(same) < NOISE_FLOOR
    assert 0.003 < np.median(same) < 0.035
    draws, reference = rng.normal(size=(2, 1000, dimension))
    draws[:, 0] += 1
    assert mmd(draws, reference, rng) > 2 * NOISE_FLOOR
    assert mmd(np.zeros((1000, dimension)), reference, rng) > 0.3  # a chain that never moves


LAWS = {
    "same": ((np.zeros(2), np.eye(2)), (np.zeros(2), np.eye(2))),
    "other": ((np.zeros(2), np.eye(2)), (np.array([0.5, 0.0]), np.array([[1.5, 0.4], [0.4, 0.8]]))),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_unbiased_estimate_has_the_right_mean(law):
    rng = np.random.default_rng(8)
    truth = squared_mmd_of_normals(*LAWS[law], 1.3)
    samples = [
        [rng.multivariate_normal(*one, size=size) for one, size in zip(LAWS[law], (30, 50), strict=True)]
        for _ in range(400)
    ]

    def standard_errors(estimate):
        values = np.array([estimate(x, y, 1.3) for x, y in samples])
        return abs(values.mean() - truth) / (values.std(ddof=1) / math.sqrt(len(values)))

    assert standard_errors(squared_mmd_unbiased) < LIMIT
    assert standard_errors(with_diagonal) > LIMIT
    if law == "same":
        assert standard_errors(lambda x, y, s: abs(squared_mmd_unbiased(x, y, s))) > LIMIT
        assert min(squared_mmd_unbiased(x, y, 1.3) for x, y in samples) < 0


def test_large_samples_reach_the_closed_form_and_no_other_kernel():
    rng = np.random.default_rng(9)
    laws = LAWS["same"][0], (np.array([1.5, -0.5]), LAWS["other"][1][1])
    estimate = squared_mmd_unbiased(*(rng.multivariate_normal(*law, size=5000) for law in laws), 0.7)
    tolerance = LIMIT * 0.005  # the estimate's standard deviation was 0.004 in 60 repeats
    assert estimate == pytest.approx(squared_mmd_of_normals(*laws, 0.7), abs=tolerance)
    assert abs(estimate - squared_mmd_of_normals(*laws, 0.7 * math.sqrt(2))) > tolerance
    assert abs(estimate - squared_mmd_of_normals(*laws, 0.7 / math.sqrt(2))) > tolerance


def cost_of(call):
    """Return the peak of memory above what was there, and the processor time."""
    tracemalloc.start()
    start = time.process_time()
    call()
    seconds = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, seconds


def test_memory_is_flat_and_time_quadratic():
    rng = np.random.default_rng(10)
    x, y = rng.normal(size=(2, 16_000, 2))
    squared_mmd_unbiased(x[:500], y[:500], 1.0)
    half, seconds_of_half = cost_of(lambda: squared_mmd_unbiased(x[::2], y[::2], 1.0))
    whole, seconds = cost_of(lambda: squared_mmd_unbiased(x, y, 1.0))
    assert whole < half + 2 * x.nbytes + 2**20  # the scaled copies, and not four times the distances
    assert whole < 16_000**2 * 8 / 10
    assert seconds < 10 * seconds_of_half


@pytest.mark.slow
def test_a_hundred_thousand_draws_fit():
    x, y = np.random.default_rng(11).normal(size=(2, 100_000, 2))
    peak, _ = cost_of(lambda: mmd(x, y, np.random.default_rng(12)))
    assert peak < 2**28  # all distances would be 80 GB


# --- R-hat and effective sample size


def split(chains):
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def rank_rhat(chains):
    def plain(values):
        z = stats.norm.ppf((stats.rankdata(values).reshape(values.shape) - 3 / 8) / (values.size + 1 / 4))
        n = z.shape[1]
        within = z.var(axis=1, ddof=1).mean()
        return math.sqrt((n - 1) / n + z.mean(axis=1).var(ddof=1) / within)

    halves = split(chains)
    return max(plain(halves), plain(np.abs(halves - np.median(halves))))


def autoregressive(shape, correlation, rng):
    """Stationary normal chains whose draws are correlated."""
    values = rng.normal(size=shape)
    for i in range(1, shape[1]):
        values[:, i] = correlation * values[:, i - 1] + math.sqrt(1 - correlation**2) * values[:, i]
    return values


@pytest.mark.parametrize("num_draws", [500, 501])
def test_rhat_is_the_published_formula(num_draws):
    draws = autoregressive((4, num_draws, 3), 0.9, np.random.default_rng(13))
    draws[:, :, 1] **= 3
    assert rhat(draws) == pytest.approx([rank_rhat(draws[:, :, i]) for i in range(3)], rel=1e-12)


def test_rhat_is_that_of_arviz():
    """Equal values, an odd number of draws, heavy tails, and chains that stood still for a while."""
    rng = np.random.default_rng(4)
    still = np.concatenate([np.zeros((3, 5)), rng.normal(size=(3, 5))], axis=1)
    for chains in (rng.normal(size=(4, 101)), rng.integers(0, 5, (3, 50)), rng.standard_cauchy((2, 8)), still):
        expected = float(arviz().rhat(chains.astype(float), method="rank"))
        assert rhat(chains[:, :, None].astype(float)) == pytest.approx([expected], rel=1e-12)


def test_rhat_tells_separated_chains_from_independent_draws():
    draws = np.random.default_rng(14).normal(size=(4, 1000, 2))
    # R-hat^2 - 1 is about chi-squared(7)/(7 * 500) for 8 half chains: above 1.01 with probability below 1e-8
    assert (np.abs(rhat(draws) - 1) < 0.01).all()
    draws[0] += 1.5
    assert (rhat(draws) > 1.1).all()
    drawn = np.random.default_rng(15).normal(size=(4, 1000, 1)) * np.array([1, 1, 1, 5])[:, None, None]
    assert rhat(drawn)[0] > 1.1  # equal means: only the folded half sees it


def test_effective_sample_size_of_an_autoregression():
    draws = autoregressive((8, 4000, 2), 0.8, np.random.default_rng(16))
    expected = 8 * 4000 * (1 - 0.8) / (1 + 0.8)
    # in 200 repeats the ratio to the expected was 1.00 with standard deviation 0.052, and 2.10 with 0.107 in the tail
    assert ess(draws) == pytest.approx([expected, expected], rel=0.25)
    assert (ess(draws, kind="tail") > expected).all()
    assert (ess(draws, kind="tail") < 8 * 4000).all()
    assert ess(draws[0]).shape == (2,)


def test_convergence_by_name_keeps_names_and_shapes():
    values = np.random.default_rng(17).normal(size=(4, 100, 5))
    named = {"scale": values[:, :, 0], "matrix": values[:, :, 1:].reshape(4, 100, 2, 2)}
    for measure in (rhat, ess):
        answer = measure(named)
        assert list(answer) == ["scale", "matrix"]
        assert answer["scale"].shape == ()
        assert np.array_equal(np.concatenate([np.ravel(part) for part in answer.values()]), measure(values))
        assert answer["matrix"].shape == (2, 2)


def test_chains_that_never_move():
    draws = np.zeros((4, 50, 2))
    draws[:, :, 1] = np.arange(4)[:, None]
    assert math.isnan(rhat(draws)[0])
    assert rhat(draws)[1] == math.inf
    assert np.isnan(ess(draws)).all()


def test_only_the_announcement_of_arviz_is_silenced(monkeypatch):
    module = sys.modules["dpmcmc.diagnostics.arviz_adapter"]

    def import_with(message):
        monkeypatch.setattr(module, "import_module", lambda name: warnings.warn(name + message, FutureWarning, 2))
        return module.arviz()

    import_with(" is undergoing a major refactor to improve flexibility")
    with pytest.raises(FutureWarning, match="something else"):
        import_with(" says something else")


def test_the_first_import_of_the_day_is_silent(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    program = "import numpy as np, warnings\nfrom dpmcmc.diagnostics import ess\nwarnings.simplefilter('error')\n"
    ours = program + "ess(np.random.default_rng(0).normal(size=(2, 20, 1)))"
    done = subprocess.run([sys.executable, "-c", ours], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "FutureWarning" not in done.stderr


# --- other distances


def test_mean_error():
    draws, reference = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[1.0, -1.0], [1.0, 1.0], [4.0, 3.0]])
    assert mean_error(draws, reference) == math.sqrt(2)
    assert mean_error(draws, np.zeros(2)) == math.sqrt(5)
    expected = math.hypot(1 / math.sqrt(3), 1 / 2)
    assert mean_error(draws, reference, standardised=True) == pytest.approx(expected, rel=1e-15)
    with pytest.raises(InvalidArgument, match="needs reference draws"):
        mean_error(draws, np.zeros(2), standardised=True)
    with pytest.raises(InvalidArgument, match=r"constant coordinates \['coordinate 1'\]"):
        mean_error(draws, reference * [1, 0], standardised=True)
    with pytest.raises(InvalidArgument, match=r"reference of shape \(3,\) must be 2 finite numbers"):
        mean_error(draws, np.zeros(3))


def test_sliced_wasserstein_on_a_line_is_wasserstein():
    rng = np.random.default_rng(18)
    x, y = rng.normal(size=(200, 1)), 1 + 2 * rng.normal(size=(301, 1))
    expected = stats.wasserstein_distance(x[:, 0], y[:, 0])
    assert sliced_wasserstein(x, y, 5, rng) == pytest.approx(expected, rel=1e-12)


def test_sliced_wasserstein_of_a_shift_is_its_mean_projection():
    x = np.random.default_rng(19).normal(size=(100, 2))
    shift = np.array([3.0, 4.0])
    directions = np.random.default_rng(20).normal(size=(2000, 2))
    projections = np.abs(directions @ shift) / np.linalg.norm(directions, axis=1)
    measured = sliced_wasserstein(x, x + shift, 2000, np.random.default_rng(20))
    assert measured == pytest.approx(projections.mean(), rel=1e-12)
    # |cos| of a uniform angle has mean 2/pi and variance 1/2 - 4/pi^2
    assert abs(measured - 5 * 2 / math.pi) < LIMIT * 5 * math.sqrt((0.5 - 4 / math.pi**2) / 2000)
    assert sliced_wasserstein(x, x, 10, np.random.default_rng(20)) == 0


def uniform(points):
    return np.zeros(len(points))


def standard_normal(points):
    return -0.5 * np.sum(points**2, axis=1)


def test_total_variation_by_hand():
    edges = np.array([0.0, 0.25, 0.5, 1.0])  # probabilities 1/4, 1/4, 1/2
    exact = np.array([[0.1], [0.3], [0.6], [0.9]])
    assert total_variation(exact, uniform, [edges]) == 0
    assert total_variation(np.full((8, 1), 0.1), uniform, [edges]) == 0.75
    assert total_variation(exact + 5, uniform, [edges]) == 1
    half_outside = np.concatenate([exact, exact + 5])
    assert total_variation(half_outside, uniform, [edges]) == 0.5
    grid = [np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])]  # probabilities 1/6, 1/6, 1/3, 1/3
    plane = np.array([[0.5, 0.5], [0.5, 1.5], [2, 0.5], [2, 0.5], [2, 1.5], [2, 1.5]])
    assert total_variation(plane, uniform, grid) == pytest.approx(0, abs=1e-15)
    assert total_variation(plane[:, ::-1], uniform, grid) == pytest.approx(1 / 6, abs=1e-15)


@pytest.mark.parametrize("dimension", [1, 2])
def test_total_variation_of_the_right_and_the_wrong_density(dimension):
    n = 50_000
    draws = np.random.default_rng(21).normal(size=(n, dimension))
    edges = np.linspace(-5, 5, 41)
    cells = np.diff(stats.norm.cdf(edges))
    for _ in range(1, dimension):
        cells = np.outer(cells, cells).ravel()
    floor = np.sqrt(cells * (1 - cells) / (2 * math.pi * n)).sum()
    # changing one draw moves the distance by at most 1/n: deviations beyond t have probability 2 exp(-2 n t^2)
    deviation = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))
    assert total_variation(draws, standard_normal, [edges] * dimension) < floor + deviation + 0.001
    shifted = total_variation(draws, lambda points: standard_normal(points - np.eye(dimension)[0]), [edges] * dimension)
    assert shifted == pytest.approx(2 * stats.norm.cdf(0.5) - 1, abs=floor + deviation)


# --- shapes, names and refusals

PAIRED = {
    "mmd": lambda x, y: mmd(x, y, np.random.default_rng(22)),
    "squared_mmd_unbiased": lambda x, y: squared_mmd_unbiased(x, y, 1.0),
    "median_bandwidth": lambda x, y: median_bandwidth(x, y, np.random.default_rng(22)),
    "mean_error": mean_error,
    "sliced_wasserstein": lambda x, y: sliced_wasserstein(x, y, 3, np.random.default_rng(22)),
}


@pytest.mark.parametrize("measure", PAIRED)
def test_chains_are_pooled_and_names_matched(measure):
    call = PAIRED[measure]
    x, y = np.random.default_rng(23).normal(size=(2, 4, 25, 3))
    expected = call(x.reshape(100, 3), y.reshape(100, 3))
    assert call(x, y) == expected
    named = {"a": x[:, :, 0], "b": x[:, :, 1:]}
    assert call(named, {"b": y[:, :, 1:], "a": y[:, :, 0]}) == expected
    assert call(x.tolist(), y.tolist()) == expected
    x.flags.writeable = False
    assert call(x, y) == expected


BAD = {
    "one draw": (np.zeros((1, 2)), r"draws of shape \(1, 1, 2\) .* must hold at least 2 draws"),
    "another dimension": (np.zeros((5, 3)), "reference with 2 coordinates must have those of draws, which has 3"),
    "NaN": (np.array([[0.0, np.nan], [1.0, 2.0]]), "draws must be finite, but 1 of 4 numbers are NaN or infinite"),
    "infinity": (np.array([[0.0, np.inf], [1.0, np.inf]]), "but 2 of 4 numbers"),
    "a vector": (np.zeros(5), r"draws of shape \(5,\) must be .* draws\[:, None\]"),
    "four axes": (np.zeros((2, 2, 2, 2)), "must be .*chain, draw, coordinate"),
    "no coordinate": (np.zeros((5, 0)), "at least one coordinate"),
    "text": (np.array([["a", "b"], ["c", "d"]]), "must be real numbers"),
    "complex numbers": (np.zeros((5, 2), dtype=complex), "must be real numbers"),
    "a mapping": ({"a": np.zeros((2, 5, 2))}, "both be arrays or both be mappings"),
}


@pytest.mark.parametrize("measure", PAIRED)
@pytest.mark.parametrize("fault", BAD)
def test_bad_draws_are_refused(measure, fault):
    draws, message = BAD[fault]
    with pytest.raises(InvalidArgument, match=message):
        PAIRED[measure](draws, np.random.default_rng(24).normal(size=(10, 2)))


def test_named_draws_must_match():
    good = {"a": np.zeros((2, 5)), "b": np.zeros((2, 5, 2))}
    with pytest.raises(InvalidArgument, match=r"names \['a'\] must have the names of draws, \['a', 'b'\]"):
        mean_error(good, {"a": np.zeros((2, 5))})
    with pytest.raises(InvalidArgument, match="same chains and draws"):
        mean_error(good | {"a": np.zeros((1, 5))}, good)
    with pytest.raises(InvalidArgument, match=r"draws must all be \(chain, draw, ...\)"):
        rhat({"a": np.zeros(5)})
    with pytest.raises(InvalidArgument, match="at least one parameter"):
        rhat({})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: mmd(x, x, 0), "rng=0 must be a numpy generator"),
        (lambda x: mmd(x, x, None), "rng=None must be a numpy generator"),
        (lambda x: sliced_wasserstein(x, x, 3, np.random.RandomState(0)), "must be a numpy generator"),
        (lambda x: sliced_wasserstein(x, x, 0, np.random.default_rng(0)), "num_projections=0 must be >= 1"),
        (lambda x: mmd(x, x, np.random.default_rng(0), num_bandwidth_points=0), "num_points=0 must be >= 1"),
        (lambda x: mmd(x * 0, x * 0, np.random.default_rng(0)), "median distance is 0"),
        (lambda x: squared_mmd_unbiased(x, x, 0.0), "bandwidth=0.0 must be > 0 and finite"),
        (lambda x: squared_mmd_unbiased(x, x, math.nan), "bandwidth=nan must be a number"),
        (lambda x: rhat(x), "at least 2 chains, which R-hat compares"),
        (lambda x: rhat(x[None, :3]), "at least 4 draws per chain"),
        (lambda x: ess(x, kind="middle"), "kind='middle' must be one of bulk, tail"),
        (
            lambda x: total_variation(x, uniform, [np.arange(3.0)]),
            "grid of 1 axes must have one axis for each of the 2",
        ),
        (lambda x: total_variation(x, uniform, [np.arange(3.0), np.zeros(3)]), "grid must be increasing"),
        (lambda x: total_variation(x, sum, [np.arange(3.0)] * 2), r"must give \(4,\), one number a point"),
        (lambda x: total_variation(x, lambda p: p[:, 0] * np.nan, [np.arange(3.0)] * 2), "must not be NaN"),
        (lambda x: plot_density(x, coordinate=2), "coordinate=2 must be below 2"),
        (lambda x: plot_pairs(np.tile(x, 5)[:, :9]), "9 coordinates must be at most 8"),
        (
            lambda x: plot_distances([1, 2], {"walk": x}),
            r"distances\['walk'\] has the shape \(10, 2\); expected \(2,\)",
        ),
        (lambda _: plot_privacy({"none": []}), r"curves\['none'\] has no point"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InvalidArgument, match=message):
        call(np.random.default_rng(25).normal(size=(10, 2)))


def test_public_names_are_sorted_documented_and_complete():
    names = diagnostics.__all__
    assert names == sorted(names)
    assert set(dir(diagnostics)) == set(names)
    own = {
        name
        for name, value in vars(diagnostics).items()
        if getattr(value, "__module__", "").startswith("dpmcmc.") and not name.startswith("_")
    }
    assert own <= set(names), "what is imported with the package, beside pictures"
    functions = [getattr(diagnostics, name) for name in names if name != "Draws"]
    assert all((function.__doc__ or "").strip() for function in functions)


def test_diagnostics_need_neither_jax_nor_pyplot_nor_arviz():
    program = (
        "import sys, dpmcmc.diagnostics as d, numpy as np\n"
        "d.plot_pairs(np.random.default_rng(0).normal(size=(50, 2))).savefig('/dev/null', format='png')\n"
        "print([name for name in ('jax', 'arviz', 'matplotlib.pyplot') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


# --- pictures


def test_the_smoothed_density_is_near_the_truth():
    draws = np.random.default_rng(26).normal(size=(100_000, 2))
    # at the mode the kernel estimate's bias is below 0.002 and its standard deviation 0.0035: 0.02 is over five of them
    (middles,), heights = smoothing.density(draws[:, :1])
    assert np.abs(heights - stats.norm.pdf(middles)).max() < 0.02
    assert heights.sum() * (middles[1] - middles[0]) == pytest.approx(1, abs=0.01)
    (x, y), plane = smoothing.density(draws)
    truth = stats.norm.pdf(x)[:, None] * stats.norm.pdf(y)
    assert np.abs(plane - truth).max() < 0.02
    outer, inner = smoothing.levels(plane, (0.9, 0.5))
    assert plane[plane >= inner].sum() / plane.sum() == pytest.approx(0.5, abs=0.01)
    assert plane[plane >= outer].sum() / plane.sum() == pytest.approx(0.9, abs=0.01)
    (x, y), cropped = smoothing.crop([x, y], plane, outer)
    assert (cropped >= outer).sum() == (plane >= outer).sum()
    assert cropped.shape == (len(x), len(y))
    assert smoothing.density(np.full((10, 2), 0.1)) is None


PICTURES = {
    "density": lambda draws, reference, ax: plot_density(draws, reference=reference, coordinate=1, ax=ax),
    "density by chain": lambda draws, reference, ax: plot_density(draws, reference=reference, by_chain=True, ax=ax),
    "contour": lambda draws, reference, ax: plot_contour(draws, reference=reference, coordinates=(1, 0), ax=ax),
    "trace": lambda draws, reference, ax: plot_trace(draws, coordinate=1, ax=ax),  # noqa: ARG005
    "ranks": lambda draws, reference, ax: plot_chain_ranks(draws, coordinate=1, ax=ax),  # noqa: ARG005
}
KINDS = {
    "moving": lambda rng: {"a": rng.normal(size=(3, 60)), "b": rng.normal(size=(3, 60, 1))},
    "stuck": lambda rng: {"a": np.full((3, 60), 0.1), "b": rng.normal(size=(3, 60, 1))},
    "two values": lambda rng: {"a": rng.integers(0, 2, size=(3, 60)), "b": rng.normal(size=(3, 60, 1))},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_reference", [True, False])
def test_pictures_are_drawn_where_asked(kind, with_reference, tmp_path):
    rng = np.random.default_rng(27)
    draws = KINDS[kind](rng)
    reference = KINDS["moving"](rng) if with_reference else None
    for draw in PICTURES.values():
        figure = Figure()
        ax = figure.subplots()
        assert draw(draws, reference, ax) is ax
        assert ax.has_data()
        alone = draw(draws, reference, None)
        assert isinstance(alone, Axes)
        alone.figure.savefig(tmp_path / "alone.png", dpi=30)
    for whole in (plot_pairs(draws, reference=reference), plot_traces(draws, reference=reference)):
        assert isinstance(whole, Figure)
        whole.savefig(tmp_path / "whole.png", dpi=30)
    assert "b[0]" in [ax.get_xlabel() for ax in plot_pairs(draws).axes]
    assert isinstance(plot_pairs(draws["b"], reference=reference and reference["b"]), Figure)


def test_ranks_are_even_where_chains_agree():
    # 80 counts about binomial(1000, 1/20), sd 7: one beyond six of them has a chance below 1e-6
    agreeing = np.random.default_rng(28).normal(size=(4, 1000))
    ranks = rank_counts(agreeing)
    assert ranks.counts.sum() == 4000
    assert ranks.expected == 50
    assert np.abs(ranks.counts - ranks.expected).max() < 42
    apart = rank_counts(agreeing + np.array([[0.0], [0.0], [0.0], [1.0]]))
    assert np.abs(apart.counts - apart.expected).max() > 42
    lines = plot_chain_ranks(agreeing[:, :, None]).patches
    np.testing.assert_array_equal([line.get_data().values for line in lines], ranks.counts)


def test_pictures_over_epsilon_show_medians_quartiles_and_all_points():
    epsilons, repeats = (0.5, 1.0, 4.0), np.random.default_rng(29).random((3, 9))
    repeats[0, :4] = np.nan
    ax = plot_distances(epsilons, {"walk": repeats, "once": repeats[:, 5]}, floor=0.02)
    walk, once, floor = ax.lines
    np.testing.assert_allclose(walk.get_xydata(), np.stack([epsilons, np.nanmedian(repeats, axis=1)], axis=1))
    np.testing.assert_allclose(once.get_ydata(), repeats[:, 5])
    assert set(floor.get_ydata()) == {0.02}
    assert walk.get_linestyle() != once.get_linestyle()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["walk", "once", "exact draws"]
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(np.nanquantile(repeats, 0.75, axis=1).max())
    points = [(0.0, 0.3), (1.0, 1e-3), (2.0, 1e-6), (9.0, 0.0)]
    privacy = plot_privacy({"run": points})
    np.testing.assert_array_equal(privacy.lines[0].get_xydata(), points[:3])
    assert privacy.get_yscale() == "log"


def test_halves_that_never_moved_are_no_warning():
    chains = np.zeros((2, 8, 1))
    chains[:, 4:] = 1.0  # every half stands still, and the halves stand apart
    chains[1] += 3.0
    assert rhat(chains)[0] == np.inf or np.isnan(rhat(chains)[0])
    assert ess(chains).shape == (1,)


def test_a_verdict_says_once_what_holds_for_several_parameters() -> None:
    grade = Grade("bad", ("Not identified at this budget: it has its prior's width.",))
    said = Quality(
        "bad", ("Not identified at this budget: age, bmi; the prior dominates.",), {"age": grade, "bmi": grade}
    )
    assert said.words == "Quality: bad.\nNot identified at this budget: age, bmi; the prior dominates."
    other = Quality("bad", ("Not identified at this budget: age.",), {"age": grade, "bmi": grade})
    assert other.words.endswith("\nage, bmi: Not identified at this budget: it has its prior's width.")
