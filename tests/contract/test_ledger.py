"""What a ledger promises, the same on SQLite, on PostgreSQL and in memory."""

import datetime
import itertools
import json
import pickle
import secrets
import threading
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpmcmc.accounting.accountants import delta, epsilon
from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import (
    AcceptBit,
    Approximation,
    Event,
    FixedBatchGaussian,
    Gaussian,
    NonPrivate,
    PoissonGaussian,
    compose,
    counts,
)
from dpmcmc.accounting.ledger import Ledger, entries
from dpmcmc.errors import (
    AdjacencyMismatch,
    BudgetExceeded,
    DatasetExists,
    InvalidArgument,
    LedgerUnavailable,
    RunSettled,
    SettlementRefused,
    UnknownDataset,
    UnknownRun,
)

BUDGET = Budget(1.0, 1e-6)
REPLACE_ONE, ADD_OR_REMOVE_ONE = Adjacency.REPLACE_ONE, Adjacency.ADD_OR_REMOVE_ONE
STEP = Gaussian(50.0)
NOTHING = compose([])


@pytest.fixture(params=["sqlite", "postgresql", "in memory"])
def ledger(request: pytest.FixtureRequest, tmp_path) -> Ledger:
    """A ledger with the dataset ``patients``."""
    if request.param == "in memory":
        made = Ledger.in_memory()
    elif request.param == "sqlite":
        made = Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    else:
        made = Ledger.create(request.getfixturevalue("postgres").new_url())
    made.register("patients", BUDGET, REPLACE_ONE)
    return made


def test_a_new_dataset_has_spent_nothing(ledger: Ledger) -> None:
    account = ledger.account("patients")
    assert (account.dataset, account.budget, account.adjacency) == ("patients", BUDGET, REPLACE_ONE)
    assert (account.spent, account.standing) == (NOTHING, ())
    assert (account.epsilon_spent, account.delta_spent, account.epsilon_left) == (0.0, 0.0, BUDGET.epsilon)


def test_registering_again_is_idempotent_with_the_same_terms_alone(ledger: Ledger) -> None:
    ledger.reserve("patients", STEP, description="run")
    before = ledger.history()
    assert ledger.register("patients", BUDGET, "replace_one").spent == STEP
    for budget, adjacency in [
        (Budget(2.0, 1e-6), REPLACE_ONE),
        (Budget(1.0, 1e-5), REPLACE_ONE),
        (BUDGET, ADD_OR_REMOVE_ONE),
    ]:
        with pytest.raises(DatasetExists, match="dataset='patients' has epsilon=1, delta=1e-06 under replace-one alre"):
            ledger.register("patients", budget, adjacency)
    assert ledger.history() == before


def test_datasets_have_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.register("trees", Budget(0.1, 1e-9), ADD_OR_REMOVE_ONE)
    ledger.reserve("patients", STEP * 10, description="run")
    assert ledger.datasets() == ["patients", "trees"]
    assert ledger.account("trees").spent == NOTHING
    assert ledger.account("trees").budget == Budget(0.1, 1e-9)
    assert [entry.dataset for entry in ledger.history("trees")] == ["trees"]


def test_terms_come_back_to_the_last_bit(ledger: Ledger) -> None:
    budget = Budget(0.1 + 0.2, 1e-300 / 3)
    assert ledger.register("bits", budget, REPLACE_ONE).budget == budget
    assert ledger.account("bits").budget == budget


def test_a_run_reserves_and_settles(ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP * 30, description="dp-hmc", adjacency=REPLACE_ONE)
    account = ledger.account("patients")
    assert (account.spent, account.standing) == (STEP * 30, (reservation.run,))
    assert account.epsilon_spent == epsilon(STEP * 30, BUDGET.delta)
    assert account.epsilon_left == BUDGET.epsilon - account.epsilon_spent
    assert ledger.reservation(reservation.run) == reservation

    reservation.settle()
    assert ledger.account("patients").standing == ()
    assert ledger.account("patients").spent == STEP * 30


