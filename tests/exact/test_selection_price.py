"""The price of repeat-and-select: against another implementation, and against the exact law of the best run.

Where the score is the whole output of a run, with distribution function F, the best of K runs has the distribution
function G(F), with G the generating function of K: the divergence of two neighbours is known without any bound.
"""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from scipy.special import logsumexp

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    Certificate,
    Gaussian,
    NonPrivate,
    RatioApproximation,
    Selected,
    epsilon,
)
from dpmcmc.accounting import repeat_and_select as selected
from dpmcmc.accounting.rdp import ORDERS
from dpmcmc.accounting.selection import divergences, halting_for, mean_runs, probabilities
from dpmcmc.errors import InvalidArgument

GRID = 1 + np.geomspace(1e-3, 1e3, 200)


def generated(value, halting, shape):
    if shape == 0:
        return np.log1p(-(1 - halting) * value) / math.log(halting)
    return ((1 - (1 - halting) * value) ** -shape - 1) / (halting**-shape - 1)


def divergence(first, second, orders=GRID):
    """The larger of both Renyi divergences of two laws, given by the logarithms of their masses."""
    order = orders[:, None]
    one, other = order * first + (1 - order) * second, order * second + (1 - order) * first
    return np.maximum(logsumexp(one, axis=1), logsumexp(other, axis=1)) / (orders - 1)


def bits(chance, growth):
    """Two laws of one bit whose chances of a one differ by the factor e^growth."""
    return [np.log([1 - p, p]) for p in (chance, chance * math.exp(growth))]


def best_bits(laws, halting, shape):
    """The laws of the largest bit."""
    return [np.log(np.diff(generated(np.append(0.0, np.cumsum(np.exp(law))), halting, shape))) for law in laws]


@pytest.mark.parametrize(("halting", "shape"), [(0.05, 0.0), (0.2, 1.0), (0.3, 2.5), (1.0, 0.0), (0.01, 0.5)])
def test_numbers_of_runs_have_the_law_that_is_stated(halting, shape) -> None:
    found = np.array(list(probabilities(halting, shape)))
    k = np.arange(1, len(found) + 1)
    if shape:
        free = stats.nbinom.pmf(k, shape, halting)
        expected = free / -math.expm1(shape * math.log(halting)) if halting < 1 else np.ones(1)
    else:
        expected = stats.logser.pmf(k, 1 - halting) if halting < 1 else np.ones(1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert abs(found.sum() - 1) < 1e-13
    assert found @ k == pytest.approx(mean_runs(halting, shape), rel=1e-10)
    assert halting_for(mean_runs(halting, shape), shape) == pytest.approx(halting, rel=3e-9)


@pytest.mark.parametrize(
    ("mean", "shape", "noise"), [(5.0, 0.0, 10.0), (10.0, 1.0, 5.0), (3.0, 0.5, 20.0), (1.0, 1.0, 4.0)]
)
def test_the_price_is_that_of_another_implementation(mean, shape, noise) -> None:
    theirs = RdpAccountant(orders=list(ORDERS[ORDERS < 1e5]))
    theirs.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(noise), mean, shape))
    ours = epsilon(selected([Gaussian(noise)], mean, shape), 1e-6)
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-6)
    assert ours.accountant == "rdp"


CASES = [
    (growth, chance, halting, shape)
    for growth, chance in ((0.1, 1e-4), (0.5, 1e-4), (1.0, 0.3), (2.0, 0.1), (0.3, 0.01))
    for halting in (0.01, 0.1, 0.5)
    for shape in (0.0, 1.0, 3.0)
]


def largest_ratio(bound) -> float:
    """How far the exact divergence of the best bit comes above a bound, at worst: above one it is none."""
    ratios = []
    for growth, chance, halting, shape in CASES:
        laws = bits(chance, growth)
        best = best_bits(laws, halting, shape)
        ratios.append(np.max(divergence(*best) / bound(divergence(*laws), halting, shape)))
    return max(ratios)


def without(*, second: float = 1.0, halting: float = 1.0):
    """The theorem with a part of it left out."""

    def bound(base, g, shape):
        least = np.min((1 - 1 / GRID) * base - halting * math.log(g) / GRID)
        return base + second * (1 + shape) * least + math.log(mean_runs(g, shape)) / (GRID - 1)

    return bound


