"""Plans: exact at the boundary, monotone, quick; what does not fit or makes no sense is refused."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmcmc.accounting import (
    AcceptBit,
    Adjacency,
    Approximation,
    BarkerTest,
    Budget,
    Event,
    FixedBatchGaussian,
    Gaussian,
    LogisticBit,
    NonPrivate,
    PoissonGaussian,
    SphericalLaplace,
    calibrate,
    compose,
    delta,
    epsilon,
    max_steps,
    noise_for,
    split,
)
from dpmcmc.accounting.accountants import log_delta
from dpmcmc.errors import AdjacencyMismatch, BudgetUnreachable, InvalidArgument, UnsupportedEvent

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE

STEPS = {
    "Gaussian": (Gaussian(31.6), ["tight", "exact", "zcdp", "rdp", "pld", "moments"]),
    "DP-HMC": (Gaussian(31.6) + Gaussian(174.0) * 26, ["tight", "exact", "zcdp", "rdp"]),
    "AcceptBit": (AcceptBit(31.6), ["tight", "exact", "zcdp", "rdp"]),
    "AcceptBit and gradients": (AcceptBit(31.6) + Gaussian(174.0) * 26, ["tight", "rdp"]),
    "LogisticBit": (LogisticBit(0.05), ["tight", "zcdp", "rdp", "pld", "barker_2019"]),
    "Poisson, add or remove": (PoissonGaussian(0.01, 2.0, ADD), ["tight", "rdp", "pld", "moments"]),
    "Poisson, replace": (PoissonGaussian(0.01, 2.0, REPLACE), ["tight", "pld"]),
    "FixedBatchGaussian": (FixedBatchGaussian(10, 1000, 2.0), ["tight", "rdp", "pld", "moments"]),
    "BarkerTest": (BarkerTest(100, 10_000, 2.0, 1.0), ["tight", "rdp", "pld", "barker_2019"]),
    "SphericalLaplace": (SphericalLaplace(6, 20.0), ["tight", "zcdp", "rdp", "pld"]),
    "mixed": (PoissonGaussian(0.01, 2.0, ADD) * 3 + AcceptBit(50.0), ["tight", "rdp", "pld"]),
    "with an approximation": (Gaussian(31.6) + Approximation(1e-12), ["tight", "exact", "rdp"]),
}
CASES = [pytest.param(step, name, id=f"{kind}, {name}") for kind, (step, names) in STEPS.items() for name in names]


@pytest.mark.parametrize(("step", "accountant"), CASES)
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(0.3, 1e-4)], ids=str)
def test_steps_are_exact_at_the_boundary(step: Event, accountant: str, budget: Budget) -> None:
    steps = max_steps(step, budget.epsilon, budget.delta, accountant=accountant)
    if steps:
        assert delta(step * steps, budget.epsilon, accountant) <= budget.delta
    assert delta(step * (steps + 1), budget.epsilon, accountant) > budget.delta


@pytest.mark.parametrize(("step", "accountant"), [case for case in CASES if case.values[1] == "tight"])
def test_steps_with_something_released_once(step: Event, accountant: str) -> None:
    once = Gaussian(20.0) * 3
    steps = max_steps(step, 1.0, 1e-6, once=once, accountant=accountant)
    assert 0 < steps < max_steps(step, 1.0, 1e-6, accountant=accountant)
    assert delta(step * steps + once, 1.0, accountant) <= 1e-6
    assert delta(step * (steps + 1) + once, 1.0, accountant) > 1e-6


def test_epsilon_of_the_steps_is_within_the_budget() -> None:
    steps = max_steps(Gaussian(31.6), 2.0, 1e-6)
    assert epsilon(Gaussian(31.6) * steps, 1e-6) <= 2.0 < epsilon(Gaussian(31.6) * (steps + 1), 1e-6)


@given(
    st.floats(5.0, 500.0),
    st.floats(0.05, 20.0),
    st.floats(-12.0, -1.0).map(lambda power: 10**power),
    st.sampled_from(["tight", "zcdp", "rdp"]),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_steps_of_any_budget_are_exact(noise: float, at: float, allowed: float, accountant: str, hidden: bool) -> None:
    step = AcceptBit(noise) if hidden else Gaussian(noise)
    steps = max_steps(step, at, allowed, accountant=accountant)
    assert steps == 0 or delta(step * steps, at, accountant) <= allowed
    assert delta(step * (steps + 1), at, accountant) > allowed


@pytest.mark.parametrize("kind", STEPS)
def test_steps_are_monotone(kind: str) -> None:
    step, _ = STEPS[kind]
    by_epsilon = [max_steps(step, at, 1e-6) for at in (0.1, 0.5, 1.0, 2.0)]
    by_delta = [max_steps(step, 1.0, allowed) for allowed in (1e-9, 1e-6, 1e-3)]
    assert by_epsilon == sorted(by_epsilon)
    assert by_delta == sorted(by_delta)
    assert by_epsilon[0] < by_epsilon[-1]
    assert max_steps(step * 2, 1.0, 1e-6) == max_steps(step, 1.0, 1e-6) // 2


HUGE = {
    "Gaussian": (Gaussian(1e5), 10**8),
    "AcceptBit": (AcceptBit(1e5), 10**8),
    "LogisticBit": (LogisticBit(1e-4), 10**7),
    "Poisson, add or remove": (PoissonGaussian(1e-4, 10.0, ADD), 10**8),
    "Poisson, replace": (PoissonGaussian(1e-4, 10.0, REPLACE), 10**8),
    "FixedBatchGaussian": (FixedBatchGaussian(100, 10**6, 10.0), 10**8),
    "BarkerTest": (BarkerTest(1000, 10**6, 2.0, 1.0), 10**7),
}


@pytest.fixture
def bounds_asked(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Return the list that grows by every event whose delta a plan asks for: the whole cost of planning."""
    asked: list[Event] = []

    def listed(event: Event, epsilon: float, accountant: str) -> float:
        asked.append(event)
        return log_delta(event, epsilon, accountant)

    monkeypatch.setattr(calibrate, "log_delta", listed)
    return asked


