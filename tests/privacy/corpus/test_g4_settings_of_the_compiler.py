"""A run that is resumed with the same program under other settings of the compiler: the same noise, other rounding.

The attack: a run is begun and stopped, and its result is removed from the run folder. When it is resumed the program,
which is not trusted, sets `jax_disable_most_optimizations` while it is traced (or the variable of that name is set).
Its text is the same, and so are the records and the noise; what a record adds is rounded otherwise, and the difference
of the two results is an exact function of the records.

What must happen: settings are part of what a program is known by, so that a run is not resumed under others; and a
program that changes one while it is traced is refused before anything is charged.

False alarms: none; nothing is compared but identities and bits.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import Journal, PrivateData, Sum
from dpmcmc.enclave.sources import MemorySource
from dpmcmc.errors import OperationRefused, ResumeRefused

ROWS = np.random.default_rng(3).random(3_000).astype(np.float32)
SCHEMA = {"columns": {"x": {"kind": "number", "lower": 0, "upper": 9}}}
OTHERS = {
    "jax_disable_most_optimizations": True,
    "jax_exec_time_optimization_effort": -1.0,
    "jax_default_matmul_precision": "float32",
}
KINDS = {
    "in memory": lambda: {"x": ROWS},
    "chunk by chunk": lambda: MemorySource(pd.DataFrame({"x": ROWS}), SCHEMA),
}


class Stopped(BaseException):
    """The process is no more."""


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


@pytest.fixture(autouse=True)
def put_back():
    """Settings are those of the process."""
    before = {name: jax.config.values[name] for name in OTHERS}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def statistic(record):
    return (record["x"] - jnp.sqrt(record["x"]) * jnp.sqrt(record["x"])) * 2.0**22


def ask(oracle):
    return oracle.sum(Sum(9.0, 60.0), statistic).value


def execute(ledger, folder, kind, program=ask):
    """Run the program in the folder's run, stop, and lose the result."""
    data = PrivateData(KINDS[kind](), ledger=ledger, dataset="people")
    found = []
    with pytest.raises(Stopped):  # noqa: PT012, SIM117
        with Journal.open(folder) if folder.exists() else Journal.create(folder, {}) as journal:
            with data.reserve_resumable(data.price(ask), journal) as paid:
                found.append(np.asarray(paid.run(program)))
                raise Stopped
    (folder / "unfinished" / "00000.npz").unlink()
    return found[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_not_resumed_under_other_settings(kind, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    first = execute(ledger, tmp_path / "run", kind)
    for name, value in OTHERS.items():
        before = jax.config.values[name]
        jax.config.update(name, value)
        with pytest.raises(ResumeRefused, match="those of JAX"):
            execute(ledger, tmp_path / "run", kind)
        jax.config.update(name, before)
    with monkeypatch.context() as patch:
        patch.setenv("XLA_SOMETHING_NEW", "1")
        with pytest.raises(ResumeRefused, match="those of JAX"):
            execute(ledger, tmp_path / "run", kind)
    np.testing.assert_array_equal(execute(ledger, tmp_path / "run", kind), first)  # the control: as it was


def while_it_is_traced(oracle):
    jax.config.update("jax_disable_most_optimizations", True)
    return ask(oracle)


def in_the_statistic(oracle):
    def told(record):
        jax.config.update("jax_disable_most_optimizations", True)
        return statistic(record)

    return oracle.sum(Sum(9.0, 60.0), told).value


@pytest.mark.parametrize("program", [while_it_is_traced, in_the_statistic])
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_changes_a_setting_is_refused_and_costs_nothing(kind, program, ledger):
    data = PrivateData(KINDS[kind](), ledger=ledger, dataset="people")
    with pytest.raises(OperationRefused, match="changes jax_disable_most_optimizations while it is traced"):
        data.run(program)
    assert not ledger.account("people").spent.held


def test_what_was_compiled_under_other_settings_is_not_used_again(ledger):
    """Programs are kept by vaults and shared between them; the rounding is that of the settings now."""
    data = PrivateData({"x": ROWS}, ledger=ledger, dataset="people")
    texts = [data._ready(ask, (), None).text()]
    jax.config.update("jax_disable_most_optimizations", True)
    texts.append(data._ready(ask, (), None).text())
    assert "('jax_disable_most_optimizations', 'False')" in texts[0]
    assert "('jax_disable_most_optimizations', 'True')" in texts[1]