def test_the_bound_holds_for_the_exact_law_of_the_best_bit_and_is_near() -> None:
    ratio = largest_ratio(lambda base, halting, shape: divergences(GRID, base, halting, shape))
    assert 0.8 < ratio <= 1


@pytest.mark.parametrize(
    "mutant",
    [lambda base, *_: base, without(second=0.0), without(second=0.5), without(halting=0.0)],
    ids=["one run", "no second order", "half of it", "no halting"],
)
def test_a_bound_with_a_part_left_out_is_caught(mutant) -> None:
    assert largest_ratio(mutant) > 1.01


@pytest.mark.parametrize(("noise", "halting", "shape"), [(5.0, 0.1, 0.0), (2.0, 0.02, 0.0), (1.0, 0.3, 1.0)])
def test_the_bound_holds_for_the_largest_of_noisy_numbers(noise, halting, shape) -> None:
    places = np.linspace(-40, 40, 8001)

    def best(mean):
        """The logarithm of the density of the largest: f(x) G'(F(x))."""
        top = (
            math.log((1 - halting) / -math.log(halting))
            if shape == 0
            else math.log(shape * (1 - halting) / (halting**-shape - 1))
        )
        slope = top - (1 + shape) * np.log1p(-(1 - halting) * stats.norm.cdf(places - mean))
        return stats.norm.logpdf(places - mean) + slope + math.log(places[1] - places[0])

    orders = GRID[GRID < 20][::4]
    exact = divergence(best(0.0), best(1 / noise), orders)
    bound = divergences(GRID, GRID / (2 * noise**2), halting, shape)[GRID < 20][::4]
    assert np.all(exact <= bound)
    assert np.max(exact / bound) > 0.3
    assert np.max(exact / (orders / (2 * noise**2))) > 1.05  # one run's own curve would be no bound


def test_the_dearest_candidate_counts_and_slack_grows_with_the_runs() -> None:
    base = Gaussian(20.0) + RatioApproximation(1e-13)
    price = selected([base + Approximation(1e-12), Gaussian(10.0) + Approximation(1e-13), Gaussian(30.0)], 5.0)
    (chosen,) = (part for part, _ in price.parts if isinstance(part, Selected))
    (slack,) = (part for part, _ in price.parts if isinstance(part, Approximation))
    assert 5e-12 <= slack.total_variation < 6e-12
    assert set(chosen.candidates) == {base, Gaussian(10.0), Gaussian(30.0)}
    alone = epsilon(selected([Gaussian(10.0)], 5.0), 1e-6)
    assert float(alone) <= float(epsilon(price, 1e-6)) < 1.001 * alone
    far = epsilon(selected([Gaussian(20.0) + RatioApproximation(0.01)], 5.0), 1e-6)
    assert far > 1.05 * epsilon(selected([Gaussian(20.0)], 5.0), 1e-6)


def test_what_a_run_rests_on_its_selection_rests_on() -> None:
    price = selected([AcceptBit(20.0) * 3, Gaussian(10.0)], 2.0)
    words = " ".join(Certificate(price, Adjacency.REPLACE_ONE, 1e-6).holds_if)
    assert "only the decisions of the accept tests were shown" in words
    assert "only the best run was shown" in words
    assert {Selected, AcceptBit, Gaussian, Approximation} == price.held
    later = price + Gaussian(5.0)
    assert later.gaussian_rho == Gaussian(5.0).gaussian_rho
    assert epsilon(later, 1e-6).accountant == "rdp"


def test_many_runs_are_cheaper_than_their_sum() -> None:
    assert epsilon(selected([Gaussian(10.0)], 10.0), 1e-6) < 0.6 * epsilon(Gaussian(10.0) * 10, 1e-6)


@pytest.mark.parametrize(
    ("candidates", "mean", "shape"),
    [
        ([], 3.0, 0.0),
        ([NonPrivate()], 3.0, 0.0),
        ([Gaussian(2.0)], 0.5, 0.0),
        ([Gaussian(2.0)], 1e9, 0.0),
        ([Gaussian(2.0)], 3.0, -0.5),
        ([selected([Gaussian(2.0)], 3.0)], 3.0, 0.0),
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(candidates, mean, shape) -> None:
    with pytest.raises(InvalidArgument):
        selected(candidates, mean, shape)
