"""Accountants against independent computations: mpmath, dp-accounting, quadrature, brute force, an own FFT."""

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray
from scipy import fft, integrate, special

from dpmcmc.accounting import (
    Adjacency,
    BarkerTest,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    barker,
    compose,
    decisions,
    delta,
    epsilon,
    log_delta,
    pld,
    rdp,
    schedule,
)
from dpmcmc.accounting.event import counts

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
Array = NDArray[np.float64]


def gaussian_with_mean(mean: float) -> Gaussian:
    return Gaussian(1 / math.sqrt(2 * mean))


# --- composed Gaussians -----------------------------------------------------------------------------------------------


def mpmath_log_delta(mean: float, at: float) -> float:
    """The printed erfc formula with so many digits that its cancellation does not matter."""
    with mpmath.workdps(1200):
        m, x = mpmath.mpf(mean), mpmath.mpf(at)
        root = 2 * mpmath.sqrt(m)
        value = (mpmath.erfc((x - m) / root) - mpmath.exp(x) * mpmath.erfc((x + m) / root)) / 2
        return float(mpmath.log(value))


@pytest.mark.parametrize("mean", [1e-24, 1e-16, 1e-8, 1e-3, 0.0624, 0.25, 0.2501, 0.5, 2.0, 50.0, 1e3])
@pytest.mark.parametrize("in_deviations", [0.0, 1e-3, 0.3, 1.0, 2.9, 8.0, 25.0])
def test_gaussians_against_mpmath(mean: float, in_deviations: float) -> None:
    at = in_deviations * math.sqrt(2 * mean)
    event = gaussian_with_mean(mean)
    # the event holds a noise multiplier, rounded once: the mean that it stands for is the one to compare with
    reference = mpmath_log_delta(event.gaussian_rho, at)
    assert log_delta(event, at, "exact") == pytest.approx(reference, rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("mean", [1e-24, 1e-6, 0.5, 30.0, 1e3])
@pytest.mark.parametrize("at", [0.0, 0.5, 709.0, 710.0, 800.0])
def test_gaussians_against_mpmath_at_fixed_epsilons(mean: float, at: float) -> None:
    event = gaussian_with_mean(mean)
    m = event.gaussian_rho
    if mean >= 0.5:
        reference = mpmath_log_delta(m, at)
    else:  # the tail of erfc by its integral: log delta = log of the integral of (1 - e^(at - x)) over the density
        root = math.sqrt(2 * m)
        start = (at - m) / root
        with mpmath.workdps(60):
            tail = mpmath.quad(
                lambda t: (1 - mpmath.exp(-root * t)) * mpmath.exp(-mpmath.mpf(start) * t - t * t / 2),
                [0, 1 / (1 + abs(start)), 10 / (1 + abs(start)), 60 / (1 + abs(start))],
            )
            reference = float(mpmath.log(tail / mpmath.sqrt(2 * mpmath.pi)) - mpmath.mpf(start) ** 2 / 2)
    assert log_delta(event, at, "exact") == pytest.approx(reference, rel=1e-11, abs=1e-11)


@pytest.mark.parametrize(
    ("parts", "allowed"),
    [
        (((2.0, 1),), 1e-5),
        (((30.0, 200),), 1e-6),
        (((31.6, 20), (174.0, 520)), 1e-6),
        (((5.0, 3), (7.0, 10), (100.0, 1000)), 1e-8),
        (((0.7, 1),), 1e-3),
    ],
)
def test_gaussians_against_dp_accounting(parts: tuple[tuple[float, int], ...], allowed: float) -> None:
    ours = epsilon(compose(Gaussian(noise) * times for noise, times in parts), allowed)
    other = pld_privacy_accountant.PLDAccountant()
    for noise, times in parts:
        other.compose(dp_event.GaussianDpEvent(noise), times)
    theirs = other.get_epsilon(allowed)
    assert ours <= theirs * (1 + 1e-9)
    assert ours == pytest.approx(theirs, rel=2e-3)


def test_the_factor_of_two_of_dp_accounting() -> None:
    """Under replace-one dp-accounting reads a multiplier in units of one record's clip; ours is over sensitivity."""
    trap = pld_privacy_accountant.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    trap.compose(dp_event.GaussianDpEvent(2.0))
    ours = epsilon(Gaussian(2.0), 1e-5)
    assert trap.get_epsilon(1e-5) == pytest.approx(4.377, abs=1e-3)
    assert ours == pytest.approx(1.993, abs=1e-3)
    # noise of 2 clips is a multiplier of 1 over the replace-one sensitivity of 2 clips
    assert epsilon(Gaussian(1.0), 1e-5) == pytest.approx(trap.get_epsilon(1e-5), rel=1e-3)
    # a Poisson sample of everything is that Gaussian, in the units of the clip
    full = epsilon(PoissonGaussian(1.0, 2.0, REPLACE), 1e-5)
    assert full == pytest.approx(epsilon(Gaussian(1.0), 1e-5), rel=2e-3)
    assert full >= epsilon(Gaussian(1.0), 1e-5)
    assert epsilon(PoissonGaussian(1.0, 2.0, ADD), 1e-5) == pytest.approx(ours, rel=2e-3)


# --- Poisson samples --------------------------------------------------------------------------------------------------

POISSON = [
    (0.01, 1.0, 1000, 1e-5),
    (0.02, 4.0, 500, 1e-6),
    (0.1, 3.0, 200, 1e-7),
    (0.5, 5.0, 50, 1e-5),
    (0.001, 0.8, 3000, 1e-6),
]


@pytest.mark.parametrize(("rate", "noise", "times", "allowed"), POISSON)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_poisson_against_dp_accounting(
    rate: float, noise: float, times: int, allowed: float, adjacency: Adjacency
) -> None:
    ours = epsilon(PoissonGaussian(rate, noise, adjacency) * times, allowed, "pld")
    relation = NeighboringRelation.REPLACE_ONE if adjacency is REPLACE else NeighboringRelation.ADD_OR_REMOVE_ONE
    theirs = privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        value_discretization_interval=min(1e-4, rate / noise / 40),
        sampling_prob=rate,
        neighboring_relation=relation,
    ).self_compose(times)
    assert ours == pytest.approx(theirs.get_epsilon_for_delta(allowed), rel=2e-3)


