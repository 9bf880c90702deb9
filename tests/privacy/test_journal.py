"""Runs that are stopped and resumed: one charge, one program at every place, one noise; whatever stops them, and where.

`Stopped` is raised at any line of the trusted files, as kill -9 would end them there; tests/faults kills processes.
"""

import secrets
import sqlite3
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import TOYS, GaussianModel, ToySum

from dpmcmc.accounting.adjacency import Adjacency
from dpmcmc.accounting.budget import Budget
from dpmcmc.accounting.event import Gaussian, compose
from dpmcmc.accounting.ledger import Ledger
from dpmcmc.enclave import Journal, PrivateData, SubsampledGradientSum
from dpmcmc.enclave.noise import chacha20 as rng
from dpmcmc.enclave.resume import journal, private_file
from dpmcmc.enclave.resume.journal import UNFINISHED, has_private_part
from dpmcmc.errors import (
    AuditError,
    BudgetExceeded,
    InvalidArgument,
    ResumeRefused,
    RunSettled,
    SettlementRefused,
    UnknownRun,
)

ONE = Gaussian(2.0)
BUDGET = Budget(epsilon=1000.0, delta=1e-6)
NUM_PROGRAMS = 3
TRUSTED = {str(Path(journal.__file__).with_name(name)) for name in ("journal.py", "paid.py", "private_file.py")}


class Stopped(BaseException):
    """The process is no more."""


def step(oracle, before):
    return before + oracle.sum(ToySum(), lambda record: record).value


def other_step(oracle, before):
    return before - oracle.sum(ToySum(), lambda record: record).value


@dataclass
class Setting:
    data: PrivateData
    ledger: Any
    folder: Path

    def elsewhere(self, name: str) -> "Setting":
        """The same with another folder, for another run."""
        return replace(self, folder=self.folder.with_name(name))

    @property
    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.ledger.history("people")]


@pytest.fixture
def make(tmp_path, monkeypatch, table):
    """Make vaults of the same records, each with a ledger, private files and a run folder of its own."""

    def made(name="run", records=table, ledger=None):
        monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / name / "private"))
        if ledger is None:
            ledger = Ledger.in_memory()
            ledger.register("people", BUDGET, Adjacency.REPLACE_ONE)
        return Setting(
            PrivateData(records, ledger=ledger, dataset="people", extra_mechanisms=TOYS),
            ledger,
            tmp_path / name / "folder",
        )

    return made


@pytest.fixture
def same_key(monkeypatch):
    """Let every run have the same key, as no run of the library ever has; names of runs are shorter."""
    usual = secrets.token_bytes
    monkeypatch.setattr(secrets, "token_bytes", lambda count: bytes(range(32)) if count == 32 else usual(count))


def go_on(setting, programs=(step,) * NUM_PROGRAMS, seen=None):
    """Begin the run, or go on with it; note the result of every program, as often as it gives one."""
    opened = Journal.open if setting.folder.exists() else lambda folder: Journal.create(folder, {"note": "x"})
    value = jnp.zeros(3)
    with (
        opened(setting.folder) as kept,
        setting.data.reserve_resumable(ONE * len(programs), kept, description="in parts") as paid,
    ):
        for program in programs:
            value = paid.run(program, value)
            if seen is not None:
                seen.setdefault(paid.count, set()).add(np.asarray(value).tobytes())
    return np.asarray(value)


class QuickBook:
    """A ledger without a database."""

    def __init__(self):
        self.entries, self.standing = [], {}

    def reserve(self, dataset, event, *, description, adjacency, run, secret):  # noqa: ARG002
        self.entries.append(("reserve", event))
        self.standing[run] = SimpleNamespace(
            dataset=dataset,
            event=event,
            adjacency=adjacency,
            entry={},
            secret=secret,
            check_standing=partial(self.reservation, run, secret),
            settle=partial(self.settle, run),
        )
        return self.standing[run]

    def reservation(self, run, secret):
        if run not in self.standing or self.standing[run].secret != secret:
            raise UnknownRun(run)
        return self.standing[run]

    def settle(self, run, spent):
        self.entries.append(("settle", spent))
        del self.standing[run]


