"""A run that is resumed with another program, under the noise of the first.

The attack: a run is begun with the sum of one column, and stopped. It is resumed with the sum of another, or of another
function with other numbers: programs that share an executable, because names, constants and the numbers of releases are
its arguments. If the journal takes them for one program, the second is released under the noise of the first, and the
difference of the two is exact; or, if the result of the first is kept, it is given out as that of the second.

What must happen: refused, whether or not the result is there; and the first gives its bits again. What tells programs
apart are the text of what is executed and everything that it is handed, so this holds for all that sharing takes out.

False alarms: none; nothing is compared but identities and bits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpmcmc as dp
from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import GradientSum, Journal, PrivateData, Sum
from dpmcmc.enclave.core import programs
from dpmcmc.errors import ResumeRefused

ROWS = np.random.default_rng(0).uniform(size=700).astype(np.float32)
TABLE = {"diagnosis": ROWS, "zero": np.zeros_like(ROWS), "code": np.arange(700, dtype=np.int32)}
QUESTION = Sum(1.0, 60.0)


class Stopped(BaseException):
    """The process is no more."""


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


def vault(ledger, **options):
    return PrivateData(TABLE, ledger=ledger, dataset="people", **options)


def total(statistic, mechanism=QUESTION):
    return lambda oracle: oracle.sum(mechanism, statistic).value


def column(name):
    return total(lambda record: record[name])


def two(*names):
    return lambda oracle: [column(name)(oracle) for name in names]


def weighted(weight):
    weights = np.array([1.0, weight], np.float32)
    return total(lambda record: weights * record["diagnosis"])


def added(number):
    return lambda oracle: column("diagnosis")(oracle) + number


REMOVED = {
    "the name of a column": (column("diagnosis"), column("zero")),
    "which release has which name": (two("diagnosis", "zero"), two("zero", "diagnosis")),
    "which names there are": (two("diagnosis", "zero"), two("zero", "zero")),
    "a number": (total(lambda r: r["diagnosis"] * 0.5), total(lambda r: r["diagnosis"] * 0.25)),
    "a number of the program": (added(1.0), added(2.0)),
    "an array of numbers": (weighted(0.5), weighted(0.25)),
    "a mask": (total(lambda r: (r["code"] & 1) > 0), total(lambda r: (r["code"] & 2) > 0)),
    "the noise": (column("zero"), total(lambda r: r["zero"], Sum(1.0, 61.0))),
    "the clip": (column("zero"), total(lambda r: r["zero"], Sum(1.5, 60.0))),
    "the sign of a number": (total(lambda r: r["diagnosis"] * 0.5), total(lambda r: r["diagnosis"] * -0.5)),
}
"""Two programs for everything that `accelerate.sharing.Form` takes out of one, or numbers in its own order."""


def run(data, folder, program, price):
    opened = Journal.open if folder.exists() else lambda folder: Journal.create(folder, {})
    with opened(folder) as journal, data.reserve_resumable(price, journal) as paid:
        run.result = [np.asarray(one).tobytes() for one in jax.tree.leaves(paid.run(program))]
        raise Stopped


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "lost"])
@pytest.mark.parametrize("name", ["the name of a column", "a number of the program"])
def test_another_program_is_refused_and_the_same_gives_its_bits_again(name, is_kept, ledger, tmp_path):
    data, folder, (first, second) = vault(ledger), tmp_path / "run", REMOVED[name]
    price = data.price(first)
    with pytest.raises(Stopped):
        run(data, folder, first, price)
    before = run.result
    if not is_kept:
        (folder / "unfinished" / "00000.npz").unlink()
    with pytest.raises(ResumeRefused, match="begun with another program"):
        run(data, folder, second, price)
    with pytest.raises(Stopped):
        run(data, folder, first, price)
    assert run.result == before
    assert ledger.account("people").spent == price


@pytest.mark.parametrize("accelerate", [True, False])
def test_programs_that_share_an_executable_have_identities_of_their_own(ledger, accelerate, tmp_path):
    data = vault(ledger, accelerate=accelerate)
    with Journal.create(tmp_path / "run", {}) as journal:
        records = journal.recognise([], "", "")
        for name, pair in REMOVED.items():
            programs.SHARED.clear()
            ready = [data._ready(program, (), None) for program in (*pair, pair[0])]
            texts = [one.text() for one in ready]
            assert not accelerate or (len(programs.SHARED) == 1 and len(set(texts)) == 1), f"{name}: there is no attack"
            one, other, again = (journal.identify(0, at.text(), at.arguments, records) for at in ready)
            assert one != other, name
            assert one == again, name


class Model:
    temperature = 1.0

    def __init__(self, name):
        self.name = name

    def log_prior(self, at):
        return -0.5 * at**2

    def log_likelihood(self, at, record):
        return jax.nn.log_sigmoid(at * record[self.name])


def force(oracle, at):
    return oracle.force(GradientSum(1.0, 60.0), at).value


def looped(oracle, at):
    mechanism, name = QUESTION, oracle.model.name
    return jax.lax.scan(lambda c, _: (c + oracle.sum(mechanism, lambda r: r[name]).value[0], c), at, length=2)[0]


@pytest.mark.parametrize("program", [force, looped])
def test_programs_that_are_not_shared_have_identities_of_their_own(ledger, program, tmp_path):
    """All arguments are in the text, those that are not read too: the place of one that is read says which it is."""
    data, at = vault(ledger), jnp.float32(0.5)
    with Journal.create(tmp_path / "run", {}) as journal:
        records = journal.recognise([], "", "")
        ready = [data._ready(program, (at,), Model(name)) for name in ("diagnosis", "zero", "diagnosis")]
        one, other, again = (journal.identify(0, each.text(), each.arguments, records) for each in ready)
    assert one != other
    assert one == again


NAMES = {
    "another name": {"diagnosis": ROWS, "zeros": TABLE["zero"], "code": TABLE["code"]},
    "nested": {"all": TABLE},
}


@pytest.mark.parametrize("name", NAMES)
def test_records_under_other_names_are_other_records(name, ledger, tmp_path):
    data = vault(ledger)
    with pytest.raises(Stopped):
        run(data, tmp_path / "run", column("diagnosis"), price := data.price(column("diagnosis")))
    other = PrivateData(NAMES[name], ledger=ledger, dataset="people")
    with pytest.raises(ResumeRefused, match="begun with other records"):
        run(other, tmp_path / "run", column("diagnosis"), price)


def test_a_formula_is_not_exchanged(tmp_path, ledger):
    """Before anything is prepared: what was fitted stands in the run's own memory."""
    memo = {"seed": 1, "fit": {"model": "y ~ a"}, "command": None}
    Journal.create(tmp_path / "run", memo).close()
    with pytest.raises(ResumeRefused, match=r"model='y ~ b' is not what the run was begun with, 'y ~ a'; leave model"):
        dp.resume(tmp_path / "run", vault(ledger), model="y ~ b")
