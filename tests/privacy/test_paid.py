"""A price that is set aside for several programs: paid once and before, taken from as they run, the rest given back."""

import os
import signal
import subprocess
import sys
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import TOYS, ToySum

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Gaussian, NonPrivate, compose, counts
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.accounting.payer import settle
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.select import Attempt
from dpmcmc.errors import AuditError, BudgetExceeded, InvalidArgument, LedgerUnavailable, RunSettled, SettlementRefused

ONE = Gaussian(2.0)
BUDGET = Budget(epsilon=8.0, delta=1e-6)


def once(oracle):
    return oracle.sum(ToySum(), lambda record: record).value


def twice(oracle):
    return once(oracle), once(oracle)


def dearer(oracle):
    return oracle.sum(ToySum(noise_multiplier=1.0), lambda record: record).value


def test_the_price_is_set_aside_before_anything_runs(data, book):
    with data.reserve(ONE * 3) as paid:
        assert book.reserved == [ONE * 3]
        assert book.settled == []
        assert paid.spent == compose([])
        paid.run(once)
        assert (paid.spent, paid.count) == (ONE, 1)
        paid.run(twice)
        assert (paid.spent, paid.count) == (ONE * 3, 2)
    assert book.reserved == book.settled == [ONE * 3]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_what_was_not_used_is_given_back(data, book, times):
    with data.reserve(ONE * 3) as paid:
        for _ in range(times):
            paid.run(once)
    assert book.settled == [compose([ONE] * times)]


def test_a_price_beyond_the_budget_is_refused_and_nothing_runs(table):
    data, ran = PrivateData(table, budget=BUDGET, extra_mechanisms=TOYS), []
    with pytest.raises(BudgetExceeded), data.reserve(ONE * 1000) as paid:
        ran.append(paid)
    assert ran == []


@pytest.mark.parametrize("program", [twice, dearer])
def test_a_program_that_costs_more_than_is_left_is_refused(data, book, program):
    with data.reserve(ONE * 2) as paid:
        paid.run(once)
        with pytest.raises(BudgetExceeded, match="more than what is left of the reservation"):
            paid.run(program)
        assert paid.spent == ONE
        paid.run(once)  # what is left is not touched by a refusal
    assert book.settled == [ONE * 2]


def test_cheaper_noise_is_not_bought_with_dearer(data, book):
    """What is left is counted event by event: no trading of one mechanism against another."""
    with data.reserve(Gaussian(1.0)) as paid, pytest.raises(BudgetExceeded):
        paid.run(once)
    assert book.settled == [compose([])]


def test_a_program_that_fails_before_it_reads_a_record_costs_nothing(data, book):
    with data.reserve(ONE) as paid:
        with pytest.raises(AuditError):
            paid.run(lambda oracle: jax.debug.print("{}", once(oracle)))
        with pytest.raises(InvalidArgument):
            paid.run(lambda oracle, _: once(oracle), "text")
        assert paid.spent == compose([])
        paid.run(once)
    assert book.settled == [ONE]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_price_of_an_interrupted_program_stays(data, book, monkeypatch, error):
    def fail(_):
        raise error("the device is gone")

    with data.reserve(ONE * 3) as paid:
        paid.run(once)
        with monkeypatch.context() as patch:
            patch.setattr(jax, "block_until_ready", fail)
            with pytest.raises(error):
                paid.run(once)
        assert paid.spent == ONE * 2
    assert book.settled == [ONE * 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_between_two_programs_settles_what_was_spent(data, book, error):
    def interrupted():
        with data.reserve(ONE * 3) as paid:
            paid.run(once)
            raise error

    with pytest.raises(error):
        interrupted()
    assert book.settled == [ONE]


def test_a_run_that_was_closed_executes_nothing_more(data, book):
    with data.reserve(ONE * 2) as paid:
        paid.run(once)
    with pytest.raises(BudgetExceeded):
        paid.run(once)
    assert paid.close() == ONE
    assert book.reserved == [ONE * 2]
    assert book.settled == [ONE]


def test_programs_of_a_reservation_draw_noise_of_their_own(table):
    data = PrivateData.without_guarantee(table, extra_mechanisms=TOYS)
    for seed in (None, 3):
        with data.reserve(ONE * 3, insecure_seed=seed) as paid:
            values = {np.asarray(paid.run(once)).tobytes() for _ in range(3)}
        assert len(values) == 3


def test_an_insecure_seed_makes_the_same_run_again_and_is_not_private(table, book):
    data = PrivateData.without_guarantee(table, extra_mechanisms=TOYS)

    def run():
        with data.reserve(ONE * 2, insecure_seed=3) as paid:
            values = [paid.run(once) for _ in range(2)]
        return values, paid.spent

    (first, spent), (second, _) = run(), run()
    np.testing.assert_array_equal(first, second)
    assert counts(spent) == {ONE: 2, NonPrivate(): 1}
    with PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS).reserve(ONE, insecure_seed=3):
        pass  # nothing was released, so nothing was lost
    assert NonPrivate in book.reserved[0].held
    assert book.settled == [compose([])]
    with (
        pytest.raises(BudgetExceeded, match="NonPrivate"),
        PrivateData(table, budget=BUDGET, extra_mechanisms=TOYS).reserve(ONE, insecure_seed=3),
    ):
        pass