@contextmanager
def stopped_at(number):
    """Stop at the line of that number among those that the trusted files execute; yields a list of them all."""
    lines, opened, connect = [], [], sqlite3.connect

    def remember(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    def trace(frame, kind, _):
        if frame.f_code.co_filename not in TRUSTED:
            return None
        if kind == "line":
            lines.append((Path(frame.f_code.co_filename).name, frame.f_lineno))
            if len(lines) - 1 == number:
                raise Stopped
        return trace

    before = sys.gettrace()
    sqlite3.connect = remember
    sys.settrace(trace)
    try:
        yield lines
    except Stopped:
        pass
    finally:
        sys.settrace(before)
        sqlite3.connect = connect
        for connection in opened:  # the files of a process that is no more are closed
            connection.close()


def test_a_run_in_one_go_pays_once_and_leaves_no_key(make):
    setting = make()
    go_on(setting)
    assert setting.kinds == ["register", "reserve", "settle"]
    assert setting.ledger.account("people").spent == ONE * NUM_PROGRAMS
    assert not has_private_part(setting.folder)
    assert list(private_file.private_folder().iterdir()) == []


@pytest.mark.usefixtures("same_key")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that nobody closes any more
def test_stopped_at_any_line_it_releases_what_it_would_have_in_one_go(table, tmp_path):
    book = QuickBook()
    setting = Setting(
        PrivateData(table, ledger=book, dataset="people", extra_mechanisms=TOYS), book, tmp_path / "compiled"
    )
    programs = (step,) * 2
    go_on(setting, programs)
    reference: dict[int, set[bytes]] = {}
    with stopped_at(None) as lines:
        go_on(setting.elsewhere("whole"), programs, reference)
    first = {line: number for number, line in reversed(list(enumerate(lines)))}
    last = {line: number for number, line in enumerate(lines)}
    assert len(first) > 100
    once = [("reserve", ONE * 2), ("settle", ONE * 2)]
    for number in sorted({*first.values(), *last.values()}):
        stopped, before, seen = setting.elsewhere(f"stopped-{number}"), len(book.entries), {}
        with stopped_at(number):
            go_on(stopped, programs, seen)
        if not stopped.folder.exists():
            assert book.entries[before:] == [], "before there is a folder nothing is charged"
            continue
        if has_private_part(stopped.folder) and book.entries[before:] != once:
            go_on(stopped, programs, seen)
            assert set(seen) == set(reference)
        assert book.entries[before:] == once, lines[number]
        assert all(values == reference[place] for place, values in seen.items()), lines[number]


def stop_in_program(setting, monkeypatch, number=1, program=step):
    """Stop a run while its program of that number, from zero, is executed, and after it was noted."""
    usual = Journal.begin

    def begin(self, place, identity, event):
        key = usual(self, place, identity, event)
        if place == number:
            raise Stopped
        return key

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "begin", begin)
        with pytest.raises(Stopped):
            go_on(setting, (program,) * NUM_PROGRAMS)