def composed_loss(
    density: Callable[[Array], Array], loss: Callable[[Array], Array], points: Array, times: int
) -> tuple[Array, Array]:
    """The privacy loss of `times` steps, by midpoints: neither pessimistic nor optimistic, accurate to 1e-4.

    Written from the definition for these tests: outputs on a fine grid, their losses rounded to the nearest cell, an
    FFT, and no code of the library.
    """
    weights = density(points) * (points[1] - points[0])
    weights /= weights.sum()
    losses = loss(points)
    deviation = math.sqrt(np.sum(weights * losses**2) - np.sum(weights * losses) ** 2)
    width = max(deviation / 40, 1e-6)
    mean, spread = times * np.sum(weights * losses), math.sqrt(times) * deviation
    heavy = np.abs(losses[weights > 1e-16]).max()
    size = fft.next_fast_len(int(2 * (10 * spread + 3 * heavy + abs(mean)) / width))
    # linear splitting between neighbouring cells keeps the mean of the loss exactly
    position = losses / width
    below = np.floor(position).astype(np.int64)
    share = position - below
    masses = np.bincount(below % size, weights * (1 - share), size) + np.bincount(
        (below + 1) % size, weights * share, size
    )
    total = np.fft.irfft(np.fft.rfft(masses) ** times, size)
    cells = np.arange(size)
    return width * np.where(cells >= size // 2, cells - size, cells), total


def hockey_stick(losses: Array, masses: Array, at: float) -> float:
    return float(np.sum(np.where(losses > at, masses * -np.expm1(np.minimum(at - losses, 0.0)), 0.0)))


@pytest.mark.parametrize(("rate", "noise", "times", "allowed"), POISSON)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_poisson_against_an_own_fft(
    rate: float, noise: float, times: int, allowed: float, adjacency: Adjacency
) -> None:
    def normal(x: Array, centre: float) -> Array:
        return np.exp(-(((x - centre) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi))

    def log_ratio(x: Array, centre: float) -> Array:
        return np.log1p(rate * np.expm1((2 * x * centre - centre**2) / (2 * noise**2)))

    def mixed(x: Array) -> Array:
        return (1 - rate) * normal(x, 0.0) + rate * normal(x, 1.0)

    def without(x: Array) -> Array:
        return normal(x, 0.0)

    pairs: list[tuple[Callable[[Array], Array], Callable[[Array], Array]]]
    if adjacency is ADD:
        pairs = [(mixed, lambda x: log_ratio(x, 1.0)), (without, lambda x: -log_ratio(x, 1.0))]
    else:
        pairs = [(mixed, lambda x: log_ratio(x, 1.0) - log_ratio(x, -1.0))]
    points = np.linspace(-9 * noise - 1, 9 * noise + 1, 400_001)
    cost = epsilon(PoissonGaussian(rate, noise, adjacency) * times, allowed, "pld")
    composed = [composed_loss(density, loss, points, times) for density, loss in pairs]

    def reference(at: float) -> float:
        return max(hockey_stick(losses, masses, at) for losses, masses in composed)

    # epsilon within 0.2 %, which is what delta at both ends of that interval says
    assert reference(cost * 1.002) <= allowed
    assert reference(cost * 0.998) >= allowed


@pytest.mark.parametrize(("rate", "noise", "times", "allowed"), POISSON[:3])
def test_poisson_renyi_at_whole_orders(rate: float, noise: float, times: int, allowed: float) -> None:
    orders = np.array([2.0, 3.0, 5.0, 8.0, 32.0, 64.0, 256.0])
    accountant = RdpAccountant(orders=[int(order) for order in orders])
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)))
    event = PoissonGaussian(rate, noise, ADD)
    np.testing.assert_allclose(rdp.poisson_at_whole_orders(orders, event), accountant._rdp, rtol=1e-9)
    fine = RdpAccountant(orders=[*range(2, 257)])
    fine.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise)), times)
    # real orders between the whole ones by chords: never above the whole orders' answer by more than their spacing
    assert epsilon(event * times, allowed, "rdp") <= fine.get_epsilon(allowed) * 1.02
    assert epsilon(event * times, allowed, "rdp") >= epsilon(event * times, allowed, "pld")


