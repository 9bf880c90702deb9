"""How programs of the enclave are compiled. Privacy does not rest on this file: `core.compiled` reads what comes out.

Everything goes through here, so that the same program has the same bits on every road: in memory, in streams, on
workers, and in the self-test.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax

from dpmcmc.errors import RunRefused

_QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
"""Of two ways to write code for CPUs the older: its programs run as fast, and take three fifths of the time to compile.
Newer versions of XLA have one way only, and refuse the option."""

_ONE_THREAD: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False}


_others = list[bool]()


def other_way(function: Callable[[], bool]) -> bool:
    """Call a function with programs compiled the other way, which some need: the self-test looks at both."""
    _others.append(True)
    try:
        return function()
    finally:
        _others.pop()


def compile_program(lowered: Any, check: Callable[[str], None] | None = None, *, one_thread: bool = False) -> Any:
    """Return the executable of a lowered program, on a CPU the quickly made one if a check of its text lets it pass.

    Args:
        lowered: the program.
        check: what the caller will ask of the text of the executable: the two ways put operations together differently.
        one_thread: hold it to one thread, on a CPU.
    """
    if jax.default_backend() != "cpu":
        return lowered.compile()
    if _others:
        return lowered.compile(compiler_options=_ONE_THREAD if one_thread else {})
    more = _ONE_THREAD if one_thread else {}
    with suppress(jax.errors.JaxRuntimeError, RunRefused):
        compiled = lowered.compile(compiler_options=_QUICK | more)
        if check is not None:
            check(compiled.as_text())
        return compiled
    return lowered.compile(compiler_options=more)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of arrays as `jax.jit` does, compiled so, for the shapes of its first call."""
    made: list[Any] = []

    def call(*given: Any) -> Any:
        if not made:
            made.append(compile_program(jax.jit(function).lower(*given)))
        return made[0](*given)

    return call
