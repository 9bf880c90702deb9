"""What version 0.1 wrote is read: ledgers and certificates with the same numbers, and runs with a warning."""

import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from dpmcmc.accounting import Adjacency, Budget, Certificate, Gaussian, Ledger, compose, epsilon
from dpmcmc.accounting.event import Event
from dpmcmc.accounting.ledger import schema
from dpmcmc.errors import DatasetExists, LedgerUnavailable, SettlementRefused
from dpmcmc.posterior import Posterior
from servers import with_setting

OLD = Path(__file__).with_name("old")
ACCOUNTS = json.loads((OLD / "accounts-0.1.json").read_text(encoding="utf-8"))
CERTIFICATES = json.loads((OLD / "certificates-0.1.json").read_text(encoding="utf-8"))
STANDING, SETTLED = "c" * 32, "a" * 32
COLUMNS = "SELECT count(*) FROM dpmcmc_entries WHERE secret_hash IS NULL"
VERSIONS = "SELECT version FROM dpmcmc_versions ORDER BY version"


@pytest.fixture
def url(new_url: str, tmp_path: Path, execute) -> str:
    """A ledger of version 0.1, on either engine."""
    if new_url.startswith("sqlite"):
        shutil.copyfile(OLD / "ledger-0.1.sqlite", tmp_path / "ledger.db")
    else:
        execute(new_url, (OLD / "ledger-0.1.postgresql.sql").read_text(encoding="utf-8"))
    return new_url


def check_accounts(ledger: Ledger) -> None:
    assert ledger.datasets() == list(ACCOUNTS)
    for name, expected in ACCOUNTS.items():
        account = ledger.account(name)
        assert account.spent == Event.from_dict(expected["spent"])
        assert list(account.standing) == expected["standing"]
        assert account.epsilon_spent == pytest.approx(expected["epsilon_spent"], rel=1e-9)
        assert account.delta_spent == pytest.approx(expected["delta_spent"], rel=1e-6)
        assert account.epsilon_spent.accountant == expected["accountant"]


def test_an_old_book_is_read_as_it_is(url: str, execute) -> None:
    ledger = Ledger(url)
    check_accounts(ledger)
    assert len(ledger.history()) == 14
    assert {entry.library_version for entry in ledger.history()} == {"0.1.0"}
    assert ledger.reservation(STANDING).description == "standing"
    ledger.reservation(STANDING).check_standing()
    assert execute(url, VERSIONS) == [(1,)]  # reading changes nothing


@pytest.mark.parametrize("opened_by", [Ledger, Ledger.create])
def test_an_old_book_is_brought_up_to_date_when_it_is_written(opened_by, url: str, execute) -> None:
    ledger = opened_by(url)
    before = ledger.history()
    ledger.register("trees", Budget(0.1, 1e-9), Adjacency.REPLACE_ONE)
    run = ledger.reserve("trees", Gaussian(200.0) * 3, description="new")
    assert ledger.history()[:14] == before
    assert execute(url, VERSIONS) == [(1,), (3,)]
    assert execute(url, COLUMNS) == [(15,)]  # all but the new reservation
    run.settle(Gaussian(200.0))
    assert ledger.account("trees").spent == Gaussian(200.0)
    assert Ledger(url).datasets() == [*ACCOUNTS, "trees"]
    for statement in ("UPDATE dpmcmc_entries SET secret_hash = ''", "DELETE FROM dpmcmc_versions WHERE version = 3"):
        with pytest.raises(Exception, match="append-only"):
            execute(url, statement)


@pytest.mark.parametrize("secret", [None, bytes(range(32))], ids=["none", "another"])
def test_old_reservations_settle_at_their_full_price_alone(secret, url: str) -> None:
    ledger = Ledger(url)
    spent = ledger.account("patients").spent
    for found in (ledger.reservation(STANDING, secret), Ledger(url).reservation(STANDING, secret)):
        for less in (compose([]), found.event * 0, compose([next(iter(dict(found.event.parts)))])):
            with pytest.raises(SettlementRefused, match="full price"):
                found.settle(less)
    check_accounts(ledger)
    ledger.reservation(STANDING, secret).settle()
    assert ledger.account("patients").spent == spent
    assert ledger.account("patients").standing == ()


def test_old_look_alikes_stay_and_get_no_third(url: str) -> None:
    ledger = Ledger(url)
    assert ledger.register("Patients", Budget(1.0, 1e-6), "replace_one").dataset == "Patients"  # as it is
    with pytest.raises(DatasetExists, match="looks like 'patients'"):
        ledger.register("PATIENTS", Budget(1.0, 1e-6), "replace_one")
    assert ledger.datasets() == list(ACCOUNTS)


