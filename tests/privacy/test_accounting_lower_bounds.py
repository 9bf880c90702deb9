"""No bound is below what a known attack achieves; and the attacks catch accountants that are wrong.

An attack is a test between two neighbouring data sets. Its true and false positive rates P and Q give the lower bound
P - e^epsilon Q on delta(epsilon). All rates here are exact, so there are no false alarms.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    BarkerTest,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    PoissonGaussian,
    compose,
    delta,
    epsilon,
    max_steps,
    pld,
)
from dpmcmc.errors import UnsupportedEvent

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
Array = NDArray[np.float64]
Accountant = Callable[[Event, float], float]

ROUNDING = 1e-9
"""Relative: how far a bound may lie below an attack that attains it, in floating point."""

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 5.0]


def respects(bound: float, attack: float) -> bool:
    return bound >= attack * (1 - ROUNDING) - 1e-300


# --- attacks: each returns the best lower bound on delta(epsilon) that it proves --------------------------------------


def gaussian_attack(parts: list[tuple[float, int]], at: float) -> float:
    """Threshold on the sum of all releases, weighted by their precision: the exact power of the best test."""
    distance = math.sqrt(sum(times / noise**2 for noise, times in parts))
    thresholds = np.linspace(-8, 8 + distance, 40_001)
    gains = special.ndtr(distance - thresholds) - math.exp(at) * special.ndtr(-thresholds)
    return max(float(gains.max()), 0.0)


def bit_attack(first: Array, second: Array, times: int, at: float) -> float:
    """Count the accepted steps; accuse above a threshold. `first`, `second`: acceptance rates to try."""
    wins = np.arange(times + 1)
    best = 0.0
    for p, q in zip(first, second, strict=True):
        gains = stats.binom.sf(wins - 1, times, p) - math.exp(at) * stats.binom.sf(wins - 1, times, q)
        best = max(best, float(gains.max()))
    return best


def accept_bit_attack(noise: float, times: int, at: float) -> float:
    """The adversary sets the public part of the ratio so that the records decide: every threshold, the midpoint too."""
    z = np.linspace(-3, 3, 25)
    return bit_attack(special.ndtr(z + 1 / (2 * noise)), special.ndtr(z - 1 / (2 * noise)), times, at)


def logistic_bit_attack(sensitivity: float, times: int, at: float) -> float:
    odds = np.linspace(-5, 5, 25)
    return bit_attack(special.expit(odds + sensitivity / 2), special.expit(odds - sensitivity / 2), times, at)


def sampled_attack(rate: float, noise: float, distances: tuple[float, float], times: int, at: float) -> float:
    """Accuse if any step's output exceeds a threshold: strong when a sampled record is easily seen."""
    with_it, without = distances
    reach = max(distances)
    thresholds = np.linspace(-reach, reach + 10 * noise, 20_001)

    def seen(distance: float) -> Array:
        one = (1 - rate) * special.ndtr(-thresholds / noise) + rate * special.ndtr((distance - thresholds) / noise)
        return -np.expm1(times * np.log1p(-np.minimum(one, 1 - 1e-16)))

    return float(np.max(seen(with_it) - math.exp(at) * seen(without)))


def mean_attack(rate: float, noise: float, distance: float, times: int, at: float) -> float:
    """Threshold on the number of steps whose output is above the middle: strong when there are many weak steps."""
    cut = np.linspace(0.0, 1.0, 11) * distance
    first = (1 - rate) * special.ndtr(-cut / noise) + rate * special.ndtr((distance - cut) / noise)
    return bit_attack(first, special.ndtr(-cut / noise), times, at)


# --- the library's bounds ---------------------------------------------------------------------------------------------


def all_bounds(event: Event, at: float) -> dict[str, float]:
    bounds = {"tight": float(delta(event, at))}
    for accountant in ("exact", "zcdp", "rdp", "pld", "moments", "barker_2019"):
        try:
            bounds[accountant] = float(delta(event, at, accountant))
        except UnsupportedEvent:
            continue
    return bounds


@pytest.mark.parametrize(
    "parts", [[(2.0, 1)], [(0.5, 1)], [(31.6, 200)], [(5.0, 3), (7.0, 10), (100.0, 1000)], [(1000.0, 10)]], ids=str
)
@pytest.mark.parametrize("at", EPSILONS)
def test_gaussians(parts: list[tuple[float, int]], at: float) -> None:
    event = compose(Gaussian(noise) * times for noise, times in parts)
    attack = gaussian_attack(parts, at)
    bounds = all_bounds(event, at)
    assert len(bounds) == 6
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)
    # the attack is the best one: the exact accountant is not above it
    assert bounds["exact"] <= attack * (1 + 1e-6) + 1e-14