def test_orders_between_whole_ones_are_above_the_integral() -> None:
    event = PoissonGaussian(0.05, 1.2, ADD)
    orders = np.array([1.1, 1.5, 2.5, 3.3, 7.7])
    curve = rdp.between_whole_orders(
        orders, np.arange(2.0, 20.0), rdp.poisson_at_whole_orders(np.arange(2.0, 20.0), event)
    )
    for order, bound in zip(orders, curve, strict=True):

        def integrand(x: float, order: float = order) -> float:
            ratio = 0.95 + 0.05 * math.exp((2 * x - 1) / (2 * 1.44))
            return ratio**order * math.exp(-x * x / (2 * 1.44)) / math.sqrt(2 * math.pi * 1.44)

        moment, _ = integrate.quad(integrand, -20, 30, epsabs=0, epsrel=1e-12, limit=400)
        exact = math.log(moment) / (order - 1)
        assert exact <= bound * (1 + 1e-9)
        # a chord from order 1 to order 2 is at most twice the curve, later ones far closer
        assert bound <= exact * (2.0 if order < 2 else 1.1)


# --- decisions --------------------------------------------------------------------------------------------------------


def coin_divergence(alpha: float, heads: list[mpmath.mpf], tails: list[mpmath.mpf]) -> mpmath.mpf:
    """D_alpha of the first coin from the second, given the probabilities of heads and of tails of both."""
    moments = [p ** mpmath.mpf(alpha) * q ** (1 - mpmath.mpf(alpha)) for p, q in (heads, tails)]
    return mpmath.log(mpmath.fsum(moments)) / (mpmath.mpf(alpha) - 1)