def test_a_run_that_released_less_gives_the_rest_back(ledger: Ledger) -> None:
    ledger.reserve("patients", STEP * 30 + AcceptBit(40.0) * 5, description="run").settle(STEP * 10 + AcceptBit(40.0))
    ledger.reserve("patients", STEP, description="failed before it read a record").settle(NOTHING)
    assert ledger.account("patients").spent == STEP * 10 + AcceptBit(40.0)


@pytest.mark.parametrize("more", [STEP * 4, Gaussian(49.0), STEP * 3 + Gaussian(49.0), AcceptBit(50.0)])
def test_a_run_cannot_settle_what_it_did_not_reserve(more: Event, ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP * 3, description="run")
    before = ledger.history()
    with pytest.raises(InvalidArgument, match=r"^spent=.* must be contained in what the run reserved"):
        reservation.settle(more)
    assert ledger.history() == before
    reservation.settle()


def test_a_run_settles_once(ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP, description="run")
    resumed = ledger.reservation(reservation.run)
    resumed.settle()
    before = ledger.history()
    for attempt in (reservation.settle, resumed.settle, lambda: ledger.reservation(reservation.run)):
        with pytest.raises(UnknownRun, match="is settled already"):
            attempt()
    with pytest.raises(UnknownRun, match="has no reservation"):
        ledger.reservation("0" * 32)
    with pytest.raises(UnknownRun, match="has no reservation"):
        replace(reservation, run="0" * 32).settle()
    assert ledger.history() == before


def test_only_who_reserved_a_run_settles_it_below_its_price(ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP * 3, description="run")
    before = ledger.history()
    found = ledger.reservation(reservation.run)
    for less in (NOTHING, STEP, STEP * 2):
        with pytest.raises(SettlementRefused, match=r"anybody else may settle it at its full price.*its charge stands"):
            found.settle(less)
    with pytest.raises(SettlementRefused, match="somebody else reserved it"):
        ledger.reservation(reservation.run, secret=bytes(32))
    assert ledger.history() == before
    reservation.settle(STEP * 2)
    assert ledger.account("patients").spent == STEP * 2


@pytest.mark.parametrize("spent", [None, STEP * 3])
def test_anybody_may_settle_a_run_at_its_full_price(spent: Event | None, ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP * 3, description="run")
    ledger.reservation(reservation.run).settle(spent, who="bo")
    assert ledger.account("patients").spent == STEP * 3
    with pytest.raises(RunSettled, match="is settled already, by 'bo' at") as refusal:
        reservation.settle(NOTHING)
    assert refusal.value.settled_at == STEP * 3


def test_a_secret_that_was_kept_settles_the_run_from_elsewhere(ledger: Ledger) -> None:
    kept = secrets.token_bytes(32)
    run = ledger.reserve("patients", STEP * 3, description="run", secret=kept).run
    ledger.reservation(run, secret=kept).settle(STEP)
    assert ledger.account("patients").spent == STEP
    for wrong in (b"", b"short", bytes(33), "x" * 32, 7):
        for attempt in (
            lambda wrong=wrong: ledger.reserve("patients", STEP, description="run", secret=wrong),
            lambda wrong=wrong: ledger.reservation(run, secret=wrong),
        ):
            with pytest.raises(InvalidArgument, match=r"^secret must be 32 random bytes"):
                attempt()
    assert ledger.account("patients").spent == STEP


def test_a_run_stands_however_its_event_is_written(ledger: Ledger) -> None:
    """Another version may have written it in other words."""
    run = ledger.reserve("patients", STEP * 3, description="run").run
    with ledger._book.reading() as connection:
        assert entries.stands(connection, run, STEP * 3, (STEP * 3).to_json())
        assert entries.stands(connection, run, STEP * 3, "in other words")
        assert not entries.stands(connection, run, STEP * 2, (STEP * 2).to_json())


def test_a_secret_is_not_shown(ledger: Ledger) -> None:
    kept = secrets.token_bytes(32)
    reservation = ledger.reserve("patients", STEP, description="run", secret=kept)
    shown = f"{reservation!r} {vars(reservation)} {reservation.entry} {ledger.history()} {ledger.account('patients')}"
    for form in (kept.hex(), repr(kept)[2:-1], "ecret="):
        assert form not in shown
    for copy in (pickle.dumps, deepcopy, asdict):
        with pytest.raises(Exception, match=r".") as refusal:
            copy(reservation)
        assert kept.hex() not in str(refusal.value)
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        pickle.dumps(reservation._secret)
    assert [entry.to_dict().get("secret_hash") for entry in ledger.history()] == [None, None]


