"""Which rows a weighted fit asks when: blocks of the table, what they cost, and how often rows are read."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dpmcmc.accounting import Adjacency, Budget, Parallel, accountants, compose
from dpmcmc.errors import BudgetUnreachable, InvalidArgument
from dpmcmc.fitting import prepare_fit
from dpmcmc.fitting.strategies.weighted_scores import one_pass
from dpmcmc.fitting.strategies.weighted_scores.questions import usual_split
from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.schedule import FEWEST, GRID, WIDTHS, blocks
from experiments.stress.emulated import private_data
from experiments.stress.problems import Problem

BUDGET = Budget(4.0, 1e-6)
SIZES = (0.03, 0.2)


def places(rows, size):
    cuts = (0, *rows.cuts, size)
    return np.concatenate([np.arange(cuts[cell], cuts[cell + 1]) for cell in rows.cells])


@pytest.mark.parametrize("size", [100, 5000, 123_457, 10_000_019])
def test_blocks_are_disjoint_and_as_many_rows_as_they_say(size: int) -> None:
    first, second = blocks(size, SIZES, seed=3)
    one, other = places(first, size), places(second, size)
    assert first.cuts == second.cuts
    assert all(left < right for left, right in pairwise((0, *first.cuts, size)))
    assert not set(one) & set(other)
    assert (first.share, second.share) == (len(one) / size, len(other) / size)
    assert np.allclose((first.share, second.share), SIZES, atol=1.5 * max(WIDTHS) / min(GRID, size // 4))


def test_blocks_stand_all_over_the_table() -> None:
    """Every 32nd of the table has its share of both sets, within a block at each end."""
    size = 1_000_000
    for rows, share in zip(blocks(size, SIZES, seed=3), SIZES, strict=True):
        counts = np.bincount(places(rows, size) * 32 // size, minlength=32)
        assert np.abs(counts - share * size / 32).max() <= 2.2 * max(WIDTHS) * size / GRID


def test_few_rows_are_many_short_blocks() -> None:
    """As many as there can be where a set is small, and else blocks of the longest kind."""
    size = 100_000_000
    few, many = blocks(size, (0.003, 0.04), seed=3)
    assert [len(rows.cells) for rows in (few, many)] == pytest.approx(
        [0.003 * GRID, 0.04 * GRID / max(WIDTHS)], rel=0.05
    )
    assert len(blocks(size, (0.01, 0.04), seed=3)[0].cells) >= FEWEST


def test_blocks_are_random_and_cut_at_the_same_places_in_every_run() -> None:
    one, other = (blocks(1_000_000, SIZES, seed=seed)[1] for seed in (1, 2))
    assert one == blocks(1_000_000, SIZES, seed=1)[1]
    assert set(places(one, 1_000_000)) != set(places(other, 1_000_000))
    grid = {place * 1_000_000 // GRID for place in range(GRID)}
    assert set(one.cuts) | set(other.cuts) <= grid


@pytest.fixture(scope="module", params=["bernoulli", "gaussian"])
def problem(request):
    return Problem(request.param, 20_000, numbers=2, levels=())


@pytest.fixture(scope="module")
def prepared(problem):
    data = private_data(problem, 0)
    return {
        passes: prepare_fit(
            problem.formula,
            data,
            family=problem.family,
            epsilon=4.0,
            delta=1e-6,
            passes=passes,
            block_seed=7,
            allow_low_accuracy=True,
        )
        for passes in (1, 2, 99)
    }


@pytest.mark.parametrize("passes", [1, 2])
def test_the_price_is_that_of_the_dearest_cell(prepared, passes: int) -> None:
    """And not of all cells together, which would be more than the budget."""
    event = prepared[passes].event
    assert isinstance(event, Parallel)
    assert len(event.cases) == 3
    each = [float(accountants.epsilon(case, BUDGET.delta)) for case in event.cases]
    whole = float(accountants.epsilon(event, BUDGET.delta))
    assert whole == max(each)
    assert 0.99 * BUDGET.epsilon < whole <= BUDGET.epsilon
    assert float(accountants.epsilon(compose(event.cases), BUDGET.delta)) > 1.3 * BUDGET.epsilon


def test_blocks_pay_alike_and_rows_that_stand_in_none_pay_less(prepared) -> None:
    means = sorted(case.gaussian_rho for case in prepared[1].event.cases)
    assert means[1] == pytest.approx(means[2])
    assert means[0] == pytest.approx((1 - one_pass.WAY) * means[2])


def test_many_passes_have_no_cells(prepared) -> None:
    assert not isinstance(prepared[99].event, Parallel)


def test_describe_says_how_often_rows_are_read(prepared) -> None:
    assert "All rows are read once. Before that" in prepared[1].describe()
    assert "at public random positions" in prepared[1].describe()
    assert "All rows are read twice" in prepared[2].describe()
    reads = prepared[99].strategy.split.schedule.reads
    assert f"All rows are read {reads:.0f} times" in prepared[99].describe()


def test_runs_are_counted_as_they_are_read(prepared) -> None:
    """`reads` is what a run asks, each release with the share of the rows that it is asked of."""
    for each in prepared.values():
        schedule, asked = each.strategy.split.schedule, each.strategy.questions
        shares = [schedule.pilot.share] * (1 + schedule.shares.num_steps)
        refinements = 2 if schedule.has_blocks else 1
        shares += [schedule.refinement.share] * (refinements + 2 * (asked.residuals is not None) + 1)
        assert schedule.reads == pytest.approx(sum(shares) + schedule.shares.num_final)


@pytest.mark.parametrize("size", [3e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_rows_in_memory_are_read_in_every_step_unless_stated(problem, size: float, epsilon: float) -> None:
    split, budget = _split(problem), Budget(epsilon, 1e-6)
    every_time = one_pass.chosen(split, budget, int(size), 0, passes=None, is_in_memory=True)
    assert not every_time.schedule.has_blocks
    assert every_time.pilot_share <= split.pilot_share
    once = one_pass.chosen(split, budget, int(size), 0, passes=1, is_in_memory=True)
    assert once.schedule.has_blocks
    if size >= 1e6 and epsilon >= 2:
        best = one_pass.predicted_error(every_time, budget, size)
        assert one_pass.predicted_error(once, budget, size) <= 1.05 * best


def test_rows_that_are_not_in_memory_are_read_once_where_that_will_do(problem) -> None:
    split = _split(problem)
    few, many = (
        one_pass.chosen(split, BUDGET, size, 0, passes=None, is_in_memory=False) for size in (2000, 10_000_000)
    )
    assert not few.schedule.has_blocks
    assert many.schedule.has_blocks
    assert many.schedule.shares.num_final == 1
    assert many.schedule.reads < 1.6


def test_of_many_rows_few_lead_the_way(problem) -> None:
    found = one_pass.chosen(_split(problem), BUDGET, 10**8, 0, passes=1, is_in_memory=False).schedule
    assert one_pass.MANY_ROWS < found.pilot.share * 10**8 < 10**8 * one_pass.SHARE_OF_FEW


def test_the_last_slope_is_of_few_rows_where_that_is_predicted_to_change_little(problem) -> None:
    """Not where there are too few rows, nor where all are read again; and at no other price than that of all rows."""
    split, spacings = _split(problem), []
    for size in (10**5, 10**8):
        found = one_pass.chosen(split, BUDGET, size, 0, passes=1, is_in_memory=False)
        every_time = one_pass.chosen(split, BUDGET, size, 0, passes=None, is_in_memory=True)
        spacings.append(found.schedule.shares.spacing)
        if spacings[-1] > 1:
            assert one_pass.predicted_error(found, BUDGET, size) <= one_pass.predicted_error(every_time, BUDGET, size)
            for spacing in (s for s in one_pass.SPACINGS if s > spacings[-1]):  # one more would be too many
                shares = replace(found.schedule.shares, spacing=spacing)
                more = replace(found, blocks=replace(found.schedule, shares=shares))
                assert more.last_slope(BUDGET, size) > found.last_slope(BUDGET, size)
    assert spacings[0] == 1 < spacings[1]
    assert one_pass.chosen(split, BUDGET, 10**8, 0, passes=2, is_in_memory=False).schedule.shares.spacing == 1


def test_one_pass_over_too_few_rows_is_refused_with_what_would_do(problem) -> None:
    data = private_data(Problem(problem.family, 3000, numbers=2, levels=()), 0)
    with pytest.raises(BudgetUnreachable, match=r"passes=1[24] or more would make it about"):
        prepare_fit(problem.formula, data, family=problem.family, epsilon=2.0, delta=1e-6, passes=1)


@pytest.mark.parametrize("passes", [0, 1.5, "once", True])
def test_passes_are_whole_numbers(problem, passes) -> None:
    with pytest.raises(InvalidArgument, match="passes"):
        prepare_fit(problem.formula, private_data(problem, 0), family=problem.family, epsilon=4.0, passes=passes)


def test_a_chain_has_a_number_of_passes_of_its_own(problem) -> None:
    with pytest.raises(InvalidArgument, match="passes=1 must be left out"):
        prepare_fit(
            problem.formula,
            private_data(problem, 0),
            family=problem.family,
            epsilon=4.0,
            sampler="dp_langevin",
            passes=1,
            allow_low_accuracy=True,
        )


def _split(problem):
    data = private_data(problem, 0)
    model = prepare_fit(problem.formula, data, family=problem.family, epsilon=4.0, delta=1e-6).model
    return usual_split(Regression.of(model), 2 if data.facts.adjacency is Adjacency.REPLACE_ONE else 1)


def test_a_pilot_has_less_where_that_leads_near_and_all_shares_are_the_whole(problem) -> None:
    split, budget = _split(problem), Budget(2.0, 1e-6)
    few, many = (split.with_short_pilot(budget, size) for size in (3e3, 1e7))
    assert many.pilot_share < few.pilot_share == split.pilot_share
    for each in (few, many):
        shares = each.schedule.shares
        way = sum(shares.histograms) + shares.pilot + shares.refinement
        assert way + shares.final + 2 * shares.look + shares.other == pytest.approx(1.0)
        assert sum(each.pilot(budget, 1e5)) == pytest.approx(each.pilot_share)
