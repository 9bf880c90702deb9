"""H3: a run that is resumed with the same program compiled the other way: the same noise, other rounding.

The attack: programs for a CPU are compiled in one of two ways, which round differently. Which one was decided by a list
in a module, which the program could write to while it was traced, or another thread's self-test; a run that was stopped
and whose result was lost was resumed with the other executable, and the difference of the two results had no noise.

What must happen: the way is part of what a program is known by, and a self-test in another thread changes nothing.

False alarms: none; nothing is compared but identities and bits.
"""

import threading

import numpy as np
import pytest

from dpmcmc.accounting import Budget, Ledger
from dpmcmc.enclave import compiler
from dpmcmc.enclave.core import programs
from dpmcmc.enclave.engines import passes, steps
from dpmcmc.errors import ResumeRefused
from tests.privacy.corpus.test_g4_settings_of_the_compiler import KINDS, ask, execute


@pytest.fixture
def ledger():
    made = Ledger.in_memory()
    made.register("people", Budget(1000.0, 1e-6), "replace_one")
    return made


def the_other_way(oracle):
    compiler._is_other.set(True)  # what a hostile program can reach
    return ask(oracle)


def forget():
    """Executables are kept by their text: each run is to compile its own."""
    for kept in (programs.SHARED, steps.SEGMENTS, passes.KEPT):
        kept.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_not_resumed_with_another_executable(kind, ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    first = execute(ledger, tmp_path / "run", kind)
    forget()
    token = compiler._is_other.set(False)
    try:
        with pytest.raises(ResumeRefused):
            execute(ledger, tmp_path / "run", kind, the_other_way)
    finally:
        compiler._is_other.reset(token)
        forget()
    np.testing.assert_array_equal(execute(ledger, tmp_path / "run", kind), first)  # the control: as it was


def test_a_self_test_in_another_thread_changes_nothing():
    began, done, seen = threading.Event(), threading.Event(), []

    def test():
        began.set()
        return done.wait(30) and not seen.append(compiler._is_other.get())

    thread = threading.Thread(target=compiler.other_way, args=(test,))
    thread.start()
    began.wait(30)
    here = compiler._is_other.get()
    done.set()
    thread.join()
    assert seen == [True]
    assert here is False
