"""Repeat and select: paid in full and before, only the best run is shown, and each run stays within its event."""

import random
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from toy import TOYS, Book, ToySum

from dpmcmc.accounting import Gaussian, Selected, compose, repeat_and_select
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import NonPrivate, counts
from dpmcmc.accounting.selection import probabilities
from dpmcmc.enclave import Attempt, PrivateData
from dpmcmc.enclave.select import number_of_runs
from dpmcmc.errors import BudgetExceeded, SelectionFailed

ONE = Gaussian(2.0)


def total(oracle):
    return oracle.sum(ToySum(), lambda record: record).value


def noisy(log=None, *, fails=False):
    """An attempt whose score is the noisy sum; what its runs found is kept in a list that only a test has."""

    def run(paid):
        found = float(paid.run(total)[0])
        if log is not None:
            log.append((found, paid))
        warnings.warn(f"found {found}", RuntimeWarning, stacklevel=1)
        if fails:
            raise ValueError(f"found {found}")
        return found, f"result {found}"

    return Attempt(ONE, run)


@pytest.mark.filterwarnings("ignore:found")
def test_all_of_it_is_charged_before_and_stays_charged_whatever_happens(table):
    price = repeat_and_select([ONE], 3.0)
    for seed in (1, 2):
        book, log = Book(), []
        data = PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS)

        def run(paid, book=book, log=log):
            log.append((list(book.reserved), list(book.settled)))
            return noisy().run(paid)

        best = data.select([Attempt(ONE, run)], mean=3.0, insecure_seed=seed)
        assert all(seen == ([price + NonPrivate()], []) for seen in log)
        assert book.settled == [
            price + NonPrivate()
        ]  # not what the runs have used: that would tell how many there were
        assert best.event == price
    assert best.event != compose([ONE])


@pytest.mark.filterwarnings("ignore:found")
def test_without_a_seed_the_price_is_private_and_the_runs_are_many(table):
    book, log = Book(), []
    best = PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS).select(
        [noisy(log)] * 2, mean=40.0, shape=1.0
    )
    assert book.reserved == book.settled == [repeat_and_select([ONE], 40.0, 1.0)]
    scores = [found for found, _ in log]
    assert best.score == max(scores)
    assert best.result == f"result {best.score}"
    assert len(set(scores)) == len(scores)  # fresh noise in every run


def test_what_does_not_fit_the_budget_is_refused_and_nothing_runs(table):
    log = []
    data = PrivateData(table, budget=Budget(epsilon=1.0, delta=1e-6), extra_mechanisms=TOYS)
    with pytest.raises(BudgetExceeded):
        data.select([noisy(log)], mean=5.0)
    assert not log
    assert data.account.epsilon_spent == 0


def test_a_run_cannot_release_more_than_its_event_nor_after_its_end(data, book):
    log = []

    def greedy(paid):
        paid.run(total)
        paid.run(total)
        return 0.0, None

    with pytest.raises(SelectionFailed):
        data.select([Attempt(ONE, greedy)], mean=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.select([noisy(log)], mean=1.0)
    with pytest.raises(BudgetExceeded):
        log[0][1].run(total)
    assert len(book.settled) == 2


def test_only_the_best_run_is_heard(data):
    log = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        best = data.select([noisy(log)], mean=8.0, shape=1.0, insecure_seed=5)
    assert len(log) > 2
    assert [str(one.message) for one in heard] == [f"found {best.score}"]


def test_why_runs_failed_is_not_said_and_the_charge_stands(data, book):
    log = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(SelectionFailed) as refusal:
            data.select([noisy(log, fails=True)], mean=4.0)
    assert log
    assert not heard
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None
    assert not any(str(found) in str(refusal.value) for found, _ in log)
    assert len(book.settled) == 1


@pytest.mark.filterwarnings("ignore:found")
def test_a_run_that_fails_or_has_no_score_loses(data):
    nowhere = Attempt(ONE, lambda paid: (paid.run(total)[0] * np.nan, "nothing"))
    best = data.select([noisy(fails=True), nowhere, noisy()], mean=8.0, shape=1.0, insecure_seed=3)
    assert best.candidate == 2


def is_law(drawn, chances) -> bool:
    """A chi-square test of numbers of runs that rejects the true law once in ten thousand times."""
    cells = np.append(chances[:12], 1 - sum(chances[:12]))
    seen = Counter(min(one, 13) for one in drawn)
    observed = np.array([seen[k] for k in range(1, 14)])
    return stats.chisquare(observed, cells * len(drawn)).pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_the_number_of_runs_is_drawn_from_the_law_that_is_paid_for(shape):
    (chosen,) = (part for part in counts(repeat_and_select([ONE], 4.0, shape)) if isinstance(part, Selected))
    dice = random.Random(1)  # noqa: S311
    drawn = [number_of_runs(chosen, dice) for _ in range(4000)]
    assert is_law(drawn, list(probabilities(chosen.halting, shape)))
    assert not is_law(drawn, list(probabilities(chosen.halting * 1.5, shape)))
    assert not is_law(drawn, list(probabilities(chosen.halting, 1.0 - shape)))
