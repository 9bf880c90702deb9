"""What may be chosen after looking, and what it costs where no theorem covers it: the numbers of docs/accounting.md."""

import math

import numpy as np
import pytest
from scipy import stats

from dpmcmc.accounting import Budget, Event, Gaussian, LogisticBit, delta, epsilon, noise_for
from dpmcmc.accounting.filters import RenyiFilter

BUDGET = Budget(1.0, 1e-6)
GRID = np.linspace(-9, 9, 361)
WEIGHTS = stats.norm.pdf(GRID) / stats.norm.pdf(GRID).sum()


def profile(event: Event, at: float) -> float:
    """delta(epsilon), at negative epsilons too: the pairs here are symmetric."""
    if at < 0:
        return -math.expm1(at) + math.exp(at) * profile(event, -at)
    return float(delta(event, at, "pld" if LogisticBit in event.held else "exact"))


def after(first: Gaussian, *choices: Event) -> float:
    """delta of a Gaussian release, and of that of the choices which is worst for the loss that the release showed."""
    mean = first.gaussian_rho
    losses = mean + math.sqrt(2 * mean) * GRID
    worst = [max(profile(choice, BUDGET.epsilon - loss) for choice in choices) for loss in losses]
    return float(np.sum(WEIGHTS * worst))


def fill(*before: Event) -> Gaussian:
    """The Gaussian release that spends what is left of the budget."""
    start = sum(before[1:], before[0])
    return Gaussian(noise_for(lambda noise: start + Gaussian(noise), BUDGET.epsilon, BUDGET.delta))


@pytest.fixture(scope="module")
def first() -> Gaussian:
    """Half of the budget, as the exact curve counts."""
    return Gaussian(noise_for(lambda noise: Gaussian(noise) * 2, BUDGET.epsilon, BUDGET.delta))


def test_a_choice_among_gaussian_releases_gains_nothing(first: Gaussian) -> None:
    rest = fill(first)
    pair = Gaussian(rest.noise_multiplier * math.sqrt(2)) * 2
    assert after(first, rest) == pytest.approx(BUDGET.delta, rel=1e-3)
    assert after(first, rest, pair) == pytest.approx(BUDGET.delta, rel=1e-3)


def test_a_choice_between_kinds_breaks_a_budget_that_each_keeps(first: Gaussian) -> None:
    bit = LogisticBit(0.4)
    bit_and_rest = bit + fill(first, bit)
    rest = fill(first)
    for planned in (rest, bit_and_rest):  # either is within the budget if it was planned
        assert after(first, planned) == pytest.approx(BUDGET.delta, rel=1e-3)
    chosen = after(first, rest, bit_and_rest)
    assert chosen == pytest.approx(1.51e-6, rel=0.02)


def test_the_filter_refuses_what_the_choice_needs(first: Gaussian) -> None:
    kept, bit = RenyiFilter(BUDGET), LogisticBit(0.4)
    assert not kept.admits(first + fill(first))
    assert not kept.admits(first + bit + fill(first, bit))
    assert epsilon(first + bit, BUDGET.delta) < BUDGET.epsilon