@pytest.mark.parametrize(("noise", "times"), [(1.0, 1), (0.3, 2), (10.0, 100), (31.6, 275), (3.0, 20)])
@pytest.mark.parametrize("at", EPSILONS)
def test_accept_bits(noise: float, times: int, at: float) -> None:
    attack = accept_bit_attack(noise, times, at)
    bounds = all_bounds(AcceptBit(noise) * times, at)
    assert len(bounds) == 5
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


@pytest.mark.parametrize(("sensitivity", "times"), [(1.0, 1), (4.0, 2), (0.02, 1000), (0.1, 100), (0.5, 30)])
@pytest.mark.parametrize("at", EPSILONS)
def test_logistic_bits(sensitivity: float, times: int, at: float) -> None:
    attack = logistic_bit_attack(sensitivity, times, at)
    bounds = all_bounds(LogisticBit(sensitivity) * times, at)
    assert len(bounds) == 5
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


@pytest.mark.parametrize(("noise_over_root", "at", "most"), [(0.1, 2.0, 319), (0.17, 4.0, 3190)])
def test_steps_allowed_are_below_the_binomial_adversary(noise_over_root: float, at: float, most: int) -> None:
    """With n = 1e5 the midpoint adversary breaks the budget beyond `most` steps."""
    noise = noise_over_root * math.sqrt(1e5)
    allowed = max_steps(AcceptBit(noise), at, 1e-6)
    assert allowed <= most
    assert accept_bit_attack(noise, allowed, at) <= 1e-6
    assert accept_bit_attack(noise, round(1.01 * most), at) > 1e-6


SAMPLED = [
    (0.01, 1.0, 1000),
    (0.01, 1.0, 1),
    (0.001, 0.5, 1),
    (0.001, 0.3, 1),
    (1e-4, 0.2, 1),
    (1e-4, 0.2, 50),
    (1e-6, 0.1, 10),
    (1e-6, 0.07, 1),
    (0.05, 0.3, 4),
    (0.3, 2.0, 100),
    (1.0, 5.0, 10),
]


@pytest.mark.parametrize(("rate", "noise", "times"), SAMPLED)
@pytest.mark.parametrize("at", EPSILONS)
def test_poisson_samples_add_or_remove(rate: float, noise: float, times: int, at: float) -> None:
    attack = max(sampled_attack(rate, noise, (1.0, 0.0), times, at), mean_attack(rate, noise, 1.0, times, at))
    bounds = all_bounds(PoissonGaussian(rate, noise, ADD) * times, at)
    assert len(bounds) == 4
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


@pytest.mark.parametrize(("rate", "noise", "times"), SAMPLED)
@pytest.mark.parametrize("at", EPSILONS)
def test_poisson_samples_replace(rate: float, noise: float, times: int, at: float) -> None:
    attack = max(sampled_attack(rate, noise, (1.0, -1.0), times, at), mean_attack(rate, noise, 1.0, times, at))
    bounds = all_bounds(PoissonGaussian(rate, noise, REPLACE) * times, at)
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


@pytest.mark.parametrize(("rate", "noise", "times"), [case for case in SAMPLED if case[0] >= 1e-4])
@pytest.mark.parametrize("at", EPSILONS)
def test_fixed_batches(rate: float, noise: float, times: int, at: float) -> None:
    attack = max(sampled_attack(rate, noise, (1.0, 0.0), times, at), mean_attack(rate, noise, 1.0, times, at))
    bounds = all_bounds(FixedBatchGaussian(round(rate * 10_000), 10_000, noise) * times, at)
    assert len(bounds) == 4
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


@pytest.mark.parametrize(("rate", "noise", "times", "allowed"), [(0.01, 1.0, 1000, 1e-5), (0.01, 2.0, 1000, 1e-5)])
def test_fixed_batches_cost_more_than_one_direction(rate: float, noise: float, times: int, allowed: float) -> None:
    """A replaced record may leave or enter at each step; removing it at all of them is one such adversary."""
    one_direction = epsilon(PoissonGaussian(rate, noise, ADD) * times, allowed, "pld")
    both = epsilon(FixedBatchGaussian(round(rate * 1000), 1000, noise) * times, allowed, "pld")
    assert both > one_direction * 1.1


@pytest.mark.parametrize("event", [BarkerTest(100, 1000, 2.0, 1.0), BarkerTest(10, 10, 1.5, 1.0)], ids=repr)
@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("at", EPSILONS[:4])
def test_barker_tests(event: BarkerTest, times: int, at: float) -> None:
    """All other entries equal: the mean moves by 2 sqrt(kappa/b) with variance C at most, in b/N of the batches."""
    rate = event.batch_size / event.population
    distance = 2 * math.sqrt(event.clip_fraction / event.batch_size) / math.sqrt(event.variance)
    attack = mean_attack(rate, 1 / distance, 1.0, times, at)
    bounds = all_bounds(event * times, at)
    assert all(respects(bound, attack) for bound in bounds.values()), (attack, bounds)