def test_the_ledger_shows_one_charge(table):
    ledger = Ledger.in_memory()
    ledger.register("people", BUDGET, Adjacency.REPLACE_ONE)
    data = PrivateData(table, ledger=ledger, dataset="people", extra_mechanisms=TOYS)
    with data.reserve(ONE * 3, description="a sampler in segments") as paid:
        paid.run(once)
        paid.run(once)
        assert ledger.account("people").spent == ONE * 3
        assert len(ledger.account("people").standing) == 1
    entries = [(entry.kind, entry.event, entry.description) for entry in ledger.history("people")[1:]]
    assert entries == [
        ("reserve", ONE * 3, "a sampler in segments"),
        ("settle", ONE * 2, "a sampler in segments"),
    ]
    assert ledger.account("people").spent == ONE * 2


def test_nothing_is_executed_once_somebody_else_has_settled_the_run(table, monkeypatch):
    ledger = Ledger.in_memory()
    ledger.register("people", BUDGET, Adjacency.REPLACE_ONE)
    data, executed = PrivateData(table, ledger=ledger, dataset="people", extra_mechanisms=TOYS), []
    usual = jax.block_until_ready
    monkeypatch.setattr(jax, "block_until_ready", lambda results: executed.append(1) or usual(results))

    def settled_half_way():
        with data.reserve(ONE * 3) as paid:
            paid.run(once)
            ledger.reservation(paid.entry["run"]).settle()
            for _ in range(2):
                with pytest.raises(RunSettled, match="nothing was executed, because the reservation is no longer open"):
                    paid.run(once)
            assert (paid.spent, len(executed)) == (ONE, 1)

    with pytest.warns(RuntimeWarning, match="was settled by somebody else, at no less than it released"):
        settled_half_way()
    assert ledger.account("people").spent == ONE * 3


def test_nothing_is_executed_while_the_ledger_cannot_be_read(table, tmp_path):
    file = tmp_path / "ledger.db"
    ledger = Ledger.create(f"sqlite:///{file}")
    ledger.register("people", BUDGET, Adjacency.REPLACE_ONE)
    data = PrivateData(table, ledger=ledger, dataset="people", extra_mechanisms=TOYS)
    with data.reserve(ONE * 3) as paid:
        file.rename(tmp_path / "moved")
        with pytest.raises(LedgerUnavailable, match="nothing was executed, for whether the run's charge stands cannot"):
            paid.run(once)
        assert paid.spent == compose([])
        (tmp_path / "moved").rename(file)
        paid.run(once)
    assert ledger.account("people").spent == ONE


class Stubborn:
    """A reservation whose settlement fails in a given way."""

    entry: ClassVar = {}

    def __init__(self, *errors):
        self.errors, self.settled = list(errors), []

    def check_standing(self):
        pass

    def settle(self, spent=None):
        if self.errors:
            raise self.errors.pop(0)
        self.settled.append(spent)


@pytest.mark.parametrize(
    ("errors", "words", "is_closed"),
    [
        ([LedgerUnavailable("locked")], "paid but not settled, its charge stands: locked", False),
        ([RunSettled("settled", ONE * 2)], "settled by somebody else, at no less than it released", True),
        ([RunSettled("settled", compose([]))], "at LESS than it released.* the run released Gaussian", True),
        ([RunSettled("settled")], "settled by somebody else, at what the history of the ledger says", True),
        ([SettlementRefused("no secret")], "settled at its full price, and nothing was given back: no secret", True),
        ([SettlementRefused("no"), LedgerUnavailable("locked")], "its charge stands: locked", False),
    ],
)
def test_a_warning_says_what_is_true_of_the_charge(errors, words, is_closed):
    reservation = Stubborn(*errors)
    with pytest.warns(RuntimeWarning, match=words) as heard:
        assert settle(reservation, ONE) is is_closed
    assert ("its charge stands" in str(heard[0].message)) is not is_closed
    assert reservation.settled == ([None] if isinstance(errors[-1], SettlementRefused) else [])


def test_a_selection_whose_charge_was_settled_shows_nothing(table):
    ledger = Ledger.in_memory()
    ledger.register("people", BUDGET, Adjacency.REPLACE_ONE)
    data = PrivateData(table, ledger=ledger, dataset="people", extra_mechanisms=TOYS)

    def attempt(paid):
        value = paid.run(once)
        for run in ledger.account("people").standing:
            ledger.reservation(run).settle()
        return 1.0, value

    with pytest.warns(RuntimeWarning, match="settled by somebody else"), pytest.raises(RunSettled):
        data.select([Attempt(ONE, attempt)], mean=2.0)
    assert ledger.account("people").standing == ()


KILLED = """
import sys, time
import numpy as np
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.enclave import PrivateData, Sum

def ask(oracle):
    return oracle.sum(Sum(1.0, 10.0), lambda record: record).value

data = PrivateData(np.zeros((20, 2)), ledger=Ledger({url!r}), dataset="people")
with data.reserve(data.price(ask) * 3, description="killed") as paid:
    paid.run(ask)
    print("ran", flush=True)
    time.sleep(600)
"""


def test_if_the_process_dies_the_whole_reservation_stands(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).register("people", BUDGET, Adjacency.REPLACE_ONE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED.format(url=url)], stdout=subprocess.PIPE, text=True, env=environment
    )
    with process:
        assert process.stdout.readline() == "ran\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    data = PrivateData(np.zeros((20, 2)), budget=BUDGET, extra_mechanisms=TOYS)
    price = data.price(lambda oracle: oracle.sum(Sum(1.0, 10.0), lambda record: record).value)
    account = Ledger(url).account("people")
    assert account.spent == price * 3
    assert len(account.standing) == 1
    assert [entry.kind for entry in Ledger(url).history("people")] == ["register", "reserve"]


def test_arguments_and_models_reach_the_program(data, model):
    with data.reserve(ONE * 2) as paid:
        result = paid.run(lambda oracle, shift: once(oracle) + shift, jnp.full(3, 1e6), model=model)
    assert np.all(result > 1e5)