@pytest.mark.parametrize("shift", [1e-5, 1e-3, 0.03, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [1.001, 1.3, 2.0, 8.0, 60.0, 500.0])
def test_accept_bit_against_brute_force(alpha: float, shift: float) -> None:
    ours = decisions.accept_bit(np.array([alpha]), 1 / shift).item()
    with mpmath.workdps(60):

        def value(z: float) -> float:
            points = [mpmath.mpf(z) + mpmath.mpf(shift), mpmath.mpf(z)]
            return float(coin_divergence(alpha, [mpmath.ncdf(x) for x in points], [mpmath.ncdf(-x) for x in points]))

        reach = min(12 + 2 * alpha * shift, 36.0)
        grid = np.linspace(-reach, reach, 121)
        best = float(grid[np.argmax([value(z) for z in grid])])
        for half_width in (reach / 60, reach / 600):
            near = np.linspace(best - half_width, best + half_width, 21)
            best = float(near[np.argmax([value(z) for z in near])])
        worst = max(value(best), value(-best - shift))
    full = alpha * shift**2 / 2
    assert worst <= ours <= full * (1 + 1e-12)
    if alpha * shift <= 50:  # beyond, the full Gaussian stands in
        assert ours == pytest.approx(worst, rel=1e-5)


@pytest.mark.parametrize("sensitivity", [1e-8, 1e-6, 1e-4, 0.02, 0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("alpha", [1.001, 1.1, 2.0, 7.5, 64.0, 1000.0])
def test_logistic_bit_against_brute_force(alpha: float, sensitivity: float) -> None:
    ours = decisions.logistic_bit(np.array([alpha]), sensitivity).item()
    with mpmath.workdps(80):

        def value(odds: float) -> mpmath.mpf:
            points = [mpmath.mpf(odds) + mpmath.mpf(sensitivity), mpmath.mpf(odds)]
            heads, tails = ([1 / (1 + mpmath.exp(-sign * x)) for x in points] for sign in (1, -1))
            return coin_divergence(alpha, heads, tails)

        reach = 5 + 1.2 * sensitivity
        centre, half_width = mpmath.mpf(-sensitivity / 2), mpmath.mpf(reach)
        for _ in range(9):  # the maximum is single: nested grids close in on it
            grid = [centre + half_width * step / 12 for step in range(-12, 13)]
            centre = max(grid, key=value)
            half_width /= 8
        worst = float(value(centre))
    assert ours >= worst * (1 - 1e-12)
    # the rounding of the closed form, 1e-14 alpha / (alpha - 1), is counted against us
    assert ours == pytest.approx(worst, rel=1e-9, abs=1.1e-14 * alpha / (alpha - 1))
    assert ours <= min(alpha * sensitivity**2 / 8, sensitivity) * (1 + 1e-15)


@pytest.mark.parametrize("sensitivity", [1e-3, 0.1, 1.0, 8.0])
def test_logistic_profile_against_integration(sensitivity: float) -> None:
    fractions = np.array([-1.5, -0.9, -0.3, 0.0, 0.2, 0.7, 0.99, 1.0, 1.5])
    ours = decisions.logistic_profile(fractions * sensitivity, sensitivity)
    for at, value in zip(fractions * sensitivity, ours, strict=True):
        with mpmath.workdps(40):

            def density(x: mpmath.mpf) -> mpmath.mpf:
                return mpmath.sech(x / 2) ** 2 / 4

            def excess(x: mpmath.mpf, at: float = float(at)) -> mpmath.mpf:
                return max(
                    density(x - mpmath.mpf(sensitivity)) - mpmath.exp(mpmath.mpf(at)) * density(x), mpmath.mpf(0)
                )

            # the likelihood ratio is monotone: find where it crosses, then integrate what is above
            low, high = mpmath.mpf(-80), mpmath.mpf(80)
            for _ in range(120):
                middle = (low + high) / 2
                low, high = (low, middle) if excess(middle) > 0 else (middle, high)
            reference = mpmath.quad(excess, [high, high + 1, high + 5, high + 20, 120]) if high < 79 else mpmath.mpf(0)
        assert value == pytest.approx(float(reference), rel=1e-9, abs=1e-15)


def test_logistic_profile_is_attained_by_thresholds() -> None:
    sensitivity, at = 0.5, 0.2
    odds = np.linspace(-10, 10, 200_001)
    gain = special.expit(odds + sensitivity) - math.exp(at) * special.expit(odds)
    assert decisions.logistic_profile(np.array([at]), sensitivity).item() == pytest.approx(gain.max(), rel=1e-7)


# --- fixed batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "population", "noise"), [(1, 100, 1.0), (50, 100, 2.0), (7, 7, 1.5), (10, 1000, 0.6)])
@pytest.mark.parametrize("at", [0.01, 0.3, 1.0])
def test_one_fixed_batch_against_the_best_threshold(size: int, population: int, noise: float, at: float) -> None:
    """One step: the worst of both directions, replaced record in or out, by the best threshold on the output."""
    rate = size / population
    points = np.linspace(-12 * noise, 12 * noise + 1, 400_001)

    def above(centre: float) -> Array:
        return (1 - rate) * special.ndtr(-points / noise) + rate * special.ndtr((centre - points) / noise)

    def below(centre: float) -> Array:
        return (1 - rate) * special.ndtr(points / noise) + rate * special.ndtr((points - centre) / noise)

    # sensitivity one: the record moves the sum from 0 to 1, or from 1 to 0; the likelihood ratio is monotone
    entering = (above(1.0) - math.exp(at) * above(0.0)).max()
    leaving = (below(0.0) - math.exp(at) * below(1.0)).max()
    reference = max(entering, leaving)
    ours = delta(FixedBatchGaussian(size, population, noise), at, "pld")
    assert ours >= reference * (1 - 1e-9)
    assert ours == pytest.approx(reference, rel=2e-2, abs=1e-9)


@pytest.mark.parametrize(("rate", "noise", "times"), [(0.1, 1.5, 20), (0.01, 1.0, 300)])
def test_fixed_batches_against_an_own_composition(rate: float, noise: float, times: int) -> None:
    """Both-direction profile, turned into a loss distribution by second differences, own FFT."""
    step = min(rate, 0.02) / noise / 30
    cells = np.arange(-int(6 / step), int(6 / step) + 1)
    grid = np.abs(cells) * step
    inner = np.log1p(np.expm1(grid) / rate)
    mean = 1 / (2 * noise**2)
    ends = (inner - mean) / (2 * math.sqrt(mean)), (inner + mean) / (2 * math.sqrt(mean))
    profile = rate * 0.5 * (special.erfc(ends[0]) - np.exp(inner) * special.erfc(ends[1]))
    profile = np.where(cells >= 0, profile, -np.expm1(cells * step) + np.exp(cells * step) * profile)
    slopes = np.diff(profile) / np.diff(np.exp(cells * step))  # minus Q(loss > .), so masses of P are e^loss dQ
    masses = np.exp(cells[1:-1] * step) * np.diff(slopes)
    size = fft.next_fast_len(4 * cells.size)
    total = np.fft.irfft(np.fft.rfft(np.bincount(cells[1:-1] % size, masses, size)) ** times, size)
    positions = np.arange(size)
    losses = step * np.where(positions >= size // 2, positions - size, positions)
    event = FixedBatchGaussian(round(rate * 1000), 1000, noise) * times
    cost = epsilon(event, 1e-5, "pld")
    assert hockey_stick(losses, total, cost * 1.002) <= 1e-5 <= hockey_stick(losses, total, cost * 0.998)


# --- the Barker test on batches ---------------------------------------------------------------------------------------


def batch_statistic(batch: Array, event: BarkerTest) -> tuple[float, float]:
    """Mean and variance of the statistic for entries x = r N / sqrt(kappa b), by definition (004, Section 3.2)."""
    scaled = batch * math.sqrt(event.clip_fraction * event.batch_size) / event.population
    mean = event.population / event.batch_size * scaled.sum()
    spread = event.population**2 / event.batch_size * scaled.var()
    return mean, event.variance - spread


def two_normals(at: Array, first: tuple[float, float], second: tuple[float, float]) -> Array:
    """Hockey-stick divergences of two normal laws by quadrature."""
    deviation = math.sqrt(max(first[1], second[1]))
    centre = (first[0] + second[0]) / 2
    x = np.linspace(centre - 12 * deviation, centre + 12 * deviation, 24_001)
    p, q = (np.exp(-((x - m) ** 2) / (2 * v)) / math.sqrt(2 * math.pi * v) for m, v in (first, second))
    return np.array([integrate.trapezoid(np.maximum(p - math.exp(level) * q, 0.0), x) for level in at])


def adjacent_batches(event: BarkerTest, rng: np.random.Generator) -> tuple[Array, Array]:
    """A pair that differs in one entry; half of them at the corners, where the worst ones are."""
    size = event.batch_size
    kind = rng.integers(4)
    if kind == 0:
        batch = rng.uniform(-1, 1, size)
    elif kind == 1:
        batch = rng.choice([-1.0, 1.0], size, p=(share := rng.uniform(), 1 - share))
    elif kind == 2:
        batch = np.full(size, rng.choice([-1.0, 1.0]))
    else:
        batch = np.clip(rng.normal(rng.uniform(-1, 1), 0.5, size), -1, 1)
    other = batch.copy()
    batch[0], other[0] = rng.choice([-1.0, 1.0], 2) if rng.uniform() < 0.7 else rng.uniform(-1, 1, 2)
    return batch, other


@pytest.mark.parametrize(
    "event",
    [
        BarkerTest(2, 100, 2.0, 1.0),
        BarkerTest(5, 100, 1.2, 1.0),
        BarkerTest(20, 1000, 2.0, 1.0),
        BarkerTest(100, 10_000, 1.0, 0.5),
        BarkerTest(1000, 10**6, 2.0, 1.0),
    ],
    ids=repr,
)
def test_no_pair_of_batches_exceeds_the_barker_bounds(event: BarkerTest) -> None:
    rng = np.random.default_rng(20_191_103)
    orders = np.array([2.0, 3.0, 8.0, 30.0])
    divergence, closed, profile = (
        barker.divergence(orders, event),
        barker.closed_form(orders, event),
        barker.profile(event),
    )
    unit = math.sqrt(4 * event.clip_fraction / (event.batch_size * (event.variance - event.clip_fraction)))
    levels = unit * np.array([0.0, 0.3, 1.0, 2.0, 3.0])
    bound = profile(levels)
    assert np.all(divergence <= closed)
    largest = np.zeros_like(levels)
    for _ in range(150):
        (m1, v1), (m2, v2) = (batch_statistic(batch, event) for batch in adjacent_batches(event, rng))
        blend = orders * v2 + (1 - orders) * v1
        with np.errstate(invalid="ignore", divide="ignore"):
            value = (
                0.5 * np.log(v2 / v1)
                + np.log(v2 / np.maximum(blend, 0)) / (2 * (orders - 1))
                + orders * (m1 - m2) ** 2 / (2 * blend)
            )
        assert np.all(
            np.where(blend > 0, value, np.inf) <= np.where(np.isfinite(divergence), divergence * (1 + 1e-9), np.inf)
        )
        sticks = two_normals(levels, (m1, v1), (m2, v2))
        assert np.all(sticks <= bound * (1 + 1e-5) + 1e-9)
        largest = np.maximum(largest, sticks)
    # the search comes close: the bound is not merely large
    assert np.all(largest[:3] >= 0.7 * bound[:3])


# --- long schedules ---------------------------------------------------------------------------------------------------

SCHEDULES = {
    "Poisson, add or remove": [PoissonGaussian(0.01, 1.5 + index / 75, ADD) for index in range(300)],
    "Poisson, replace": [PoissonGaussian(0.01, 2 * (1 + index) ** (1 / 6), REPLACE) for index in range(300)],
    "fixed batches": [FixedBatchGaussian(10, 1000, 1 + index / 40) for index in range(300)],
    "two rates": [PoissonGaussian(0.01 * (1 + index % 2), 2 + index / 75, ADD) for index in range(300)],
    "very different": [PoissonGaussian(0.01, 10 ** (index / 100), ADD) for index in range(270)],
    "Barker bits": [LogisticBit(0.02 + index / 5000) for index in range(400)],
}


LONG = {"Poisson, add or remove", "two rates", "very different"}
"""Schedules whose unrounded composition takes seconds."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in SCHEDULES])
def test_rounding_a_schedule_dominates_and_loses_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    event = compose(SCHEDULES[name])
    short = schedule.shortened(counts(event))
    assert len(short) < len(SCHEDULES[name])
    assert sum(short.values()) == len(SCHEDULES[name])
    rounded = epsilon(event, 1e-6, "pld")
    monkeypatch.setattr(schedule, "_MOST_DISTINCT", 10**9)
    pld.curve.cache_clear()
    whole = epsilon(event, 1e-6, "pld")
    pld.curve.cache_clear()
    # two grids may differ by a cell; a rounding in the wrong direction would show far below that
    assert rounded >= whole * (1 - 1e-4)
    assert rounded <= whole * 1.005


@pytest.mark.parametrize("name", SCHEDULES)
def test_rounding_replaces_steps_by_less_noisy_ones(name: str) -> None:
    def noises(parts: object) -> list[float]:
        def noise(part: object) -> float:
            match part:
                case PoissonGaussian(noise_over_clip=value) | FixedBatchGaussian(noise_multiplier=value):
                    return value
                case LogisticBit(sensitivity=value):
                    return 1 / value
                case _:
                    raise TypeError(type(part).__name__)

        return sorted(itertools.chain.from_iterable([noise(part)] * times for part, times in parts.items()))  # type: ignore[attr-defined]

    event = compose(SCHEDULES[name])
    before, after = noises(counts(event)), noises(schedule.shortened(counts(event)))
    assert all(new <= old * (1 + 1e-15) for old, new in zip(before, after, strict=True))


def test_gaussians_of_a_schedule_join_exactly() -> None:
    event = compose(Gaussian(10 + index / 10) for index in range(1000)) + PoissonGaussian(0.01, 2.0, ADD) * 5
    short = schedule.shortened(counts(event))
    joined = [part for part in short if isinstance(part, Gaussian)]
    assert len(short) == 2
    assert joined[0].gaussian_rho == pytest.approx(event.gaussian_rho, rel=1e-14)