# --- the attacks have power: accountants that are wrong do not pass ---------------------------------------------------


def caught(wrong: Accountant, event: Event, attack: Callable[[float], float]) -> bool:
    return any(not respects(wrong(event, at), attack(at)) for at in EPSILONS)


def test_half_the_sensitivity_is_caught() -> None:
    def wrong(event: Event, at: float) -> float:
        assert isinstance(event, Gaussian)
        return delta(Gaussian(2 * event.noise_multiplier), at)

    assert caught(wrong, Gaussian(2.0), lambda at: gaussian_attack([(2.0, 1)], at))
    assert not caught(delta, Gaussian(2.0), lambda at: gaussian_attack([(2.0, 1)], at))


def test_one_percent_too_little_is_caught() -> None:
    def wrong(_: Event, at: float) -> float:
        return delta(Gaussian(2.0 * 1.01), at)

    assert caught(wrong, Gaussian(2.0), lambda at: gaussian_attack([(2.0, 1)], at))


def test_a_missing_factor_of_two_under_replace_one_is_caught() -> None:
    def wrong(event: Event, at: float) -> float:
        """Count a replaced record as an added one."""
        assert isinstance(event, PoissonGaussian)
        return delta(PoissonGaussian(event.rate, event.noise_over_clip, ADD), at)

    event = PoissonGaussian(0.5, 1.0, REPLACE)
    assert caught(wrong, event, lambda at: sampled_attack(0.5, 1.0, (1.0, -1.0), 1, at))
    assert not caught(delta, event, lambda at: sampled_attack(0.5, 1.0, (1.0, -1.0), 1, at))


def test_forgotten_steps_are_caught() -> None:
    def wrong(_: Event, at: float) -> float:
        return delta(AcceptBit(3.0) * 10, at)

    assert caught(wrong, AcceptBit(3.0) * 20, lambda at: accept_bit_attack(3.0, 20, at))


def test_a_bit_counted_for_half_its_information_is_caught() -> None:
    def wrong(_: Event, at: float) -> float:
        return delta(LogisticBit(0.1 / math.sqrt(2)) * 100, at)

    assert caught(wrong, LogisticBit(0.1) * 100, lambda at: logistic_bit_attack(0.1, 100, at))
    assert not caught(delta, LogisticBit(0.1) * 100, lambda at: logistic_bit_attack(0.1, 100, at))


def triangle_attack(rate: float, noise: float, times: int, at: float) -> float:
    """A replaced record that moves the sum by one from where the others are, before and after, in two directions.

    The sums without the record, with it, and with its replacement form a triangle of unit sides: every pair of batches
    is at the stated sensitivity. The power is that of the best test on `times` outputs, by an FFT written here.
    """
    side = np.arange(-9.0, 10.0, 0.04) * max(noise, 1.0)
    x, y = (values.ravel() for values in np.meshgrid(side, side))
    weights = np.exp(-(x**2 + y**2) / (2 * noise**2))
    weights /= weights.sum()
    with_it = np.exp((x - 0.5) / noise**2)
    replaced = np.exp((0.5 * x + math.sqrt(0.75) * y - 0.5) / noise**2)
    p, q = (weights * (1 - rate + rate * ratio) for ratio in (with_it, replaced))
    losses = np.log(p / q)
    deviation = math.sqrt(float(np.sum(p * losses**2)))
    width = deviation / 30
    size = 2 ** math.ceil(math.log2(2 * (10 * math.sqrt(times) * deviation + 40 * deviation) / width))
    position = losses / width
    below = np.floor(position).astype(np.int64)
    share = position - below
    masses = np.bincount(below % size, p * (1 - share), size) + np.bincount((below + 1) % size, p * share, size)
    total = np.fft.irfft(np.fft.rfft(masses) ** times, size)
    cells = np.arange(size)
    sums = width * np.where(cells >= size // 2, cells - size, cells)
    return float(np.sum(np.where(sums > at, total * -np.expm1(np.minimum(at - sums, 0.0)), 0.0)))


def test_one_direction_alone_is_caught() -> None:
    """Lebeda et al. (2024): composing only "the record leaves" is not a bound for batches without replacement."""
    rate, noise, times = 0.01, 1.0, 1000
    event = FixedBatchGaussian(10, 1000, noise) * times
    one_direction = pld._step(PoissonGaussian(rate, noise, ADD), 1e-4).remove.self_compose(times)

    def wrong(_: Event, at: float) -> float:
        return float(one_direction.get_delta_for_epsilon(at))

    def attack(at: float) -> float:
        return triangle_attack(rate, noise, times, at)

    assert attack(0.5) > 1.2 * wrong(event, 0.5)
    assert caught(wrong, event, attack)
    assert not caught(lambda what, at: delta(what, at, "pld"), event, attack)
