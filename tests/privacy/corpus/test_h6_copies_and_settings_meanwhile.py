"""H6: a program that copies the process while it is traced, and settings that change while a program is compiled.

The attacks: `os.fork()` in the code of a program comes after the question whether this is the process that paid, so
that the copy went on to execute it; and a thread that sets `jax.config` while the compiler works is noticed by nobody,
since settings were read before it began.

What must happen: the copy is refused before a key is drawn, and so is a program whose settings changed meanwhile.

False alarms: none; nothing is random.
"""

import os

import jax
import numpy as np
import pytest

from dpmcmc.accounting import Budget
from dpmcmc.enclave import PrivateData, Sum
from dpmcmc.enclave.core import programs
from dpmcmc.errors import DpmcmcError


def ask(oracle):
    return oracle.sum(Sum(1.0, 20.0), lambda record: record["x"]).value


@pytest.fixture
def data():
    return PrivateData({"x": np.ones(100, np.float32)}, bounds={"x": (0, 1)}, budget=Budget(10.0, 1e-6))


def test_a_copy_that_is_made_while_a_program_is_traced_executes_nothing(data, monkeypatch):
    """The copy is a process whose number is another one; a true one would wait for ever for threads that it lacks."""

    def forks(oracle):
        monkeypatch.setattr(os, "getpid", lambda: -1)
        return ask(oracle)

    price = data.price(ask)
    with data.reserve(price) as paid:
        with pytest.raises(DpmcmcError, match="process"):
            paid.run(forks)
        monkeypatch.undo()
        assert paid.count == 0
        assert np.isfinite(paid.run(ask))  # the control


def test_settings_do_not_change_while_a_program_is_compiled(data, monkeypatch):
    before = jax.config.values["jax_default_matmul_precision"]
    compile_program = programs.compile_program

    def meanwhile(*given):
        """Another thread sets it, just then."""
        jax.config.update("jax_default_matmul_precision", "float32")
        return compile_program(*given)

    monkeypatch.setattr(programs, "compile_program", meanwhile)
    try:
        with pytest.raises(DpmcmcError, match="jax_default_matmul_precision"):
            data.run(lambda oracle: oracle.sum(Sum(1.0, 20.0), lambda record: 0.125 * record["x"]).value)
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    monkeypatch.undo()
    assert np.isfinite(data.run(ask))  # the control