def test_whether_a_reservation_stands(ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP, description="run")
    reservation.check_standing()
    ledger.reservation(reservation.run).check_standing()
    with pytest.raises(UnknownRun, match="another reservation"):
        replace(reservation, event=STEP * 2).check_standing()
    reservation.settle()
    with pytest.raises(RunSettled):
        reservation.check_standing()
    with pytest.raises(UnknownRun, match="has no reservation"):
        replace(reservation, run="0" * 32).check_standing()


@pytest.mark.parametrize(
    "alike",
    ["Patients", "PATIENTS", "patients ", "pat-ients", "pаtients", "patıents", "patlents", "pátients", "ｐatients"],
)
def test_names_that_look_alike_are_refused(alike: str, ledger: Ledger) -> None:
    before = ledger.history()
    with pytest.raises(
        DatasetExists, match=r"looks like 'patients', which is registered already.*Nothing was registere"
    ):
        ledger.register(alike, BUDGET, REPLACE_ONE)
    assert ledger.history() == before


def test_names_that_differ_are_not_refused(ledger: Ledger) -> None:
    names = [
        "patients 1",
        "patients 2",
        "patients 1.1",
        "patients 11",
        "patients 1.11",
        "patient",
        "東京",
        "京都",
        "***",
        "+",
    ]
    for name in names:
        ledger.register(name, BUDGET, REPLACE_ONE)
    assert ledger.datasets() == ["patients", *names]


def test_no_message_advises_another_name(ledger: Ledger) -> None:
    with pytest.raises(DatasetExists, match="granted once and for all") as refusal:
        ledger.register("patients", Budget(2.0, 1e-6), REPLACE_ONE)
    assert "another name" not in str(refusal.value)


def test_a_run_can_be_named_before_it_is_charged_and_is_charged_once(ledger: Ledger) -> None:
    assert ledger.reserve("patients", STEP, description="run", run="named").run == "named"
    for _ in range(2):
        with pytest.raises(LedgerUnavailable):
            ledger.reserve("patients", STEP, description="run", run="named")
        assert ledger.account("patients").spent == STEP
        with suppress(UnknownRun):
            ledger.reservation("named").settle()


def test_the_budget_is_kept_to_the_last_step(ledger: Ledger) -> None:
    fits = max(k for k in range(1, 500) if delta(STEP * k, BUDGET.epsilon) <= BUDGET.delta)
    assert fits * epsilon(STEP, BUDGET.delta) > 1.5 * BUDGET.epsilon  # adding epsilons up would refuse most of them
    ledger.reserve("patients", STEP * (fits - 1), description="most").settle()
    ledger.reserve("patients", STEP, description="the last")
    before = ledger.history()
    with pytest.raises(BudgetExceeded):
        ledger.reserve("patients", STEP, description="one too many")
    assert ledger.history() == before


def test_a_refusal_names_what_is_left_and_what_to_do(ledger: Ledger) -> None:
    ledger.reserve("patients", STEP * 20, description="standing")
    before = ledger.history()
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.reserve("patients", STEP * 500, description="too much")
    assert ledger.history() == before
    for part in (
        "dataset='patients'",
        f"has spent epsilon={epsilon(STEP * 20, 1e-6):.6g} of 1 at delta=1e-06, ",
        f"{1 - epsilon(STEP * 20, 1e-6):.6g} is left (replace-one; runs not settled: 1)",
        f"costs epsilon={epsilon(STEP * 500, 1e-6):.6g} alone",
        f"would make it epsilon={epsilon(STEP * 520, 1e-6):.6g}",
        "Nothing was charged",
        "`dpmcmc plan`",
    ):
        assert part in str(refusal.value)


