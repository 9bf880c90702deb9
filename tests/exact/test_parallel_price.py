"""What parallel releases cost, against the largest of independent computations; and how plans and ledgers count it."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import RdpAccountant

from dpmcmc.accounting import (
    ACCOUNTANTS,
    AcceptBit,
    Adjacency,
    Approximation,
    Budget,
    Event,
    FixedBatchGaussian,
    Gaussian,
    Ledger,
    LogisticBit,
    NonPrivate,
    Parallel,
    Partition,
    PoissonGaussian,
    RatioApproximation,
    compose,
    delta,
    epsilon,
    log_delta,
    max_steps,
    noise_for,
    rdp,
    zcdp,
)
from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.accounting.filters import RenyiFilter
from dpmcmc.errors import BudgetExceeded, InvalidArgument, LedgerUnavailable, UnsupportedEvent

SHARDS = Partition((0, 10, 300, 6000))
NOTHING = compose([])
CELLS: dict[str, list[Event]] = {
    "Gaussian": [Gaussian(2.0) * 3, Gaussian(1.0), Gaussian(7.0) * 20],
    "crossing curves": [Gaussian(3.0), LogisticBit(0.6), LogisticBit(0.1) * 40],
    "decisions": [AcceptBit(3.0) * 4, AcceptBit(5.0) * 20, Gaussian(4.0)],
    "batches": [FixedBatchGaussian(10, 300, 1.0) * 9, PoissonGaussian(0.01, 0.8, Adjacency.REPLACE_ONE) * 3, NOTHING],
    "slack": [Gaussian(3.0) + Approximation(1e-7), Gaussian(2.9), Gaussian(3.0) + RatioApproximation(1e-3)],
}


def parallel(cells: list[Event]) -> Event:
    return Parallel(SHARDS, dict(enumerate(cells)))


@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("accountant", ["tight", *ACCOUNTANTS])
def test_every_accountant_takes_the_largest_cell(cells: list[Event], accountant: str) -> None:
    event, more = parallel(cells), LogisticBit(0.3)
    for whole, parts in ((event, cells), (event + more, [cell + more for cell in cells])):
        try:
            expected = [max(log_delta(cell, at, accountant) for cell in parts) for at in (0.0, 0.3, 1.0, 4.0)]
        except UnsupportedEvent:
            with pytest.raises(UnsupportedEvent):
                log_delta(whole, 1.0, accountant)
            continue
        assert [log_delta(whole, at, accountant) for at in (0.0, 0.3, 1.0, 4.0)] == expected
        assert epsilon(whole, 1e-5, accountant) == max(epsilon(cell, 1e-5, accountant) for cell in parts)
        assert delta(whole, epsilon(whole, 1e-5, accountant), accountant) <= 1e-5


def test_the_largest_curve_changes_from_cell_to_cell() -> None:
    cells = CELLS["crossing curves"]
    dearest = {max(range(3), key=lambda cell: delta(cells[cell], at)) for at in np.linspace(0, 2, 41)}
    assert len(dearest) > 1


@pytest.mark.parametrize("accountant", ["exact", "zcdp", "rdp", "pld", "moments"])
def test_curves_of_accountants_are_those_of_the_answers(accountant: str) -> None:
    event = parallel(CELLS["Gaussian"])
    curve = ACCOUNTANTS[accountant](event)
    assert curve is not None
    assert curve.log_delta(0.7) == log_delta(event, 0.7, accountant)
    assert curve.epsilon(1e-5) == pytest.approx(epsilon(event, 1e-5, accountant), rel=1e-12)


@pytest.mark.parametrize("shared", [[], [(9.0, 5)]])
def test_against_dp_accounting(shared: list[tuple[float, int]]) -> None:
    cells = [[(2.0, 3)], [(1.0, 1), (8.0, 2)], [(7.0, 20)]]
    event = parallel([compose(Gaussian(z) * k for z, k in cell) for cell in cells])
    event = event + compose(Gaussian(z) * k for z, k in shared)
    for make, accountant, close in (
        (pld_privacy_accountant.PLDAccountant, "tight", 2e-3),
        (RdpAccountant, "rdp", 2e-2),
    ):
        theirs = []
        for cell in cells:
            other = make()
            for z, k in [*cell, *shared]:
                other.compose(dp_event.GaussianDpEvent(z), k)
            theirs.append(other.get_epsilon(1e-6))
        assert epsilon(event, 1e-6, accountant) == pytest.approx(max(theirs), rel=close)


def test_renyi_divergences_and_rho_are_the_largest() -> None:
    cells = CELLS["crossing curves"]
    kept = RenyiFilter(Budget(1.0, 1e-6))
    assert kept.used(parallel(cells)) == max(map(kept.used, cells))
    assert kept.used(parallel(cells) + cells[0]) == max(kept.used(cell + cells[0]) for cell in cells)
    assert kept.used(parallel([NonPrivate()])) == math.inf
    rhos = [found.rho for cell in cells if (found := zcdp.curve(cell))]
    assert len(rhos) == 3
    largest = zcdp.ConcentratedCurve(max(rhos)).epsilon(1e-6)
    assert largest <= epsilon(parallel(cells), 1e-6, "zcdp") <= largest * (1 + 1e-12)
    curves = [found.epsilon(1e-6) for cell in cells if (found := rdp.curve(cell))]
    assert epsilon(parallel(cells), 1e-6, "rdp") == pytest.approx(max(curves), rel=1e-12)
    assert parallel(CELLS["Gaussian"]).gaussian_rho == 0.5


def test_a_maximum_is_never_composed() -> None:
    """The dear cell of one run is the cheap one of the other: the total is that of a neighbour, not of both maxima."""
    dear, cheap = Gaussian(1.0), Gaussian(9.0)
    total = parallel([dear, cheap]) + parallel([cheap, dear])
    assert epsilon(total, 1e-6) == epsilon(dear + cheap, 1e-6)
    assert epsilon(total, 1e-6) < 0.75 * epsilon(dear * 2, 1e-6)


def test_nothing_and_everything() -> None:
    assert epsilon(parallel([]), 1e-6) == delta(parallel([NOTHING]), 0.0) == 0
    assert epsilon(parallel([Gaussian(2.0), NonPrivate()]), 1e-6) == math.inf
    assert delta(parallel([NOTHING, NonPrivate()]), 3.0) == 1


def test_the_samplers_distances_of_a_cell_are_its_own() -> None:
    event = parallel(CELLS["slack"])
    ideal, slack = without_approximations(event)
    assert ideal == parallel([Gaussian(3.0), Gaussian(2.9), Gaussian(3.0)])
    assert slack == (1e-7, 1e-3)
    assert without_approximations(parallel([NonPrivate()]))[0] is None


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Gaussian", "crossing curves", "slack"])
@pytest.mark.parametrize("once", [None, Gaussian(3.0), Parallel(Partition((0, 150, 6000)), {1: Gaussian(3.0)})])
def test_max_steps_is_exact_at_the_boundary(name: str, once: Event | None) -> None:
    step, base = parallel(CELLS[name]), once if once is not None else NOTHING
    budget = (8.0, 1e-4)
    steps = max_steps(step, *budget, once=once)
    assert steps >= 1
    assert delta(step * steps + base, budget[0]) <= budget[1] < delta(step * (steps + 1) + base, budget[0])


def test_steps_that_do_not_concern_a_cell_still_need_what_is_released_once() -> None:
    step = parallel([Gaussian(9.0)])
    assert max_steps(step, 1.0, 1e-6, once=parallel([NOTHING, Gaussian(0.5)])) == 0
    assert max_steps(step, 1.0, 1e-6, once=parallel([NOTHING, Gaussian(9.0)])) == max_steps(Gaussian(9.0), 1.0, 1e-6)


def test_every_shard_has_the_whole_budget() -> None:
    def three(noise: float) -> Event:
        return parallel([Gaussian(noise), Gaussian(noise * math.sqrt(4)) * 4, Gaussian(noise)])

    alone = noise_for(Gaussian, 1.0, 1e-6)
    assert noise_for(three, 1.0, 1e-6) == pytest.approx(alone, rel=1e-8)


# --- ledgers ----------------------------------------------------------------------------------------------------------


def new_ledger(*, adaptive: bool = False, adjacency: str = "replace_one") -> Ledger:
    ledger = Ledger.in_memory()
    ledger.register("people", Budget(1.0, 1e-6), adjacency, adaptive=adaptive)
    return ledger


FULL = Gaussian(noise_for(Gaussian, 1.0, 1e-6))


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_ledger_adds_up_place_by_place(adaptive: bool) -> None:
    ledger = new_ledger(adaptive=adaptive)
    half = Gaussian(FULL.noise_multiplier * math.sqrt(1.6))  # twice that is more than the budget
    ledger.reserve("people", parallel([half, NOTHING, half]), description="two shards").settle()
    ledger.reserve(
        "people", Parallel(Partition((0, 200, 6000)), {0: Gaussian(90.0)}), description="other cuts"
    ).settle()
    ledger.reserve("people", Gaussian(80.0), description="all places")
    account = ledger.account("people")
    assert isinstance(account.spent, Parallel)
    assert account.spent == Parallel(
        Partition((0, 10, 200, 300, 6000)),
        {
            0: half + Gaussian(90.0) + Gaussian(80.0),
            1: Gaussian(90.0) + Gaussian(80.0),
            2: Gaussian(80.0),
            3: half + Gaussian(80.0),
        },
    )
    assert account.epsilon_spent == epsilon(half + Gaussian(90.0) + Gaussian(80.0), 1e-6)
    ledger.reserve("people", parallel([NOTHING, half]), description="the shard that was left")
    for event in (half, parallel([half]), parallel([NOTHING, NOTHING, half]), parallel([NOTHING, half])):
        with pytest.raises(BudgetExceeded, match="Nothing was charged"):
            ledger.reserve("people", event, description="too much")
    assert [entry.event for entry in ledger.history()][1] == parallel([half, NOTHING, half])


def test_a_run_settles_at_what_it_asked_of_its_cells() -> None:
    ledger = new_ledger()
    reserved = parallel([FULL, FULL, FULL])
    run = ledger.reserve("people", reserved, description="three shards")
    for more in (parallel([FULL * 2]), Parallel(Partition((0, 5, 6000)), {0: FULL}), Gaussian(99.0)):
        with pytest.raises(InvalidArgument, match="must be contained in what the run reserved"):
            run.settle(more)
    run.settle(parallel([FULL]))
    assert ledger.account("people").spent == parallel([FULL])
    ledger.reserve("people", parallel([NOTHING, FULL, FULL]), description="the rest").settle()
    assert ledger.account("people").epsilon_spent <= 1.0


def test_what_a_ledger_refuses() -> None:
    with pytest.raises(BudgetExceeded, match="holds NonPrivate"):
        new_ledger().reserve("people", parallel([FULL, NonPrivate()]), description="exact")


def test_halves_of_many_placements_cost_what_all_places_would() -> None:
    """Two cells of seven placements are 128 together: the dearest of each is counted, as if a record were in all."""
    ledger = new_ledger(adjacency="add_or_remove_one")
    for _ in range(7):
        ledger.reserve("people", Parallel(Partition.with_random_id(2), {0: Gaussian(90.0)}), description="half")
    assert ledger.account("people").epsilon_spent == epsilon(Gaussian(90.0) * 7, 1e-6)
    assert ledger.reserve("people", Gaussian(90.0), description="all places").event == Gaussian(90.0)
    assert ledger.account("people").epsilon_spent == epsilon(Gaussian(90.0) * 8, 1e-6)


def test_a_damaged_entry_makes_a_ledger_unreadable(new_url: str, execute) -> None:
    ledger = Ledger.create(new_url)
    ledger.register("people", Budget(1.0, 1e-6), "replace_one")
    overlapping = parallel([FULL]).to_json().replace("10, 300", "300, 10")
    columns = "kind, dataset, run, event, adjacency, who, made_at, what, library_version"
    values = f"'reserve', 'people', 'r', '{overlapping}', 'replace_one', 'a', 'b', 'c', 'd'"
    execute(new_url, f"INSERT INTO dpmcmc_entries ({columns}) VALUES ({values})")  # noqa: S608, constants alone
    with pytest.raises(LedgerUnavailable, match="may not overlap"):
        ledger.account("people")