def test_several_come_at_once(url: str, execute) -> None:
    together, outcomes = threading.Barrier(6), []

    def reserve(number: int) -> None:
        ledger = Ledger(url)
        together.wait(30)
        outcomes.append(ledger.reserve("visits", Gaussian(1000.0), description=f"run {number}").run)

    threads = [threading.Thread(target=reserve, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(outcomes)) == 6
    assert set(Ledger(url).account("visits").standing) == {"f" * 32, *outcomes}
    assert execute(url, VERSIONS) == [(1,), (3,)]


def test_half_of_it_is_nothing(url: str, execute, monkeypatch) -> None:
    ledger = Ledger(url)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_note_version", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.reserve("visits", Gaussian(1000.0), description="stopped")
    assert execute(url, VERSIONS) == [(1,)]
    check_accounts(ledger)
    ledger.reserve("visits", Gaussian(1000.0), description="run").settle(compose([]))
    assert execute(url, VERSIONS) == [(1,), (3,)]


def test_who_may_not_alter_tables_is_told_what_to_do(postgres, execute) -> None:
    url = postgres.new_url()
    execute(url, (OLD / "ledger-0.1.postgresql.sql").read_text(encoding="utf-8"))
    read_only = Ledger(with_setting(url, "default_transaction_read_only", "on"))
    check_accounts(read_only)
    with pytest.raises(LedgerUnavailable, match="let the owner of the tables run `dpmcmc ledger init`"):
        read_only.reserve("visits", Gaussian(1000.0), description="run")
    assert execute(url, VERSIONS) == [(1,)]


@pytest.mark.parametrize("number", range(len(CERTIFICATES)))
def test_old_certificates_load_with_the_same_numbers(number: int) -> None:
    plain = CERTIFICATES[number]
    certificate = Certificate.from_json(json.dumps(plain))
    assert (certificate.format, certificate.paths, certificate.device) == (1, (), "")
    again = certificate.to_dict()
    assert {name: again.pop(name) for name in ("format", "paths", "device")} == {"format": 1, "paths": [], "device": ""}
    assert set(again) == set(plain)
    for name in set(plain) - {"epsilon", "curve", "statement", "holds_if"}:
        assert again[name] == plain[name], name
    assert len(again["holds_if"]) == len(plain["holds_if"]), "the same assumptions, in today's words"
    assert again["statement"] == plain["statement"]
    assert again["epsilon"] == (
        plain["epsilon"] if plain["epsilon"] == "infinity" else pytest.approx(plain["epsilon"], rel=1e-9)
    )
    for point, old in zip(again["curve"], plain["curve"], strict=True):
        assert point == pytest.approx(old, rel=1e-6, abs=1e-300)
    if plain["epsilon"] != "infinity":
        assert epsilon(certificate.event, plain["delta"]) == pytest.approx(plain["epsilon"], rel=1e-9)


def test_an_old_run_is_read_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"made by version 0\.1, .* SECURITY\.md"):
        run = Posterior.load(OLD / "run-0.1")
    assert run["position"].shape == (2, 10, 2)
    assert run.certificate.library_version == "0.1.0"
    assert run.certificate.epsilon == pytest.approx(1.3675714750850931)
    assert "advisory" in str(run.certificate)
    assert "Security advisory" in run.report(tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.warns(UserWarning, match="SECURITY"):  # saving it again takes nothing back
        again = Posterior.load(run.save(tmp_path / "again"))
    assert np.array_equal(again.matrix(), run.matrix())


def test_a_new_run_is_read_without_one(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="SECURITY"):
        old = Posterior.load(OLD / "run-0.1")
    certificate = Certificate(old.certificate.event, old.certificate.adjacency, old.certificate.delta)
    run = Posterior(old.draws, old.is_accepted, old.num_warmup, certificate, old.settings, old.prior)
    again = Posterior.load(run.save(tmp_path / "run"))  # a warning would be an error
    assert not again.certificate.advisory
    assert "Security advisory" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_result_that_promises_nothing_needs_no_advisory() -> None:
    certificates = [Certificate.from_json(json.dumps(plain)) for plain in CERTIFICATES]
    assert {bool(one.advisory) for one in certificates if one.epsilon < float("inf")} == {True}
    assert not any(one.advisory for one in certificates if one.epsilon == float("inf"))


def test_a_book_of_version_2_is_read_and_brought_up_to_date(tmp_path: Path, execute) -> None:
    shutil.copyfile(OLD / "ledger-0.2.sqlite", tmp_path / "ledger.db")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(url)
    assert execute(url, VERSIONS) == [(2,)]
    patients, people = ledger.account("patients"), ledger.account("people")
    assert patients.spent == Gaussian(20.0) * 3 + Gaussian(30.0) * 2
    assert (patients.standing, patients.part_of, patients.parts) == ((STANDING,), None, ())
    assert (people.adaptive, people.adjacency) == (True, Adjacency.ADD_OR_REMOVE_ONE)
    assert execute(url, VERSIONS) == [(2,)], "reading changes nothing"
    ledger.register("patients north", part_of="patients")
    assert execute(url, VERSIONS) == [(2,), (3,)]
    assert ledger.account("patients north").spent == patients.spent, "what was charged before counts in a new part"
    ledger.reservation(STANDING, bytes(range(32))).settle(Gaussian(30.0))
    assert ledger.account("patients north").spent == Gaussian(20.0) * 3 + Gaussian(30.0)