@pytest.mark.parametrize("event", [NonPrivate(), STEP + NonPrivate(), NonPrivate() * 3])
def test_what_is_not_private_fits_no_budget(event: Event, ledger: Ledger) -> None:
    ledger.register("generous", Budget(1e6, 0.999), REPLACE_ONE)
    before = ledger.history()
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        ledger.reserve("generous", event, description="exact")
    reservation = ledger.reserve("generous", STEP, description="run")
    with pytest.raises(BudgetExceeded, match="NonPrivate"):
        reservation.settle(event)
    assert ledger.history()[:-1] == before


def test_adjacencies_are_not_mixed(ledger: Ledger) -> None:
    ledger.register("visits", BUDGET, ADD_OR_REMOVE_ONE)
    before = ledger.history()
    poisson = PoissonGaussian(0.01, 20.0, ADD_OR_REMOVE_ONE)
    for dataset, event, adjacency in [
        ("patients", poisson, None),
        ("visits", FixedBatchGaussian(10, 1000, 20.0), None),
        ("visits", STEP, REPLACE_ONE),
        ("patients", STEP, "add-or-remove-one"),
    ]:
        with pytest.raises(AdjacencyMismatch, match=f"dataset='{dataset}' is protected under"):
            ledger.reserve(dataset, event, description="run", adjacency=adjacency)
    assert ledger.history() == before
    ledger.reserve("visits", poisson, description="run", adjacency="add_or_remove_one")


@pytest.mark.parametrize("blank", ["", "  ", None, 7, "two\nlines", "nul\0", "\ud800"])
def test_labels_that_no_history_can_show_are_refused(blank, ledger: Ledger) -> None:
    before = ledger.history()
    reservation = ledger.reserve("patients", STEP, description="run")
    attempts = {
        "dataset": [
            lambda: ledger.register(blank, BUDGET, REPLACE_ONE),
            lambda: ledger.reserve(blank, STEP, description="run"),
            lambda: ledger.account(blank),
        ],
        "description": [lambda: ledger.reserve("patients", STEP, description=blank)],
        "run": [lambda: ledger.reservation(blank)],
    }
    if blank is not None:  # None stands for the login name, and for all datasets
        attempts["dataset"].append(lambda: ledger.history(blank))
        attempts["who"] = [
            lambda: ledger.register("others", BUDGET, REPLACE_ONE, who=blank),
            lambda: ledger.reserve("patients", STEP, description="run", who=blank),
            lambda: reservation.settle(who=blank),
        ]
    for name, calls in attempts.items():
        for call in calls:
            with pytest.raises(InvalidArgument, match=f"^{name}="):
                call()
    assert ledger.history()[:-1] == before