@pytest.mark.parametrize("kind", HUGE)
def test_many_millions_of_steps_are_planned_with_a_few_bounds(kind: str, bounds_asked: list[Event]) -> None:
    step, at_least = HUGE[kind]
    steps = max_steps(step, 1.0, 1e-6)
    assert len(bounds_asked) <= 3 * 2 * math.log2(steps)  # of at most three accountants each: doubling, then closing in
    assert steps > at_least
    assert delta(step * steps, 1.0) <= 1e-6 < delta(step * (steps + 1), 1.0)


def test_nothing_fits_a_budget_that_is_spent() -> None:
    assert max_steps(Gaussian(1.0), 0.01, 1e-6) == 0
    assert max_steps(Gaussian(31.6), 1.0, 1e-6, once=Gaussian(1.0)) == 0
    assert max_steps(Gaussian(31.6), 1.0, 1e-6, once=NonPrivate()) == 0
    assert max_steps(NonPrivate(), 1.0, 1e-6) == 0
    assert max_steps(Gaussian(31.6) + NonPrivate(), 1.0, 1e-6) == 0
    assert max_steps(Gaussian(31.6), 0.0, 1e-12) == 0


def test_approximations_use_up_delta() -> None:
    plain = max_steps(Gaussian(31.6), 1.0, 1e-6)
    assert max_steps(Gaussian(31.6), 1.0, 1e-6, once=Approximation(1e-7)) < plain
    assert max_steps(Approximation(1.1e-9), 0.0, 1e-6) == 454  # 2 * 1.1e-9 each


def test_steps_that_cannot_be_planned_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="must release something"):
        max_steps(compose([]), 1.0, 1e-6)
    with pytest.raises(BudgetUnreachable, match="1e15"):
        max_steps(Gaussian(1e12), 1.0, 1e-6)
    with pytest.raises(UnsupportedEvent, match=r"exact.*LogisticBit"):
        max_steps(LogisticBit(0.1), 1.0, 1e-6, accountant="exact")
    with pytest.raises(AdjacencyMismatch):
        max_steps(PoissonGaussian(0.01, 2.0, ADD), 1.0, 1e-6, once=FixedBatchGaussian(1, 10, 5.0))


@pytest.mark.parametrize(
    ("at", "allowed", "message"),
    [
        (-1.0, 1e-6, r"^epsilon=-1\.0"),
        (math.nan, 1e-6, r"^epsilon=nan"),
        (math.inf, 1e-6, r"^epsilon=inf"),
        (True, 1e-6, r"^epsilon=True"),
        (1.0, 0.0, r"^delta=0\.0"),
        (1.0, 1.0, r"^delta=1\.0"),
        (1.0, math.nan, r"^delta=nan"),
        (1.0, "1e-6", r"^delta='1e-6'"),
    ],
)
def test_bad_budgets_are_refused(at: float, allowed: float, message: str) -> None:
    for plan in (
        lambda: max_steps(Gaussian(2.0), at, allowed),
        lambda: noise_for(Gaussian, at, allowed),
        lambda: split(Budget(at, allowed), {"a": 1.0}),
    ):
        with pytest.raises(InvalidArgument, match=message):
            plan()