@pytest.mark.usefixtures("same_key")
def test_fresh_noise_on_resuming_would_be_noticed(make, monkeypatch):
    """The control: with it the last program gives another value, and a new key does not even recognise its rows."""
    expected = go_on(make("whole"))
    setting = make()
    stop_in_program(setting, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(rng, "key_of", lambda _: rng.insecure_key(3))
        assert not np.array_equal(go_on(setting), expected)
    setting = make("key")
    stop_in_program(setting, monkeypatch)
    connection = sqlite3.connect(next(private_file.private_folder().glob("*.db")))
    connection.execute("UPDATE run SET key = ?", (bytes(32),))
    connection.commit()
    connection.close()
    with pytest.raises(ResumeRefused, match="private file is not as this version of the library wrote it"):
        go_on(setting)


@pytest.mark.usefixtures("same_key")
def test_results_that_were_lost_or_edited_are_made_again(make, monkeypatch):
    expected = go_on(make("whole"))
    setting = make()
    stop_in_program(setting, monkeypatch, number=2)
    first, second = sorted((setting.folder / UNFINISHED).glob("*.npz"))
    first.unlink()
    written = bytearray(second.read_bytes())
    written[len(written) // 2] ^= 1
    second.write_bytes(written)
    np.testing.assert_array_equal(go_on(setting), expected)
    assert setting.kinds == ["register", "reserve", "settle"]


def batch_step(oracle, before):
    """A release of a batch of slots: of other records, if they stand at other places."""
    batch = SubsampledGradientSum.poisson(1.0, 20.0, 0.3)
    return before + oracle.force(batch, jnp.zeros(3)).value


@pytest.mark.parametrize("redraw", [False, True], ids=["as it is", "control: places drawn anew"])
def test_records_stand_at_the_same_places_when_a_run_is_resumed(redraw, table, tmp_path, monkeypatch):
    """Else the same noise would cover two different batches."""
    if redraw:
        monkeypatch.setattr(Journal, "places", lambda _self, _own: secrets.token_bytes(32))
    ledger, model = Ledger.in_memory(), GaussianModel()
    ledger.register("people", BUDGET, Adjacency.ADD_OR_REMOVE_ONE)
    facts = {"adjacency": "add_or_remove_one", "capacity": 80}
    price, results = None, []
    for number in range(3):  # each time in a new vault, and the result of the time before is lost
        data = PrivateData(table, ledger=ledger, dataset="people", **facts)
        price = data.price(batch_step, jnp.zeros(3), model=model) if price is None else price
        opened = Journal.open if number else lambda folder: Journal.create(folder, {"note": "x"})
        with (
            suppress(InterruptedError),
            opened(tmp_path / "folder") as kept,
            data.reserve_resumable(price, kept, description="lost") as paid,
        ):
            results.append(np.asarray(paid.run(batch_step, jnp.zeros(3), model=model)))
            raise InterruptedError
        for file in (tmp_path / "folder" / UNFINISHED).glob("*.npz"):
            file.unlink()
    assert len(results) == 3
    assert all(np.array_equal(results[0], one) for one in results) is not redraw


def test_other_records_are_refused(make, table, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    changed = table.copy()
    changed[7, 1] += 1e-3
    for records in (changed, table[:-1], table[::-1]):
        other = make(records=records, ledger=setting.ledger)
        with pytest.raises(ResumeRefused, match="other records, and the same noise on two tables"):
            go_on(other)
    assert setting.kinds == ["register", "reserve"]
    go_on(setting)


def test_another_program_is_refused_also_where_nothing_is_kept(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    for programs in ((other_step, step, step), (step, other_step, step)):
        with pytest.raises(ResumeRefused, match="was begun with another program"):
            go_on(setting, programs)
    for file in (setting.folder / UNFINISHED).glob("*.npz"):
        file.unlink()
    with pytest.raises(ResumeRefused, match="was begun with another program"):
        go_on(setting, (other_step, step, step))
    go_on(setting, (step, step, other_step))  # it was not begun yet, and costs the same


def shifted(shift):
    """A program with a constant in it; every call makes a new one."""
    constant = jnp.full(3, shift)
    return lambda oracle, before: step(oracle, before) + constant


def test_other_arguments_and_constants_are_refused(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch, program=shifted(1.0))

    def first(program, before):
        with Journal.open(setting.folder) as kept, setting.data.reserve_resumable(ONE * NUM_PROGRAMS, kept) as paid:
            paid.run(program, before)
            raise Stopped

    for program, before in ((shifted(1.0), jnp.full(3, 1e-7)), (shifted(1 + 2e-7), jnp.zeros(3))):
        with pytest.raises(ResumeRefused, match="another program"):
            first(program, before)
    with pytest.raises(Stopped):
        first(shifted(1.0), jnp.zeros(3))
    jax.config.update("jax_use_simplified_jaxpr_constants", True)
    try:
        with pytest.raises(InvalidArgument, match="must be off"):
            first(shifted(1.0), jnp.zeros(3))
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", False)


def test_a_higher_price_than_was_charged_is_refused(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    with pytest.raises(ResumeRefused, match="for another price"):
        go_on(setting, (step,) * (NUM_PROGRAMS + 1))
    assert setting.kinds == ["register", "reserve"]


@pytest.mark.parametrize("name", ["jax", "processor", "XLA_FLAGS"])
def test_another_machine_is_refused(make, monkeypatch, name):
    setting = make()
    stop_in_program(setting, monkeypatch)
    usual = journal.machine()
    monkeypatch.setattr(journal, "machine", lambda: {**usual, name: "another"})
    with pytest.raises(ResumeRefused, match=f"{name}: .* then, 'another' now"):
        go_on(setting)


def test_without_its_key_a_run_is_refused_and_its_charge_stands(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    next(private_file.private_folder().glob("*.db")).unlink()
    with pytest.raises(ResumeRefused, match=r"the key of its noise is not there.* its charge stands"):
        go_on(setting)
    assert setting.ledger.account("people").spent == ONE * NUM_PROGRAMS


def test_a_ledger_that_knows_nothing_of_the_run_is_refused(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    other = make()
    with pytest.raises(UnknownRun, match="no reservation in this ledger"):
        go_on(other)
    assert other.kinds == ["register"]
    setting.ledger.reservation(setting.ledger.account("people").standing[0]).settle()
    with pytest.raises(UnknownRun, match="settled already"):
        go_on(setting)


def test_a_run_that_is_settled_while_it_works_releases_nothing_more(make):
    setting = make()

    def settled_half_way():
        with (
            Journal.create(setting.folder, {}) as kept,
            setting.data.reserve_resumable(ONE * NUM_PROGRAMS, kept) as paid,
        ):
            paid.run(step, jnp.zeros(3))
            setting.ledger.reservation(kept.run).settle()
            paid.run(step, jnp.zeros(3))

    with pytest.raises(RunSettled, match="nothing was executed"):
        settled_half_way()
    with Journal.open(setting.folder) as kept:
        assert kept.num_begun == 1
    assert setting.ledger.account("people").spent == ONE * NUM_PROGRAMS


def test_the_secret_is_there_before_the_charge_and_settles_it_after_a_crash(make, monkeypatch):
    setting = make()
    usual = setting.ledger.reserve

    def charge_and_die(*arguments, **terms):
        usual(*arguments, **terms)
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(setting.ledger, "reserve", charge_and_die)
        with pytest.raises(Stopped):
            go_on(setting)
    (run,) = setting.ledger.account("people").standing
    with pytest.raises(SettlementRefused):
        setting.ledger.reservation(run).settle(compose([]))
    with Journal.open(setting.folder) as kept, setting.data.reserve_resumable(ONE * NUM_PROGRAMS, kept) as paid:
        paid.run(step, jnp.zeros(3))
    assert setting.ledger.account("people").spent == ONE
    assert setting.kinds == ["register", "reserve", "settle"]


def test_a_reservation_that_somebody_else_made_in_the_runs_name_is_refused(make):
    """The name is in the run folder before the charge; who charges first could settle at nothing afterwards."""
    setting = make()
    with Journal.create(setting.folder, {}) as kept:
        setting.ledger.reserve("people", ONE * NUM_PROGRAMS, description="in its name", run=kept.run)
        taken_up = setting.data.reserve_resumable(ONE * NUM_PROGRAMS, kept)
        with pytest.raises(SettlementRefused, match="somebody else reserved it"), taken_up:
            pytest.fail("it began")
    assert setting.kinds == ["register", "reserve"]


def test_two_processes_cannot_have_one_run(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch)
    with Journal.open(setting.folder), pytest.raises(ResumeRefused, match="in use by another process"):
        Journal.open(setting.folder)
    go_on(setting)


def test_what_was_begun_is_spent_even_if_its_result_is_never_seen(make, monkeypatch):
    setting = make()
    stop_in_program(setting, monkeypatch, number=1)
    with Journal.open(setting.folder) as kept, setting.data.reserve_resumable(ONE * NUM_PROGRAMS, kept) as paid:
        paid.run(step, jnp.zeros(3))
        assert not paid.is_caught_up
    assert setting.ledger.account("people").spent == ONE * 2


def test_a_failure_before_anything_was_executed_costs_nothing(make):
    setting = make()
    with pytest.raises(AuditError):
        go_on(setting, (lambda oracle, before: jax.debug.print("{}", step(oracle, before)),))
    assert setting.ledger.account("people").spent == compose([])
    assert not has_private_part(setting.folder)
    dear = make("dear")
    with pytest.raises(BudgetExceeded):
        go_on(dear, (step,) * 100_000)
    assert dear.kinds == ["register"]
    assert not has_private_part(dear.folder)


def test_the_key_is_private_and_never_in_the_run_folder(make, monkeypatch, tmp_path):
    setting = make()
    stop_in_program(setting, monkeypatch)
    (private,) = private_file.private_folder().glob("*.db")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(private.parent.stat().st_mode) == 0o700
    with Journal.open(setting.folder) as kept:
        noise = [kept._tag("noise", identity) for identity, _ in kept._begun]
        secret = [kept._key, kept._secret, kept._records, *noise, *(identity for identity, _ in kept._begun)]
        assert repr(kept) == f"Journal({str(setting.folder)!r})"
    assert len(set(secret)) == len(secret) == 7
    published = b"".join(file.read_bytes() for file in setting.folder.rglob("*") if file.is_file())
    assert len(published) > 100
    for one in secret:
        assert one not in published
        assert one.hex().encode() not in published
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "published" / "private"))
    with pytest.raises(InvalidArgument, match="set DPMCMC_STATE to a folder of yours"):
        Journal.create(tmp_path / "published", {})
    monkeypatch.setenv("DPMCMC_STATE", str(setting.folder / UNFINISHED / "run"))
    with pytest.raises(InvalidArgument, match="cannot be made"):
        Journal.create(tmp_path / "elsewhere", {})
