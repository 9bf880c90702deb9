"""Budgets that are kept by a filter: fixed before the data, additive, and never beyond the budget."""

import math

import pytest

from dpmcmc.accounting import (
    AcceptBit,
    Approximation,
    BarkerTest,
    Budget,
    FixedBatchGaussian,
    Gaussian,
    Ledger,
    LogisticBit,
    NonPrivate,
    RatioApproximation,
    compose,
    delta,
    epsilon,
    noise_for,
)
from dpmcmc.accounting.filters import RenyiFilter
from dpmcmc.accounting.rdp import ORDERS, curve
from dpmcmc.accounting.selection import repeat_and_select
from dpmcmc.errors import BudgetExceeded, DatasetExists, InvalidArgument

BUDGETS = [Budget(1.0, 1e-6), Budget(0.1, 1e-9), Budget(8.0, 1e-5), Budget(3.0, 1e-8)]
KINDS = [
    Gaussian(20.0),
    AcceptBit(20.0),
    LogisticBit(0.05),
    FixedBatchGaussian(10, 1000, 4.0),
    BarkerTest(100, 10_000, 2.0, 1.0),
    repeat_and_select([Gaussian(200.0), LogisticBit(0.01)], 3.0),
    Gaussian(20.0) + Approximation(1e-18) + RatioApproximation(1e-9),
]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)
def test_what_is_admitted_is_within_the_budget(budget: Budget, kind) -> None:
    kept = RenyiFilter(budget)
    times = 1
    while kept.admits(kind * (2 * times)) and times < 2**30:
        times *= 2
    if kept.admits(kind * times):
        assert delta(kind * times, budget.epsilon) <= budget.delta
        assert delta(kind * times + Gaussian(1e6), budget.epsilon) <= budget.delta * 1.001


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_order_follows_from_the_budget_and_costs_gaussian_releases_a_tenth(budget: Budget) -> None:
    kept = RenyiFilter(budget)
    assert kept.order in ORDERS
    assert kept == RenyiFilter(budget)
    dearest = Gaussian(math.sqrt(kept.order / (2 * kept.limit)) * (1 + 1e-8))
    assert kept.admits(dearest)
    assert 0.9 * budget.epsilon < epsilon(dearest, budget.delta) < budget.epsilon
    whole = Gaussian(noise_for(Gaussian, budget.epsilon, budget.delta))
    assert not kept.admits(whole)  # the tightest composition does


def test_costs_add_up_and_have_limits_of_their_own() -> None:
    kept = RenyiFilter(BUDGETS[0])
    for first in KINDS[:5]:
        for second in KINDS[:5]:
            together = kept.used(first * 3 + second * 2)
            assert together == pytest.approx(3 * kept.used(first) + 2 * kept.used(second), rel=1e-9)
    assert kept.used(compose([])) == 0
    assert kept.used(Approximation(kept.slack_limit)) == pytest.approx(1.0)
    assert kept.admits(Approximation(kept.slack_limit * 0.999) + Gaussian(30.0))
    assert not kept.admits(Approximation(kept.slack_limit * 1.001))
    assert kept.used(NonPrivate()) == kept.used(Gaussian(2.0) + NonPrivate()) == math.inf


def test_the_limits_convert_to_the_budget() -> None:
    for budget in BUDGETS:
        kept = RenyiFilter(budget)
        alpha = kept.order
        log_delta = (alpha - 1) * (kept.limit - budget.epsilon + math.log1p(-1 / alpha)) - math.log(alpha)
        slack = (1 + math.exp(budget.epsilon)) * kept.slack_limit
        assert math.exp(log_delta) + slack == pytest.approx(budget.delta)
        gaussian = curve(Gaussian(2.0))
        assert gaussian is not None
        assert kept.used(Gaussian(2.0)) * kept.limit == pytest.approx(alpha / 8)


@pytest.mark.parametrize("budget", [Budget(0.0, 1e-6), Budget(1e-9, 1e-12), Budget(700.0, 1e-6), Budget(1e6, 0.999)])
def test_extreme_budgets(budget: Budget) -> None:
    kept = RenyiFilter(budget)
    assert kept.admits(compose([]))
    assert not math.isnan(kept.used(Gaussian(2.0) + Approximation(1e-9)))
    if kept.admits(Gaussian(2.0)):
        assert delta(Gaussian(2.0), budget.epsilon) <= budget.delta


def test_a_ledger_keeps_a_total_by_the_filter(new_url: str) -> None:
    ledger, budget = Ledger.create(new_url), Budget(1.0, 1e-6)
    assert ledger.register("people", budget, "replace_one", adaptive=True).adaptive
    assert not ledger.register("others", budget, "replace_one").adaptive
    assert ledger.account("people").to_dict()["adaptive"] is True
    assert ledger.history("people")[0].description == "budget granted, kept by a filter"
    step, kept = Gaussian(50.0) + LogisticBit(0.02), RenyiFilter(budget)
    fits = max(times for times in range(1, 500) if kept.admits(step * times))
    ledger.reserve("people", step * (fits - 1), description="most").settle()
    ledger.reserve("people", step, description="the last")
    with pytest.raises(
        BudgetExceeded, match=r"kept by a filter, of which 0\.9\d+ is used, and the charge would make it 1"
    ):
        ledger.reserve("people", step, description="one too many")
    ledger.reserve("others", step * (fits + 1), description="it fits there")
    assert Ledger(new_url).account("people").delta_spent <= budget.delta


def test_how_a_total_is_kept_is_one_of_the_terms(new_url: str) -> None:
    ledger, budget = Ledger.create(new_url), Budget(1.0, 1e-6)
    ledger.register("people", budget, "replace_one", adaptive=True)
    ledger.register("people", budget, "replace_one", adaptive=True)
    with pytest.raises(
        DatasetExists, match="already, kept by a filter, not epsilon=1, delta=1e-06 under replace-one; a"
    ):
        ledger.register("people", budget, "replace_one")
    with pytest.raises(InvalidArgument, match=r"^adaptive=1 must be of type bool"):
        ledger.register("others", budget, "replace_one", adaptive=1)