def test_an_unknown_accountant_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^accountant='best' must be one of"):
        max_steps(Gaussian(2.0), 1.0, 1e-6, accountant="best")
    with pytest.raises(InvalidArgument, match=r"^accountant='best' must be one of"):
        noise_for(Gaussian, 1.0, 1e-6, accountant="best")


MAKERS: dict[str, Callable[[float], Event]] = {
    "Gaussian": lambda noise: Gaussian(noise) * 1000,
    "AcceptBit": lambda noise: AcceptBit(noise) * 1000,
    "two Gaussians": lambda noise: Gaussian(noise) * 10 + Gaussian(3 * noise) * 100,
    "Poisson, add or remove": lambda noise: PoissonGaussian(0.01, noise, ADD) * 1000,
    "Poisson, replace": lambda noise: PoissonGaussian(0.01, noise, REPLACE) * 1000,
    "FixedBatchGaussian": lambda noise: FixedBatchGaussian(10, 1000, noise) * 1000,
    "LogisticBit": lambda noise: LogisticBit(1 / noise) * 100,
    "SphericalLaplace": lambda noise: SphericalLaplace(6, noise) + Gaussian(30.0),
    "half of it fixed": lambda noise: Gaussian(noise) * 1000 + AcceptBit(50.0),
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(5.0, 1e-4)], ids=str)
def test_noise_fits_and_a_little_less_does_not(kind: str, budget: Budget) -> None:
    noise = noise_for(MAKERS[kind], budget.epsilon, budget.delta)
    assert delta(MAKERS[kind](noise), budget.epsilon) <= budget.delta
    assert epsilon(MAKERS[kind](noise), budget.delta) <= budget.epsilon * (1 + 1e-12)
    assert delta(MAKERS[kind](noise * (1 - 1e-6)), budget.epsilon) > budget.delta


@given(st.floats(1e-3, 500.0), st.floats(-200.0, -0.5).map(lambda power: 10**power))
@settings(max_examples=60, deadline=None)
def test_noise_of_any_budget(at: float, allowed: float) -> None:
    noise = noise_for(Gaussian, at, allowed)
    assert delta(Gaussian(noise), at) <= allowed < delta(Gaussian(noise * (1 - 1e-6)), at)


def test_noise_that_cannot_be_found() -> None:
    with pytest.raises(BudgetUnreachable, match="no noise up to 1e12"):
        noise_for(lambda noise: Gaussian(noise) + NonPrivate(), 1.0, 1e-6)
    with pytest.raises(BudgetUnreachable, match="no noise up to 1e12"):
        noise_for(lambda noise: Gaussian(noise) + Gaussian(0.1), 1.0, 1e-6)
    with pytest.raises(BudgetUnreachable, match="does not depend on its noise"):
        noise_for(lambda _: Gaussian(100.0), 1.0, 1e-6)


@given(
    st.floats(1e-3, 500.0),
    st.floats(-200.0, -0.5).map(lambda power: 10**power),
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(1e-6, 1e6), min_size=1, max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_shares_spend_the_budget_and_not_more(at: float, allowed: float, shares: dict[str, float]) -> None:
    events = split(Budget(at, allowed), shares)
    assert set(events) == set(shares)
    together = compose(events.values())
    assert delta(together, at) <= allowed
    assert delta(compose(Gaussian(event.noise_multiplier * (1 - 1e-9)) for event in events.values()), at) > allowed
    total = together.gaussian_rho
    for name, event in events.items():
        assert event.gaussian_rho == pytest.approx(total * shares[name] / math.fsum(shares.values()), rel=1e-12)


def test_a_share_is_spent_in_steps() -> None:
    events = split(Budget(2.0, 1e-6), {"ratio": 3.0, "gradients": 1.0})
    stepwise = Gaussian(events["gradients"].noise_multiplier * math.sqrt(250)) * 250
    assert epsilon(events["ratio"] + stepwise, 1e-6) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("budget", [Budget(0.0, 1e-6), Budget(0.0, 1e-20), Budget(1e-30, 1e-15), Budget(800.0, 1e-300)])
def test_extreme_budgets_are_split(budget: Budget) -> None:
    event = split(budget, {"all": 1.0})["all"]
    assert delta(event, budget.epsilon) <= budget.delta


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({}, r"^shares=\{\} must name at least one share"),
        ({"a": 0.0}, r"^shares\['a'\]=0\.0 must be > 0"),
        ({"a": 1.0, "b": -1.0}, r"^shares\['b'\]=-1\.0"),
        ({"a": math.nan}, r"^shares\['a'\]=nan"),
        ({"a": True}, r"^shares\['a'\]=True"),
        ({"a": math.inf}, r"^shares\['a'\]=inf"),
    ],
)
def test_bad_shares_are_refused(shares: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        split(Budget(1.0, 1e-6), shares)