def test_other_types_are_refused(ledger: Ledger) -> None:
    reservation = ledger.reserve("patients", STEP, description="run")
    before = ledger.history()
    for call, message in [
        (lambda: ledger.register("others", (1.0, 1e-6), REPLACE_ONE), r"^budget=\(1.0, 1e-06\) must be of type Budget"),
        (lambda: ledger.register("others", BUDGET, "both"), "^adjacency='both' must be one of"),
        (lambda: ledger.reserve("patients", 0.5, description="run"), "^event=0.5 must be of type Event"),
        (
            lambda: ledger.reserve("patients", STEP, description="run", adjacency="both"),
            "^adjacency='both' must be one of",
        ),
        (lambda: reservation.settle(0.5), "^spent=0.5 must be of type Event"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            call()
    assert ledger.history() == before


def test_a_dataset_that_is_not_there(ledger: Ledger) -> None:
    for attempt in (
        lambda: ledger.reserve("people", STEP, description="run"),
        lambda: ledger.account("people"),
        lambda: ledger.history("people"),
    ):
        with pytest.raises(UnknownDataset, match="dataset='people' is not in this ledger; register it"):
            attempt()
    assert ledger.datasets() == ["patients"]


def test_the_history_tells_who_when_what(ledger: Ledger) -> None:
    start = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    reservation = ledger.reserve("patients", STEP * 3, description="été 東京 'quoted'", who="ana")
    reservation.settle(STEP * 2, who="bo")
    registered, reserved, settled = ledger.history()

    assert [entry.kind for entry in (registered, reserved, settled)] == ["register", "reserve", "settle"]
    assert registered.number < reserved.number < settled.number
    assert (registered.budget, registered.run, registered.event) == (BUDGET, None, None)
    assert registered.who
    assert (reserved.who, settled.who) == ("ana", "bo")
    assert (reserved.event, settled.event) == (STEP * 3, STEP * 2)
    for entry in (reserved, settled):
        assert (entry.run, entry.description) == (reservation.run, "été 東京 'quoted'")
        assert (entry.dataset, entry.adjacency, entry.budget) == ("patients", REPLACE_ONE, None)
        assert entry.library_version
        when = datetime.datetime.fromisoformat(entry.when)
        assert when.utcoffset() == datetime.timedelta(0)
        assert start <= when <= datetime.datetime.now(datetime.UTC)
    assert ledger.history("patients") == [registered, reserved, settled]


def test_facts_are_ready_for_json(ledger: Ledger) -> None:
    run = ledger.reserve("patients", STEP * 3, description="run").run
    account = json.loads(json.dumps(ledger.account("patients").to_dict()))
    assert account["budget"] == {"epsilon": 1.0, "delta": 1e-6}
    assert account["epsilon_spent"] == epsilon(STEP * 3, 1e-6)
    assert account["epsilon_spent"] + account["epsilon_left"] == pytest.approx(1.0)
    assert (account["adjacency"], account["accountant"], account["standing"]) == ("replace_one", "exact", [run])
    assert Event.from_dict(account["spent"]) == STEP * 3
    registered, reserved = (json.loads(json.dumps(entry.to_dict())) for entry in ledger.history())
    assert (registered["budget"], registered["event"]) == ({"epsilon": 1.0, "delta": 1e-6}, None)
    assert (reserved["run"], reserved["adjacency"]) == (run, "replace_one")
    assert Event.from_dict(reserved["event"]) == STEP * 3


def test_threads_can_share_a_ledger(ledger: Ledger) -> None:
    fits = max(k for k in range(1, 500) if delta(STEP * 20 * k, BUDGET.epsilon) <= BUDGET.delta)
    together = threading.Barrier(fits + 3)
    outcomes: list[str] = []

    def reserve() -> None:
        together.wait(30)
        try:
            outcomes.append(ledger.reserve("patients", STEP * 20, description="thread").run)
        except BudgetExceeded:
            outcomes.append("refused")

    threads = [threading.Thread(target=reserve) for _ in range(fits + 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert outcomes.count("refused") == 3
    assert set(outcomes) == {"refused", *ledger.account("patients").standing}


EVENTS = st.sampled_from([Gaussian(8.0), Gaussian(40.0), Gaussian(200.0), Approximation(1e-9)])  # quick to account for
CHARGES = st.lists(st.builds(lambda event, times: event * times, EVENTS, st.integers(0, 40)), max_size=3).map(compose)
ACTS = st.lists(st.tuples(CHARGES, st.sampled_from(["leave", "settle", "settle half", "give back"])), max_size=8)
NUMBERS = itertools.count()


@given(acts=ACTS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_sequence_of_runs_breaks_the_budget(ledger: Ledger, acts: list[tuple[Event, str]]) -> None:
    dataset = f"dataset {next(NUMBERS)}"  # a fresh one for every example
    ledger.register(dataset, BUDGET, REPLACE_ONE)
    expected = NOTHING
    for charge, act in acts:
        fits = delta(expected + charge, BUDGET.epsilon) <= BUDGET.delta
        if not fits:
            with pytest.raises(BudgetExceeded):
                ledger.reserve(dataset, charge, description="run")
            continue
        reservation = ledger.reserve(dataset, charge, description="run")
        half = compose(part * (times // 2) for part, times in counts(charge).items())
        spent = {"leave": charge, "settle": charge, "settle half": half, "give back": NOTHING}[act]
        if act != "leave":
            reservation.settle(spent)
        expected = expected + spent
        account = ledger.account(dataset)
        assert account.spent == expected
        assert account.delta_spent <= BUDGET.delta
